#!/usr/bin/env python3
"""Compares Reed's operators of the domain "torchvision" with torchvision's kernels and their autograd, and times both.

    check_vision.py --build BUILDDIR [--only NAME,..] [--bench [--seconds 2] [--cpu]] [--threads 2]

Every call is an ONNX model of one node of that domain. Values: f32, f64, bf16 and f16 (against torchvision in f32 on the same numbers), channels second and last, with
and without a batch, boxes outside the picture, empty, reversed, of no size, none at all. Times: medians of runs in turns of four on the same threads, each pair of calls for about
--seconds (the whole table: some three minutes); the ratio is torchvision's time by Reed's, in f32; then Reed's time in bf16 and f16 beside its own f32. Calls below their bar (20 for
the forward roi_align and nms at 10,000, 5 for the others, 1 for halves beside f32) are marked and counted at the end. With --cpu, CPU time instead of elapsed time, for a busy machine; one thread is best then. Exit status 1: a value differs. Needs torch, torchvision, onnx
and ml_dtypes.
"""
import argparse
import os
import statistics
import sys
import time

import ml_dtypes
import numpy as np
import onnx
import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from onnx import TensorProto, helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "random"))
import reed  # noqa: E402

TV = torch.ops.torchvision
BAR = 2e-4
ORDERS = ("NCHW", "NHWC")
BENCH = {"seconds": 2.0, "clock": time.perf_counter, "met": 0, "missed": 0}
BF16 = np.dtype(ml_dtypes.bfloat16)
reed.DTYPES[4], reed.NUMBERS[BF16] = BF16, 4
HALVES = {"bf16": BF16, "f16": np.dtype(np.float16)}
TYPES = {BF16: TensorProto.BFLOAT16, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE, np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64}
# the table of the operators on regions: torchvision's call, and whether bins read channels of their own
REGIONS = {
    "roi_align": (lambda x, r, a: TV.roi_align(x, r, a["spatial_scale"], a["pooled_height"], a["pooled_width"], a["sampling_ratio"], bool(a["aligned"])), False),
    "roi_pool": (lambda x, r, a: TV.roi_pool(x, r, a["spatial_scale"], a["pooled_height"], a["pooled_width"]), False),
    "ps_roi_align": (lambda x, r, a: TV.ps_roi_align(x, r, a["spatial_scale"], a["pooled_height"], a["pooled_width"], a["sampling_ratio"])[0], True),
    "ps_roi_pool": (lambda x, r, a: TV.ps_roi_pool(x, r, a["spatial_scale"], a["pooled_height"], a["pooled_width"])[0], True),
}
BARS = {"roi_align": 20, "nms 10000": 20, "nms 1000": 0}  # the bar as a multiple of torchvision's speed; all other operators: 5
ATTRIBUTES = {"roi_align": ("sampling_ratio", "aligned"), "ps_roi_align": ("sampling_ratio",)}


class Node:
    """A session of one node; the elements of inputs in `constant` are given as they are in the model."""

    def __init__(self, library, op, arrays, n_outputs, attributes, threads, domain="torchvision"):
        names = [f"i{k}" for k in range(len(arrays))]
        node = helper.make_node(op, names, [f"o{k}" for k in range(n_outputs)], domain=domain, **attributes)
        inputs = [helper.make_tensor_value_info(n, TYPES[a.dtype], [None] * a.ndim) for n, a in zip(names, arrays)]
        outputs = [onnx.ValueInfoProto(name=f"o{k}") for k in range(n_outputs)]
        model = helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 19), helper.make_opsetid("torchvision", 1)])
        self.session = reed.Session(library, library.compile(model.SerializeToString()), n_threads=threads)

    def __call__(self, arrays):
        return self.session.run(arrays)


def last(a):
    """Channels second to channels last, of 3 or 4 axes."""
    return np.ascontiguousarray(np.moveaxis(a, -3, -1))


def boxes(rng, n, images, height, width, scale):
    corners = rng.uniform(-0.2, 1.2, (n, 4)) * [width, height, width, height] / scale
    corners = np.concatenate([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])], 1)
    special = np.array([[2, 2, 2, 2], [3, 3, 1, 1], [-50, -50, -40, -40], [0, 0, width, height], [500, 500, 900, 900], [1.5, 0.5, 3.5, 2.5], [0, 0, 0, 0]])
    corners[: len(special)] = special[: n] / scale
    return np.concatenate([rng.integers(0, images, (n, 1)), corners], 1)


