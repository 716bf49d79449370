#!/usr/bin/env python3
"""Times one model on a GPU: Reed with graphs and without, in strict f32, TF32 and f16, outputs left on the card and copied to the host, beside eager
PyTorch and torch.compile on the same card.

    gpu_speed.py MODEL.onnx --build BUILDDIR [--device cuda] [--sizes 480x640] [--random 50] [--runs 20] [--name mask --folder MODELS] [--engines reed,eager]
                 [--seconds 480] [--torch-device cuda] --json FILE

Latency of the first size: median and least of --runs. First run: of --random other sizes, each run twice; the ratio of the first to the second run says how much a size that was never
seen costs. Memory: the most that Reed has taken from the card, weights and outputs included; for PyTorch the most that its allocator held. Neither counts the driver's context. Waits: synchronisations of the host and bytes read
back besides the outputs, in one run of Reed. With --name and --folder (of export_torchvision.py: NAME.pt) the inputs are the model's own, and the model is built in PyTorch too
(BERT with its scaled dot product attention). In f16 a detector of PyTorch runs under autocast, and Reed has no row; another model has weights and floats in f16 (NAME.f16.onnx). An engine tries no new size once --seconds are spent,
and the table says how many sizes it ran. FILE is written after each engine. Rows that FILE has are kept: those of other engines and, with --missing, also those of the engines named, which
then do not run again. An engine `reed-kernels...` times each launch by events, without graphs, and lists the slowest kernels. --torch-device cpu tries the code on a machine without a card.
"""
import argparse
import copy
import functools
import gc
import json
import os
import random
import statistics
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "random"))


def inputs_of(a, sizes):
    if a.name:
        import models
        return [models.example(a.name, size, i) for i, size in enumerate(sizes)]
    return [[x] for x in pictures(sizes, 4 if a.batched else 3)]


def pictures(sizes, n_dims):
    import numpy as np
    shapes = [(3, *map(int, size.split("x"))) for size in sizes]
    return [np.random.default_rng(i).random((1,) * (n_dims - 3) + shape, dtype=np.float32) for i, shape in enumerate(shapes)]


def random_sizes(n, around):
    height, width = map(int, around.split("x"))
    choose = random.Random(7)
    return [f"{choose.randint(max(1, height // 2), height)}x{choose.randint(max(1, width // 2), width)}" for _ in range(n)]


def timed(run, arrays):
    start = time.perf_counter()
    run(arrays)
    return (time.perf_counter() - start) * 1e3


def measure(run, arrays, runs, ends):
    """The figures of an engine in milliseconds; `run` returns when its results are complete."""
    first = timed(run, arrays[0])
    timed(run, arrays[0])
    times = [timed(run, arrays[0]) for _ in range(runs)]
    ratios, firsts = [], []
    for a in arrays[1:]:
        if time.monotonic() > ends: break
        firsts.append(timed(run, a))
        ratios.append(firsts[-1] / max(timed(run, a), 1e-6))
    figures = {"first_ms": first, "median_ms": statistics.median(times), "least_ms": min(times), "sizes": len(ratios)}
    if ratios: figures.update(new_size_ms=statistics.median(firsts), new_size_ratio=statistics.median(ratios))
    return figures


def halves_of(model): return model.removesuffix(".onnx") + ".f16.onnx"


def reed_figures(a, arrays, ends, graphs=True, keep=True, option=None, f16=False, counts=None):
    import reed
    from engines import with_option
    import numpy as np
    path = a.model
    if f16:
        path = halves_of(a.model)
        if not os.path.exists(path): raise RuntimeError(f"{os.path.basename(path)} is not there: export_torchvision.py writes it for models that are no detectors")
        arrays = [[x.astype(np.float16) if x.dtype == np.float32 else x for x in array] for array in arrays]
    library = reed.Library(a.build)
    device = with_option(a.device, option)
    with open(path, "rb") as f: module = library.compile(f.read(), target=device, counts=counts)
    session = reed.Session(library, module, device, keep_outputs=keep, graphs=1 if graphs else 2)
    figures = measure(session.run_only, arrays, a.runs, ends)
    stats = json.loads(library.text(library.reed.reed_session_stats_json, session.session))
    figures["memory_mib"] = sum(d["device_peak_bytes"] for name, d in stats["memory"].items() if name != "host") / 2**20
    read = sum(c["bytes"] for c in stats["copies"] if c["direction"] == "device-to-host" and c["reason"] != "output")
    figures["waits"] = f"{stats['synchronisations']}, {read} bytes"
    session.close()
    return figures


