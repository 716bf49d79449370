"""Each function adds one or a few nodes to a random graph (graph.py), or raises Skip."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

import control
from graph import BOOL, EXACT, F16, F32, F64, FLOATS, I8, I16, I32, I64, INTS, U8, UNSIGNED, Skip, broadcastable

OPERATORS = []
SMALL = UNSIGNED + (I16, I8)


def operator(weight=1.0):
    def add(f):
        OPERATORS.append((f, weight))
        return f
    return add


# ---- element-wise ----
@operator(4)
def unary(g):
    op = g.r.choice(["Abs", "Ceil", "Exp", "Floor", "HardSwish", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Softplus", "Tanh", "Elu", "HardSigmoid",
                     "LeakyRelu", "Erf", "Identity", "Sin", "Cos", "Atan", "Asinh", "Sinh", "Cosh", "Selu", "Celu", "Softsign", "ThresholdedRelu", "Mish",
                     "Gelu", "Shrink"])
    attributes = {}
    if op in ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu", "HardSigmoid") and g.flag():
        attributes["alpha"] = float(g.r.choice([.25, .5, 1.5]))
    if op == "Gelu" and g.flag():
        attributes["approximate"] = "tanh"
    if op == "Shrink":
        attributes = {"lambd": .5, "bias": float(g.r.choice([0, .25]))}
    g.node(op, [g.pick()], **attributes)


@operator(1.5)
def exact_unary(g):
    g.node(g.r.choice(["Abs", "Neg", "Identity", "Relu" if g.opset >= 14 else "Abs", "Sign"]), [g.pick(EXACT + INTS)])


@operator()
def guarded_unary(g):
    v = g.pick()
    a = g.node("Abs", [v])
    if g.flag():
        a = g.node("Add", [a, g.const(.5, v.dtype)])
        g.node(g.r.choice(["Sqrt", "Log", "Reciprocal"]), [a])
    else:
        t = g.node("Tanh", [a])
        g.node(g.r.choice(["Asin", "Acos", "Tan"]), [t])


@operator(.7)
def tests_of_numbers(g):
    v = g.pick()
    one = g.const(1, v.dtype)
    zero = g.node("Sub", [v, v])
    with np.errstate(all="ignore"):
        if g.flag():
            g.node("IsNaN", [g.node("Mul", [v, one])])
        else:
            g.node("IsInf", [g.node("Add", [zero, v])], detect_negative=g.flag(), detect_positive=g.flag())


def pair(g, dtype):
    a = g.pick(dtype)
    if g.r.random() < .25:
        n = a.fixed(-1) if a.rank else None
        shape = [int(g.r.choice([1, n])) if n is not None else 1]
        return a, g.const(np.abs(g.random(shape, a.dtype)) + (1 if a.dtype.kind != "f" else 0), a.dtype)
    return a, g.pick(a.dtype, where=lambda v: broadcastable(a, v))


@operator(4)
def binary(g):
    a, b = pair(g, EXACT if g.r.random() < .75 else INTS + SMALL if g.opset >= 14 else INTS)
    if g.r.random() < .5:
        a, b = b, a
    ops = ["Add", "Sub", "Mul"] + (["Max", "Min"] if g.opset >= 13 or a.dtype in FLOATS else [])
    g.node(g.r.choice(ops + (["Sum", "Mean"] if a.dtype in FLOATS else [])), [a, b])


@operator(.7)
def many(g):
    a = g.pick()
    others = [g.pick(a.dtype, where=lambda v: broadcastable(a, v)) for _ in range(int(g.r.integers(0, 4)))]
    g.node(g.r.choice(["Max", "Min", "Sum", "Mean"]), [a] + others)


@operator(1.2)
def divide(g):
    a, b = pair(g, FLOATS + INTS)
    b = g.node("Add", [g.node("Abs", [b]), g.const(1, b.dtype)])
    if a.dtype in FLOATS:
        g.node(g.r.choice(["Div", "Pow"]) if all((x >= 0).all() for x in a.arrays) else "Div", [a, b])
    else:
        g.node(g.r.choice(["Div", "Mod"]), [a, b])


@operator(.6)
def power(g):
    v = g.pick()
    g.node("Pow", [v, g.const(float(g.r.choice([2, 3, 1, 0])), v.dtype)])


@operator(.6)
def fmod(g):
    a, b = pair(g, INTS)
    b = g.node("Add", [g.node("Abs", [b]), g.const(1, b.dtype)])
    g.node("Mod", [a, b], fmod=1)


@operator(.6)
def bits(g):
    a, b = pair(g, INTS + SMALL)
    kind = g.r.integers(3)
    if kind == 0:
        g.node("BitwiseNot", [a])
    elif kind == 1 and a.dtype in UNSIGNED:
        g.node("BitShift", [a, g.const(g.r.integers(0, 8 * a.dtype.itemsize, a.arrays[0].shape[-1:] if a.rank and a.fixed(-1) is not None else []), a.dtype)],
               direction=str(g.r.choice(["LEFT", "RIGHT"])))
    else:
        g.node(g.r.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [a, b])


@operator(1.3)
def compare(g):
    a, b = pair(g, EXACT if g.r.random() < .7 else INTS)
    c = g.node(g.r.choice(["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"]), [a, b])
    if g.r.random() < .5 and c.dtype == BOOL and broadcastable(a, c):
        g.node("Where", [c, a, b])


@operator()
def where(g):
    c = g.pick(BOOL)
    a = g.pick(None, where=lambda v: broadcastable(c, v))
    b = g.pick(a.dtype, where=lambda v: broadcastable(c, v) and broadcastable(a, v))
    g.node("Where", [c, a, b])


@operator()
def logic(g):
    a = g.pick(BOOL)
    if g.r.random() < .3:
        g.node("Not", [a])
    else:
        g.node(g.r.choice(["And", "Or", "Xor"]), [a, g.pick(BOOL, where=lambda v: broadcastable(a, v))])


@operator(1.2)
def cast(g):
    v = g.pick(None)
    if v.dtype == F16 or g.r.random() < .7:
        g.node("Cast", [v], to=int(g.r.choice([T.FLOAT, T.INT64, T.BOOL, T.INT32, T.DOUBLE] + ([T.INT8, T.INT16, T.UINT8, T.UINT32] if v.dtype.kind != "f" else []))))
    else:
        g.node("CastLike", [v, g.pick(FLOATS + INTS)])


@operator(.4)
def to_half(g):
    g.node("Cast", [g.pick(F32)], to=T.FLOAT16)


@operator(.6)
def rounded_often(g):
    """Operators whose results in f16 differ by a rounding or two: nothing is computed from them."""
    v = g.pick(F16, nonempty=True)
    kind = g.r.integers(5)
    if kind == 0:
        y = g.node(g.r.choice(["Exp", "Tanh", "Sigmoid", "Erf", "Softplus", "LeakyRelu", "HardSigmoid", "Elu", "Gelu"]), [v])
    elif kind == 1:
        y = g.node("Softmax", [v], axis=g.axis(v))
    elif kind == 2:
        y = g.node(g.r.choice(["ReduceSum", "ReduceMean", "ReduceMax"]), [v, g.axes(g.axis(v))])
    elif kind == 3:
        k = v.fixed(-1) if v.rank > 1 else None
        if not k:
            raise Skip("extent")
        y = g.node("MatMul", [v, g.const(g.random((k, 3), F16))])
    else:
        y = g.node("Where", [g.node("Greater", [v, g.const(.3, F16)]), g.node("Div", [v, g.const(3, F16)]), v])
    y.final = True


@operator()
def clip(g):
    v = g.pick(EXACT if g.opset < 12 or g.flag() else INTS)
    low = g.const(-1, v.dtype) if g.r.random() < .7 else None
    high = g.const(1.5, v.dtype) if g.r.random() < .7 else None
    g.node("Clip", [v, low, high])


@operator(.7)
def prelu(g):
    v = g.pick(rank=(2, 3, 4))
    n = v.fixed(-1)
    g.node("PRelu", [v, g.const(g.r.random(n if n and g.flag() else 1), v.dtype)])


# ---- other extents, other places ----
@operator(2)
def transpose(g):
    v = g.pick(None, rank=(2, 3, 4, 5))
    if g.r.random() < .15:
        g.node("Transpose", [v])
    else:
        g.node("Transpose", [v], perm=[int(p) for p in g.r.permutation(v.rank)])


@operator(2)
def reshape(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    if g.r.random() < .5:
        g.node("Reshape", [v, g.axes(*([0] * int(g.r.integers(0, v.rank)) + [-1]))])
    else:  # merge two axes by shape arithmetic
        shape = g.node("Shape", [v])
        k = int(g.r.integers(0, v.rank))
        first = g.node("Slice", [shape, g.axes(0), g.axes(k)])
        rest = g.node("ReduceProd", [g.node("Slice", [shape, g.axes(k), g.axes(2**63 - 1)])], keepdims=1)
        g.node("Reshape", [v, g.node("Concat", [first, rest], axis=0)], **({"allowzero": 1} if g.opset >= 14 else {}))


@operator()
def flatten(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    g.node("Flatten", [v], axis=int(g.r.integers(-v.rank, v.rank + 1)))


@operator()
def squeeze(g):
    v = g.pick(None, rank=(0, 1, 2, 3))
    axis = int(g.r.integers(-v.rank - 1, v.rank + 1))
    u = g.node("Unsqueeze", [v, g.axes(axis)])
    if g.r.random() < .4:
        w = g.node("Relu", [u]) if u.dtype in FLOATS else u
        g.node("Squeeze", [w, g.axes(axis)])


@operator(.6)
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
    g.node("Concat", [a] + others, axis=axis if g.flag(.7) else axis - a.rank)


@operator(2)
def slice_(g):
    """Constant bounds of several axes, far outside too, forwards and backwards."""
    v = g.pick(None, rank=(1, 2, 3, 4))
    index = I64 if g.flag(.7) else I32
    far = 2**63 - 1 if index == I64 else 2**31 - 1
    axes = [int(a) for a in g.r.permutation(v.rank)[:int(g.r.integers(1, v.rank + 1))]]
    starts, ends, steps = [], [], []
    for _ in axes:
        if g.flag(.7):
            starts.append(int(g.r.integers(-4, 4)))
            ends.append(int(g.r.choice([-1, 1, 3, far, 100])))
            steps.append(int(g.r.choice([1, 1, 2, 3])))
        else:
            starts.append(int(g.r.choice([far, -1, 2, 5])))
            ends.append(int(g.r.choice([-far, -far - 1, 0, -3])))
            steps.append(-int(g.r.integers(1, 4)))
    axes = [a - v.rank if g.flag(.3) else a for a in axes]
    g.node("Slice", [v] + [g.const(x, index) for x in (starts, ends, axes, steps)])


@operator(2)
def slice_by_extent(g):
    """Bounds computed from extents or from elements; the step may be a value too."""
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    n = g.extent(v, axis)
    half = g.node("Div", [n, g.axes(2)])
    kind = g.r.integers(5)
    if kind == 0:
        g.node("Slice", [v, g.axes(0), half, g.axes(axis)])
    elif kind == 1:
        g.node("Slice", [v, half, n, g.axes(axis)])
    elif kind == 2:  # backwards from the middle
        g.node("Slice", [v, half, g.axes(-2**63), g.axes(axis), g.axes(-int(g.r.integers(1, 3)))])
    elif kind == 3:  # a step that is computed
        step = g.node("Max", [half, g.axes(1)]) if g.opset >= 12 else half
        g.node("Slice", [v, g.axes(0), n, g.axes(axis), step])
    else:  # an end that only data decides
        end = g.vector(g.small_number(g.pick(nonempty=True), 4))
        g.node("Slice", [v, g.axes(0), end, g.axes(axis)])


@operator(1.7)
def split(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    n = v.fixed(axis)
    kind = g.r.integers(3)
    if kind == 0 and n is not None and n >= 2:
        k = int(g.r.integers(0, n + 1))
        g.node("Split", [v, g.axes(k, n - k)], n_out=2, axis=axis)
    elif kind == 1 and all(s[axis] >= 2 for s in v.shapes()):
        n = g.extent(v, axis)
        half = g.node("Div", [n, g.axes(2)])
        g.node("Split", [v, g.node("Concat", [half, g.node("Sub", [n, half])], axis=0)], n_out=2, axis=axis)
    else:  # equal parts, and from 18 on a last one that is smaller
        parts = int(g.r.integers(1, 5))
        least = min(s[axis] for s in v.shapes())
        if least < parts or (g.opset < 18 and any(s[axis] % parts for s in v.shapes())):
            raise Skip("extent")
        if any(-(-s[axis] // parts) * (parts - 1) >= s[axis] and s[axis] % parts for s in v.shapes()):
            raise Skip("nothing left for the last")
        g.node("Split", [v], n_out=parts, axis=axis, **({"num_outputs": parts} if g.opset >= 18 else {}))


@operator(1.5)
def pad(g):
    v = g.pick(EXACT + INTS, rank=(1, 2, 3, 4))
    modes = ["constant", "constant", "edge", "reflect"] + (["wrap"] if g.opset >= 19 else [])
    mode = str(g.r.choice(modes))
    axes = None
    if g.opset >= 18 and g.flag(.3):
        axes = [int(a) for a in g.r.permutation(v.rank)[:int(g.r.integers(1, v.rank + 1))]]
    pads = g.r.integers(0, 3, 2 * (len(axes) if axes else v.rank))
    if mode == "constant":
        if g.flag(.3) and all(min(s) > 2 for s in v.shapes()):
            pads = pads - 1
    elif not all(min(s) > 2 for s in v.shapes()):
        raise Skip("small")
    value = g.const(1.5, v.dtype) if mode == "constant" and g.flag() else None
    inputs = [v, g.const(pads, I64), value, g.const([a - v.rank if g.flag(.3) else a for a in axes], I64 if g.flag() else I32) if axes else None]
    while inputs[-1] is None:
        inputs.pop()
    g.node("Pad", inputs, mode=mode)


@operator(1.5)
def pad_by_extent(g):
    """To a multiple of four, or by what data says."""
    v = g.pick(EXACT, rank=(1, 2, 3, 4))
    if g.flag():
        missing = g.node("Mod", [g.node("Neg", [g.node("Shape", [v])]), g.axes(4)]) if g.opset >= 13 else None
        if missing is None:
            raise Skip("Neg")
    else:
        missing = g.node("Expand", [g.small_number(g.pick(nonempty=True), 2), g.axes(v.rank)])
    zeros = g.const([0] * v.rank, I64)
    parts = [zeros, missing] if g.flag() else [missing, zeros]
    g.node("Pad", [v, g.node("Concat", parts, axis=0)] + ([g.const(-1, v.dtype)] if g.flag() else []), mode="constant")


@operator()
def tile(g):
    v = g.pick(None, rank=(1, 2, 3))
    if g.flag(.7):
        g.node("Tile", [v, g.const(g.r.integers(0 if g.flag(.1) else 1, 3, v.rank), I64)])
    else:
        g.node("Tile", [v, g.node("Expand", [g.small_number(g.pick(nonempty=True), 2), g.axes(v.rank)])])


@operator(1.5)
def expand(g):
    v = g.pick(None)
    kind = g.r.integers(3)
    if kind == 0:
        w = g.pick(None, where=lambda w: broadcastable(v, w))
        g.node("Expand", [v, g.node("Shape", [w])])
    elif kind == 1:
        g.node("Expand", [v, g.axes(*([int(g.r.integers(1, 4))] + [1] * v.rank))])
    else:  # a leading extent that only data decides
        n = g.vector(g.small_number(g.pick(nonempty=True), 3))
        g.node("Expand", [v, g.node("Concat", [n, g.const([1] * v.rank, I64)], axis=0)])


@operator(1.5)
def fill(g):
    v = g.pick(None, rank=(1, 2, 3))
    s = g.node("ConstantOfShape", [g.node("Shape", [v])], value=h.make_tensor("v", T.FLOAT, [1], [float(g.r.integers(0, 3))]))
    if v.dtype == F32:
        g.node("Add", [s, v])


@operator()
def shape_as_data(g):
    """A shape that is looked at as numbers and used as a shape as well."""
    v = g.pick(FLOATS, rank=(1, 2, 3))
    part = {}
    if g.opset >= 15 and g.flag():
        part = {"start": int(g.r.integers(-2, v.rank)), "end": int(g.r.integers(1, v.rank + 2))}
    shape = g.node("Shape", [v], **part)
    numbers = g.node("Cast", [shape], to=T.FLOAT)
    g.node("Mul", [numbers, g.const(.25, F32)])
    made = g.node("ConstantOfShape", [g.node("Concat", [shape, g.axes(1)], axis=0)])
    g.node("Add", [made, g.node("ReduceSum", [numbers], keepdims=0)])


@operator()
def range_(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    if g.flag(.7):
        n = g.node("Squeeze", [g.extent(v, g.axis(v)), g.axes(0)])
    else:
        n = g.small_number(g.pick(nonempty=True), 6)
    if g.flag(.7):
        i = g.node("Range", [g.const(np.int64(0)), n, g.const(np.int64(1))])
    else:
        i = g.node("Range", [n, g.const(np.int64(-2)), g.const(np.int64(-int(g.r.integers(1, 3))))])
    if g.r.random() < .6:
        g.node("Cast", [i], to=T.FLOAT)


@operator(.7)
def trilu(g):
    v = g.pick(EXACT + INTS, rank=(2, 3))
    k = [g.const(np.int64(int(g.r.integers(-3, 4))))] if g.flag() else []
    g.node("Trilu", [v] + k, upper=g.flag())


@operator(.5)
def eye(g):
    v = g.pick(EXACT + INTS, rank=(2,))
    g.node("EyeLike", [v], k=int(g.r.integers(-2, 3)), **({"dtype": int(g.r.choice([T.FLOAT, T.INT64]))} if g.flag() else {}))


@operator(.7)
def one_hot(g):
    v = g.pick(INTS, rank=(0, 1, 2), where=lambda v: all(np.abs(a).max(initial=0) < 10 for a in v.arrays))
    depth = g.const(np.int64(int(g.r.integers(1, 7)))) if g.flag() else g.node("Add", [g.small_number(g.pick(nonempty=True), 4), g.const(np.int64(1))])
    g.node("OneHot", [v, depth, g.const([0, 1] if g.flag() else [-1, 2.5], F32)], axis=int(g.r.integers(-v.rank - 1, v.rank + 1)))


@operator(.7)
def reverse(g):
    v = g.pick(EXACT, rank=(2, 3), where=lambda v: v.fixed(1) is not None and all(s[0] >= 1 for s in v.shapes()) and v.fixed(1) > 0)
    n, most = v.fixed(1), min(s[0] for s in v.shapes())
    g.node("ReverseSequence", [v, g.const(g.r.integers(1, most + 1, n), I64)], time_axis=0, batch_axis=1)


# ---- indices ----
@operator(1.5)
def gather(g):
    v = g.pick(None, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    n = min(s[axis] for s in v.shapes())
    if n == 0:
        raise Skip("empty")
    if g.flag(.75):
        shape = [int(g.r.integers(1, 4)) for _ in range(int(g.r.integers(0, 3)))]
        indices = g.const(g.r.integers(-n, n, shape), I64 if g.flag() else I32)
    else:  # an index that only data decides
        indices = g.small_number(g.pick(nonempty=True), n - 1)
    g.node("Gather", [v, indices], axis=axis)


@operator()
def gather_elements(g):
    v = g.pick(FLOATS, rank=(1, 2, 3), nonempty=True)
    axis = g.axis(v)
    values_indices = g.node("TopK", [v, g.axes(1)], n_out=2, axis=axis)
    g.node("GatherElements", [v, values_indices[1]], axis=axis)


@operator()
def scatter(g):
    v = g.pick(FLOATS, rank=(1, 2, 3), nonempty=True)
    n = min(s[0] for s in v.shapes())
    reduction = {"reduction": str(g.r.choice(["add", "mul"] + (["max", "min"] if g.opset >= 18 else [])))} if g.opset >= 16 and g.flag(.4) else {}
    if g.r.random() < .5:
        i = int(g.r.integers(-n, n))
        row = g.node("Gather", [v, g.axes(0)], axis=0)
        g.node("ScatterND", [v, g.const([[i]], I64), g.node("Neg", [row])], **reduction)
    else:
        row = g.node("Slice", [v, g.axes(0), g.axes(1), g.axes(0)])
        index = g.node("ConstantOfShape", [g.node("Shape", [row])], value=h.make_tensor("v", T.INT64, [1], [int(g.r.integers(0, n))]))
        g.node("ScatterElements", [v, index, row], axis=0, **reduction)


@operator(1.5)
def topk(g):
    v = g.pick(FLOATS, rank=(1, 2, 3))
    axis = g.axis(v)
    if g.r.random() < .5:
        n = min(s[axis] for s in v.shapes())
        k = g.axes(int(g.r.integers(0, n + 1)))
    elif g.opset >= 12:
        k = g.node("Min", [g.extent(v, axis), g.axes(int(g.r.integers(1, 6)))])
    else:
        raise Skip("opset")
    g.node("TopK", [v, k], n_out=2, axis=axis, largest=g.flag())


@operator(2)
def nonzero(g):
    v = g.pick(None, rank=(1, 2, 3))
    if v.dtype in FLOATS:
        v = g.node("Greater", [v, g.const(g.r.choice([-5, .037, .5, 50]), v.dtype)])
    i = g.node("NonZero", [v])
    if g.r.random() < .7:
        t = g.node("Transpose", [i], perm=[1, 0])
        source = g.pick(EXACT, where=lambda w: w.rank >= v.rank and all(s[:v.rank] == t[:v.rank] for s, t in zip(w.shapes(), v.shapes())))
        g.node("GatherND", [source, t])


@operator(1.5)
def compress(g):
    v = g.pick(None, rank=(1, 2, 3))
    axis = int(g.r.integers(v.rank))
    if g.r.random() < .5:
        f = g.node("Cast", [v], to=T.FLOAT)
        flat = g.node("ReduceSum", [f, g.axes(*[a for a in range(v.rank) if a != axis])], keepdims=0) if v.rank > 1 else f
        g.node("Compress", [v, g.node("Greater", [flat, g.const(.173, F32)])], axis=axis)
    elif g.flag():
        g.node("Compress", [v, g.const(g.r.random(4) < .5)], axis=axis)
    else:
        g.node("Compress", [v, g.const(g.r.random(4) < .5)])


# ---- along axes ----
@operator(3.5)
def reduce(g):
    op = str(g.r.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSumExp", "ReduceSumSquare",
                         "ReduceLogSum"]))
    ints = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1") and g.flag(.2)
    v = g.pick(INTS if ints else FLOATS, rank=(0, 1, 2, 3, 4))
    if op == "ReduceLogSum":
        v = g.node("Add", [g.node("Abs", [v]), g.const(.5, v.dtype)])
    axes = sorted({int(g.r.integers(v.rank)) for _ in range(int(g.r.integers(1, 3)))}) if v.rank and g.flag(.8) else []
    keep = g.flag()
    if any(0 in s for s in v.shapes()) and (op not in ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare") or not keep):
        raise Skip("empty")  # onnxruntime forgets axes of what has no elements
    if not any(0 in s for s in v.shapes()):
        axes = [a - v.rank if g.flag(.3) else a for a in axes]
    attributes = {"keepdims": keep}
    if not axes and g.opset >= 18 and g.flag(.3):
        attributes["noop_with_empty_axes"] = 1
        if op in ("ReduceLogSumExp", "ReduceLogSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
            raise Skip("evaluators disagree")
    g.node(op, [v, g.axes(*axes) if axes else None], **attributes)


@operator()
def arg_reduce(g):
    v = g.pick(FLOATS + INTS, rank=(1, 2, 3), nonempty=True)
    last = {"select_last_index": g.flag()} if g.opset >= 12 else {}
    g.node(g.r.choice(["ArgMax", "ArgMin"]), [v], axis=g.axis(v), keepdims=g.flag(), **last)


@operator(1.5)
def cumsum(g):
    v = g.pick(FLOATS + INTS, rank=(1, 2, 3, 4))
    axis = g.const(g.axis(v), I64 if g.flag() else I32)
    g.node("CumSum", [v, axis], exclusive=g.flag(), reverse=g.flag())


@operator(1.5)
def softmax(g):
    v = g.pick(FLOATS, rank=(1, 2, 3, 4))
    axis = g.axis(v)
    if any(s[axis] == 0 for s in v.shapes()):
        raise Skip("empty")
    g.node(g.r.choice(["Softmax", "LogSoftmax", "Hardmax"], p=[.5, .3, .2]), [v], **({"axis": axis} if g.flag(.8) else {}))


@operator(.5)
def lp_normal(g):
    v = g.pick(FLOATS, rank=(1, 2, 3), nonempty=True)
    v = g.node("Add", [v, g.const(.25, v.dtype)])
    g.node("LpNormalization", [v], axis=g.axis(v), p=int(g.r.choice([1, 2])))


# ---- recurrent cells ----
@operator(2)
def recurrent(g):
    x = g.pick(F32, rank=(3,), nonempty=True, where=lambda v: v.fixed(2) is not None)
    op, direction, hidden = str(g.r.choice(["LSTM", "GRU", "RNN"])), str(g.r.choice(["forward", "reverse", "bidirectional"])), int(g.r.choice([1, 3, 8, 17]))
    n, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    weights = [g.const(g.random((n, gates * hidden, k), F32) * .3, F32) for k in (x.fixed(2), hidden)]
    bias = g.const(g.random((n, 2 * gates * hidden), F32) * .3, F32) if g.flag() else None
    lengths = None
    if g.flag():
        length = int(g.r.integers(1, min(s[0] for s in x.shapes()) + 1))
        lengths = g.node("Expand", [g.const(np.int32([length])), g.extent(x, 1)])
    attributes = {"linear_before_reset": int(g.flag())} if op == "GRU" else {}
    if g.flag(.2):
        attributes["clip"] = .5
    g.node(op, [x, *weights, bias, lengths], n_out=3 if op == "LSTM" else 2, direction=direction, hidden_size=hidden, **attributes)


# ---- products, windows, images ----
@operator(2)
def matmul(g):
    a = g.pick(FLOATS, rank=(1, 2, 3, 4))
    k = a.fixed(-1)
    if g.r.random() < .5 and k is not None:
        n = int(g.r.integers(1, 6))
        y = g.node("MatMul", [a, g.const(g.random((k, n), a.dtype) * .5, a.dtype)])
        if g.r.random() < .5:
            y = g.node("Add", [y, g.const(g.random(n, a.dtype))])
            if g.r.random() < .5:
                g.node("Relu", [y])
    elif a.rank > 1:
        perm = list(range(a.rank))
        perm[-1], perm[-2] = perm[-2], perm[-1]
        g.node("MatMul", [a, g.node("Transpose", [a], perm=perm)])
    else:
        g.node("MatMul", [a, a])


@operator(1.5)
def gemm(g):
    a = g.pick(FLOATS, rank=(2,), where=lambda v: v.fixed(1) is not None)
    k, n, trans = a.fixed(1), int(g.r.integers(1, 6)), g.flag()
    w = g.const(g.random((n, k) if trans else (k, n), a.dtype) * .5, a.dtype)
    c = g.const(g.random(n, a.dtype)) if g.r.random() < .6 else None
    g.node("Gemm", [a, w, c], transB=trans, alpha=float(g.r.choice([1, .5])))


def image(g, dtype=F32):
    """A value of rank 4 whose channel extent is fixed, made if need be."""
    ok = lambda v: v.fixed(1) and all(min(s[2:]) >= 1 for s in v.shapes())
    fits = [v for v in g.values if v.dtype == dtype and v.rank == 4 and ok(v)]
    if fits and g.r.random() < .8:
        return fits[g.r.integers(len(fits))]
    v = g.pick(dtype, rank=(2, 3))
    made = g.node("Unsqueeze", [v, g.axes(*([0, 1] if v.rank == 2 else [1]))])
    if not ok(made):
        raise Skip("channels")
    return made


@operator(3)
def conv(g):
    x = image(g)
    c, m, k = x.fixed(1), int(g.r.integers(1, 5)), int(g.r.choice([1, 2, 3]))
    w = g.const(g.random((m, c, k, k), F32) * .4, F32)
    b = g.const(g.random(m, F32)) if g.r.random() < .5 else None
    y = g.node("Conv", [x, w, b], pads=[k // 2] * 4, strides=[int(g.r.choice([1, 1, 2]))] * 2, kernel_shape=[k, k],
               dilations=[int(g.r.choice([1, 1, 2])) if k == 1 else 1] * 2)
    if g.r.random() < .4:
        scale, shift, mean = (g.random(m, F32) for _ in range(3))
        y = g.node("BatchNormalization", [y, g.const(scale), g.const(shift), g.const(mean), g.const(g.r.random(m) + .5, F32)])
    if g.r.random() < .4:
        y = g.node("Add", [y, y if g.r.random() < .3 else g.pick(F32, where=lambda v: v.shapes() == y.shapes())])
    if g.r.random() < .5:
        g.node(g.r.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish"]), [y])


@operator(.7)
def conv_transpose(g):
    x = image(g)
    c, m = x.fixed(1), int(g.r.integers(1, 4))
    g.node("ConvTranspose", [x, g.const(g.random((c, m, 2, 2), F32) * .4, F32)], strides=[2, 2], kernel_shape=[2, 2])


@operator(3)
def pool(g):
    """Windows over one, two or three axes with every option."""
    if g.flag(.6):
        x = image(g, F64 if g.flag(.1) else F32)
    else:
        x = g.pick(FLOATS, rank=(3, 5), where=lambda v: all(min(s[2:], default=0) >= 1 for s in v.shapes()))
    n = x.rank - 2
    if g.flag(.2):
        g.node(g.r.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x])
        return
    op = str(g.r.choice(["MaxPool", "AveragePool", "LpPool"], p=[.45, .45, .1]))
    kernel = [int(g.r.integers(1, 4)) for _ in range(n)]
    attributes = {"kernel_shape": kernel, "strides": [int(g.r.integers(1, 4)) for _ in range(n)]}
    if op == "LpPool":
        attributes["p"] = int(g.r.integers(1, 4))
    dilations = [1] * n
    same = str(g.r.choice(["SAME_UPPER", "SAME_LOWER"])) if g.flag(.2) else None
    if same:  # with a stride beyond the kernel nobody agrees where windows begin
        attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]
    if (op == "MaxPool" or g.opset >= 19) and op != "LpPool" and not same and g.flag(.3):  # onnxruntime forgets dilations with SAME
        dilations = [int(g.r.integers(1, 3)) for _ in range(n)]
        attributes["dilations"] = dilations
    if same:
        attributes["auto_pad"] = same
    elif g.flag(.1):
        attributes["auto_pad"] = "VALID"
    elif g.flag():
        attributes["pads"] = [int(g.r.integers(0, k)) for k in kernel + kernel]
    if op != "LpPool" and g.flag():
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.flag():
        attributes["count_include_pad"] = 1
    padded = [sum(attributes.get("pads", [0] * 2 * n)[i::n]) for i in range(n)]
    if "SAME" not in attributes.get("auto_pad", "") and any(s[2 + i] + padded[i] < (kernel[i] - 1) * dilations[i] + 1 for s in x.shapes() for i in range(n)):
        raise Skip("window")
    g.node(op, [x], n_out=2 if op == "MaxPool" and g.flag(.2) else 1, **attributes)


@operator(1.5)
def resize(g):
    if g.opset < 13:
        raise Skip("opset")
    x = image(g)
    mode = str(g.r.choice(["nearest", "linear"]))
    coordinates = str(g.r.choice(["half_pixel", "asymmetric", "align_corners"]))
    extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
    if g.r.random() < .5:
        g.node("Resize", [x, None, g.const([1, 1, 2, 1.5], F32)], mode=mode, coordinate_transformation_mode="asymmetric", **extra)
    else:
        shape = g.node("Shape", [x])
        keep = g.node("Slice", [shape, g.axes(0), g.axes(2)])
        grown = g.node("Add", [g.node("Slice", [shape, g.axes(2), g.axes(4)]), g.axes(int(g.r.integers(0, 4)))])
        g.node("Resize", [x, None, None, g.node("Concat", [keep, grown], axis=0)], mode=mode, coordinate_transformation_mode=coordinates, **extra)


@operator()
def fold(g):
    """Col2Im whose image grows with the input's extents."""
    if g.opset < 18:
        raise Skip("opset")
    x = image(g)
    k, s, d = ([int(g.r.integers(1, most)) for _ in range(2)] for most in (4, 3, 3))
    reach = [(k[i] - 1) * d[i] for i in range(2)]
    pads = [int(g.r.integers(0, reach[i % 2] // 2 + 1)) for i in range(4)]
    channels = x.fixed(1) * k[0] * k[1]
    blocks = g.node("Mul", [g.node("Tile", [x, g.axes(1, k[0] * k[1], 1, 1)]), g.const(g.random((channels, 1, 1), F32))])
    shape = g.node("Shape", [x])
    columns = g.node("Reshape", [blocks, g.node("Concat", [g.node("Slice", [shape, g.axes(0), g.axes(1)]), g.axes(channels, -1)], axis=0)])
    steps = g.node("Mul", [g.node("Sub", [g.node("Slice", [shape, g.axes(2), g.axes(4)]), g.axes(1)]), g.axes(*s)])
    size = g.node("Add", [steps, g.axes(*(reach[i] + 1 - pads[i] - pads[i + 2] for i in range(2)))])
    g.node("Col2Im", [columns, size, g.axes(*k)], strides=s, dilations=d, pads=pads)


@operator()
def depth_space(g):
    x = image(g)
    c = x.fixed(1)
    if c % 4 == 0:
        g.node("DepthToSpace", [x], blocksize=2, mode=str(g.r.choice(["DCR", "CRD"])))
    elif all(s[2] % 2 == 0 and s[3] % 2 == 0 for s in x.shapes()):
        g.node("SpaceToDepth", [x], blocksize=2)
    else:
        raise Skip("extent")


@operator()
def normalise(g):
    v = g.pick(FLOATS, rank=(2, 3, 4), where=lambda v: (v.fixed(-1) or 0) > 1)
    n = v.fixed(-1)
    scale, shift = g.const(np.ones(n), v.dtype), g.const(g.random(n, v.dtype))
    if g.flag():
        g.node("LayerNormalization", [v, scale, shift], axis=-1, epsilon=1e-3)
    elif g.flag():
        g.node("RMSNormalization", [v, scale], axis=-1, epsilon=1e-3)
    else:
        c = v.fixed(1) or 0
        groups = int(g.r.choice([d for d in range(1, c + 1) if c % d == 0])) if c else 0
        if not groups or any(0 in s for s in v.shapes()):
            raise Skip("channels")
        g.node("GroupNormalization", [v, g.const(np.ones(c), v.dtype), g.const(g.random(c, v.dtype))], num_groups=groups, epsilon=1e-2)


@operator(1.2)
def nms(g):
    n = g.pick(F32, rank=(1,), nonempty=True)
    x = g.node("Mul", [n, g.const(3, F32)])
    x2 = g.node("Add", [x, g.const(2, F32)])
    boxes = g.node("Unsqueeze", [g.node("Concat", [g.node("Unsqueeze", [t, g.axes(1)]) for t in (x, x, x2, x2)], axis=1), g.axes(0)])
    scores = g.node("Unsqueeze", [n, g.axes(0, 1)])
    picked = g.node("NonMaxSuppression", [boxes, scores, g.axes(int(g.r.integers(1, 6))), g.const([.4], F32)])
    index = g.node("Squeeze", [g.node("Slice", [picked, g.axes(2), g.axes(3), g.axes(1)]), g.axes(1)])
    g.node("Gather", [n, index], axis=0)


# ---- control flow ----
operator(2)(control.if_)
operator(2)(control.loop)
operator(1)(control.scan)


@operator(.5)
def several_ifs(g):
    for _ in range(int(g.r.integers(2, 5))):
        control.if_(g)
