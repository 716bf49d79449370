"""Operators for random graphs that compute along axes, over windows and over time; products and selections."""
import numpy as np
from onnx import TensorProto as T

from graph import EXACT, F32, F64, FLOATS, I8, I16, I32, I64, INTS, Skip, U8
from registered import operator


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
        raise Skip("empty")  # onnxruntime forgets axes of tensors without elements
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
def einsum(g):
    """A value by itself, each axis of the second under the first's letter or one of its own; by weights; summed, turned, a diagonal taken."""
    v = g.pick(FLOATS, rank=(1, 2, 3, 4), nonempty=True)
    letters = [str(c) for c in g.r.permutation(list("abcdefgh"))[:v.rank]]
    terms, operands = ["".join(letters)], [v]
    if g.flag(.7):
        own = iter("ijklmnop")
        terms.append("".join(c if g.flag(.7) else next(own) for c in letters))
        operands.append(v)
    fixed = [i for i in range(v.rank) if v.fixed(i)]
    if fixed and g.flag():
        axis, n = int(g.r.choice(fixed)), int(g.r.integers(1, 5))
        w = [letters[axis], "z"] + ([letters[axis]] if g.flag(.2) else [])
        extents = [v.fixed(axis) if c != "z" else n for c in w]
        order = g.r.permutation(len(w))
        terms.append("".join(w[i] for i in order))
        operands.append(g.const(g.random([extents[i] for i in order], v.dtype) * .5, v.dtype))
    names = sorted(set("".join(terms)))
    kept = [str(c) for c in g.r.permutation(names)[:int(g.r.integers(0, min(len(names), 5) + 1))]]
    equation = (", " if g.flag(.2) else ",").join(terms)
    g.node("Einsum", operands, equation=equation if g.flag(.2) else f"{equation}->{''.join(kept)}")


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
    if same:  # with a stride beyond the kernel evaluators disagree about the windows' beginnings
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
def grid_sample(g):
    """Samples of an image at places that another value of the graph decides."""
    if g.opset < 16:
        raise Skip("opset")
    x = image(g)
    shape = g.node("Shape", [x])
    rows, columns = int(g.r.integers(1, 5)), int(g.r.integers(1, 9))
    size = g.node("Concat", [g.node("Slice", [shape, g.axes(0), g.axes(1)]), g.axes(rows, columns, 2)], axis=0)
    moved = g.node("Expand", [g.node("ReduceMean", [x, g.axes(1, 2, 3)], keepdims=1) if g.opset >= 18 else g.node("ReduceMean", [x], axes=[1, 2, 3], keepdims=1), g.axes(1)])
    moved = g.node("Tanh", [moved])
    grid = g.node("Expand", [g.node("Add", [moved, g.const(g.r.uniform(-1.3, 1.3, (1, rows, columns, 2)).astype(np.float32))]), size])
    mode = str(g.r.choice(["linear", "cubic"]))
    g.node("GridSample", [x, grid], mode=mode if g.opset >= 20 else "bi" + mode, padding_mode=str(g.r.choice(["zeros", "border", "reflection"])),
           align_corners=int(g.r.integers(0, 2)))


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


@operator(.7)
def neighbours(g):
    v = g.pick(F32, rank=(4,), nonempty=True)
    if g.flag():
        g.node("LRN", [v], size=int(g.r.choice([1, 3, 5, 9])), alpha=float(g.r.choice([1e-4, .5])), beta=float(g.r.choice([.5, .75])), bias=float(g.r.choice([1, 2.5])))
    else:
        g.node("MeanVarianceNormalization", [v], **({} if g.flag() else {"axes": [int(a) for a in np.sort(g.r.permutation(4)[:2])]}))


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