def reed_kernels(a, arrays, ends, option=None, f16=False):
    """The kernels of runs of the first size, the slowest first: launches and microseconds a run."""
    import profiles
    path = a.json + ".kernels"
    n_runs = a.runs + 2  # those of `measure`
    profile = f"profile={path}"
    if os.path.exists(path): os.remove(path)
    reed_figures(a, arrays[:1], ends, graphs=False, option=f"{option}&{profile}" if option else profile, f16=f16)
    return {"kernels": [[row.kernel, row.launches / n_runs, row.us / n_runs] for row in profiles.read(path)]}


@functools.lru_cache(maxsize=1)
def torch_model(name, folder, device):
    """The model with its weights, in the CPU's memory. Before the first engine the device's libraries are opened, so that no engine's first run has that time."""
    import torch
    import models
    model = models.build(name)
    model.load_state_dict(torch.load(os.path.join(folder, name + ".pt")))
    if hasattr(model, "bert"): model.bert.set_attn_implementation("sdpa")
    image = torch.ones(1, 8, 8, 8, device=device)
    torch.nn.functional.conv2d(image, image) @ image.flatten(0, 2)[:1]
    return model


def torch_figures(a, arrays, ends, compiled=False, mode=None, tf32=False, f16=False, keep=True):
    import torch
    import models
    on_card = a.torch_device == "cuda"
    gc.collect() # engines before this one
    if on_card:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    module = models.wrap(a.name, copy.deepcopy(torch_model(a.name, a.folder, a.torch_device))).to(a.torch_device)
    halved = f16 and a.name not in models.DETECTORS
    if halved: module = module.half()
    if compiled: torch._dynamo.reset()
    if compiled: module = torch.compile(module, mode=mode, dynamic=None if mode else True)

    def run(array):
        tensors = [torch.from_numpy(x).to(a.torch_device) for x in array]
        if halved: tensors = [t.half() if t.is_floating_point() else t for t in tensors]
        with torch.inference_mode(), torch.autocast(a.torch_device, torch.float16, enabled=f16 and not halved): out = module(*tensors)
        if not keep: [t.cpu() for t in (out if isinstance(out, tuple) else (out,))]
        if on_card: torch.cuda.synchronize()
    figures = measure(run, arrays, a.runs, ends)
    if on_card: figures["memory_mib"] = torch.cuda.max_memory_reserved() / 2**20
    return figures


# By name: the words of the table, the function, its options.
ENGINES = {"reed": ("Reed, graphs", reed_figures, {}),
           "reed-queues": ("Reed, no graphs", reed_figures, {"graphs": False}),
           "reed-host": ("Reed, outputs to the host", reed_figures, {"keep": False}),
           "reed-fetched": ("Reed, counts fetched", reed_figures, {"counts": "host"}),
           "reed-tf32": ("Reed, TF32", reed_figures, {"option": "tf32=1"}),
           "reed-libraries": ("Reed, cuDNN and cuBLASLt", reed_figures, {"option": "cudnn=1&cublas=1"}),
           "reed-tf32-libraries": ("Reed, TF32, cuDNN and cuBLASLt", reed_figures, {"option": "tf32=1&cudnn=1&cublas=1"}),
           "reed-f16": ("Reed, f16", reed_figures, {"f16": True}),
           "reed-f16-libraries": ("Reed, f16, cuDNN and cuBLASLt", reed_figures, {"f16": True, "option": "cudnn=1&cublas=1"}),
           "reed-kernels": ("Kernels of Reed", reed_kernels, {}),
           "reed-kernels-tf32": ("Kernels of Reed, TF32", reed_kernels, {"option": "tf32=1"}),
           "reed-kernels-f16": ("Kernels of Reed, f16", reed_kernels, {"f16": True}),
           "eager": ("PyTorch eager", torch_figures, {}),
           "eager-tf32": ("PyTorch eager, TF32", torch_figures, {"tf32": True}),
           "eager-f16": ("PyTorch eager, f16", torch_figures, {"f16": True}),
           "eager-host": ("PyTorch eager, outputs to the host", torch_figures, {"keep": False}),
           "compile": ("torch.compile", torch_figures, {"compiled": True}),
           "compile-tf32": ("torch.compile, TF32", torch_figures, {"compiled": True, "tf32": True}),
           "compile-f16": ("torch.compile, f16", torch_figures, {"compiled": True, "f16": True}),
           "compile-graphs-f16": ("torch.compile with graphs, f16", torch_figures, {"compiled": True, "mode": "reduce-overhead", "f16": True})}
