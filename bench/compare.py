#!/usr/bin/env python3
"""Reed beside onnxruntime, OpenVINO and PyTorch, model by model: one table of ratios, a JSON file and a plot.

    compare.py --folder DIR --build BUILDDIR [--models mask,bert,...] [--sizes 480x640,375x501] [--runs 5] [--threads 2] [--quick] [--out NAME]

The program makes everything that it needs: a virtual environment DIR/venv from PyPI (or --venv DIR), the exported models, the modules that `vm compile` writes, the results in
float64.

Each engine has a process of its own for each model, with the same number of threads; one engine works at a time. The first size gives load, first result and peak resident
memory; each later size gives the first run of a new shape. Then all engines take turns, --runs times, and the median counts. Every engine's last result of a size is
compared with float64 (equality.py), and Reed's must pass. A ratio is the peer's figure over Reed's, so above 1 Reed is better. Memory is that of the process, with Python
and NumPy in it (about 30 MB). Reed loads the module compiled ahead; the peers load ONNX, PyTorch its weights.
"""
import argparse
import datetime
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from worker import Worker, answers

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["torch==2.15.*", "torchvision==0.29.*", "transformers", "onnx", "onnxruntime", "openvino", "matplotlib"]
ENGINES = ("reed", "onnxruntime", "openvino", "eager")
TITLES = {"reed": "Reed", "onnxruntime": "onnxruntime", "openvino": "OpenVINO", "eager": "PyTorch"}
# The figures of a model and size: name, title, unit, and factor from seconds to the unit.
FIGURES = (("median", "latency", "ms", 1e3), ("first", "first run of a new shape", "ms", 1e3), ("load", "load", "ms", 1e3),
           ("load_first", "load to first result", "ms", 1e3), ("start", "load to first result over latency", "", 1), ("peak", "peak memory", "MB", 1))
PAUSE_S = 0.03  # between two engines' turns: their idle threads spin for a while


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="models, their results and the virtual environment")
    parser.add_argument("--build", required=True, help="Reed's build folder (a release build)")
    parser.add_argument("--venv", help="default: FOLDER/venv; made if it is not there")
    parser.add_argument("--models", help="default: all")
    parser.add_argument("--sizes", help="two or more, of pictures HEIGHTxWIDTH, of tokens and sequences BATCHxLENGTH")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="the first size only, three runs")
    parser.add_argument("--out", default="compare", help="NAME.json, NAME.md and NAME.png")
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "MODEL"), help=argparse.SUPPRESS)
    return parser.parse_args(words)


# ---- a worker: one engine with one model in a process; a line of JSON in, one out ----

def peak_megabytes():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def work(arguments):
    import numpy as np
    import engines
    which, model = arguments.worker
    importlib.import_module(engines.MODULES[which])  # before the clock starts: loading a model excludes imports
    answer_with = answers()
    engine, outputs = None, None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "inputs" in order:
                with np.load(order["inputs"]) as kept:
                    arrays = [kept[k] for k in sorted(kept.files)]
            start = time.perf_counter()
            if order["do"] == "open":
                engine = (engines.Reed(arguments.folder, model, arguments.threads, arguments.build, ahead=True) if which == "reed" else
                          engines.PEERS[which](arguments.folder, model, arguments.threads))
            elif order["do"] == "run":
                outputs = None
                outputs = engine(arrays)
            answer = {"seconds": time.perf_counter() - start, "peak": peak_megabytes()}
            if "outputs" in order:
                np.savez(order["outputs"], **{f"{i:02}": o for i, o in enumerate(outputs)})
        except Exception as e:
            answer = {"error": (str(e).strip() or type(e).__name__)[:300]}
        answer_with(answer)


# ---- the parent ----

