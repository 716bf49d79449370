#!/usr/bin/env python3
"""Random dynamic graphs against an oracle.

Each seed makes an ONNX graph of 4 to 22 operators whose input extents are symbolic, evaluates it while it grows at several sizes (so that every operator is
valid at all of them), compiles it once and runs one session over the sizes in alternation, on host and sim, comparing with onnxruntime (or, where that one
fails, with the ONNX reference evaluator).

    random_graphs.py --build build --seeds 0:200 [--device host,sim] [--graphs on|off] [--keep FOLDER]

With --placements N every graph is compiled for N random placements (accelerators that lack operators, counts that stay on the device, late and shuffled work),
whose results must be the host's bits.

With --same-bits PASS the oracle is the model compiled without that pass of the compiler, whose results must be the same to the bit (models with halves
are left out: in a chain they are rounded less often).

With --threads LIST sessions of so many threads must give the bits of a session of one thread.
"""
import argparse
import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes

sys.path.insert(0, os.path.dirname(__file__))
import reed  # noqa: E402
from graph import N_SIZES, Graph, Skip, open_onnxruntime  # noqa: E402
from operators import OPERATORS  # noqa: E402


def generate(seed):
    g = Graph(seed)
    wanted = int(g.r.integers(4, 23))
    weights = np.array([w for _, w in OPERATORS])
    tries = 0
    while len(g.nodes) < wanted and tries < 150:
        tries += 1
        f = OPERATORS[g.r.choice(len(OPERATORS), p=weights / weights.sum())][0]
        try:
            f(g)
        except Skip:
            pass
    model, outputs = g.model()
    return g, model, outputs


def oracle(model, feeds, expected):
    try:
        session = open_onnxruntime(model)
        return [session.run(None, f) for f in feeds], "onnxruntime"
    except Exception:
        return expected, "reference"


def differs(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.dtype.kind == "f":
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))  # sums of large terms may end small
        loose = 10 if got.dtype == np.float16 else 1
        bad = ~np.isclose(got, want, rtol=loose * 2e-3, atol=loose * 2e-4 * scale, equal_nan=True)
    else:
        bad = got != want
    if not bad.any():
        return None
    at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.ndim else ()
    return f"{int(bad.sum())} of {bad.size} elements, first at {tuple(int(i) for i in at)}: {got[at]} instead of {want[at]}"


def agrees(got, v, k, model, feeds):
    """Whether `got` agrees with the oracle that made the graph or with the reference evaluator."""
    if not differs(got, v.arrays[k]):
        return True
    try:
        return not differs(got, np.asarray(ReferenceEvaluator(with_output(model, v)).run(None, feeds[k])[0]))
    except Exception:
        return False


def with_output(model, v):
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    kept = [o for o in copy.graph.output if o.name == v.name]
    del copy.graph.output[:]
    copy.graph.output.extend(kept)
    return copy


GRAPHS = {None: 0, "on": 1, "off": 2}  # reed_graphs of reed.h


def module_for(library, text, device, seed):
    """host and sim take the module that is compiled without a target. Other devices may lack operators, so a module for one of them is compiled for it; every
    other of these leaves its counts on the device."""
    if device.partition("?")[0] in ("host", "sim"):
        return library.compile(text)
    return library.compile(text, target=device, counts="device" if seed % 2 else "host")


def run_seed(library, seed, devices, graphs, keep):
    g, model, outputs = generate(seed)
    if not outputs:
        return "empty", ""
    feeds = [{v.name: v.arrays[k] for v, _ in g.inputs} for k in range(N_SIZES)]
    wanted, source = oracle(model, feeds, [[v.arrays[k] for v in outputs] for k in range(N_SIZES)])
    if keep:
        os.makedirs(keep, exist_ok=True)
        onnx.save(model, os.path.join(keep, f"seed{seed}.onnx"))
    try:
        modules = {device: module_for(library, model.SerializeToString(), device, seed) for device in devices}
    except reed.Error as e:
        return ("unsupported" if e.status == -5 else "failed"), f"compile: {e}"
    for device, module in modules.items():
        session = None
        try:
            session = reed.Session(library, module, device, graphs=graphs)
            for k in [0, 1, 0, 2, 1, 0, 2]:
                got = session.run([v.arrays[k] for v, _ in g.inputs])
                for v, a, b in zip(outputs, got, wanted[k]):
                    why = differs(a, np.asarray(b))
                    if why and agrees(a, v, k, model, feeds):
                        why = None  # the oracles disagree (ties, rounding, what ONNX leaves open): either is right
                    if why:
                        return "failed", f"{device}, sizes {g.sizes[k]}, output {v.name} against {source}: {why}"
        except reed.Error as e:
            return "failed", f"{device}: {e}"
        finally:
            if session:
                session.close()
    return "passed", source


def run_same_bits(library, seed, disabled):
    g, model, outputs = generate(seed)
    halves = any(t.elem_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for t in (v.type.tensor_type for v in infer_shapes(model).graph.value_info))
    if not outputs or halves:
        return "empty", ""
    try:
        modules = [library.compile(model.SerializeToString(), without) for without in ((), (disabled,))]
    except reed.Error as e:
        return ("unsupported" if e.status == -5 else "failed"), f"compile: {e}"
    sessions = [reed.Session(library, module, "host") for module in modules]
    try:
        for k in range(N_SIZES):
            results = [s.run([v.arrays[k] for v, _ in g.inputs]) for s in sessions]
            for v, a, b in zip(outputs, *results):
                if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                    return "failed", f"sizes {g.sizes[k]}, output {v.name} is not the same without {disabled}"
    finally:
        for s in sessions:
            s.close()
    return "passed", disabled


