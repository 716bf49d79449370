"""Element-wise operators for random graphs."""
import numpy as np
from onnx import TensorProto as T

from graph import BOOL, EXACT, F16, F32, FLOATS, INTS, UNSIGNED, Skip, broadcastable
from registered import SMALL, operator


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
    """Operators whose results in f16 differ by a rounding or two: no operator reads them."""
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
