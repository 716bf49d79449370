#!/usr/bin/env python3
"""Compares a model compiled with --precision bf16 or f16 with the same model in f32: bytes, CPU time, detections.

    check_precision.py MODEL.onnx --vm build/tools/vm [--precision bf16] [--input 3x480x640xf32=rand:7] [--runs 3] [--threads 1]

Detections (outputs boxes, labels, scores) are matched by label at an IoU of 0.5; other models have the largest difference of each output. Times are the least CPU time of a run, of both
modules in turn, which a busy machine changes less than elapsed time. Exit status 1: fewer than 95 % of the detections are matched.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np


def iou(a, b):
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda x: np.prod(x[:, 2:] - x[:, :2], axis=1)
    return inner / np.maximum(area(a)[:, None] + area(b)[None] - inner, 1e-12)


def compare(want, got):
    """Prints the differences; the share of detections that are matched."""
    if "boxes" not in want:
        for name in want:
            print(f"  {name}: largest difference {np.abs(want[name].astype(float) - got[name]).max():.3g} of {np.abs(want[name]).max():.3g}")
        return 1.0
    overlap = iou(want["boxes"], got["boxes"])
    overlap[want["labels"][:, None] != got["labels"][None]] = 0
    pairs, n = [], max(overlap.shape)
    while overlap.size and overlap.max() >= .5:
        w, g = np.unravel_index(overlap.argmax(), overlap.shape)
        pairs.append((w, g))
        overlap[w], overlap[:, g] = 0, 0
    share = len(pairs) / n if n else 1.0
    off = [(np.abs(want["boxes"][w] - got["boxes"][g]).max(), abs(want["scores"][w] - got["scores"][g])) for w, g in pairs] or [(0, 0)]
    print(f"  {len(pairs)} of {n} detections matched ({share:.1%}); largest difference of a box {max(o[0] for o in off):.3g} px, of a score {max(o[1] for o in off):.3g}")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--vm", required=True)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", default="1")
    a = parser.parse_args()
    inputs = [x for i in a.input or ["3x480x640xf32=rand:7"] for x in ("-i", i)]
    with tempfile.TemporaryDirectory() as folder:
        seconds, results, sizes = {}, {}, {}
        for precision in ("f32", a.precision):
            module = os.path.join(folder, precision + ".reed")
            subprocess.run([a.vm, "compile", a.model, "-o", module, "--precision", precision], check=True, stdout=subprocess.DEVNULL)
            sizes[precision] = os.path.getsize(module)
            info = subprocess.run([a.vm, "info", module], check=True, capture_output=True, text=True).stdout
            names = [line.split()[1] for line in info.splitlines() if line.startswith("output ")]
            files = {name: os.path.join(folder, f"{precision}-{i}.npy") for i, name in enumerate(names)}
            outputs = [x for name, path in files.items() for x in ("-o", f"{name}={path}")]
            subprocess.run([a.vm, "run", module, *inputs, *outputs], check=True, stdout=subprocess.DEVNULL)
            results[precision] = {name: np.load(path) for name, path in files.items()}
        for _ in range(a.runs):
            for precision in ("f32", a.precision):
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                subprocess.run([a.vm, "bench", os.path.join(folder, precision + ".reed"), *inputs, "--runs", "2", "--warmup", "1", "--threads", a.threads], check=True, stdout=subprocess.DEVNULL)
                spent = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) / 3
                seconds[precision] = min(spent, seconds.get(precision, spent))
    f32, low = seconds["f32"], seconds[a.precision]
    print(f"{os.path.basename(a.model)}: {sizes['f32'] / 1e6:.1f} MB to {sizes[a.precision] / 1e6:.1f} MB; CPU time of a run, start included: f32 {f32:.3f} s, {a.precision} {low:.3f} s ({f32 / low:.2f}x); load {os.getloadavg()[0]:.0f}")
    return compare(results["f32"], results[a.precision]) < .95


if __name__ == "__main__":
    sys.exit(main())
