#!/usr/bin/env python3
"""Times one model on a GPU: Reed with graphs and without, outputs left on the card and copied to the host, beside eager torchvision and torch.compile on the same card.

    gpu_speed.py MODEL.onnx --build BUILDDIR [--device cuda] [--sizes 480x640] [--random 50] [--runs 20] [--name mask --folder MODELS] [--seconds 480] --json FILE

Latency of the first size: median and least of --runs. First run: of --random other sizes, each run twice; the ratio of the first to the second run says how much a size that was never
seen costs. Memory: of the card, as Reed's session
holds it after the last size; for PyTorch the most that its allocator held. With --name and --folder (of export_torchvision.py: NAME.pt) the model is built in
PyTorch too; each of its engines ends when half of the remaining --seconds are spent, and the table says how many sizes it ran.
"""
import argparse
import json
import os
import random
import statistics
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "random"))


def pictures(sizes, n_dims):
    import numpy as np
    shapes = [(3, *map(int, size.split("x"))) for size in sizes]
    return [np.random.default_rng(i).random((1,) * (n_dims - 3) + shape, dtype=np.float32) for i, shape in enumerate(shapes)]


def random_sizes(n, around):
    height, width = map(int, around.split("x"))
    choose = random.Random(7)
    return [f"{choose.randint(height // 2, height)}x{choose.randint(width // 2, width)}" for _ in range(n)]


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


def reed_figures(a, arrays, graphs, keep, ends):
    import reed
    library = reed.Library(a.build)
    with open(a.model, "rb") as f: module = library.compile(f.read(), target=a.device.split(":")[0])
    session = reed.Session(library, module, a.device, keep_outputs=keep, graphs=1 if graphs else 2)
    figures = measure(session.run_only, arrays, a.runs, ends)
    stats = json.loads(library.text(library.reed.reed_session_stats_json, session.session))
    figures["memory_mib"] = sum(d["reserved_bytes"] for name, d in stats["memory"].items() if name != "host") / 2**20
    session.close()
    return figures


def torch_figures(a, arrays, compiled, ends):
    import torch
    import models
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = models.build(a.name)
    model.load_state_dict(torch.load(os.path.join(a.folder, a.name + ".pt")))
    module = models.wrap(a.name, model).cuda()
    if compiled: module = torch.compile(module, dynamic=True)

    def run(array):
        with torch.inference_mode(): module(*[torch.from_numpy(x).cuda() for x in array])
        torch.cuda.synchronize()
    figures = measure(lambda x: run(x), arrays, a.runs, ends)
    figures["memory_mib"] = torch.cuda.max_memory_reserved() / 2**20
    return figures


ENGINES = {"Reed, graphs": lambda a, x, ends: reed_figures(a, x, True, True, ends),
           "Reed, no graphs": lambda a, x, ends: reed_figures(a, x, False, True, ends),
           "Reed, graphs, outputs to the host": lambda a, x, ends: reed_figures(a, x, True, False, ends),
           "PyTorch eager": lambda a, x, ends: torch_figures(a, x, False, ends),
           "torch.compile": lambda a, x, ends: torch_figures(a, x, True, ends)}


def table(name, size, rows):
    number = lambda row, key: f"{row[key]:.3g}" if key in row else ""
    lines = [f"{name}, {size}", "", "| engine | median ms | least ms | first run ms | new size ms | new size / again | sizes | memory MiB |", "|---|---|---|---|---|---|---|---|"]
    for engine, row in rows.items():
        if "error" in row: lines.append(f"| {engine} | {row['error']} | | | | | | |")
        else: lines.append("| " + " | ".join([engine] + [number(row, k) for k in ("median_ms", "least_ms", "first_ms", "new_size_ms", "new_size_ratio", "sizes", "memory_mib")]) + " |")
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
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--json", required=True)
    a = parser.parse_args()
    sizes = a.sizes.split(",") + random_sizes(a.random, a.sizes.split(",")[0])
    arrays = [[x] for x in pictures(sizes, 4 if a.batched else 3)]
    ends, rows = time.monotonic() + a.seconds, {}
    for engine, figures in ENGINES.items():
        if not engine.startswith("Reed") and not (a.name and a.folder): continue
        now = time.monotonic()
        try:
            rows[engine] = figures(a, arrays, now + (ends - now) / 2)
        except Exception as e:
            rows[engine] = {"error": str(e).splitlines()[0][:200] if str(e) else type(e).__name__}
    text = table(os.path.basename(a.model).removesuffix(".onnx"), a.sizes.split(",")[0], rows)
    print(text)
    with open(a.json, "w") as f: json.dump({"device": a.device, "engines": rows, "table": text}, f, indent=1)
    sys.exit(any("error" in row for engine, row in rows.items() if engine.startswith("Reed")))


if __name__ == "__main__":
    main()
