#!/usr/bin/env python3
"""Random dynamic graphs against an oracle.

Each seed makes an ONNX graph of 4 to 22 operators whose input extents are symbolic, evaluates it while it grows at several sizes (so that every operator is
valid at all of them), compiles it once and runs one session over the sizes in alternation, on host and sim, comparing with onnxruntime (or, where that one
fails, with the ONNX reference evaluator).

    random_graphs.py --build build --seeds 0:200 [--device host,sim] [--keep FOLDER]
"""
import argparse
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.dirname(__file__))
import reed  # noqa: E402

OPSET = 18
N_SIZES = 3
ONNX_TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int64): T.INT64, np.dtype(np.bool_): T.BOOL, np.dtype(np.int32): T.INT32,
              np.dtype(np.float64): T.DOUBLE}


class Skip(Exception):
    pass


def evaluator_of(model, op):
    """The reference evaluator, but onnxruntime for Loop: the former loses growth of a carried value."""
    if op != "Loop":
        return ReferenceEvaluator(model)
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        model.ir_version = 8
        for o in model.graph.output:
            o.type.tensor_type.elem_type = T.FLOAT
        return ort.InferenceSession(model.SerializeToString(), options)
    except Exception as e:
        raise Skip(str(e)) from e


class Value:
    """A graph value and its arrays at every size."""

    def __init__(self, name, arrays):
        self.name, self.arrays = name, arrays
        self.dtype = arrays[0].dtype
        self.uses = 0

    @property
    def rank(self):
        return self.arrays[0].ndim

    def shapes(self):
        return [a.shape for a in self.arrays]


class Graph:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.values, self.inits, self.inputs = [], [], [], []
        self.count = 0
        n_symbols = self.r.integers(1, 4)
        self.sizes = [[int(self.r.choice([0, 1, 2, 3, 4, 5, 7, 8, 12], p=[.04, .08, .13, .15, .15, .15, .1, .1, .1])) for _ in range(n_symbols)] for _ in range(N_SIZES)]
        for i in range(self.r.integers(1, 4)):
            self.add_input(i)

    # ---- building ----
    def name(self, hint="v"):
        self.count += 1
        return f"{hint}{self.count}"

    def add_input(self, i):
        r = self.r
        rank = int(r.choice([1, 2, 3, 4], p=[.2, .3, .25, .25]))
        symbolic = [r.random() < .7 for _ in range(rank)]
        symbols = [int(r.integers(len(self.sizes[0]))) for _ in range(rank)]
        fixed = [int(r.choice([1, 2, 3, 4, 6])) for _ in range(rank)]
        kind = r.choice(["f", "i"], p=[.85, .15])
        arrays = []
        for size in self.sizes:
            shape = [size[symbols[d]] if symbolic[d] else fixed[d] for d in range(rank)]
            a = r.standard_normal(shape).astype(np.float32) if kind == "f" else r.integers(-5, 6, shape).astype(np.int64)
            arrays.append(a)
        dims = [f"s{symbols[d]}" if symbolic[d] else fixed[d] for d in range(rank)]
        v = Value(f"in{i}", arrays)
        self.inputs.append((v, h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], dims)))
        self.values.append(v)

    def const(self, array, hint="c"):
        array = np.asarray(array)
        name = self.name(hint)
        self.inits.append(onnx.numpy_helper.from_array(array, name))
        return Value(name, [array] * N_SIZES)

    def node(self, op, inputs, n_out=1, **attributes):
        """Adds the node after evaluating it at every size."""
        outputs = [self.name() for _ in range(n_out)]
        node = h.make_node(op, [v.name if v else "" for v in inputs], outputs, name=self.name(op.lower()), **attributes)
        return self.finish(node, [v for v in inputs if v])

    def finish(self, node, inputs):
        captured = {v.name: v for v in inputs}
        results = [[] for _ in node.output]
        infos = [h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], [None] * v.rank) for v in captured.values()]
        graph = h.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in node.output])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", OPSET)])
        evaluator = evaluator_of(model, node.op_type)
        for k in range(N_SIZES):
            try:
                got = evaluator.run(None, {v.name: v.arrays[k] for v in captured.values()})
            except Exception as e:  # not valid at this size: choose something else
                raise Skip(str(e)) from e
            for slot, a in zip(results, got):
                a = np.asarray(a)
                if a.dtype not in ONNX_TYPES or a.size > 200000 or a.ndim > 6:
                    raise Skip("size")
                if a.dtype.kind == "f" and a.size and not (np.isfinite(a).all() and np.abs(a).max() < 1e4):
                    raise Skip("large")
                slot.append(a)
        for slot in results:
            if len({a.dtype for a in slot}) > 1:
                raise Skip("dtype")
        self.nodes.append(node)
        for v in inputs:
            v.uses += 1
        made = [Value(o, slot) for o, slot in zip(node.output, results)]
        self.values += made
        return made[0] if len(made) == 1 else made

    # ---- choosing ----
    def pick(self, dtype=np.float32, rank=None, where=None, nonempty=False):
        fits = [v for v in self.values if (dtype is None or v.dtype == dtype) and (rank is None or v.rank in rank) and (where is None or where(v)) and
                (not nonempty or all(a.size for a in v.arrays))]
        if not fits:
            raise Skip("nothing fits")
        weights = np.array([2.0 if v.uses == 0 else 1.0 for v in fits]) * np.linspace(1, 2, len(fits))
        return fits[self.r.choice(len(fits), p=weights / weights.sum())]

    def axis(self, v):
        if v.rank == 0:
            raise Skip("scalar")
        a = int(self.r.integers(v.rank))
        return a - v.rank if self.r.random() < .3 else a

    def extent(self, v, axis):
        """The extent as an int64 vector of one element, computed in the graph."""
        shape = self.node("Shape", [v])
        return self.node("Gather", [shape, self.const(np.array([axis % v.rank]))], axis=0)

    def model(self):
        used = {i for n in self.nodes for i in n.input}
        for n in self.nodes:
            for a in n.attribute:
                if a.HasField("g"):
                    used |= {i for m in a.g.node for i in m.input}
        outputs = [v for v in self.values if v.name not in used and not v.name.startswith("in")]
        infos = [h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], [None] * v.rank if len({a.ndim for a in v.arrays}) == 1 else None) for v in outputs]
        graph = h.make_graph(self.nodes, "random", [i for _, i in self.inputs], infos, self.inits)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", OPSET)], ir_version=8), outputs


