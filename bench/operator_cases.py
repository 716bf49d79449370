"""Models of one operator each, with large extents: few long rows, many short ones, long columns, awkward extents; and with the extents that the operators have in usual models.
A case is an operator's name (a domain before a dot), its operands (arrays, Constant, None: absent), its attributes and, if it is not 1, the number of outputs."""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

R = np.random.default_rng(5)


class Constant:
    """An operand that is a constant of the model."""

    def __init__(self, array):
        self.array = array


def f(*extents, low=0., high=1., dtype=np.float32):
    return R.uniform(low, high, extents).astype(dtype)


def n(*extents):
    return R.standard_normal(extents, np.float32)


def i(*extents, high=10, dtype=np.int64):
    return R.integers(0, high, extents, dtype)


def b(*extents):
    return R.random(extents) < .5


def c(*values, dtype=np.int64):
    return Constant(np.array(values, dtype))


def scalar(value, dtype=np.int64):
    return Constant(np.array(value, dtype))


def boxes(count, size, side):
    at, sides = f(count, 2, high=size - side), f(count, 2, low=side / 4, high=side)
    return np.concatenate([at, at + sides], 1)


def indexed_boxes(count, size, side):
    return np.concatenate([np.zeros((count, 1), np.float32), boxes(count, size, side)], 1)


def w(*extents):
    return Constant(n(*extents) / 10)


UNARY = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Celu Elu Gelu HardSigmoid LeakyRelu Selu "
         "Shrink Swish ThresholdedRelu IsInf IsNaN").split()
SHAPES = ((500000,), (1, 500003), (3, 170000), (170000, 3), (700, 701), (62500, 8), (8, 62500), (13, 251, 157), (2, 3, 300, 301))


def elementwise():
    for name in UNARY:
        for dtype in (np.float32, np.float64, np.float16):
            yield name, [f(500000, dtype=dtype)], {}
    for name in "Add Div Mul Sub Mod Pow PRelu Greater GreaterOrEqual Less LessOrEqual Equal Max Min Sum Mean".split():
        attributes = {"fmod": 1} if name == "Mod" else {}
        yield name, [f(500, 1000), f(500, 1000)], attributes
        yield name, [f(500000, 1), f(1) if name == "PRelu" else f(1, 3)], attributes
        yield name, [f(70, 700, 9), f(700, 1)], attributes
        yield name, [f(3, 9, 20000), f(9, 1)], attributes
        if name not in ("PRelu", "Sum", "Mean"):
            yield name, [i(500000) + 1, i(500000) + 1], {}
            yield name, [f(500000, dtype=np.float64), f(500000, dtype=np.float64)], attributes
    for name in "And Or Xor".split():
        yield name, [b(2000000), b(2000000)], {}
        yield name, [b(2000, 1, 100), b(9, 1)], {}
    for name in "BitwiseAnd BitwiseOr BitwiseXor".split():
        yield name, [i(500000), i(500000)], {}
    yield "BitShift", [i(500000).astype(np.uint64), i(500000).astype(np.uint64)], {"direction": "LEFT"}
    yield "BitwiseNot", [i(500000)], {}
    yield "Not", [b(2000000)], {}
    yield "Clip", [n(500000), scalar(-1, np.float32), scalar(1, np.float32)], {}
    for to in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT64, TensorProto.INT8, TensorProto.BOOL, TensorProto.DOUBLE):
        yield "Cast", [f(500000)], {"to": to}
    yield "Cast", [i(500000)], {"to": TensorProto.FLOAT}
    yield "Where", [b(500, 1000), f(500, 1000), f(1000)], {}
    yield "Where", [b(500, 1), f(500, 1000), f(500, 1000)], {}
    yield "Fused", [f(500, 1000)], {}