def run_threads(library, seed, counts):
    g, model, outputs = generate(seed)
    if not outputs:
        return "empty", ""
    sessions = []
    try:
        module = library.compile(model.SerializeToString())
        sessions = [reed.Session(library, module, "host", n_threads=n) for n in [1, *counts]]
        for k in [0, 1, 0, 2]:
            wanted, *results = [[a.copy() for a in s.run([v.arrays[k] for v, _ in g.inputs])] for s in sessions]
            for n, got in zip(counts, results):
                for v, a, b in zip(outputs, got, wanted):
                    if a.tobytes() != b.tobytes():
                        return "failed", f"sizes {g.sizes[k]}, output {v.name}: other bits with {n} threads"
    except reed.Error as e:
        return ("unsupported" if e.status == -5 else "failed"), str(e)
    finally:
        for s in sessions:
            s.close()
    return "passed", ""


def placements(seed, n, operators):
    """n ways to place a model: (target, device, where counts are). Accelerators lack random operators, or dtypes; their work runs late, in
    another order than it was enqueued, over poisoned memory."""
    r = np.random.default_rng([seed, 1])
    for _ in range(n):
        target, share = None, r.choice([0, 0, .03, .15, .5, 1])
        if share:
            lacks = ["*"] if share == 1 else [name for name in operators if r.random() < share]
            lacks += [f"*.{d}" for d in ("f32", "f64", "f16", "i64", "i32", "bool") if r.random() < .06]
            target = "sim?lacks=" + "+".join(lacks or ["Conv"])
        order = str(r.choice(["", "late=1", "poison=1", f"seed={r.integers(1, 1000)}&poison=1", f"late=1&seed={r.integers(1, 1000)}"]))
        device = target or "sim"
        if order:
            device += ("&" if "?" in device else "?") + order
        yield target, str(r.choice([device, device, device, "host"])), ("host", "device")[r.integers(2)]


def run_placements(library, seed, n, operators, keep):
    g, model, outputs = generate(seed)
    if not outputs:
        return "empty", ""
    if keep:
        os.makedirs(keep, exist_ok=True)
        onnx.save(model, os.path.join(keep, f"seed{seed}.onnx"))
    text, place = model.SerializeToString(), "host"
    sessions = []
    try:
        sessions.append(reed.Session(library, library.compile(text), "host"))
        wanted = [[a.copy() for a in sessions[0].run([v.arrays[k] for v, _ in g.inputs])] for k in range(N_SIZES)]
        for target, device, counts in placements(seed, n, operators):
            place = f"--target '{target or 'host,sim'}' --device '{device}' --counts {counts}"
            sessions.append(reed.Session(library, library.compile(text, target=target, counts=counts), device))
            for k in [0, 1, 0, 2, 1, 2]:
                got = sessions[-1].run([v.arrays[k] for v, _ in g.inputs])
                for v, a, b in zip(outputs, got, wanted[k]):
                    if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                        return "failed", f"{place}, sizes {g.sizes[k]}, output {v.name}: other bits than on the host ({a.shape} and {b.shape})"
    except reed.Error as e:
        return "failed", f"{place}: {e}"
    finally:
        for s in sessions:
            s.close()
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", default="0:100", help="one seed, or FIRST:END")
    parser.add_argument("--device", default="host,sim")
    parser.add_argument("--graphs", choices=("on", "off"), help="launches of an accelerator recorded and replayed")
    parser.add_argument("--keep", help="folder for the models")
    parser.add_argument("--same-bits", metavar="PASS", help="compare with the model compiled without that pass, bit for bit")
    parser.add_argument("--placements", type=int, default=0, metavar="N", help="compare the bits of N random placements with the host's, instead of an oracle")
    parser.add_argument("--threads", metavar="LIST", help="compare the bits of sessions of so many threads with those of one thread: 2,3,7")
    arguments = parser.parse_args()
    first, _, end = arguments.seeds.partition(":")
    seeds = range(int(first), int(end)) if end else [int(first)]
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    library = reed.Library(arguments.build)
    operators = [o["name"] for o in json.loads(library.text(library.reed.reed_operators_json, None))["operators"] if o["name"] not in ("If", "Loop", "Scan")]
    counts = {}
    for seed in seeds:
        if arguments.placements:
            result, detail = run_placements(library, seed, arguments.placements, operators, arguments.keep)
        elif arguments.threads:
            result, detail = run_threads(library, seed, [int(n) for n in arguments.threads.split(",")])
        elif arguments.same_bits:
            result, detail = run_same_bits(library, seed, arguments.same_bits)
        else:
            result, detail = run_seed(library, seed, arguments.device.split(","), GRAPHS[arguments.graphs], arguments.keep)
        counts[result] = counts.get(result, 0) + 1
        if result in ("failed", "unsupported"):
            print(f"seed {seed}: {result}: {detail}", flush=True)
    print(f"random graphs: {counts}")
    print(f"{counts.get('passed', 0)} passed, {counts.get('failed', 0) + counts.get('unsupported', 0)} failed, {counts.get('empty', 0)} skipped")
    return 1 if counts.get("failed") or counts.get("unsupported") else 0


if __name__ == "__main__":
    sys.exit(main())