def worst(a, b):
    """The largest difference. That of halves is divided by their rounding error and scaled to the bar of the other dtypes."""
    if a.shape != b.shape:
        return float("inf")
    rounding = {BF16: 2.0**-8, np.dtype(np.float16): 2.0**-11}.get(a.dtype)
    a = a.astype(np.float64)
    bad = np.isnan(a) != np.isnan(b)
    scale = BAR / (rounding * 1.01 * np.maximum(np.abs(b), 2.0**-6) + 1e-5) if rounding else 1
    return float("inf") if bad.any() else float(np.nanmax(np.abs(a - b) * scale, initial=0))


def torch_of(a):
    """A tensor of the same numbers, halves in f32."""
    return torch.from_numpy(a.astype(np.float32) if a.dtype in HALVES.values() else a)


def check_regions(library, op, threads):
    """The largest difference over all calls of one operator, forward and backward."""
    call, is_ps = REGIONS[op]
    rng, n_calls, most = np.random.default_rng(7), 0, [0.0, 0.0]
    for dtype in (np.dtype(np.float32), np.dtype(np.float64), *HALVES.values()):
        for scale, ratio, aligned, batch, n, order in [(s, r, a, b, n, o) for s in (1.0, 0.25) for r in ((-1, 0, 2) if op in ATTRIBUTES else (0,)) for a in ((0, 1) if op == "roi_align" else (0,))
                                                       for b in (True, False) for n in (0, 20) for o in (0, 1)]:
            images, height, width, bins = 2 if batch else 1, 13, 17, (3, 2)
            channels = 6 * (17 if batch else 3) if is_ps else 5  # with 17 outputs, blocks of channels side by side (roi_lanes.c), four bins of six at once; with 3 the plain kernels
            a = {"pooled_height": bins[0], "pooled_width": bins[1], "spatial_scale": scale, "sampling_ratio": ratio, "aligned": aligned}
            x = rng.standard_normal((images, channels, height, width)).astype(dtype)
            rois = boxes(rng, max(n, 8), images, height, width, scale).astype(dtype)[:n]
            tx, tr = torch_of(x).requires_grad_(), torch_of(rois)
            result = call(tx, tr, a)
            result, argmax = result if op == "roi_pool" else (result, None)
            g = rng.standard_normal(result.shape).astype(dtype)
            inside = rois.copy()
            if n:
                result.backward(torch_of(g))
            want = tx.grad.numpy() if n else np.zeros(x.shape)
            given = {k: a[k] for k in ("pooled_height", "pooled_width", "spatial_scale") + ATTRIBUTES.get(op, ())} | {"channels_last": order}
            form = (last if order else lambda v: v)
            mx, mr = form(x if batch else x[0]), rois if batch else inside[:, 1:]
            outs = Node(library, op, [mx, mr], 2 if op == "roi_pool" else 1, given, threads)([mx, mr])
            most[0] = max(most[0], worst(outs[0], form(result.detach().numpy())))
            if op == "roi_pool":
                most[0] = max(most[0], worst(outs[1], form(argmax.numpy())))
            if op == "ps_roi_pool" and n:  # only regions that end two pixels before the map: torchvision's backward kernel counts the last row and column, its forward does not
                corners = tr.numpy()
                inner = (np.round(corners[:, [3, 4]] * scale).max(1) < min(height, width) - 3) & (np.round(corners[:, [1, 2]] * scale).max(1) < min(height, width) - 6)
                g[~inner] = 0
                tx.grad = None
                call(tx, tr, a).backward(torch_of(g))
                want = tx.grad.numpy()
            back = [form(g), mr] + ([form(argmax.numpy())] if op == "roi_pool" else []) + [np.array(mx.shape, np.int64)]
            got = Node(library, op + "_backward", back, 1, given, threads)(back)[0]
            want = form(want if batch else want[0])
            most[1] = max(most[1], worst(got, want) if not (op == "ps_roi_align" and ratio <= 0) or not np.isnan(want).any() else 0)
            n_calls += 1
    print(f"{op:14} {n_calls} calls, largest difference {most[0]:.1e}, backward {most[1]:.1e} {'' if max(most) < BAR else 'DIFFERS'}", flush=True)
    return max(most) < BAR