# ---- extents that only data decide ----
@operator(1.2)
def found(g):
    """Places of a mask's true elements, and elements or rows at these places."""
    v = g.pick(EXACT, rank=(1, 2, 3))
    mask = g.node("Greater", [v, g.const(.137, v.dtype)])
    if g.flag(.4):
        axis, rows = g.axis(v), mask
        other = [i for i in range(v.rank) if i != axis % v.rank]
        if other and not all(a.size for a in v.arrays):
            raise Skip("empty")
        if other:
            rows = g.node("Cast", [g.node("ReduceMax", [g.node("Cast", [mask], to=T.FLOAT), g.axes(*other)], keepdims=0)], to=T.BOOL)
        g.node(g.r.choice(["Neg", "Abs"]), [g.node("Compress", [v, rows], axis=axis)])
        return
    places = g.node("NonZero", [mask])
    values = g.node("Mul", [g.node("GatherND", [v, g.node("Transpose", [places], perm=[1, 0])]), g.const(.5, v.dtype)])
    if g.flag(.5):  # some of the rows, and rows joined with others
        start, end, step = int(g.r.integers(0, 3)), int(g.r.choice([-1, 1, 3, 6, 1000])), int(g.r.integers(1, 3))
        values = g.node("Abs", [g.node("Slice", [values, g.axes(start), g.axes(end), g.axes(0), g.axes(step)])])
    if g.flag(.5):
        wide = g.node("Mul", [g.node("Unsqueeze", [values, g.axes(1)]), g.const([1, 3, 2], v.dtype)])
        g.node("Neg", [g.node("Reshape", [wide, g.axes(-1)])])
    if g.flag(.4):
        first = g.node("Squeeze", [g.node("Slice", [places, g.axes(0), g.axes(1), g.axes(0)]), g.axes(0)])
        g.node("Gather", [v, first], axis=0)


@operator(.8)
def regions(g):
    """Regions that NonMaxSuppression keeps, out of an image."""
    x = image(g)
    if any(s[0] < 1 for s in x.shapes()):
        raise Skip("no image")
    n = g.pick(F32, rank=(1,), nonempty=True)
    low = g.node("Mul", [g.node("Abs", [n]), g.const(2, F32)])
    high = g.node("Add", [low, g.const(1.25, F32)])
    boxes = g.node("Concat", [g.node("Unsqueeze", [t, g.axes(1)]) for t in (low, low, high, high)], axis=1)
    scores = g.node("Unsqueeze", [n, g.axes(0, 1)])
    picked = g.node("NonMaxSuppression", [g.node("Unsqueeze", [boxes, g.axes(0)]), scores, g.axes(int(g.r.integers(1, 6))), g.const([.4], F32)])
    index = g.node("Squeeze", [g.node("Slice", [picked, g.axes(2), g.axes(3), g.axes(1)]), g.axes(1)])
    kept, zeros = g.node("Gather", [boxes, index], axis=0), g.node("Mul", [index, g.const(np.int64(0))])
    mapping = {"coordinate_transformation_mode": "half_pixel"} if g.opset >= 16 else {}
    maps = g.node("RoiAlign", [x, kept, zeros], output_height=2, output_width=int(g.r.integers(1, 4)), sampling_ratio=2, **mapping)
    g.node(g.r.choice(["Relu", "Neg", "Tanh"]), [maps])


# ---- quantised numbers ----
@operator(2)
def quantized(g):
    """Whole numbers and scales that are powers of two, so that no rounding depends on an evaluator."""
    v = g.pick((I32, I16, I8, U8), rank=(1, 2, 3, 4), nonempty=True)
    x = g.node("Cast", [v], to=T.FLOAT)
    if g.flag(.3):
        q, scale, zero = g.node("DynamicQuantizeLinear", [x], n_out=3)
    else:
        signed, axis = g.flag(), g.axis(x)
        n = (x.fixed(axis),) if g.opset >= 13 and g.flag() and x.fixed(axis) else ()
        scale = g.const(2. ** g.r.integers(-3, 3, n), F32)
        zero = g.const(g.r.integers(-4 if signed else 0, 5, n), I8 if signed else U8)
        q = g.node("QuantizeLinear", [x, scale, zero], **({"axis": axis} if n else {}))
        if n or g.flag(.4):
            g.node("DequantizeLinear", [q, scale, zero], **({"axis": axis} if n else {}))
            return
    k = q.fixed(-1)
    if q.rank > 1 and k is not None:
        w = g.const(g.r.integers(-128, 128, (k, int(g.r.integers(1, 6)))), I8)
        g.node("Cast", [g.node("MatMulInteger", [q, w, zero])], to=T.FLOAT)
