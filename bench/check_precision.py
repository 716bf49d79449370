#!/usr/bin/env python3
"""Models compiled with --precision bf16 and f16 beside the same models in f32: bytes, CPU time, deviation of the outputs, detections found again.

    check_precision.py --build BUILD --folder DIR [--models all | NAME,...] [--precisions bf16,f16] [--runs 5] [--threads 1] [--peer] [--json FILE]
    check_precision.py --build BUILD --onnx MODEL.onnx ARRAY.npy... [--labels boxes,labels,scores]

NAME: a model of models.py, exported to DIR/NAME.onnx if that file is missing, or shapes, the trained example. The second form takes any model with its inputs as NumPy files, and the names of its outputs, which say
where detections are. Needs the packages of export_torchvision.py (the second form: NumPy).

Each precision has a process of its own, f32 two of them; they run in turns, and a figure is the least CPU time of a run, which a busy machine changes less than elapsed time. Noise is the ratio of the two f32
processes, and at least 3 %. A module that equals that of f32, because it has no product whose weights are rounded, is not timed. Detections are matched with those of f32 by label at an IoU of 0.5, two boxes without area, which FCOS gives, as if they were a pixel larger; the deviation of an output is the largest difference over the largest absolute value, of boxes, scores, masks and
keypoints over the matched ones. --peer does the same with PyTorch: the detections and outputs in f32 beside those with the weights of all convolutions and linear layers rounded, for models of models.py. A model
whose peer, too, is below 95 % says nothing about Reed, and is judged by the peer's share. Exit status 1: fewer than 95 % of the detections of a model (or the peer's share) are matched, or a precision is slower than f32 by more than the noise.
"""
import argparse
import filecmp
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from worker import Worker, answers

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = os.path.join(HERE, "..", "examples", "shapes")
MATCHED_LEAST, NOISE_LEAST = .95, .03
FLAT = .05  # the extent in pixels below which a box has no area
DETECTION = ("boxes", "labels", "scores")


def iou(a, b):
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda x: np.prod(x[:, 2:] - x[:, :2], axis=1)
    return inner / np.maximum(area(a)[:, None] + area(b)[None] - inner, 1e-12)


def pairs(want, got):
    """[(index in want, index in got)] of the detections that are matched, the best first."""
    boxes = [side["boxes"].astype(np.float64) for side in (want, got)]
    flat = [(b[:, 2:] - b[:, :2]).min(1) < FLAT for b in boxes]
    overlap = np.where(flat[0][:, None] & flat[1][None], iou(*(b + np.array([0, 0, 1, 1]) for b in boxes)), iou(*boxes))
    overlap[want["labels"][:, None] != got["labels"][None]] = 0
    matched = []
    while overlap.size and overlap.max() >= .5:
        w, g = np.unravel_index(overlap.argmax(), overlap.shape)
        matched.append((w, g))
        overlap[w], overlap[:, g] = 0, 0
    return matched