# ---- operators: each function adds one or a few nodes ----
OPERATORS = []


def operator(weight=1.0):
    def add(f):
        OPERATORS.append((f, weight))
        return f
    return add


@operator(4)
def unary(g):
    op = g.r.choice(["Abs", "Ceil", "Exp", "Floor", "HardSwish", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Softplus", "Tanh", "Elu", "HardSigmoid", "LeakyRelu",
                     "Erf", "Identity"])
    g.node(op, [g.pick()])


@operator()
def guarded_unary(g):
    a = g.node("Abs", [g.pick()])
    a = g.node("Add", [a, g.const(np.float32(0.5))])
    g.node(g.r.choice(["Sqrt", "Log", "Reciprocal"]), [a])


def broadcastable(a, b):
    try:
        for x, y in zip(a.arrays, b.arrays):
            np.broadcast_shapes(x.shape, y.shape)
        return True
    except ValueError:
        return False


def pair(g, dtype):
    a = g.pick(dtype)
    if g.r.random() < .25:
        shape = [int(g.r.choice([1, a.arrays[0].shape[-1]])) if a.rank and len({x.shape[-1] for x in a.arrays}) == 1 else 1]
        return a, g.const(g.r.standard_normal(shape).astype(dtype) if dtype == np.float32 else g.r.integers(1, 5, shape).astype(dtype))
    return a, g.pick(dtype, where=lambda v: broadcastable(a, v))


