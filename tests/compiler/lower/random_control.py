#!/usr/bin/env python3
"""Random control flow against onnxruntime: If and Loop nested three deep around operators whose extents depend on data.

Every value is a float vector of any length or an int64 or bool scalar, and every operator takes any of them, so that every generated model is valid for
any values at run time. One session a device runs each model on several inputs, twice each (a miss and a hit).

    random_control.py --build build --seeds 0:200 [--device host,sim] [--keep FOLDER]
"""
import argparse
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "random"))
import reed  # noqa: E402

TYPES = {"v": (T.FLOAT, [None]), "i": (T.INT64, []), "b": (T.BOOL, [])}


class Model:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.inits, self.count = {}, 0

    def name(self, hint):
        self.count += 1
        return f"{hint}{self.count}"

    def const(self, array):
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.inits:
            self.inits[key] = onnx.numpy_helper.from_array(array, self.name("c"))
        return self.inits[key].name


class Scope:
    """A graph being made; it sees the values of the scopes around it."""

    def __init__(self, model, outer=None, depth=0):
        self.m, self.depth, self.nodes = model, depth, []
        self.values = {k: list(outer.values[k]) if outer else [] for k in TYPES}

    def add(self, op, inputs, kind=None, **attributes):
        out = self.m.name(op.lower())
        self.nodes.append(h.make_node(op, inputs, [out], name=self.m.name(f"n_{op}_"), **attributes))
        if kind:
            self.values[kind].append(out)
        return out

    def pick(self, kind):
        if self.values[kind] and self.m.r.random() < 0.85:
            recent = self.values[kind][-6:]
            return recent[self.m.r.integers(len(recent))]
        r = self.m.r
        if kind == "v":
            return self.m.const(r.integers(-3, 4, size=r.integers(0, 4)).astype(np.float32))
        return self.m.const(np.int64(r.integers(0, 4)) if kind == "i" else np.bool_(r.integers(2)))

    # ---- operators that take anything ----
    def first(self, v):
        """A vector of one element: the first of the given vector, or 0."""
        padded = self.add("Concat", [v, self.m.const(np.zeros(1, np.float32))], axis=0)
        return self.add("Slice", [padded, self.m.const(np.array([0])), self.m.const(np.array([1]))])

    def small(self, i):
        return self.add("Mod", [i, self.m.const(np.int64(5))])

    def vector(self, i):
        return self.add("Unsqueeze", [i, self.m.const(np.array([0]))])

    def unary(self):
        self.add(self.m.r.choice(["Relu", "Neg", "Abs", "Identity"]), [self.pick("v")], "v")

    def scaled(self):
        self.add(self.m.r.choice(["Add", "Mul", "Sub"]), [self.pick("v"), self.first(self.pick("v"))], "v")

    def joined(self):
        both = self.add("Concat", [self.pick("v"), self.pick("v")], axis=0)
        self.add("Slice", [both, self.m.const(np.array([0])), self.m.const(np.array([9]))], "v")

    def nonzero(self):
        v = self.pick("v")
        where = self.add("Squeeze", [self.add("NonZero", [v]), self.m.const(np.array([0]))])
        self.add("Gather", [v, where], "v")

    def compressed(self):
        v = self.pick("v")
        self.add("Compress", [v, self.add("Greater", [v, self.m.const(np.float32(0))])], "v", axis=0)

    def head(self):
        self.add("Slice", [self.pick("v"), self.m.const(np.array([0])), self.vector(self.small(self.pick("i")))], "v")

    def tail(self):
        self.add("Slice", [self.pick("v"), self.vector(self.small(self.pick("i"))), self.m.const(np.array([1000]))], "v")

    def ramp(self):
        n = self.small(self.pick("i"))
        self.add("Cast", [self.add("Range", [self.m.const(np.int64(0)), n, self.m.const(np.int64(1))])], "v", to=T.FLOAT)

    def extent(self):
        shape = self.add("Shape", [self.pick("v")])
        self.add("Squeeze", [shape, self.m.const(np.array([0]))], "i")

    def total(self):
        clipped = self.add("Clip", [self.pick("v"), self.m.const(np.float32(-2)), self.m.const(np.float32(2))])
        total = self.add("ReduceSum", [clipped], keepdims=0)
        self.add("Abs", [self.add("Cast", [total], to=T.INT64)], "i")

    def arithmetic(self):
        self.add(self.m.r.choice(["Add", "Mul", "Max", "Min"]), [self.small(self.pick("i")), self.small(self.pick("i"))], "i")

    def as_data(self):
        self.add("Add", [self.pick("v"), self.add("Cast", [self.vector(self.small(self.pick("i")))], to=T.FLOAT)], "v")

    def compared(self):
        self.add(self.m.r.choice(["Less", "Equal", "Greater"]), [self.small(self.pick("i")), self.pick("i")], "b")

    def logic(self):
        self.add("Not", [self.pick("b")], "b") if self.m.r.random() < 0.5 else self.add("And", [self.pick("b"), self.pick("b")], "b")

    # ---- control flow ----
    def graph(self, name, inputs, outputs):
        kinds = [h.make_tensor_value_info(n, *TYPES[k]) for n, k in outputs]
        return h.make_graph(self.nodes, name, [h.make_tensor_value_info(n, *TYPES[k]) for n, k in inputs], kinds)

    def results(self, kinds, own):
        """One result a kind; subgraph results must be made inside, so outer ones pass through an Identity."""
        out = []
        for k in kinds:
            v = self.pick(k)
            out.append((v if v in own and v not in [o for o, _ in out] else self.add("Identity", [v]), k))
        return out

    def fill(self, n):
        menu = [self.unary, self.scaled, self.joined, self.nonzero, self.compressed, self.head, self.tail, self.ramp, self.extent, self.total,
                self.arithmetic, self.as_data, self.compared, self.logic] + [self.branch, self.loop] * (2 if self.depth < 3 else 0)
        for _ in range(n):
            menu[self.m.r.integers(len(menu))]()

    def branch(self):
        if self.depth >= 3:
            return
        r = self.m.r
        kinds = [str(k) for k in r.choice(list("vvib"), size=r.integers(1, 4))]
        graphs = []
        for name in ("then_branch", "else_branch"):
            side = Scope(self.m, self, self.depth + 1)
            before = {k: set(v) for k, v in side.values.items()}
            side.fill(r.integers(0, 4))
            own = {x for k in TYPES for x in side.values[k] if x not in before[k]}
            graphs.append(side.graph(self.m.name(name), [], side.results(kinds, own)))
        outs = [self.m.name("if") for _ in kinds]
        self.nodes.append(h.make_node("If", [self.pick("b")], outs, name=self.m.name("n_If_"), then_branch=graphs[0], else_branch=graphs[1]))
        for o, k in zip(outs, kinds):
            self.values[k].append(o)

    def loop(self):
        if self.depth >= 3:
            return
        r = self.m.r
        carried = [str(k) for k in r.choice(list("vvi"), size=r.integers(0, 4))]
        scans = ["i"] * int(r.integers(0, 2))
        body = Scope(self.m, self, self.depth + 1)
        inputs = [(self.m.name("it"), "i"), (self.m.name("go"), "b")] + [(self.m.name("c"), k) for k in carried]
        for n, k in inputs:
            body.values[k].append(n)
        before = {k: set(v) for k, v in body.values.items()}
        body.fill(r.integers(1, 5))
        own = {x for k in TYPES for x in body.values[k] if x not in before[k]}
        go = inputs[1][0] if r.random() < 0.5 else None
        outputs = body.results(["b"], own) if not go else [(body.add("Identity", [go]), "b")]
        outputs += body.results(carried + scans, own - {outputs[0][0]})
        if len({o for o, _ in outputs}) != len(outputs):
            outputs = [(body.add("Identity", [o]), k) for o, k in outputs]
        trip = self.m.const(np.int64(r.integers(0, 4))) if r.random() < 0.4 else self.add("Mod", [self.pick("i"), self.m.const(np.int64(3))])
        condition = "" if r.random() < 0.3 else self.m.const(np.bool_(True)) if r.random() < 0.6 else self.pick("b")
        outs = [self.m.name("loop") for _ in carried + scans]
        if not outs:
            return
        node = h.make_node("Loop", [trip, condition] + [self.pick(k) for k in carried], outs, name=self.m.name("n_Loop_"),
                           body=body.graph(self.m.name("body"), inputs, outputs))
        self.nodes.append(node)
        for o, k in zip(outs, carried):
            self.values[k].append(o)
        self.scans = getattr(self, "scans", []) + outs[len(carried):]