SHOWN_KERNELS = 16


def table(name, size, rows):
    number = lambda row, key: "" if key not in row else row[key] if isinstance(row[key], str) else f"{row[key]:.3g}"
    lines = [f"{name}, {size}", "", "| engine | median ms | least ms | first run ms | new size ms | new size / again | sizes | memory MiB | waits, read back |", "|---|---|---|---|---|---|---|---|---|"]
    for engine, row in rows.items():
        if "kernels" in row: continue
        if "error" in row: lines.append(f"| {engine} | {row['error']} | | | | | | | |")
        else: lines.append("| " + " | ".join([engine] + [number(row, k) for k in ("median_ms", "least_ms", "first_ms", "new_size_ms", "new_size_ratio", "sizes", "memory_mib", "waits")]) + " |")
    for engine, row in rows.items():
        if "kernels" not in row: continue
        total = sum(us for _, _, us in row["kernels"])
        lines += ["", f"{engine}: {total:.4g} us a run in {sum(n for _, n, _ in row['kernels']):.4g} launches.", "", "| kernel | launches | us | share |", "|---|---|---|---|"]
        lines += [f"| {kernel} | {n:.4g} | {us:.4g} | {us / total if total else 0:.0%} |" for kernel, n, us in row["kernels"][:SHOWN_KERNELS]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--build", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="480x640")
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--batched", action="store_true", help="the picture has a first axis of 1")
    parser.add_argument("--name")
    parser.add_argument("--folder")
    parser.add_argument("--engines", help="names with commas between them (default: all that can run): " + ", ".join(ENGINES))
    parser.add_argument("--seconds", type=float, default=240, help="of each engine")
    parser.add_argument("--missing", action="store_true", help="only engines that FILE has no figures of")
    parser.add_argument("--torch-device", default="cuda")
    parser.add_argument("--json", required=True)
    a = parser.parse_args()
    sizes = a.sizes.split(",") + random_sizes(a.random, a.sizes.split(",")[0])
    runs = lambda n: os.path.exists(halves_of(a.model)) or not ENGINES[n][2].get("f16") if n.startswith("reed") else a.name and a.folder
    names = a.engines.split(",") if a.engines else [n for n in ENGINES if runs(n)]
    if any(n not in ENGINES for n in names): parser.error("the engines are " + ", ".join(ENGINES))
    arrays, rows, text = inputs_of(a, sizes), {}, ""
    if os.path.exists(a.json):
        with open(a.json) as f: rows = json.load(f)["engines"]
    for name in names:
        engine, figures, options = ENGINES[name]
        if a.missing and "error" not in rows.get(engine, {"error": ""}): continue
        try:
            rows[engine] = figures(a, arrays, time.monotonic() + a.seconds, **options)
        except Exception as e:
            rows[engine] = {"error": str(e).splitlines()[0][:200] if str(e) else type(e).__name__}
        text = table(os.path.basename(a.model).removesuffix(".onnx"), sizes[0], rows)
        with open(a.json + ".part", "w") as f: json.dump({"device": a.device, "engines": rows, "table": text}, f, indent=1)
        os.replace(a.json + ".part", a.json)
    print(text)
    sys.exit(any("error" in rows[ENGINES[n][0]] for n in names if n.startswith("reed")))


if __name__ == "__main__":
    main()