@operator(4)
def binary(g):
    dtype = np.float32 if g.r.random() < .8 else np.int64
    a, b = pair(g, dtype)
    if g.r.random() < .5:
        a, b = b, a
    g.node(g.r.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"] if dtype == np.float32 else ["Add", "Sub", "Mul", "Max", "Min"]), [a, b])


@operator()
def divide(g):
    a, b = pair(g, np.float32)
    b = g.node("Add", [g.node("Abs", [b]), g.const(np.float32(1))])
    g.node(g.r.choice(["Div", "Pow"]) if all((x >= 0).all() for x in a.arrays) else "Div", [a, b])


@operator()
def compare(g):
    a, b = pair(g, np.float32 if g.r.random() < .7 else np.int64)
    c = g.node(g.r.choice(["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"]), [a, b])
    if g.r.random() < .5 and c.dtype == np.bool_:
        if broadcastable(a, c):
            g.node("Where", [c, a, b])


@operator()
def logic(g):
    a = g.pick(np.bool_)
    if g.r.random() < .3:
        g.node("Not", [a])
    else:
        g.node(g.r.choice(["And", "Or", "Xor"]), [a, g.pick(np.bool_, where=lambda v: broadcastable(a, v))])


@operator()
def cast(g):
    v = g.pick(None)
    g.node("Cast", [v], to=int(g.r.choice([T.FLOAT, T.INT64, T.BOOL, T.INT32])))


@operator()
def clip(g):
    low = g.const(np.float32(-1)) if g.r.random() < .7 else None
    high = g.const(np.float32(1.5)) if g.r.random() < .7 else None
    g.node("Clip", [g.pick(), low, high])


@operator()
def prelu(g):
    v = g.pick(rank=(2, 3, 4))
    g.node("PRelu", [v, g.const(g.r.random(1).astype(np.float32))])


@operator(2)
def transpose(g):
    v = g.pick(None, rank=(2, 3, 4, 5))
    g.node("Transpose", [v], perm=[int(p) for p in g.r.permutation(v.rank)])


@operator(2)
def reshape(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    if g.r.random() < .5:
        g.node("Reshape", [v, g.const(np.array([0] * int(g.r.integers(0, v.rank)) + [-1]))])
    else:  # merge two axes by shape arithmetic
        shape = g.node("Shape", [v])
        k = int(g.r.integers(0, v.rank))
        first = g.node("Slice", [shape, g.const(np.array([0])), g.const(np.array([k]))])
        rest = g.node("ReduceProd", [g.node("Slice", [shape, g.const(np.array([k])), g.const(np.array([2**63 - 1]))])], keepdims=1)
        g.node("Reshape", [v, g.node("Concat", [first, rest], axis=0)], allowzero=1)


@operator()
def flatten(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    g.node("Flatten", [v], axis=int(g.r.integers(0, v.rank + 1)))


@operator()
def squeeze(g):
    v = g.pick(None, rank=(0, 1, 2, 3))
    axis = int(g.r.integers(0, v.rank + 1))
    u = g.node("Unsqueeze", [v, g.const(np.array([axis]))])
    if g.r.random() < .4:
        w = g.node("Relu", [u]) if u.dtype == np.float32 else u
        g.node("Squeeze", [w, g.const(np.array([axis]))])


@operator()
def squeeze_all(g):
    v = g.pick(None, where=lambda v: len({tuple(d == 1 for d in s) for s in v.shapes()}) == 1 and any(d == 1 for d in v.shapes()[0]))
    g.node("Squeeze", [v])


@operator(2)
def concat(g):
    a = g.pick(None, rank=(1, 2, 3, 4))
    axis = int(g.r.integers(a.rank))

    def fits(v):
        return v.dtype == a.dtype and v.rank == a.rank and all(s[:axis] + s[axis + 1:] == t[:axis] + t[axis + 1:] for s, t in zip(v.shapes(), a.shapes()))
    others = [g.pick(None, where=fits) for _ in range(int(g.r.integers(1, 3)))]
    g.node("Concat", [a] + others, axis=axis)


@operator(2)
def slice_(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    if g.r.random() < .5:
        start, end, step = int(g.r.integers(-4, 4)), int(g.r.choice([-1, 1, 3, 2**63 - 1, 100])), int(g.r.choice([1, 1, 2, 3]))
        if g.r.random() < .25:
            start, end, step = 2**31, -2**31, -int(g.r.integers(1, 3))
        g.node("Slice", [v, g.const(np.array([start])), g.const(np.array([end])), g.const(np.array([axis])), g.const(np.array([step]))])
    else:
        n = g.extent(v, axis)
        half = g.node("Div", [n, g.const(np.array([2]))])
        if g.r.random() < .5:
            g.node("Slice", [v, g.const(np.array([0])), half, g.const(np.array([axis]))])
        else:
            g.node("Slice", [v, half, n, g.const(np.array([axis]))])


@operator()
def split(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    if len({s[axis] for s in v.shapes()}) == 1 and v.shapes()[0][axis] >= 2:
        n = v.shapes()[0][axis]
        k = int(g.r.integers(1, n))
        g.node("Split", [v, g.const(np.array([k, n - k]))], n_out=2, axis=axis)
    elif all(s[axis] >= 2 for s in v.shapes()):
        n = g.extent(v, axis)
        half = g.node("Div", [n, g.const(np.array([2]))])
        g.node("Split", [v, g.node("Concat", [half, g.node("Sub", [n, half])], axis=0)], n_out=2, axis=axis)
    else:
        raise Skip("extent")


@operator()
def pad(g):
    v = g.pick(np.float32, rank=(1, 2, 3, 4))
    pads = g.r.integers(0, 3, 2 * v.rank)
    mode = str(g.r.choice(["constant", "constant", "edge", "reflect"]))
    if mode == "constant":
        g.node("Pad", [v, g.const(pads), g.const(np.float32(g.r.choice([0, 1.5])))], mode=mode)
    else:
        if not all(min(s) > 2 for s in v.shapes()):
            raise Skip("small")
        g.node("Pad", [v, g.const(pads)], mode=mode)


@operator()
def tile(g):
    v = g.pick(None, rank=(1, 2, 3))
    g.node("Tile", [v, g.const(g.r.integers(1, 3, v.rank))])


@operator(1.5)
def expand(g):
    v = g.pick(None)
    if g.r.random() < .5:
        w = g.pick(None, where=lambda w: broadcastable(v, w))
        g.node("Expand", [v, g.node("Shape", [w])])
    else:
        g.node("Expand", [v, g.const(np.array([int(g.r.integers(1, 4))] + [1] * v.rank))])


@operator(1.5)
def fill(g):
    v = g.pick(None, rank=(1, 2, 3))
    s = g.node("ConstantOfShape", [g.node("Shape", [v])], value=h.make_tensor("v", T.FLOAT, [1], [float(g.r.integers(0, 3))]))
    if v.dtype == np.float32:
        g.node("Add", [s, v])


@operator()
def range_(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    n = g.node("Squeeze", [g.extent(v, g.axis(v)), g.const(np.array([0]))])
    i = g.node("Range", [g.const(np.int64(0)), n, g.const(np.int64(1))])
    if g.r.random() < .6:
        g.node("Cast", [i], to=T.FLOAT)


@operator(1.5)
def gather(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    n = min(s[axis] for s in v.shapes())
    if n == 0:
        raise Skip("empty")
    shape = [int(g.r.integers(1, 4)) for _ in range(int(g.r.integers(0, 3)))]
    g.node("Gather", [v, g.const(g.r.integers(-n, n, shape))], axis=axis)


@operator()
def gather_elements(g):
    v = g.pick(np.float32, rank=(1, 2, 3), nonempty=True)
    axis = g.axis(v)
    values_indices = g.node("TopK", [v, g.const(np.array([1]))], n_out=2, axis=axis)
    g.node("GatherElements", [v, values_indices[1]], axis=axis)


@operator()
def scatter(g):
    v = g.pick(np.float32, rank=(1, 2, 3), nonempty=True)
    n = min(s[0] for s in v.shapes())
    if g.r.random() < .5:
        i = int(g.r.integers(-n, n))
        row = g.node("Gather", [v, g.const(np.array([0]))], axis=0)
        g.node("ScatterND", [v, g.const(np.array([[i]])), g.node("Neg", [row])])
    else:
        row = g.node("Slice", [v, g.const(np.array([0])), g.const(np.array([1])), g.const(np.array([0]))])
        index = g.node("ConstantOfShape", [g.node("Shape", [row])], value=h.make_tensor("v", T.INT64, [1], [int(g.r.integers(0, n))]))
        g.node("ScatterElements", [v, index, row], axis=0)


@operator(1.5)
def topk(g):
    v = g.pick(np.float32, rank=(1, 2, 3))
    axis = g.axis(v)
    if g.r.random() < .5:
        n = min(s[axis] for s in v.shapes())
        k = g.const(np.array([int(g.r.integers(0, n + 1))]))
    else:
        k = g.node("Min", [g.extent(v, axis), g.const(np.array([int(g.r.integers(1, 6))]))])
    g.node("TopK", [v, k], n_out=2, axis=axis, largest=int(g.r.integers(2)))


@operator(2)
def nonzero(g):
    v = g.pick(None, rank=(1, 2, 3))
    if v.dtype == np.float32:
        v = g.node("Greater", [v, g.const(np.float32(g.r.choice([-5, 0, .5, 50])))])
    i = g.node("NonZero", [v])
    if g.r.random() < .7:
        t = g.node("Transpose", [i], perm=[1, 0])
        source = g.pick(np.float32, where=lambda w: w.rank >= v.rank and all(s[:v.rank] == t[:v.rank] for s, t in zip(w.shapes(), v.shapes())))
        g.node("GatherND", [source, t])


@operator(1.5)
def compress(g):
    v = g.pick(None, rank=(1, 2, 3))
    axis = int(g.r.integers(v.rank))
    if g.r.random() < .5:
        flat = g.node("ReduceSum", [g.node("Cast", [v], to=T.FLOAT), g.const(np.array([a for a in range(v.rank) if a != axis], np.int64))], keepdims=0,
                      noop_with_empty_axes=1)
        c = g.node("Greater", [flat, g.const(np.float32(0))])
        g.node("Compress", [v, c], axis=axis)
    else:
        g.node("Compress", [v, g.const(g.r.random(4) < .5)])


@operator(3)
def reduce(g):
    v = g.pick(np.float32, rank=(1, 2, 3, 4))
    op = str(g.r.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd"]))
    axes = sorted({int(g.r.integers(v.rank)) for _ in range(int(g.r.integers(1, 3)))})
    if op in ("ReduceMax", "ReduceMin", "ReduceMean") and any(s[a] == 0 for s in v.shapes() for a in axes):
        raise Skip("empty")
    g.node(op, [v, g.const(np.array(axes)) if g.r.random() < .8 or op in ("ReduceMax", "ReduceMin", "ReduceMean") else None], keepdims=int(g.r.integers(2)))


@operator()
def arg_reduce(g):
    v = g.pick(np.float32, rank=(1, 2, 3), nonempty=True)
    g.node(g.r.choice(["ArgMax", "ArgMin"]), [v], axis=g.axis(v), keepdims=int(g.r.integers(2)), select_last_index=int(g.r.integers(2)))


@operator()
def cumsum(g):
    v = g.pick(np.float32, rank=(1, 2, 3))
    g.node("CumSum", [v, g.const(np.array(g.axis(v)))], exclusive=int(g.r.integers(2)), reverse=int(g.r.integers(2)))


@operator(1.5)
def softmax(g):
    v = g.pick(np.float32, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    if any(s[axis] == 0 for s in v.shapes()):
        raise Skip("empty")
    g.node(g.r.choice(["Softmax", "LogSoftmax"]), [v], axis=axis)


@operator(2)
def matmul(g):
    a = g.pick(np.float32, rank=(2, 3, 4))
    if g.r.random() < .5 and len({s[-1] for s in a.shapes()}) == 1:
        k, n = a.shapes()[0][-1], int(g.r.integers(1, 6))
        w = g.const(g.r.standard_normal((k, n)).astype(np.float32) * .5)
        y = g.node("MatMul", [a, w])
        if g.r.random() < .5:
            y = g.node("Add", [y, g.const(g.r.standard_normal(n).astype(np.float32))])
            if g.r.random() < .5:
                g.node("Relu", [y])
    else:
        perm = list(range(a.rank))
        perm[-1], perm[-2] = perm[-2], perm[-1]
        g.node("MatMul", [a, g.node("Transpose", [a], perm=perm)])


@operator(1.5)
def gemm(g):
    a = g.pick(np.float32, rank=(2,), where=lambda v: len({s[1] for s in v.shapes()}) == 1)
    k, n, trans = a.shapes()[0][1], int(g.r.integers(1, 6)), int(g.r.integers(2))
    w = g.const(g.r.standard_normal((n, k) if trans else (k, n)).astype(np.float32) * .5)
    c = g.const(g.r.standard_normal(n).astype(np.float32)) if g.r.random() < .6 else None
    g.node("Gemm", [a, w, c], transB=trans, alpha=float(g.r.choice([1, .5])))


def image(g):
    """A value of rank 4 whose channel extent is fixed, made if need be."""
    ok = lambda v: len({s[1] for s in v.shapes()}) == 1 and v.shapes()[0][1] > 0 and all(min(s[2:]) >= 1 for s in v.shapes())
    fits = [v for v in g.values if v.dtype == np.float32 and v.rank == 4 and ok(v)]
    if fits and g.r.random() < .8:
        return fits[g.r.integers(len(fits))]
    v = g.pick(np.float32, rank=(2, 3))
    axes = [0, 1] if v.rank == 2 else [1]
    made = g.node("Unsqueeze", [v, g.const(np.array(axes))])
    if not ok(made):
        raise Skip("channels")
    return made


@operator(3)
def conv(g):
    x = image(g)
    c, m, k = x.shapes()[0][1], int(g.r.integers(1, 5)), int(g.r.choice([1, 2, 3]))
    w = g.const(g.r.standard_normal((m, c, k, k)).astype(np.float32) * .4)
    b = g.const(g.r.standard_normal(m).astype(np.float32)) if g.r.random() < .5 else None
    y = g.node("Conv", [x, w, b], pads=[k // 2] * 4, strides=[int(g.r.choice([1, 1, 2]))] * 2, kernel_shape=[k, k], dilations=[int(g.r.choice([1, 1, 2])) if k == 1 else 1] * 2)
    if g.r.random() < .4:
        scale, shift, mean = (g.r.standard_normal(m).astype(np.float32) for _ in range(3))
        y = g.node("BatchNormalization", [y, g.const(scale), g.const(shift), g.const(mean), g.const(g.r.random(m).astype(np.float32) + .5)])
    if g.r.random() < .4:
        y = g.node("Add", [y, y if g.r.random() < .3 else g.pick(np.float32, where=lambda v: v.shapes() == y.shapes())])
    if g.r.random() < .5:
        g.node(g.r.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish"]), [y])


@operator()
def conv_transpose(g):
    x = image(g)
    c, m = x.shapes()[0][1], int(g.r.integers(1, 4))
    g.node("ConvTranspose", [x, g.const(g.r.standard_normal((c, m, 2, 2)).astype(np.float32) * .4)], strides=[2, 2], kernel_shape=[2, 2])


@operator(1.5)
def pool(g):
    x = image(g)
    if any(min(s[2:]) < 2 for s in x.shapes()):
        g.node(g.r.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x])
    else:
        op = str(g.r.choice(["MaxPool", "AveragePool"]))
        g.node(op, [x], kernel_shape=[2, 2], strides=[int(g.r.choice([1, 2]))] * 2, ceil_mode=int(g.r.integers(2)))


@operator(1.5)
def resize(g):
    x = image(g)
    mode = str(g.r.choice(["nearest", "linear"]))
    coordinates = str(g.r.choice(["half_pixel", "asymmetric", "align_corners"]))
    extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
    if g.r.random() < .5:
        g.node("Resize", [x, None, g.const(np.array([1, 1, 2, 1.5], np.float32))], mode=mode, coordinate_transformation_mode="asymmetric", **extra)
    else:
        shape = g.node("Shape", [x])
        keep = g.node("Slice", [shape, g.const(np.array([0])), g.const(np.array([2]))])
        grown = g.node("Add", [g.node("Slice", [shape, g.const(np.array([2])), g.const(np.array([4]))]), g.const(np.array([int(g.r.integers(0, 4))]))])
        g.node("Resize", [x, None, None, g.node("Concat", [keep, grown], axis=0)], mode=mode, coordinate_transformation_mode=coordinates, **extra)


@operator()
def depth_space(g):
    x = image(g)
    c = x.shapes()[0][1]
    if c % 4 == 0:
        g.node("DepthToSpace", [x], blocksize=2, mode=str(g.r.choice(["DCR", "CRD"])))
    elif all(s[2] % 2 == 0 and s[3] % 2 == 0 for s in x.shapes()):
        g.node("SpaceToDepth", [x], blocksize=2)
    else:
        raise Skip("extent")


@operator()
def normalise(g):
    v = g.pick(np.float32, rank=(2, 3, 4), where=lambda v: len({s[-1] for s in v.shapes()}) == 1 and v.shapes()[0][-1] > 1)
    n = v.shapes()[0][-1]
    g.node("LayerNormalization", [v, g.const(np.ones(n, np.float32)), g.const(g.r.standard_normal(n).astype(np.float32))], axis=-1, epsilon=1e-3)


@operator(1.2)
def nms(g):
    v = g.pick(np.float32, rank=(1,), nonempty=True)
    n = v
    x = g.node("Mul", [n, g.const(np.float32(3))])
    one = g.const(np.float32(2))
    x2 = g.node("Add", [x, one])
    boxes = g.node("Unsqueeze", [g.node("Concat", [g.node("Unsqueeze", [t, g.const(np.array([1]))]) for t in (x, x, x2, x2)], axis=1), g.const(np.array([0]))])
    scores = g.node("Unsqueeze", [n, g.const(np.array([0, 1]))])
    picked = g.node("NonMaxSuppression", [boxes, scores, g.const(np.array([int(g.r.integers(1, 6))])), g.const(np.array([.4], np.float32))])
    index = g.node("Squeeze", [g.node("Slice", [picked, g.const(np.array([2])), g.const(np.array([3])), g.const(np.array([1]))]), g.const(np.array([1]))])
    g.node("Gather", [n, index], axis=0)


# ---- control flow ----
@operator(1.5)
def if_(g):
    v = g.pick(np.float32, rank=(0, 1, 2, 3))
    kind = g.r.integers(3)
    if kind == 0 and v.rank:  # from an extent: known on the host
        cond = g.node("Greater", [g.node("Squeeze", [g.extent(v, 0)]), g.const(np.int64(int(g.r.integers(1, 6))))])
    elif kind == 1:  # from data
        cond = g.node("Greater", [g.node("ReduceSum", [v], keepdims=0), g.const(np.float32(0))])
    else:
        cond = g.node("Less", [g.node("Size", [v]), g.const(np.int64(20))])
    then, other = g.name("then"), g.name("else")
    branches = [[h.make_node("Relu", [v.name], [then + "a"], name=g.name("relu")), h.make_node("Add", [then + "a", v.name], [then], name=g.name("add"))],
                [h.make_node(str(g.r.choice(["Neg", "Tanh", "Identity"])), [v.name], [other], name=g.name("neg"))]]
    if g.r.random() < .3:  # another shape, another rank
        branches[1] = [h.make_node("Unsqueeze", [v.name, g.const(np.array([0])).name], [other], name=g.name("unsqueeze"))]
    if g.r.random() < .25:
        mask = g.name("mask")
        branches[0] = [h.make_node("Cast", [v.name], [mask], to=T.BOOL, name=g.name("cast")), h.make_node("NonZero", [mask], [then + "n"], name=g.name("nonzero")),
                       h.make_node("Cast", [then + "n"], [then], to=T.FLOAT, name=g.name("cast"))] if v.rank else branches[0]
    graphs = [h.make_graph(nodes, g.name("branch"), [], [h.make_tensor_value_info(out, T.FLOAT, None)]) for nodes, out in zip(branches, (then, other))]
    captured = [v] + [Value(i.name, [onnx.numpy_helper.to_array(i)] * N_SIZES) for i in g.inits[-1:]]
    node = h.make_node("If", [cond.name], [g.name()], name=g.name("if"), then_branch=graphs[0], else_branch=graphs[1])
    g.finish(node, [cond] + captured)


@operator(1.5)
def loop(g):
    v = g.pick(np.float32, rank=(1, 2, 3))
    kind = g.r.integers(3)
    if kind == 0:
        trips = g.const(np.int64(int(g.r.integers(0, 5))))
    elif kind == 1:
        trips = g.node("Squeeze", [g.extent(v, 0)])
    else:
        trips = g.node("Cast", [g.node("Clip", [g.node("Abs", [g.node("ReduceSum", [v], keepdims=0)]), g.const(np.float32(0)), g.const(np.float32(4))])], to=T.INT64)
    p = g.name("b")
    step = g.const(np.float32(.5))
    nodes = [h.make_node("Identity", [p + "c"], [p + "c2"], name=g.name("identity")), h.make_node("Mul", [p + "x", step.name], [p + "m"], name=g.name("mul"))]
    state, extra_out = p + "m", []
    scan = g.r.random() < .5
    if g.r.random() < .4:
        nodes.append(h.make_node("Add", [p + "m", v.name], [p + "a"], name=g.name("add")))
        state = p + "a"
    elif g.r.random() < .5 and not scan:  # grows: the carried extent changes each turn
        nodes.append(h.make_node("Concat", [p + "m", v.name], [p + "g"], axis=0, name=g.name("concat")))
        state = p + "g"
    outputs = [h.make_tensor_value_info(p + "c2", T.BOOL, []), h.make_tensor_value_info(state, T.FLOAT, None)]
    if scan:
        nodes.append(h.make_node("ReduceSum", [state], [p + "s"], keepdims=0, name=g.name("reducesum")))
        nodes.append(h.make_node("Cast", [p + "i"], [p + "if"], to=T.FLOAT, name=g.name("cast")))
        nodes.append(h.make_node("Add", [p + "s", p + "if"], [p + "o"], name=g.name("add")))
        outputs.append(h.make_tensor_value_info(p + "o", T.FLOAT, []))
    body = h.make_graph(nodes, g.name("body"), [h.make_tensor_value_info(p + "i", T.INT64, []), h.make_tensor_value_info(p + "c", T.BOOL, []),
                                                h.make_tensor_value_info(p + "x", T.FLOAT, None)], outputs)
    node = h.make_node("Loop", [trips.name, "", v.name], [g.name() for _ in range(2 if scan else 1)], name=g.name("loop"), body=body)
    g.finish(node, [trips, v, step])


# ---- running ----
def generate(seed):
    g = Graph(seed)
    wanted = int(g.r.integers(4, 23))
    weights = np.array([w for _, w in OPERATORS])
    tries = 0
    while len(g.nodes) < wanted and tries < 400:
        tries += 1
        f = OPERATORS[g.r.choice(len(OPERATORS), p=weights / weights.sum())][0]
        try:
            f(g)
        except Skip:
            pass
    model, outputs = g.model()
    return g, model, outputs


def oracle(model, feeds, expected):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        return [session.run(None, f) for f in feeds], "onnxruntime"
    except Exception:
        return expected, "reference"


def differs(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.dtype.kind == "f":
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))  # sums of large terms may end small
        bad = ~np.isclose(got, want, rtol=2e-3, atol=2e-4 * scale, equal_nan=True)
    else:
        bad = got != want
    if not bad.any():
        return None
    at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.ndim else ()
    return f"{int(bad.sum())} of {bad.size} elements, first at {tuple(int(i) for i in at)}: {got[at]} instead of {want[at]}"


def run_seed(library, seed, devices, keep):
    g, model, outputs = generate(seed)
    if not outputs:
        return "empty", ""
    feeds = [{v.name: v.arrays[k] for v, _ in g.inputs} for k in range(N_SIZES)]
    wanted, source = oracle(model, feeds, [[v.arrays[k] for v in outputs] for k in range(N_SIZES)])
    if keep:
        os.makedirs(keep, exist_ok=True)
        onnx.save(model, os.path.join(keep, f"seed{seed}.onnx"))
    try:
        module = library.compile(model.SerializeToString())
    except reed.Error as e:
        return ("unsupported" if e.status == -5 else "failed"), f"compile: {e}"
    for device in devices:
        session = None
        try:
            session = reed.Session(library, module, device)
            for k in [0, 1, 0, 2, 1, 0, 2]:
                got = session.run([v.arrays[k] for v, _ in g.inputs])
                for v, a, b in zip(outputs, got, wanted[k]):
                    why = differs(a, np.asarray(b))
                    if why and source == "onnxruntime" and not differs(a, v.arrays[k]):
                        why = None  # the two oracles disagree (ties, rounding): either is right
                    if why:
                        return "failed", f"{device}, sizes {g.sizes[k]}, output {v.name} against {source}: {why}"
        except reed.Error as e:
            return "failed", f"{device}: {e}"
        finally:
            if session:
                session.close()
    return "passed", source


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", default="0:100", help="one seed, or FIRST:END")
    parser.add_argument("--device", default="host,sim")
    parser.add_argument("--keep", help="folder for the models")
    arguments = parser.parse_args()
    first, _, end = arguments.seeds.partition(":")
    seeds = range(int(first), int(end)) if end else [int(first)]
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    library = reed.Library(arguments.build)
    counts = {}
    for seed in seeds:
        result, detail = run_seed(library, seed, arguments.device.split(","), arguments.keep)
        counts[result] = counts.get(result, 0) + 1
        if result in ("failed", "unsupported"):
            print(f"seed {seed}: {result}: {detail}", flush=True)
    print(f"random graphs: {counts}")
    print(f"{counts.get('passed', 0)} passed, {counts.get('failed', 0) + counts.get('unsupported', 0)} failed, {counts.get('empty', 0)} skipped")
    return 1 if counts.get("failed") or counts.get("unsupported") else 0


if __name__ == "__main__":
    sys.exit(main())