def measure(model, sizes, reference, arguments, scratch):
    """{size: {engine: figures}} of one model."""
    import numpy as np
    paths = {}
    for size in sizes:
        paths[size] = os.path.join(scratch, f"{size}.npz")
        np.savez(paths[size], **{f"{i:02}": a for i, a in enumerate(reference.inputs(size))})
    words = [os.path.abspath(__file__), "--folder", arguments.folder, "--build", arguments.build, "--threads", str(arguments.threads), "--worker"]
    workers = {e: Worker([*words, e, model], arguments.threads) for e in ENGINES}
    for worker in workers.values():
        worker.ask(do="begin")  # after all workers' imports, so that no load runs beside imports
    result = {size: {e: {} for e in ENGINES} for size in sizes}
    for e, worker in workers.items():
        opened = worker.ask(do="open")
        for size in sizes:
            figures, first = result[size][e], worker.ask(do="run", inputs=paths[size])
            if first and size == sizes[0]:
                figures.update(load=opened["seconds"], load_first=opened["seconds"] + first["seconds"])
                for _ in range(2):
                    steady = worker.ask(do="run", inputs=paths[size])
                figures.update(peak=steady and steady["peak"])
            elif first:
                figures.update(first=first["seconds"])
        time.sleep(PAUSE_S)
    for size in sizes:
        times = {e: [] for e in ENGINES}
        for turn in range(arguments.runs + 1):
            for e, worker in workers.items():
                answer = worker.ask(do="run", inputs=paths[size])
                if answer and turn:  # the first turn brings the engine's memory back
                    times[e].append(answer["seconds"])
                time.sleep(PAUSE_S)
        for e, worker in workers.items():
            kept = os.path.join(scratch, "outputs.npz")
            if times[e] and worker.ask(do="run", inputs=paths[size], outputs=kept):
                figures, median = result[size][e], statistics.median(times[e])
                figures.update(median=median, times=times[e], check=check(model, size, reference, kept))
                if "load_first" in figures:
                    figures.update(start=figures["load_first"] / median)  # `vm bench` prints this ratio, too
                os.remove(kept)
            if worker.error:
                result[size][e]["error"] = worker.error
    for worker in workers.values():
        worker.close()
    return result


def check(model, size, reference, kept):
    """Error figures against float64."""
    import numpy as np
    import equality
    with np.load(kept) as outputs:
        return equality.compare(model, reference.outputs("float64", size), [outputs[k] for k in sorted(outputs.files)], reference.doubts(size))


def judge(engines_figures):
    """Adds the figures in which Reed misses its bar, which the worst of the peers sets."""
    import equality
    peers = [f["check"] for e, f in engines_figures.items() if e != "reed" and "check" in f]
    reed = engines_figures["reed"]
    reed["missed"] = equality.verdict(reed["check"], peers) if "check" in reed else [reed.get("error", "no result")]


def ratio(figures, e, key):
    ours, theirs = figures["reed"].get(key), figures[e].get(key)
    return theirs / ours if ours and theirs else None


def cell(figures, key, factor):
    ours = figures["reed"].get(key)
    if all(f.get(key) is None for f in figures.values()):
        return ""
    peers = " / ".join("fails" if figures[e].get("error") else f"{r:.2f}" if (r := ratio(figures, e, key)) else "-" for e in ENGINES[1:])
    return (f"{ours * factor:.3g}" if ours and ours * factor < 100 else f"{ours * factor:.0f}" if ours else "fails") + " · " + peers


def rows_of(report):
    return [(m, size, figures) for m, sizes in report["models"].items() for size, figures in sizes.items()]


def mean_ratio(report, e, key):
    """Geometric, over all rows that have both; None: no row has both."""
    found = [r for _, _, f in rows_of(report) if (r := ratio(f, e, key))]
    return math.exp(statistics.fmean(map(math.log, found))) if found else None


def table(report):
    """Markdown: for each model and size Reed's figure and, after the dot, the peers' figures over Reed's."""
    heads = [f"{title}, {unit}".rstrip(", ") for _, title, unit, _ in FIGURES]
    lines = ["| model | size | " + " | ".join(heads) + " | against float64 |", "|---" * (len(FIGURES) + 3) + "|"]
    for model, size, figures in rows_of(report):
        cells = [cell(figures, key, factor) for key, _, _, factor in FIGURES]
        lines.append(f"| {model} | {size} | " + " | ".join(cells) + " | " + ("; ".join(figures["reed"]["missed"]) or "equal") + " |")
    means = [" / ".join(f"{r:.2f}" if (r := mean_ratio(report, e, key)) else "-" for e in ENGINES[1:]) for key, *_ in FIGURES]
    lines.append("| geometric mean | | " + " | ".join(means) + " | |")
    failures = [f"- {TITLES[e]} fails on {m}, {size}: {f['error'].splitlines()[0]}" for m, size, all_ in rows_of(report) for e, f in all_.items() if f.get("error")]
    peers = " / ".join(TITLES[e] for e in ENGINES[1:])
    return f"Reed's figure · {peers} over Reed's\n\n" + "\n".join(lines + [""] * bool(failures) + failures) + "\n"