def nms_boxes(rng, n):
    centre, size = rng.uniform(0, 1000, (n, 2)), rng.uniform(5, 200, (n, 2))
    return np.concatenate([centre - size / 2, centre + size / 2], 1).astype(np.float32), rng.uniform(0, 1, n).astype(np.float32)


def check_nms(library, threads):
    rng, good, n_calls = np.random.default_rng(3), True, 0
    for n in (0, 1, 7, 100, 1000, 3000):
        for threshold in (0.0, 0.3, 0.5, 0.75, 1.0):
            dets, scores = nms_boxes(rng, n)
            scores[::5] = 0.5
            dets[::7] = dets[::7, [2, 3, 0, 1]]
            dets[::11, 2] = np.nan if threshold > 0.4 else dets[::11, 0]
            scores[::17] = np.nan
            got = Node(library, "nms", [dets, scores], 1, {"iou_threshold": threshold}, threads)([dets, scores])[0]
            want = TV.nms(torch.from_numpy(dets), torch.from_numpy(scores), float(np.float32(threshold))).numpy()
            good, n_calls = good and np.array_equal(got, want), n_calls + 1
    print(f"{'nms':14} {n_calls} calls, {'equal' if good else 'DIFFERS'}", flush=True)
    return good


def bench_nms(library, threads):
    for n in (1000, 10000):
        dets, scores = nms_boxes(np.random.default_rng(1), n)
        node = Node(library, "nms", [dets, scores], 1, {"iou_threshold": 0.5}, threads)
        td, ts = torch.from_numpy(dets), torch.from_numpy(scores)
        row(f"nms {n}", f"kept {len(TV.nms(td, ts, 0.5))}", "torchvision", lambda: TV.nms(td, ts, 0.5), "Reed", lambda: node([dets, scores]), BARS[f"nms {n}"])
        bench_halves(library, "nms", 1, {"iou_threshold": 0.5}, [dets, scores], 2, threads, f"{n} boxes")


# ---- deformable convolutions ----

