#!/usr/bin/env python3
"""The time of a model on a CPU by kind of layer, beside the least time that its arithmetic and its memory could take.

    floors.py --build BUILD [--folder DIR] [--convs DIR] [--threads 2] [--runs 5] [--measured FILE.json]... [--markdown] [NAME...]

NAME: a model of compare.py, whose ONNX file lies in --folder, or `net/NAME` for a net of compare_convolutions.py, whose ONNX file lies in --convs; default: all of both folders. The Python that runs it has
torch and torchvision, which make the inputs.

A row is a kind of layer. GFLOP: by the operators' definition (`vm profile`), so that Winograd's rate may exceed the peak. Floor: the arithmetic at the peak of multiply-adds of all threads, which bench_limits
measures before and after each model. Of a layer with Winograd's algorithm it is the arithmetic of its products alone: free transforms, the largest of its tiles everywhere, no tile over an edge. Memory: all
operands' bytes (of operators without products: of the outputs alone) at the rate of sums over memory, as if there were no caches; a layer whose operands lie in a cache takes less. Share: floor over time.

With --measured (JSON of compare.py or compare_convolutions.py) a last line compares the ratio to the best peer with the bar, and the floor with the time that the bar allows.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
# The bar of a model: the best peer's time over Reed's.
BARS = {"mask": 2.5, "faster": 2.4, "keypoint": 2.1, "retinanet": 1.9, "fcos": 1.7, "ssd300": 1.9, "faster_mobile": 1.5, "ssdlite": 1.5, "subpixel": 2, "bert": 1.15,
        "net/vgg16": 1.2, "net/resnet50": 1.15, "net/retinanet": 1.35}
KINDS = ("winograd", "3x3", "1x1", "3x3, stride", "other windows", "transposed", "groups", "depthwise", "product", "attention", "recurrent", "other")


def inputs_of(name):
    """The input's names and arrays."""
    import numpy as np
    if name.startswith("net/"):
        from compare_convolutions import shape_of
        return {"x": np.random.default_rng(3).standard_normal(shape_of(name[4:])).astype(np.float32)}
    import models
    return dict(zip(models.axes_of(name)[0], models.example(name, models.sizes_of(name)[0])))


def limits_of(arguments):
    command = [os.path.join(arguments.build, "bench", "bench_limits"), str(arguments.threads)]
    level, gflops, gigabytes, _ = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"level": level, "gflops": float(gflops), "gigabytes": float(gigabytes)}


def profile_of(arguments, name, path):
    """The nodes of `vm profile --json`."""
    import numpy as np
    with tempfile.TemporaryDirectory() as scratch:
        words = [os.path.join(arguments.build, "tools", "vm"), "profile", path, "--threads", str(arguments.threads), "--runs", str(arguments.runs), "--json", os.path.join(scratch, "profile.json")]
        for i, (input_name, array) in enumerate(inputs_of(name).items()):
            file = os.path.join(scratch, f"{i}.npy")
            np.save(file, array)
            words += ["-i", f"{input_name}=@{file}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(scratch, "profile.json")) as f:
            return json.load(f)["nodes"]


def share_of_products(variant):
    """Winograd's products over those of the direct algorithm, for a variant such as `winograd 6,2x6` or `winograd of lines 6`: the largest tile of each axis. An axis of stride 2 has tiles of odd extents. Lines of more
    than three taps take at least the share of three."""
    sizes = r"(\d+(?:,\d+)*)"
    tiles = [max(map(int, axis.split(","))) for axis in re.match(rf"winograd (?:of lines )?{sizes}(?:x{sizes})?", variant).groups() if axis]
    return math.prod((2 * t + 1 if t % 2 else t + 2) / (3 * t) for t in tiles)


def rows_of(nodes, runs, peak, rate):
    """By kind: milliseconds of a run, GFLOP, floor and memory time in milliseconds."""
    rows = {}
    for n in nodes:
        variant = n.get("variant", "")
        wins = variant.startswith("winograd")
        row = rows.setdefault("winograd" if wins else n.get("kind", "other"), [0, 0, 0, 0])
        figures = (n["total_us"] / 1e3, n["operations"] / 1e9, n["operations"] * (share_of_products(variant) if wins else 1) / peak / 1e6, n["operand_bytes"] / rate / 1e6)
        for i, x in enumerate(figures):
            row[i] += x / runs
    return {k: rows[k] for k in KINDS if k in rows}


def measured_ratio(files, name):
    """The best peer's seconds and Reed's, of the first file that has them."""
    for path in files:
        with open(path) as f:
            report = json.load(f)
        if ("models" in report) == name.startswith("net/"):
            continue
        figures = next(iter(report["models"].get(name, {}).values()), {}) if "models" in report else report.get(name[4:], {})
        times = {e: f.get("median", f.get("seconds")) for e, f in figures.items()}
        peers = [t for e, t in times.items() if e != "reed" and t]
        if times.get("reed") and peers:
            return min(peers), times["reed"]
    return None


def show(arguments, name, rows, limits):
    total = [sum(r[i] for r in rows.values()) for i in range(4)]
    cells = [[k, f"{ms:.2f}", f"{100 * ms / total[0]:.1f} %", f"{g:.2f}", f"{g / ms * 1e3:.0f}" if g else "", f"{floor:.2f}" if floor else "", f"{memory:.2f}", f"{floor / ms:.2f}" if floor else ""]
             for k, (ms, g, floor, memory) in [*rows.items(), ("all", total)]]
    heads = ["", "ms", "of all", "GFLOP", "GF/s", "floor, ms", "memory, ms", "share"]
    print(f"{name}: {limits['level']}, {arguments.threads} threads, peak {limits['gflops']:.0f} GFLOP/s, memory {limits['gigabytes']:.1f} GB/s" + "\n" * arguments.markdown)
    for i, line in enumerate([heads, *cells]):
        print("| " + " | ".join(line) + " |" if arguments.markdown else f"{line[0]:14}" + "".join(f"{c:>11}" for c in line[1:]))
        if arguments.markdown and i == 0:
            print("|---" * len(heads) + "|")
    found = measured_ratio(arguments.measured, name)
    if found and name in BARS:
        peer, reed = found
        print("\n" * arguments.markdown + f"best peer {peer * 1e3:.1f} ms, Reed {reed * 1e3:.1f} ms: {peer / reed:.2f}, bar {BARS[name]}, {'met' if peer / reed >= BARS[name] else 'not met'}; "
              f"the bar allows {peer / BARS[name] * 1e3:.1f} ms, the floor is {total[2]:.1f} ms")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="Reed's build folder (a release build with bench/bench_limits)")
    parser.add_argument("--folder", default="")
    parser.add_argument("--convs", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measured", action="append", default=[], metavar="FILE.json")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    paths = {name: os.path.join(*([arguments.convs, name[4:]] if name.startswith("net/") else [arguments.folder, name])) + ".onnx" for name in arguments.names or BARS}
    for name, path in paths.items():
        if arguments.names and not os.path.exists(path): parser.error(f"there is no file {path} for '{name}' (one of {', '.join(BARS)}, or another net/NAME)")
    for name, path in paths.items():
        if not os.path.exists(path): continue
        before = limits_of(arguments)
        nodes = profile_of(arguments, name, path)
        limits = max(before, limits_of(arguments), key=lambda l: l["gflops"])
        show(arguments, name, rows_of(nodes, arguments.runs, limits["gflops"], limits["gigabytes"]), limits)


if __name__ == "__main__":
    main()