def plot(report, path):
    """Bars of the ratios: one panel a figure, one group a model (its first size that has the figure), the least ratio last."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
    shown = [f for f in FIGURES if any(ratio(figures, e, f[0]) for _, _, figures in rows_of(report) for e in ENGINES[1:])]
    shape, panels = pyplot.subplots(len(shown), 1, figsize=(11, 2.5 * len(shown)), layout="constrained", squeeze=False)
    panels = panels[:, 0]
    for panel, (key, title, _, _) in zip(panels, shown):
        groups = {}
        for model, _, figures in rows_of(report):
            if any(ratio(figures, e, key) for e in ENGINES[1:]):
                groups.setdefault(model, figures)
        groups = dict(sorted(groups.items(), key=lambda g: -min(r for e in ENGINES[1:] if (r := ratio(g[1], e, key)))))
        for i, e in enumerate(ENGINES[1:]):
            ratios = [ratio(f, e, key) for f in groups.values()]
            bars = panel.bar([g + .28 * (i - 1) for g in range(len(groups))], [(r or 1) - 1 for r in ratios], .27, bottom=1, label=TITLES[e])
            panel.bar_label(bars, [f"{r:.3g}" if r else "" for r in ratios], fontsize=7, padding=1)
        panel.set_yscale("log")
        panel.margins(y=.15)
        panel.axhline(1, color="black", linewidth=.8)
        panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 3, 5)))
        panel.yaxis.set_minor_locator(ticker.NullLocator())
        panel.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}x"))
        panel.set_xticks(range(len(groups)), groups, fontsize=9)
        panel.set_title(f"{title}, times Reed's: above 1x Reed is better", fontsize=10)
    shape.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(ENGINES) - 1, fontsize=9)
    pyplot.savefig(path, dpi=80)


def prepare(arguments, models):
    """Exports the models that are missing, and compiles all of them, so that no module is another build's."""
    build = os.path.abspath(arguments.build)
    missing = [m for m in models if not os.path.exists(os.path.join(arguments.folder, m + ".onnx"))]
    if missing:
        subprocess.run([sys.executable, os.path.join(HERE, "export_torchvision.py"), "--out", arguments.folder, "--models", ",".join(missing)], check=True)
    for m in models:
        path = os.path.join(arguments.folder, m)
        subprocess.run([os.path.join(build, "tools", "vm"), "compile", path + ".onnx", "-o", path + ".reed"], check=True, stdout=subprocess.DEVNULL)


def inside_venv(arguments):
    """Makes the virtual environment if it is missing, and continues in it."""
    python = os.path.join(os.path.abspath(arguments.venv or os.path.join(arguments.folder, "venv")), "bin", "python")
    done = os.path.join(os.path.dirname(python), "..", "reed-compare")
    if not os.path.exists(done):
        subprocess.run([sys.executable, "-m", "venv", os.path.dirname(os.path.dirname(python))], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        open(done, "w").close()
    if os.path.abspath(sys.executable) != python:
        os.execv(python, [python, *sys.argv])


def main():
    arguments = arguments_of(sys.argv[1:])
    if arguments.worker:
        return work(arguments)
    os.makedirs(arguments.folder, exist_ok=True)
    inside_venv(arguments)
    import warnings
    warnings.simplefilter("ignore")
    import equality
    import models as M
    names = arguments.models.split(",") if arguments.models else [*M.DETECTORS, *M.OTHERS]
    prepare(arguments, names)
    runs = arguments.runs = 3 if arguments.quick else arguments.runs
    with open("/proc/cpuinfo") as lines:
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    versions = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, text=True).stdout.split()
    report = {"cpu": cpu, "cpus": os.cpu_count(), "threads": arguments.threads, "runs": runs, "date": str(datetime.date.today()),
              "versions": [v for v in versions if v.split("==")[0] in ("torch", "torchvision", "onnxruntime", "openvino", "transformers")], "models": {}}
    for model in names:
        sizes = arguments.sizes.split(",") if arguments.sizes else M.sizes_of(model)
        sizes = sizes[:1] if arguments.quick else sizes
        reference = equality.Reference(arguments.folder, model, arguments.threads)
        for size in sizes:
            reference.outputs("float64", size)
            reference.doubts(size)
        reference.close()
        with tempfile.TemporaryDirectory() as scratch:
            report["models"][model] = measure(model, sizes, reference, arguments, scratch)
        for size, figures in report["models"][model].items():
            judge(figures)
            print(model, size, *(f"{title} {cell(figures, key, factor)};" for key, title, _, factor in FIGURES), figures["reed"]["missed"] or "equal", flush=True)
        with open(arguments.out + ".json", "w") as f:
            json.dump(report, f, indent=1, default=float)
    text = table(report)
    with open(arguments.out + ".md", "w") as f:
        f.write(text)
    plot(report, arguments.out + ".png")
    print(text)
    sys.exit(any(figures["reed"]["missed"] for _, _, figures in rows_of(report)))


if __name__ == "__main__":
    main()
