"""Operators for random graphs that move, repeat, choose and count elements."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

from graph import EXACT, F32, FLOATS, I32, I64, INTS, Skip, broadcastable
from registered import operator


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
    else:  # equal parts, and from opset 18 on a last part that may be smaller
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
    """Pads to a multiple of four, or by amounts that data decide."""
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
    """A shape that is read as numbers and also used as a shape."""
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
def unique(g):
    v = g.pick(None, rank=(1, 2, 3), where=lambda v: all(all(s) for s in v.shapes()))  # onnxruntime ends the process where there are no elements
    if v.dtype in FLOATS:  # whose rounding decides what is equal
        v = g.node("Cast", [g.node("Greater", [v, g.const(.173, v.dtype)])], to=T.INT64)
    axis = int(g.r.integers(v.rank))
    attributes = {"axis": axis} if g.flag() else {}
    g.node("Unique", [v], n_out=int(g.r.integers(1, 5)), sorted=g.flag(), **attributes)


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