def movement():
    yield "ConstantOfShape", [np.array([3, 500000])], {}
    yield "Range", [np.array(0), np.array(1000000), np.array(1)], {}
    yield "Range", [np.array(0, np.float32), np.array(1000000, np.float32), np.array(1, np.float32)], {}
    yield "EyeLike", [f(1500, 1500)], {}
    yield "OneHot", [i(50000), np.array(10), f(2)], {}
    yield "OneHot", [i(3, high=100000), np.array(100000), f(2)], {"axis": 0}
    yield "OneHot", [i(3, high=100000), np.array(100000), f(2)], {}
    for axis in (0, 1):
        yield "Concat", [f(700, 701), f(700, 701)], {"axis": axis}
        yield "Concat", [f(1, 500000), f(1, 500000)], {"axis": axis}
        yield "Concat", [f(170000, 3), f(170000, 3)], {"axis": axis}
    for mode in ("DCR", "CRD"):
        yield "DepthToSpace", [f(1, 16, 200, 201)], {"blocksize": 2, "mode": mode}
        yield "DepthToSpace", [f(1, 1024, 30, 31)], {"blocksize": 16, "mode": mode}
    yield "SpaceToDepth", [f(1, 4, 400, 402)], {"blocksize": 2}
    yield "Expand", [f(1, 1000), c(1000, 1000)], {}
    yield "Expand", [f(1000, 1), c(1000, 1000)], {}
    yield "Expand", [f(1, 1), c(1, 2000000)], {}
    yield "Expand", [f(300000, 1), c(300000, 3)], {}
    for axis in (0, 1):
        yield "Gather", [f(1000, 1001), i(1000, high=1000)], {"axis": axis}
        yield "Gather", [f(2, 500000), i((2, 500000)[axis], high=2)], {"axis": axis}
        yield "Gather", [f(500000, 2), i((500000, 2)[axis], high=2)], {"axis": axis}
        yield "GatherElements", [f(1000, 1001), i(1000, 1001, high=1000)], {"axis": axis}
        yield "GatherElements", [f(2, 500000), i(2, 500000, high=2)], {"axis": axis}
        yield "GatherElements", [f(500000, 2), i(500000, 2, high=2)], {"axis": axis}
        for reduction in ("none", "add", "max"):
            yield "ScatterElements", [f(1000, 1001), i(1000, 1001, high=1000), f(1000, 1001)], {"axis": axis, "reduction": reduction}
            yield "ScatterElements", [f(2, 500000), i(2, 500000, high=2), f(2, 500000)], {"axis": axis, "reduction": reduction}
            yield "ScatterElements", [f(500000, 2), i(500000, 2, high=2), f(500000, 2)], {"axis": axis, "reduction": reduction}
    for reduction in ("none", "add", "max"):
        yield "ScatterElements", [f(500000), i(400000, high=500000), f(400000)], {"axis": 0, "reduction": reduction}
        yield "ScatterElements", [f(10), i(400000, high=10), f(400000)], {"axis": 0, "reduction": reduction}
        yield "ScatterND", [f(1000, 1000), i(300000, 2, high=1000), f(300000)], {"reduction": reduction}
        yield "ScatterND", [f(4, 500000), i(4, 1, high=4), f(4, 500000)], {"reduction": reduction}
        yield "ScatterND", [f(10), i(400000, 1, high=10), f(400000)], {"reduction": reduction}
    yield "GatherND", [f(1000, 1000), i(300000, 2, high=1000)], {}
    yield "GatherND", [f(4, 500000), i(4, 1, high=4)], {}
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield "Pad", [f(1, 16, 200, 201), c(0, 0, 3, 3, 0, 0, 3, 3)], {"mode": mode}
        yield "Pad", [f(500000), c(10, 10)], {"mode": mode}
        yield "Pad", [f(1000), c(900, 900) if mode != "constant" else c(500000, 500000)], {"mode": mode}
        yield "Pad", [f(170000, 3), c(1, 1, 1, 1)], {"mode": mode}
        yield "Pad", [f(3, 170000), c(1, 1, 1, 1)], {"mode": mode}
    yield "ReverseSequence", [f(1000, 50, 10), np.full(50, 900)], {}
    yield "ReverseSequence", [f(2, 500000), np.full(2, 500000)], {"batch_axis": 0, "time_axis": 1}
    yield "ReverseSequence", [f(500000, 2), np.full(2, 500000)], {}
    for shape in SHAPES[1:6]:
        rows, columns = shape
        yield "Slice", [f(*shape), c(columns // 3), c(columns), c(1)], {}
        yield "Slice", [f(*shape), c(rows - 1), c(-rows - 1), c(0), c(-1)], {}
        yield "Slice", [f(*shape), c(columns - 1), c(-columns - 1), c(1), c(-1)], {}
        yield "Slice", [f(*shape), c(0), c(columns), c(1), c(2)], {}
        yield "Tile", [f(*shape), c(1, 3)], {}
        yield "Tile", [f(*shape), c(3, 1)], {}
        yield "Transpose", [f(*shape)], {"perm": [1, 0]}
        yield "Trilu", [f(*shape)], {}
        yield "Trilu", [f(*shape)], {"upper": 0}
    yield "Tile", [f(1, 3), c(1, 200000)], {}
    yield "Tile", [f(1, 3), c(200000, 1)], {}
    for permutation in ([0, 2, 3, 1], [0, 3, 1, 2], [3, 2, 1, 0], [2, 0, 1, 3], [1, 0, 3, 2]):
        yield "Transpose", [f(2, 64, 100, 101)], {"perm": permutation}
        yield "Transpose", [f(2, 3, 500, 501)], {"perm": permutation}
        yield "Transpose", [f(2, 3, 500, 501, dtype=np.float16)], {"perm": permutation}
    for axis in (0, 1):
        yield "Split", [f(1000, 1002)], {"axis": axis, "num_outputs": 2}, 2
        yield "Split", [f(170000, 4)], {"axis": axis, "num_outputs": 2}, 2
        yield "Compress", [f(1000, 1001), b(1000)], {"axis": axis}
        yield "Compress", [f(3, 170000), b(3 if axis == 0 else 170000)], {"axis": axis}
        yield "Compress", [f(170000, 3), b(170000 if axis == 0 else 3)], {"axis": axis}
    yield "TensorScatter", [f(1, 2, 4096, 64), f(1, 2, 4000, 64), np.array([7])], {}
    yield "TensorScatter", [f(1, 1, 4096, 128), f(1, 1, 4000, 128), np.array([7])], {"mode": "circular"}
    yield "Compress", [f(500000), b(500000)], {}
    yield "NonZero", [b(500000)], {}
    yield "NonZero", [b(1000, 501)], {}
    yield "NonZero", [f(9, 20, 30, 101)], {}
    for array in (i(200000, high=100000), i(200000), f(200000), np.zeros(200000, np.float32), np.arange(200000), f(200000, dtype=np.float64), i(200000, high=255, dtype=np.uint8)):
        yield "Unique", [array], {}, 4
        yield "Unique", [array], {"sorted": 0}, 4
    yield "Unique", [i(50000, 4, high=20)], {"axis": 0}, 4
    yield "Unique", [i(4, 50000, high=2)], {"axis": 1}, 4
    yield "Unique", [i(4, 50000, high=2)], {"axis": 0}, 4


def reductions():
    for name in "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split():
        for shape in SHAPES[1:]:
            for axes in ((0,), (1,), (len(shape) - 1,), (0, len(shape) - 1)):
                yield name, [f(*shape), c(*axes)], {}
        for dtype in (np.float64, np.float16, np.int64, np.int32):
            if dtype not in (np.int64, np.int32) or "Log" not in name:
                for shape in ((1, 500003), (500003, 2)):
                    for axis in (0, 1):
                        yield name, [(f(*shape) * 9).astype(dtype), c(axis)], {}
    for name in ("ArgMax", "ArgMin"):
        for shape in SHAPES[1:]:
            for axis in range(len(shape)):
                yield name, [f(*shape)], {"axis": axis}
        yield name, [i(1, 500000)], {"axis": 1}
        yield name, [i(500000, 2)], {"axis": 0}
        yield name, [f(1, 500000, dtype=np.float16)], {"axis": 1}
    for shape in SHAPES[1:]:
        for axis in range(len(shape)):
            for exclusive in (0, 1):
                yield "CumSum", [f(*shape), scalar(axis)], {"exclusive": exclusive}
            yield "CumSum", [f(*shape, dtype=np.float64), scalar(axis)], {"reverse": 1}
            yield "CumSum", [i(*shape), scalar(axis)], {}
    for shape in SHAPES[1:]:
        for axis in range(len(shape)):
            for name in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
                yield name, [f(*shape)], {"axis": axis}
            yield "LpNormalization", [f(*shape)], {"axis": axis, "p": 1}
    for name in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        for dtype in (np.float16, np.float64):
            yield name, [f(1, 500000, dtype=dtype)], {"axis": 1}
            yield name, [f(500000, 2, dtype=dtype)], {"axis": 0}
    for shape in SHAPES[1:]:
        last = shape[-1]
        yield "LayerNormalization", [f(*shape), f(last), f(last)], {}
        yield "RMSNormalization", [f(*shape), f(last)], {}
        yield "LayerNormalization", [f(*shape), f(last), f(last)], {}, 3
        if len(shape) > 1:
            yield "LayerNormalization", [f(*shape), f(*shape[1:])], {"axis": 1}
    for dtype in (np.float16, np.float64):
        yield "LayerNormalization", [f(1, 500000, dtype=dtype), f(500000, dtype=dtype)], {}
        yield "RMSNormalization", [f(1, 500000, dtype=dtype), f(500000, dtype=dtype)], {}
    for shape in ((1, 64, 100, 101), (1, 3, 500, 501), (1, 2048, 30, 31), (1, 2, 500000), (64, 32, 17, 19), (1, 32, 1, 50000), (1, 100000, 5)):
        channels = shape[1]
        scale = [Constant(f(channels)), Constant(f(channels))]
        yield "InstanceNormalization", [f(*shape), *scale], {}
        for groups in (1, 2, channels):
            if channels % groups == 0:
                yield "GroupNormalization", [f(*shape), *scale], {"num_groups": groups}
        yield "BatchNormalization", [f(*shape), *[f(channels) for _ in range(4)]], {}
        yield "BatchNormalization", [f(*shape), *[f(channels) for _ in range(4)]], {"training_mode": 1}, 3
        if len(shape) == 4:
            yield "GlobalAveragePool", [f(*shape)], {}
            yield "GlobalMaxPool", [f(*shape)], {}
            yield "GlobalLpPool", [f(*shape)], {}
            for name in ("AveragePool", "MaxPool", "LpPool"):
                for kernel in (2, 3):
                    yield name, [f(*shape)], {"kernel_shape": [min(kernel, shape[2]), kernel], "strides": [1, 1]}
                yield name, [f(*shape)], {"kernel_shape": [min(3, shape[2]), 3], "strides": [min(2, shape[2]), 2]}
                yield name, [f(*shape)], {"kernel_shape": [shape[2], 14], "strides": [1, 14]}
            yield "MaxPool", [f(*shape)], {"kernel_shape": [min(3, shape[2]), 3]}, 2
    for name in ("AveragePool", "MaxPool", "LpPool"):
        yield name, [f(1, 1, 1000000)], {"kernel_shape": [3]}
        yield name, [f(1, 1, 100000)], {"kernel_shape": [1001]}
        yield name, [f(1, 4, 40, 60, 61)], {"kernel_shape": [3, 3, 3]}
        yield name, [f(1, 64, 100, 100)], {"kernel_shape": [100, 100]}
        yield name, [f(1, 64, 512, 512)], {"kernel_shape": [512, 512]}
        yield name, [f(1, 1, 1200, 1200)], {"kernel_shape": [600, 600], "strides": [600, 600]}


def searches():
    for shape, k in (((1, 268000), 1000), ((1, 500003), 5), ((3, 170000), 500), ((170000, 3), 2), ((62500, 8), 3), ((8, 62500), 62500), ((1, 200000), 200000), ((700, 701), 300), ((1, 268000), 100000)):
        for dtype in (np.float32, np.int64, np.float16, np.float64, np.int32, np.uint8):
            array = (f(*shape) * (200 if dtype == np.uint8 else 1000)).astype(dtype)
            yield "TopK", [array, c(k)], {}, 2
            yield "TopK", [array, c(k)], {"sorted": 0, "largest": 0}, 2
            yield "TopK", [np.ascontiguousarray(array.T), c(k)], {"axis": 0}, 2
    yield "TopK", [f(3, 60000, 4), c(500)], {"axis": 1}, 2
    yield "TopK", [f(60000, 20), c(500)], {"axis": 0}, 2
    yield "TopK", [np.zeros((1, 268000), np.float32), c(1000)], {}, 2
    for count, side, classes in ((4000, 30, 1), (4000, 300, 1), (2000, 30, 80), (20000, 20, 1), (2000, 300, 80), (400, 30, 600)):
        yield "NonMaxSuppression", [boxes(count, 1000, side)[None], f(1, classes, count), scalar(1000), scalar(.5, np.float32), scalar(.05, np.float32)], {}
    yield "NonMaxSuppression", [np.stack([boxes(1000, 1000, 100) for _ in range(8)]), f(8, 10, 1000), scalar(1000), scalar(.5, np.float32)], {}
    for count, side in ((4000, 30), (4000, 300), (20000, 20)):
        yield "torchvision.nms", [boxes(count, 1000, side), f(count)], {"iou_threshold": .5}
        yield "torchvision.nms", [boxes(count, 1000, side), f(count), i(count, high=80)], {"iou_threshold": .5}


def products():
    for rows, depth, columns in ((8, 100000, 8), (1, 100000, 1), (1, 4096, 4096), (4096, 1, 4096), (100000, 8, 8), (8, 8, 100000), (3, 2048, 4096), (1000, 1001, 999), (3072, 768, 768), (384, 3072, 768), (8, 1000, 4096),
                                 (64, 30000, 64), (1, 1000000, 2), (2, 500000, 1), (17, 20000, 33), (100003, 64, 3), (50000, 1, 3), (512, 1024, 1024), (37, 768, 3072), (1, 30000, 500)):
        a, m = n(rows, depth), n(depth, columns) / 10
        yield "MatMul", [a, m], {}
        yield "MatMul", [a, Constant(m)], {}
        yield "MatMul", [a.astype(np.float16), Constant(m.astype(np.float16))], {}
        yield "Gemm", [a, np.ascontiguousarray(m.T), n(columns)], {"transB": 1}
        yield "Gemm", [np.ascontiguousarray(a.T), m, n(columns)], {"transA": 1}
        if rows * depth * columns < 10000000:
            yield "MatMul", [a.astype(np.float64), m.astype(np.float64)], {}
            yield "MatMul", [(a * 9).astype(np.int32), (m * 99).astype(np.int32)], {}
    yield "MatMul", [n(64, 100, 50), n(64, 50, 100)], {}
    yield "MatMul", [n(4, 50, 20000), n(4, 20000, 5)], {}
    for x, weights, attributes in (((1, 64, 100, 136), (64, 64, 3, 3), {"pads": [1] * 4}), ((1, 16, 200, 272), (16, 16, 3, 3), {"pads": [1] * 4}), ((1, 32, 320, 320), (32, 32, 3, 3), {"pads": [1] * 4}),
                                   ((1, 256, 100, 136), (256, 256, 3, 3), {"pads": [1] * 4}), ((1, 512, 13, 17), (512, 512, 3, 3), {"pads": [1] * 4}), ((1, 3, 480, 640), (64, 3, 7, 7), {"strides": [2, 2], "pads": [3] * 4}),
                                   ((1, 3, 480, 640), (32, 3, 3, 3), {"strides": [2, 2], "pads": [1] * 4}), ((1, 256, 50, 68), (1024, 256, 1, 1), {}), ((1, 1024, 50, 68), (256, 1024, 1, 1), {}),
                                   ((1, 64, 100, 136), (64, 64, 1, 1), {}), ((1, 256, 50, 68), (512, 256, 1, 1), {"strides": [2, 2]}), ((1, 96, 80, 81), (96, 1, 3, 3), {"group": 96, "pads": [1] * 4}),
                                   ((1, 960, 20, 20), (960, 1, 5, 5), {"group": 960, "pads": [2] * 4}), ((1, 32, 500, 500), (32, 1, 3, 3), {"group": 32, "pads": [1] * 4, "strides": [2, 2]}),
                                   ((1, 128, 60, 60), (128, 4, 3, 3), {"group": 32, "pads": [1] * 4}), ((1, 256, 40, 40), (256, 32, 3, 3), {"group": 8, "pads": [1] * 4}), ((1, 1, 800, 801), (1, 1, 3, 3), {}),
                                   ((1, 1, 800, 801), (2, 1, 11, 11), {}), ((1, 8, 20, 60, 61), (8, 8, 3, 3, 3), {}), ((1, 64, 8, 28, 28), (64, 64, 3, 3, 3), {"pads": [1] * 6}), ((1, 4, 200000), (4, 4, 9), {}),
                                   ((4, 512, 2048), (512, 512, 5), {"pads": [2, 2]}), ((1, 1, 500000), (16, 1, 25), {"strides": [5]}), ((1, 2048, 1, 1), (1000, 2048, 1, 1), {}), ((1, 64, 2, 2), (64, 64, 31, 31), {"pads": [15] * 4}),
                                   ((1, 32, 100, 100), (32, 32, 3, 3), {"dilations": [6, 6], "pads": [6] * 4}), ((1, 1280, 1, 5000), (8, 1280, 1, 1), {}), ((1, 48, 150, 150), (24, 48, 3, 3), {}),
                                   ((1, 128, 75, 75), (6, 128, 3, 3), {"pads": [1] * 4}), ((1, 128, 75, 75), (24, 128, 3, 3), {"pads": [1] * 4}), ((1, 8, 640, 640), (8, 8, 3, 3), {"pads": [1] * 4})):
        yield "Conv", [n(*x), w(*weights), w(weights[0])], attributes
        yield "Conv", [n(*x), w(*weights)], {"layout": "last", **attributes}
        if len(x) == 4 and np.prod(weights) < 600000:
            yield "Conv", [n(*x), w(*weights).array], attributes
            yield "Conv", [n(*x).astype(np.float16), Constant(w(*weights).array.astype(np.float16))], attributes
    for x, weights, attributes in (((1, 64, 60, 61), (64, 32, 2, 2), {"strides": [2, 2]}), ((1, 256, 14, 14), (256, 256, 2, 2), {"strides": [2, 2]}), ((1, 16, 200, 201), (16, 3, 3, 3), {}), ((1, 8, 300, 300), (8, 1, 4, 4), {"strides": [2, 2]}),
                                   ((1, 4, 30, 40, 41), (4, 4, 3, 3, 3), {}), ((1, 2, 100000), (2, 1, 16), {"strides": [8]}), ((1, 32, 60, 60), (32, 1, 4, 4), {"strides": [2, 2], "group": 32})):
        yield "ConvTranspose", [n(*x), w(*weights)], attributes
    yield "DeformConv", [n(1, 64, 50, 51), w(64, 64, 3, 3), n(1, 18, 50, 51)], {"pads": [1] * 4}
    yield "DeformConv", [n(1, 256, 25, 26), w(256, 256, 3, 3), n(1, 18, 25, 26)], {"pads": [1] * 4}
    for x, o in (((1, 64, 50, 51), 64), ((1, 4, 200, 201), 4)):
        offset, mask, m = n(1, 18, *x[2:]), f(1, 9, *x[2:]), n(o, x[1], 3, 3)
        pads = {"pad_h": 1, "pad_w": 1}
        yield "torchvision.deform_conv2d", [n(*x), m, offset, mask, n(o)], pads
        yield "torchvision.deform_conv2d_backward", [n(1, o, *x[2:]), n(*x), m, offset, mask], pads, 5
    for size, image, block in ((3 * 9, 200 * 200, (202, 202)), (64 * 9, 40 * 40, (42, 42)), (1 * 49, 300 * 300, (306, 306))):
        side = 7 if size == 49 else 3
        yield "Col2Im", [f(1, size, image), c(*block), c(side, side)], {}


def sequences():
    for queries, keys, heads, depth in ((512, 512, 4, 64), (1, 4000, 8, 64), (1, 100000, 1, 64), (2048, 2048, 1, 64), (8, 20000, 2, 40), (16, 300, 32, 128), (4000, 1, 8, 64), (384, 384, 12, 64), (77, 1500, 8, 64), (512, 512, 8, 256)):
        for dtype in (np.float32, np.float16):
            q, k, v = (n(1, heads, length, depth).astype(dtype) for length in (queries, keys, keys))
            yield "Attention", [q, k, v], {}
            yield "Attention", [q, k, v], {"is_causal": 1}
        yield "Attention", [q.astype(np.float32), k.astype(np.float32), v.astype(np.float32), n(queries, keys)], {}
    yield "RotaryEmbedding", [n(1, 8, 2000, 64), n(2000, 32), n(2000, 32), np.arange(2000)[None]], {}
    yield "RotaryEmbedding", [n(1, 1, 20000, 64), n(20000, 32), n(20000, 32), np.arange(20000)[None]], {"interleaved": 1}
    for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for length, batch, wide, units in ((50, 1, 256, 256), (20, 32, 256, 256), (500, 1, 64, 64), (10, 1, 1024, 1024), (5, 500, 64, 64), (2000, 1, 16, 16), (3, 1, 2000, 1500), (20, 7, 100, 301)):
            for directions in (1, 2):
                yield (name, [n(length, batch, wide), w(directions, gates * units, wide), w(directions, gates * units, units)],
                       {"hidden_size": units, "direction": "bidirectional" if directions == 2 else "forward"})


def pictures():
    for mode in ("nearest", "linear", "cubic"):
        for scales in ((1, 1, 2, 2), (1, 1, 1.7, 1.3), (1, 1, .3, .4)):
            for shape in ((1, 3, 400, 401), (1, 64, 60, 61), (1, 1, 30, 20000), (1, 512, 13, 13)):
                for antialias in (0, 1) if mode != "nearest" and scales[2] < 1 else (0,):
                    yield "Resize", [f(*shape), None, c(*scales, dtype=np.float32)], {"mode": mode, "antialias": antialias}
    yield "Resize", [i(1, 3, 400, 401, high=255, dtype=np.uint8), None, c(1, 1, 2, 2, dtype=np.float32)], {"mode": "linear"}
    yield "Resize", [f(1, 1, 500000), None, c(1, 1, 3, dtype=np.float32)], {"mode": "linear"}
    for x, count, side, cells, ratio in (((1, 256, 100, 136), 1000, 30, 7, 2), ((1, 256, 100, 136), 10, 90, 14, 0), ((1, 64, 200, 272), 300, 90, 7, 0), ((1, 4, 100, 100), 5000, 30, 7, 2), ((1, 1024, 50, 68), 300, 30, 14, 0), ((1, 8, 500, 500), 3, 490, 2, 0)):
        given = boxes(count, min(x[2:]), side)
        for mode in ("avg", "max"):
            yield "RoiAlign", [f(*x), given, np.zeros(count, np.int64)], {"mode": mode, "output_height": cells, "output_width": cells, "sampling_ratio": ratio}
        indexed = indexed_boxes(count, min(x[2:]), side)
        pooled = {"pooled_height": cells, "pooled_width": cells}
        yield "MaxRoiPool", [f(*x), indexed], {"pooled_shape": [cells, cells]}
        yield "torchvision.roi_align", [f(*x), indexed], {**pooled, "sampling_ratio": ratio}
        yield "torchvision.roi_pool", [f(*x), indexed], pooled, 2
        grad, extents = f(count, x[1], cells, cells), np.array(x)
        if grad.size < 30000000:
            yield "torchvision.roi_align_backward", [grad, indexed, extents], {**pooled, "sampling_ratio": ratio}
            yield "torchvision.roi_pool_backward", [grad, indexed, i(*grad.shape, high=x[2] * x[3], dtype=np.int32), extents], pooled
    for x, count, side, cells in (((1, 490, 50, 68), 300, 30, 7), ((1, 8, 400, 400), 30, 390, 2)):
        indexed, pooled = indexed_boxes(count, min(x[2:]), side), {"pooled_height": cells, "pooled_width": cells}
        grad = f(count, x[1] // cells**2, cells, cells)
        for name in ("ps_roi_align", "ps_roi_pool"):
            yield "torchvision." + name, [f(*x), indexed], pooled
            yield f"torchvision.{name}_backward", [grad, indexed, np.array(x)], pooled


GROUPS = (elementwise, movement, reductions, searches, products, sequences, pictures)  # with large extents


def usual():
    """As in detectors, classifiers, transformers and decoders: batch 1, maps of a picture, hidden sizes."""
    yield "LayerNormalization", [n(1, 128, 768), Constant(f(768)), Constant(f(768))], {"axis": -1}
    yield "LayerNormalization", [n(1, 3136, 96), Constant(f(96)), Constant(f(96))], {"axis": -1}
    yield "LayerNormalization", [n(1, 49, 32), Constant(f(32)), Constant(f(32))], {"axis": -1}
    yield "Softmax", [n(1, 12, 128, 128)], {"axis": -1}
    yield "Softmax", [n(64, 3, 49, 49)], {"axis": -1}
    yield "Softmax", [n(1, 4, 16, 8400)], {"axis": 1}
    yield "Softmax", [n(1, 4, 16, 8400)], {"axis": 2}
    yield "Softmax", [n(1, 21, 512, 512)], {"axis": 1}
    yield "Softmax", [n(1, 8732, 21)], {"axis": -1}
    yield "Softmax", [n(1000, 91)], {"axis": -1}
    for perm, x in (((0, 2, 1, 3), (1, 128, 12, 64)), ((0, 1, 3, 2), (1, 12, 128, 64)), ((0, 2, 3, 1), (1, 256, 50, 68)), ((0, 3, 1, 2), (1, 50, 68, 256)), ((0, 2, 3, 1), (1, 3, 480, 640)), ((0, 3, 1, 2), (1, 480, 640, 3)),
                    ((0, 2, 1), (1, 84, 8400)), ((1, 0), (768, 3072)), ((0, 1, 3, 2, 4, 5), (1, 8, 7, 8, 7, 96))):
        yield "Transpose", [f(*x)], {"perm": perm}
    yield "Add", [f(1, 128, 768), Constant(f(768))], {}
    yield "Add", [f(1, 256, 50, 68), f(1, 256, 50, 68)], {}
    yield "Mul", [f(1, 256, 50, 68), f(1, 256, 1, 1)], {}
    yield "Add", [f(1, 12, 128, 128), f(1, 1, 1, 128)], {}
    yield "Add", [f(1, 12, 128, 128), f(1, 1, 128, 128)], {}
    yield "Sub", [f(1, 3, 480, 640), Constant(f(3, 1, 1))], {}
    yield "Div", [f(1, 3, 480, 640), Constant(f(3, 1, 1))], {}
    yield "Mul", [f(1, 100, 1), f(1, 1, 300)], {}
    yield "Clip", [n(1, 256, 50, 68), c(0, dtype=np.float32), c(6, dtype=np.float32)], {}
    yield "Relu", [n(1, 256, 50, 68)], {}
    yield "HardSwish", [n(1, 96, 56, 56)], {}
    yield "Sigmoid", [n(1, 80, 8400)], {}
    yield "LeakyRelu", [n(1, 256, 50, 68)], {}
    yield "PRelu", [n(1, 64, 112, 112), Constant(f(64, 1, 1))], {}
    yield "Where", [b(1, 1, 128, 128), f(1, 12, 128, 128), c(0, dtype=np.float32)], {}
    yield "Equal", [i(1, 128), c(1)], {}
    yield "Not", [b(1, 1, 512, 512)], {}
    yield "Cast", [f(1, 3, 480, 640)], {"to": 10}
    yield "Cast", [i(1, 3, 480, 640, high=255, dtype=np.uint8)], {"to": 1}
    yield "Cast", [i(1, 512, 512, dtype=np.int32)], {"to": 7}
    yield "Concat", [f(1, 128, 80, 80), f(1, 128, 80, 80)], {"axis": 1}
    yield "Concat", [f(1, 84, 6400), f(1, 84, 1600), f(1, 84, 400)], {"axis": 2}
    yield "Concat", [f(1, 8732, 4), f(1, 8732, 4)], {"axis": -1}
    yield "Slice", [f(1, 84, 8400), c(0), c(4), c(1)], {}
    yield "Slice", [f(1, 3, 640, 640), c(0), c(10000), c(2), c(2)], {}
    yield "Slice", [f(1, 128, 2304), c(768), c(1536), c(2)], {}
    yield "Pad", [f(1, 64, 112, 112), c(0, 0, 1, 1, 0, 0, 1, 1)], {}
    yield "Pad", [f(1, 3, 480, 640), c(0, 0, 16, 16, 0, 0, 16, 16)], {"mode": "reflect"}
    yield "Gather", [Constant(f(30522, 768)), i(1, 128, high=30000)], {"axis": 0}
    yield "Gather", [f(1, 128, 3, 768), c(1)], {"axis": 2}
    yield "GatherElements", [f(1, 8400, 4), i(1, 300, 4, high=8400)], {"axis": 1}
    yield "GatherND", [f(1, 8400, 84), i(300, 2, high=1)], {}
    yield "Resize", [f(1, 256, 25, 34), None, c(1, 1, 2, 2, dtype=np.float32)], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield "Resize", [f(1, 256, 25, 34), None, c(1, 1, 2, 2, dtype=np.float32)], {"mode": "linear"}
    yield "Resize", [f(1, 21, 65, 65), None, c(1, 1, 8, 8, dtype=np.float32)], {"mode": "linear"}
    yield "Resize", [f(1, 3, 480, 640), None, c(1, 1, 1.6667, 1.6667, dtype=np.float32)], {"mode": "linear"}
    yield "Resize", [f(1, 3, 480, 640), None, c(1, 1, .5, .5, dtype=np.float32)], {"mode": "linear"}
    yield "Resize", [f(1, 64, 64, 64), None, c(1, 1, 2, 2, dtype=np.float32)], {"mode": "cubic"}
    yield "GlobalAveragePool", [f(1, 2048, 7, 7)], {}
    yield "GlobalAveragePool", [f(1, 64, 112, 112)], {}
    yield "ReduceMean", [f(1, 2048, 7, 7), c(2, 3)], {}
    yield "ReduceMean", [f(1, 128, 768), c(-1)], {}
    yield "ReduceMax", [f(1, 80, 8400), c(1)], {}
    yield "ReduceSum", [f(1, 12, 128, 128), c(-1)], {}
    yield "ArgMax", [f(1, 21, 512, 512)], {"axis": 1}
    yield "ArgMax", [f(1, 80, 8400)], {"axis": 1}
    yield "ArgMax", [f(1, 128, 30522)], {"axis": -1}
    yield "TopK", [f(1, 8400), c(300)], {}, 2
    yield "TopK", [f(1, 217413), c(1000)], {}, 2
    yield "TopK", [f(1, 80, 8400), c(100)], {"axis": -1}, 2
    yield "TopK", [f(1000, 91), c(5)], {}, 2
    yield "NonZero", [b(1, 8400, 80)], {}
    yield "MaxPool", [f(1, 64, 112, 112)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "MaxPool", [f(1, 64, 112, 112)], {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield "MaxPool", [f(1, 256, 20, 20)], {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    yield "AveragePool", [f(1, 256, 56, 56)], {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield "AveragePool", [f(1, 192, 35, 35)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield "InstanceNormalization", [f(1, 64, 128, 128), Constant(f(64)), Constant(f(64))], {}
    yield "GroupNormalization", [f(1, 320, 64, 64), Constant(f(320)), Constant(f(320))], {"num_groups": 32}
    yield "BatchNormalization", [f(1, 64, 112, 112), Constant(f(64)), Constant(f(64)), Constant(f(64)), Constant(f(64))], {}
    yield "DepthToSpace", [f(1, 27, 256, 256)], {"blocksize": 3}
    yield "DepthToSpace", [f(1, 256, 64, 64)], {"blocksize": 2, "mode": "CRD"}
    yield "SpaceToDepth", [f(1, 3, 640, 640)], {"blocksize": 2}
    yield "GridSample", [f(1, 32, 64, 64), n(1, 64, 64, 2)], {"mode": "linear"}
    yield "MatMul", [n(12, 128, 64), n(12, 64, 128)], {}
    yield "MatMul", [n(12, 128, 128), n(12, 128, 64)], {}
    yield "MatMul", [n(1, 128, 768), w(768, 768)], {}
    yield "MatMul", [n(1, 1, 768), w(768, 30522)], {}
    yield "MatMul", [n(1, 512, 512), n(1, 512, 512)], {}
    yield "MatMul", [n(1000, 4), n(4, 4)], {}
    yield "Gemm", [n(1, 2048), w(1000, 2048), w(1000)], {"transB": 1}
    yield "Gemm", [n(1000, 12544), w(1024, 12544), w(1024)], {"transB": 1}
    yield "Gemm", [n(64, 512), w(512, 512), w(512)], {}
    yield "CumSum", [f(1, 512), c(1)], {}
    yield "Expand", [f(1, 1, 128), c(1, 128, 128)], {}
    yield "Tile", [f(1, 8, 1, 64), c(1, 1, 128, 1)], {}
    yield "Range", [np.int64(0), np.int64(1000), np.int64(1)], {}
    yield "OneHot", [i(1, 128, high=80), c(80), c(0, 1, dtype=np.float32)], {}
    yield "ScatterND", [f(1, 8400, 4), i(1, 300, 2, high=1), f(1, 300, 4)], {}
    yield "Trilu", [f(1, 128, 128)], {}
    yield "Exp", [n(1, 4, 8400)], {}
    yield "Sqrt", [f(1, 128, 768)], {}
    yield "Pow", [f(1, 128, 768), c(2, dtype=np.float32)], {}
    yield "Erf", [n(1, 128, 3072)], {}
    yield "Gelu", [n(1, 128, 3072)], {}
    yield "Tanh", [n(1, 128, 3072)], {}
    yield "Sin", [n(1, 128, 64)], {}
    yield "Cos", [n(1, 128, 64)], {}
    yield "LSTM", [n(50, 1, 64), w(1, 512, 64), w(1, 512, 128), w(1, 1024)], {"hidden_size": 128}
    yield "GRU", [n(50, 1, 64), w(1, 384, 64), w(1, 384, 128), w(1, 768)], {"hidden_size": 128}
    yield "ConvTranspose", [n(1, 256, 28, 28), w(256, 128, 2, 2)], {"strides": [2, 2]}
    yield "ConvTranspose", [n(1, 256, 14, 14), w(256, 128, 4, 4)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "Conv", [n(1, 64, 400), w(64, 64, 3)], {"pads": [1, 1]}
    yield "Conv", [n(1, 3, 224, 224), w(32, 3, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "Einsum", [n(1, 12, 128, 64), n(1, 12, 128, 64)], {"equation": "bhid,bhjd->bhij"}
    yield "ReduceL2", [n(1, 128, 768), c(-1)], {}
    yield "LpNormalization", [n(100, 512)], {"axis": -1}
    yield "Mean", [f(1, 64, 56, 56), f(1, 64, 56, 56)], {}
    yield "Max", [f(1, 64, 56, 56), c(0, dtype=np.float32)], {}
    yield "Mod", [i(1, 300, high=8400), c(80)], {}
    yield "Div", [i(1, 300, high=8400), c(80)], {}
    yield "Unique", [i(1000, high=50)], {}


def model_of(case, path):
    """Writes the model; returns the arrays of its inputs."""
    name, operands, attributes, n_outputs = (*case, 1)[:4]
    inputs, constants, names, arrays, before, after = [], [], [], {}, [], []
    for number, operand in enumerate(operands):
        operand_name = f"x{number}" if operand is not None else ""
        names.append(operand_name)
        if isinstance(operand, Constant):
            constants.append(numpy_helper.from_array(operand.array, operand_name))
        elif operand is not None:
            arrays[operand_name] = operand
            inputs.append(helper.make_tensor_value_info(operand_name, helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape))
    attributes = dict(attributes)
    outputs = [f"y{number}" for number in range(n_outputs)]
    if name == "Fused":
        before, operation = [helper.make_node("Mul", ["x0", "x0"], ["m"]), helper.make_node("Exp", ["m"], ["e"]), helper.make_node("Tanh", ["e"], ["t"])], ("Add", "")
        names = ["t", "x0"]
    else:
        operation = tuple(name.split(".")[::-1]) if "." in name else (name, "")
    if attributes.pop("layout", ""):  # a neighbour on each side, so that the layout pass puts channels last
        rank = operands[0].ndim
        before = [helper.make_node("Transpose", ["x0"], ["l"], perm=[0, rank - 1, *range(1, rank - 1)])]
        arrays["x0"] = np.ascontiguousarray(np.moveaxis(operands[0], 1, -1))
        inputs[0] = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(operands[0].dtype), arrays["x0"].shape)
        after = [helper.make_node("Transpose", ["c"], ["y0"], perm=[0, *range(2, rank), 1])]
        names[0], node_outputs = "l", ["c"]
    else:
        node_outputs = outputs
    node = helper.make_node(operation[0], names, node_outputs, name="it", domain=operation[1], **attributes)
    graph = helper.make_graph([*before, node, *after], "one", inputs, [helper.make_empty_tensor_value_info(output) for output in outputs], constants)
    for output in graph.output:  # the compiler infers dtypes and extents
        output.type.Clear()
    newest = 24 if name == "TensorScatter" else 23
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest), helper.make_opsetid("torchvision", 1)])
    model.ir_version = 10
    save(model, path)
    return arrays


def saved(arrays, folder):
    """Writes the arrays of inputs; returns the command's words that name them."""
    words = []
    for name, array in arrays.items():
        path = os.path.join(folder, name + ".npy")
        np.save(path, array)
        words += ["-i", f"{name}=@{path}"]
    return words


def cases_of(groups, only):
    """The cases of the groups; with names in the text `only`, such as "TopK,Softmax", those operators' alone."""
    names = {name for name in only.split(",") if name}
    for group in groups:
        yield from (case for case in group() if not names or case[0] in names)


def text_of(case):
    name, operands, attributes = case[:3]
    shown = [("x".join(map(str, a.shape)) or "1") + ("" if a.dtype == np.float32 else ":" + a.dtype.name) + ("" if a is o else " const") for o in operands if o is not None for a in [o.array if isinstance(o, Constant) else o]]
    return f"{name} {', '.join(shown)} {attributes or ''}"