DEFORM = ("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "groups", "offset_groups")


def deform_operands(rng, dtype, images, channels, height, width, outputs, kernel, a):
    """input, weight, offset, mask, bias for a kernel of two extents and torchvision's attributes."""
    out = [(n + 2 * a["pad_" + s] - a["dilation_" + s] * (k - 1) - 1) // a["stride_" + s] + 1 for n, k, s in zip((height, width), kernel, "hw")]
    taps = kernel[0] * kernel[1] * a["offset_groups"]
    shapes = [(images, channels, height, width), (outputs, channels // a["groups"], *kernel), (images, 2 * taps, *out), (images, taps, *out), (outputs,)]
    return [(rng.standard_normal(s) * (2 if i == 2 else 1)).astype(dtype) for i, s in enumerate(shapes)]


def torch_deform(x, w, offset, mask, bias, a):
    return TV.deform_conv2d(x, w, offset, mask, bias, *[a[k] for k in DEFORM], True)


def check_deform(library, threads):
    rng, n_calls, most = np.random.default_rng(5), 0, [0.0, 0.0, 0.0]
    for dtype in (np.float32, np.float64):
        for groups, offset_groups, stride, pad, dilation, kernel, batch, order in [(g, o, s, p, d, k, b, c) for g, o in ((1, 1), (2, 1), (1, 3), (2, 4), (3, 2)) for s, p, d in ((1, 1, 1), (2, 0, 1), (1, 2, 2))
                                                                                  for k in ((3, 3), (1, 2)) for b in (2, 0) for c in (0, 1)]:
            a = dict(zip(DEFORM, (stride, 1, pad, pad, dilation, 1, groups, offset_groups)))
            arrays = deform_operands(rng, dtype, batch or 1, 12, 11, 14, 6, kernel, a)
            tensors = [torch.from_numpy(v).requires_grad_() for v in arrays]
            want = torch_deform(*tensors, a)
            g = rng.standard_normal(want.shape).astype(dtype)
            gradients = torch.autograd.grad(want, tensors, torch.from_numpy(g))

            def form(v, i=0):
                v = v if batch or i in (1, 4) else v[0]
                return last(v) if order and i not in (1, 4) else np.ascontiguousarray(v)
            mine = [form(v, i) for i, v in enumerate(arrays)]
            given = a | {"channels_last": order}
            most[0] = max(most[0], worst(Node(library, "deform_conv2d", mine, 1, given, threads)(mine)[0], form(want.detach().numpy())))
            back = [form(g)] + mine[:4]
            for i, (got, wanted) in enumerate(zip(Node(library, "deform_conv2d_backward", back, 5, given, threads)(back), gradients)):
                most[1] = max(most[1], worst(got, form(wanted.numpy(), i)) / max(1, float(wanted.abs().max())))
            if batch and not order:  # ONNX's form
                onnx_form = [mine[i] for i in (0, 1, 2, 4, 3)]
                given = {"strides": [stride, 1], "pads": [pad] * 4, "dilations": [dilation, 1], "group": groups, "offset_group": offset_groups, "kernel_shape": list(kernel)}
                most[2] = max(most[2], worst(Node(library, "DeformConv", onnx_form, 1, given, threads, domain="")(onnx_form)[0], want.detach().numpy()))
            n_calls += 1
    print(f"{'deform_conv2d':14} {n_calls} calls, largest difference {most[0]:.1e}, backward {most[1]:.1e}, DeformConv {most[2]:.1e} {'' if max(most) < BAR else 'DIFFERS'}", flush=True)
    return max(most) < BAR


def bench_deform(library, threads):
    rng, a = np.random.default_rng(1), dict(zip(DEFORM, (1, 1, 1, 1, 1, 1, 1, 1)))
    for channels, size in ((128, 64), (256, 32)):
        arrays = deform_operands(rng, np.float32, 1, channels, size, size, channels, (3, 3), a)
        tensors = [torch.from_numpy(v) for v in arrays]
        wanted = [torch.from_numpy(v).requires_grad_() for v in arrays]
        result = torch_deform(*wanted, a)
        g = torch.randn(result.shape)
        for order in (0, 1):
            mine = [last(v) if order and i not in (1, 4) else v for i, v in enumerate(arrays)]
            back = [last(g.numpy()) if order else g.numpy()] + mine[:4]
            node = Node(library, "deform_conv2d", mine, 1, a | {"channels_last": order}, threads)
            node_back = Node(library, "deform_conv2d_backward", back, 5, a | {"channels_last": order}, threads)
            form = f"{ORDERS[order]} {channels} channels, {size}x{size}"
            row("deform_conv2d", form, "torchvision", lambda: torch_deform(*tensors, a), "Reed", lambda: node(mine), 5)
            bench_halves(library, "deform_conv2d", 1, a | {"channels_last": order}, mine, 5, threads, form)
            row("deform_conv2d_backward", form, "torchvision", lambda: torch.autograd.grad(result, wanted, g, retain_graph=True), "Reed", lambda: node_back(back), 5)
            bench_halves(library, "deform_conv2d_backward", 5, a | {"channels_last": order}, back, 5, threads, form)


# THE table of the operators besides those on regions: check, bench
OTHERS = {"nms": (check_nms, bench_nms), "deform_conv2d": (check_deform, bench_deform)}


def median_ratio(theirs, ours):
    """Milliseconds of both, in turns of four calls: torch's threads still spin for a while after a call, on the cores of the one after it. The first call of a turn is not counted."""
    a, b, end = [], [], time.monotonic() + BENCH["seconds"]
    while len(a) < 3 or time.monotonic() < end:
        for times, run in ((a, theirs), (b, ours)):
            for turn in range(4):
                start = BENCH["clock"]()
                run()
                times += [BENCH["clock"]() - start] if turn else []
    return statistics.median(a) * 1e3, statistics.median(b) * 1e3


def row(op, form, name, theirs, other, ours, bar):
    """Times one pair of calls and prints it."""
    a, b = median_ratio(theirs, ours)
    BENCH["missed" if a / b < bar else "met"] += 1
    print(f"{op:22} {form:30} {name:12} {a:8.2f} ms  {other:9} {b:8.2f} ms  {a / b:6.2f}x{f'  below {bar}' if a / b < bar else ''}", flush=True)


def bench_halves(library, op, n_outputs, given, inputs, floats, threads, form):
    """Times of the same call with the first `floats` inputs in f32, bf16 and f16."""
    calls = []
    for dtype in (np.dtype(np.float32), *HALVES.values()):
        arrays = [v.astype(dtype) if i < floats else v for i, v in enumerate(inputs)]
        calls.append((Node(library, op, arrays, n_outputs, given, threads), arrays))
    wide = calls[0]
    for name, half in zip(HALVES, calls[1:]):
        row(op, form, "Reed f32", lambda: wide[0](wide[1]), f"Reed {name}", lambda: half[0](half[1]), 1)


def bench_regions(library, op, threads):
    call, is_ps = REGIONS[op]
    rng = np.random.default_rng(1)
    n, height, width, scale = 1000, 200, 272, 0.25
    channels, bins = (10 * 49, 7) if is_ps else (256, 7)
    if is_ps:
        height, width, scale = 50, 68, 1 / 16
    x = rng.standard_normal((1, channels, height, width)).astype(np.float32)
    centre, size = rng.uniform(0, 1, (n, 2)) * [width, height] / scale, rng.uniform(16, 300, (n, 2))
    rois = np.concatenate([np.zeros((n, 1)), np.clip(np.concatenate([centre - size / 2, centre + size / 2], 1), 0, width / scale)], 1).astype(np.float32)
    a = {"pooled_height": bins, "pooled_width": bins, "spatial_scale": scale, "sampling_ratio": 2, "aligned": 0}
    given = {k: a[k] for k in ("pooled_height", "pooled_width", "spatial_scale") + ATTRIBUTES.get(op, ())}
    tx, tr = torch.from_numpy(x), torch.from_numpy(rois)
    result = call(tx, tr, a)
    for order in (0, 1):
        form = last if order else lambda v: v
        inputs = [form(x), rois]
        node = Node(library, op, inputs, 1, given | {"channels_last": order}, threads)
        row(op, ORDERS[order], "torchvision", lambda: call(tx, tr, a), "Reed", lambda: node(inputs), BARS.get(op, 5))
        bench_halves(library, op, 1, given | {"channels_last": order}, inputs, 2, threads, ORDERS[order])
    gx = torch.from_numpy(x).requires_grad_()
    result = call(gx, tr, a)
    result, argmax = result if op == "roi_pool" else (result, None)
    g = torch.randn(result.shape)
    for order in (0, 1):
        form = last if order else lambda v: v
        inputs = [form(g.numpy()), rois] + ([form(argmax.numpy())] if argmax is not None else []) + [np.array(form(x).shape, np.int64)]
        node = Node(library, op + "_backward", inputs, 1, given | {"channels_last": order}, threads)
        row(op + "_backward", ORDERS[order], "torchvision", lambda: torch.autograd.grad(result, gx, g, retain_graph=True), "Reed", lambda: node(inputs), 5)
        bench_halves(library, op + "_backward", 1, given | {"channels_last": order}, inputs, 2, threads, ORDERS[order])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--only", default=",".join([*REGIONS, *OTHERS]))
    parser.add_argument("--seconds", type=float, default=BENCH["seconds"])
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    BENCH["seconds"] = arguments.seconds
    BENCH["clock"] = time.process_time if arguments.cpu else time.perf_counter
    torch.set_num_threads(arguments.threads)
    library = reed.Library(arguments.build)
    ops = arguments.only.split(",")
    if arguments.bench:
        for op in ops:
            OTHERS[op][1](library, arguments.threads) if op in OTHERS else bench_regions(library, op, arguments.threads)
        print(f"{BENCH['met']} rows meet their bar, {BENCH['missed']} do not; load {os.getloadavg()[0]:.0f}")
        return
    sys.exit(not all([OTHERS[op][0](library, arguments.threads) if op in OTHERS else check_regions(library, op, arguments.threads) for op in ops]))


if __name__ == "__main__":
    main()