def deviation(want, got):
    if want.shape != got.shape:
        return float("nan")
    return float(np.abs(want.astype(np.float64) - got).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def compare(want, got):
    """(detections matched, the larger number of detections, {output: deviation}) of two dicts of arrays; the numbers are None without detections."""
    if not all(name in want for name in DETECTION):
        return None, None, {name: deviation(want[name], got[name]) for name in want}
    matched = pairs(want, got)
    w, g = np.array(matched, int).reshape(-1, 2).T
    return len(matched), max(len(want["boxes"]), len(got["boxes"])), {name: deviation(want[name][w], got[name][g]) for name in want if name != "labels"}


# ---- a worker: one module in a process ----

def work(arguments):
    sys.path.append(os.path.join(HERE, "..", "tests", "random"))
    import reed
    answer_with, session = answers(), None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "open":
                session = reed.Session(reed.Library(arguments.build), arguments.worker, n_threads=arguments.threads)
                with np.load(order["inputs"]) as kept:
                    arrays = [kept[k] for k in sorted(kept.files)]
                session.run_only(arrays)
            begin = time.process_time()
            if order["do"] == "run":
                for _ in range(order["n"]):
                    session.run_only(arrays)
            answer = {"seconds": (time.process_time() - begin) / order.get("n", 1)}
            if "outputs" in order:
                np.savez(order["outputs"], **{f"{i:02}": o for i, o in enumerate(session.run(arrays))})
        except Exception as e:
            answer = {"error": (str(e).strip() or type(e).__name__)[:300]}
        answer_with(answer)


# ---- PyTorch ----

def rounded_peer(name, folder, precisions):
    """{precision: (detections matched, number of them, {output: deviation})} of PyTorch in f32 with rounded weights."""
    import torch
    import models as M
    from engines import Eager
    engine, inputs, names, results = Eager(folder, name, 1), M.example(name, M.sizes_of(name)[0]), M.axes_of(name)[1], {}
    run = lambda: dict(zip(names, engine(inputs)))
    kept = {k: v.clone() for k, v in engine.module.state_dict().items()}
    want = run()
    for precision in precisions:
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[precision]
        for module in engine.module.modules():
            if isinstance(module, (torch.nn.modules.conv._ConvNd, torch.nn.Linear)):
                module.weight.data = module.weight.data.to(dtype).to(module.weight.dtype)
        results[precision] = compare(want, run())
        engine.module.load_state_dict(kept)
    return results


# ---- the parent ----

def cases_of(arguments):
    """[(name, path of the ONNX file, [arrays of a run], names of the outputs)]; a model may have several rows of arrays."""
    if arguments.onnx:
        return [(os.path.basename(arguments.onnx[0]), arguments.onnx[0], [[np.load(path) for path in arguments.onnx[1:]]], arguments.labels.split(","))]
    import models as M
    names = ["shapes", *M.DETECTORS, *M.OTHERS] if arguments.models == "all" else arguments.models.split(",")
    missing = [n for n in names if n != "shapes" and not os.path.exists(os.path.join(arguments.folder, n + ".onnx"))]
    if missing:
        subprocess.run([sys.executable, os.path.join(HERE, "export_torchvision.py"), "--out", arguments.folder, "--models", ",".join(missing)], check=True)
    cases = []
    for name in names:
        if name == "shapes":
            from torchvision.io import ImageReadMode, read_image
            pictures = [[read_image(path, ImageReadMode.RGB).numpy().astype(np.float32) / 255] for path in sorted(glob.glob(os.path.join(SHAPES, "scene*.png")))]
            cases.append((name, os.path.join(SHAPES, "shapes.onnx"), pictures, [*DETECTION, "masks"]))
        else:
            cases.append((name, os.path.join(arguments.folder, name + ".onnx"), [M.example(name, M.sizes_of(name)[0])], M.axes_of(name)[1]))
    return cases


def measure(case, arguments, scratch):
    """{precision: figures} of one model, with the precision `again` for f32's second process."""
    name, onnx, rows, names = case
    workers, figures = {}, {}
    for precision in ("f32", *arguments.precisions.split(",")):
        module = os.path.join(scratch, precision + ".reed")
        subprocess.run([os.path.join(arguments.build, "tools", "vm"), "compile", onnx, "-o", module, "--precision", precision], check=True, stdout=subprocess.DEVNULL)
        figures[precision] = {"bytes": os.path.getsize(module), "seconds": [], "matched": None, "of": None, "deviations": {}}
        if precision != "f32" and filecmp.cmp(module, os.path.join(scratch, "f32.reed"), shallow=False):
            figures[precision]["seconds"] = None
            continue
        for label in (precision, "again") if precision == "f32" else (precision,):
            words = [os.path.abspath(__file__), "--build", arguments.build, "--threads", str(arguments.threads), "--worker", module]
            workers[label] = Worker(words, arguments.threads)
    figures["again"] = {"seconds": []}
    for row in rows:
        inputs, results = os.path.join(scratch, "inputs.npz"), {}
        np.savez(inputs, **{f"{i:02}": a for i, a in enumerate(row)})
        for label, worker in workers.items():
            kept = os.path.join(scratch, label + ".npz")
            if not worker.ask(do="open", inputs=inputs, outputs=kept):
                raise SystemExit(f"{name}, {label}: {worker.error}")
            with np.load(kept) as outputs:
                results[label] = dict(zip(names, (outputs[k] for k in sorted(outputs.files))))
        for precision in figures:
            if precision in ("f32", "again") or precision not in workers:
                continue
            matched, of, deviations = compare(results["f32"], results[precision])
            f = figures[precision]
            if of is not None:
                f["matched"], f["of"] = (f["matched"] or 0) + matched, (f["of"] or 0) + of
            for output, d in deviations.items():
                f["deviations"][output] = max(d, f["deviations"].get(output, 0))
    once = workers["f32"].ask(do="run", n=1)["seconds"]
    n = max(1, int(.03 / max(once, 1e-6)))  # a turn of at least 30 ms
    labels = list(workers)
    for turn in range(arguments.runs):
        for label in labels[turn % len(labels):] + labels[:turn % len(labels)]:
            figures[label]["seconds"].append(workers[label].ask(do="run", n=n)["seconds"])
    for worker in workers.values():
        worker.close()
    return figures


def judge(figures, peer):
    """Adds to each precision its speed over f32's, and the reasons for which it misses its bars."""
    least = {label: min(f["seconds"]) for label, f in figures.items() if f["seconds"]}
    f32 = min(least["f32"], least["again"])
    noise = max(NOISE_LEAST, abs(least["f32"] / least["again"] - 1))
    for label, f in figures.items():
        f["gain"], f["missed"] = f32 / least.get(label, f32), []
        if label in ("f32", "again"):
            continue
        least_matched = MATCHED_LEAST
        if label in peer and peer[label][1]:
            f["peer"] = peer[label][:2]
            least_matched = min(least_matched, peer[label][0] / peer[label][1])
        if f["of"] and f["matched"] < least_matched * f["of"]:
            f["missed"].append(f"{f['matched']} of {f['of']} matched")
        if f["gain"] < 1 - noise:
            f["missed"].append(f"{1 / f['gain']:.2f}x f32's time")
    return f32, noise


def cells(f):
    if f["seconds"] is None:
        return "the same module | | "
    matched = "" if f["of"] is None else f"{f['matched'] / f['of']:.1%} of {f['of']}" if f["of"] else "none found"
    if "peer" in f:
        matched += f" (PyTorch: {f['peer'][0] / f['peer'][1]:.1%} of {f['peer'][1]})"
    return f"{f['gain']:.2f} | {matched} | " + ", ".join(f"{name} {d:.1e}" for name, d in f["deviations"].items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="Reed's build folder (a release build)")
    parser.add_argument("--folder", help="exported models")
    parser.add_argument("--models", default="all")
    parser.add_argument("--onnx", nargs="+", metavar="FILE", help="a model and its inputs' arrays")
    parser.add_argument("--labels", default="boxes,labels,scores", help="names of the outputs of --onnx")
    parser.add_argument("--precisions", default="bf16,f16")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", action="store_true", help="PyTorch with rounded weights, too")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments)
    if not arguments.onnx and not arguments.folder:
        parser.error("--folder or --onnx is needed")
    precisions, report = arguments.precisions.split(","), {}
    print("| model | f32, s | noise | " + " | ".join(f"MB | {p}: f32's time over it | matched | deviation" for p in precisions) + " | |")
    print("|---" * (4 + 4 * len(precisions)) + "|")
    for case in cases_of(arguments):
        with tempfile.TemporaryDirectory() as scratch:
            figures = report[case[0]] = measure(case, arguments, scratch)
        peer = rounded_peer(case[0], arguments.folder, precisions) if arguments.peer and case[0] != "shapes" and not arguments.onnx else {}
        f32, noise = judge(figures, peer)
        missed = "; ".join(f"{p}: {', '.join(figures[p]['missed'])}" for p in precisions if figures[p]["missed"])
        columns = [f"{figures[p]['bytes'] / 1e6:.1f} of {figures['f32']['bytes'] / 1e6:.1f} | {cells(figures[p])}" for p in precisions]
        print(f"| {case[0]} | {f32:.4g} | {noise:.0%} | " + " | ".join(columns) + f" | {missed or 'met'} |", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as f:
                json.dump(report, f, indent=1)
    return any(f.get("missed") for figures in report.values() for f in figures.values())


if __name__ == "__main__":
    sys.exit(main())