def generate(seed):
    m = Model(seed)
    main = Scope(m)
    inputs = [("x", "v"), ("y", "v"), ("n", "i"), ("flag", "b")]
    for n, k in inputs:
        main.values[k].append(n)
    main.fill(m.r.integers(3, 30))
    outputs = []
    for k in TYPES:
        chosen = main.values[k][-3:]
        outputs += [(v, k) for v in chosen]
    graph = main.graph("control", inputs, outputs)
    graph.output.extend([h.make_tensor_value_info(s, T.INT64, [None]) for s in getattr(main, "scans", [])])
    graph.initializer.extend(m.inits.values())
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    r = np.random.default_rng(seed + 1000000)
    feeds = [[r.integers(-3, 4, size=r.integers(0, 6)).astype(np.float32), r.integers(-3, 4, size=r.integers(0, 6)).astype(np.float32),
              np.array(r.integers(0, 6)), np.array(bool(r.integers(2)))] for _ in range(4)]
    return model, feeds


def same(got, want):
    return got.shape == want.shape and got.dtype == want.dtype and np.allclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


def run_seed(library, seed, devices, keep):
    model, feeds = generate(seed)
    data = model.SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        oracle = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        wanted = [oracle.run(None, dict(zip(["x", "y", "n", "flag"], f))) for f in feeds]
    except Exception as e:  # noqa: BLE001
        return f"skipped: {str(e)[:100]}"
    if keep:
        open(os.path.join(keep, f"control{seed}.onnx"), "wb").write(data)
    try:
        for disabled in ((), ("fold", "simplify", "cse")):
            module = library.compile(data, disabled)
            for device in devices:
                session = reed.Session(library, module, device, n_threads=1)
                for k in [0, 1, 2, 3, 0, 1, 3, 2]:
                    for i, (got, want) in enumerate(zip(session.run(feeds[k]), wanted[k])):
                        if not same(np.asarray(got), np.asarray(want)):
                            return f"failed: {device}, without {disabled}, feed {k}, output {model.graph.output[i].name}: {got!r:.200} instead of {want!r:.200}"
                if hasattr(session, "close"):
                    session.close()
    except reed.Error as e:
        return f"failed: {e}"
    return "passed"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--seeds", default="0:100")
    p.add_argument("--device", default="host,sim")
    p.add_argument("--keep")
    a = p.parse_args()
    library = reed.Library(a.build)
    first, last = (int(x) for x in a.seeds.split(":"))
    counts = {}
    for seed in range(first, last):
        result = run_seed(library, seed, a.device.split(","), a.keep)
        word = result.split(":")[0]
        counts[word] = counts.get(word, 0) + 1
        if word == "failed":
            print(f"seed {seed}: {result}", flush=True)
    print(f"random control flow: {counts}")
    return 1 if counts.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
