#!/usr/bin/env python3
"""One query of attention, as a decoder's step has it: Reed's Attention beside the same model with the single operators (compiled with --disable attention).

    attention.py --build BUILDDIR [--heads 1,4,8,32] [--sizes 16,64,128] [--caches 1,8,30,300,2000] [--dtypes f32,f16,bf16] [--shared 1,4] [--queries 1] [--threads 1,2]
                 [--mask none] [--rounds 101] [--slack 0.02]

shared: heads of Q for each head of K and V; the single operators expand K and V. mask: none, padding (the lowest number added where an input m[1,1,1,past] is above 0.5), alibi (m times a
number of each head is added), or padding+alibi. Needs ninja bench/bench_pair, and onnx. Both sessions make memo hits in turns (bench_pair). One row for heads, size,
dtype and threads, a column for each length of the cache: fused over single, and in brackets the floor, the same module over itself. The exit status is 1 if a ratio is above 1 by more than the
slack and the row's largest deviation of the floor from 1."""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

DTYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def numbers(text): return [int(n) for n in text.split(",")]


def model(heads, kv_heads, size, dtype, queries, mask="none"):
    """Softmax(Q K^T / sqrt(size)) V with K and V [1, kv_heads, past, size], which a model with shared heads expands as exporters do."""
    nodes, weights = [], []

    def constant(array, dtype=TensorProto.INT64):
        weights.append(helper.make_tensor(f"c{len(weights)}", dtype, np.shape(array), np.ravel(array)))
        return weights[-1].name

    def node(operator, *inputs, **attributes):
        nodes.append(helper.make_node(operator, list(inputs), [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def repeated(v):
        if kv_heads == heads: return v
        wide = node("Expand", node("Unsqueeze", v, constant([2])), constant([1, 1, heads // kv_heads, 1, 1]))
        return node("Reshape", wide, constant([0, heads, -1, size]))

    scores = node("MatMul", "q", node("Transpose", repeated("k"), perm=[0, 1, 3, 2]))
    scores = node("Mul", scores, constant(size ** -.5, DTYPES[dtype]))
    number = lambda x: constant(x, DTYPES[dtype])
    bias = node("Mul", "m", number(-np.linspace(.1, 1, heads).reshape(1, heads, 1, 1))) if "alibi" in mask else None
    if "padding" in mask: bias = node("Where", node("Less", "m", number(.5)), bias or number(0), number(-65504 if dtype == "f16" else -3.3e38))
    if bias: scores = node("Add", scores, bias)
    node("MatMul", node("Softmax", scores, axis=-1), repeated("v"))
    inputs = [helper.make_tensor_value_info(n, DTYPES[dtype], [1, heads if n == "q" else kv_heads, queries if n == "q" else "past", size]) for n in "qkv"]
    if mask != "none": inputs.append(helper.make_tensor_value_info("m", DTYPES[dtype], [1, 1, 1, "past"]))
    graph = helper.make_graph(nodes, "attention", inputs, [helper.make_tensor_value_info(nodes[-1].output[0], DTYPES[dtype], None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def rows(options, folder):
    """(words of the row, one (ratio, floor) for each cache)."""
    vm, pair = (os.path.join(options.build, p) for p in ("tools/vm", "bench/bench_pair"))
    for heads, size, dtype, shared, queries in [(h, d, t, g, q) for h in numbers(options.heads) for d in numbers(options.sizes) for t in options.dtypes.split(",") for g in numbers(options.shared)
                                                for q in numbers(options.queries) if h % g == 0]:
        names = [os.path.join(folder, n) for n in ("m.onnx", "fused.reed", "single.reed")]
        onnx.save(model(heads, heads // shared, size, dtype, queries, options.mask), names[0])
        for name, flags in zip(names[1:], ([], ["--disable", "attention"])): subprocess.run([vm, "compile", names[0], "-o", name, *flags], check=True, capture_output=True)
        cases = ["{0}x{1}x{2},{3},{3}".format(f"1x{heads}", queries, size, f"1x{heads // shared}x{past}x{size}") for past in numbers(options.caches)]
        if options.mask != "none": cases = [f"{case},1x1x1x{past}" for case, past in zip(cases, numbers(options.caches))]
        for threads in numbers(options.threads):
            text = subprocess.run([pair, *names[1:], "--threads", str(threads), "--rounds", str(options.rounds), *cases], check=True, capture_output=True, text=True).stdout
            yield (heads, size, dtype, shared, queries, threads), [tuple(float(w) for w in line.split()[1:]) for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    for name, default in (("heads", "1,4,8,32"), ("sizes", "16,64,128"), ("caches", "1,8,30,300,2000"), ("dtypes", "f32,f16,bf16"), ("shared", "1,4"), ("queries", "1"), ("threads", "1,2")):
        parser.add_argument("--" + name, default=default)
    parser.add_argument("--mask", choices=("none", "padding", "alibi", "padding+alibi"), default="none")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--slack", type=float, default=.02)
    options = parser.parse_args()
    caches, slower, n = numbers(options.caches), 0, 0
    print("| heads | size | dtype | shared | queries | threads | " + " | ".join(f"cache {c}" for c in caches) + " |\n|" + "---|" * (6 + len(caches)))
    with tempfile.TemporaryDirectory() as folder:
        for words, cells in rows(options, folder):
            floor = max(abs(f - 1) for _, _, _, f in cells)
            above = [ratio > 1 + options.slack + floor for _, _, ratio, _ in cells]
            text = [f"{a:.2f} us {ratio:.2f} ({f:.3f}){' !' if over else ''}" for (a, _, ratio, f), over in zip(cells, above)]
            print(f"| {' | '.join(map(str, words))} | {' | '.join(text)} |", flush=True)
            slower, n = slower + sum(above), n + len(cells)
    print(f"{n - slower} cells of {n} are at most 1")
    sys.exit(slower > 0)


if __name__ == "__main__": main()
