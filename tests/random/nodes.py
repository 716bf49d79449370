"""Random nodes with operands at the edges of what an operator allows: random dtype, rank, attributes; extents of 0, 1 and around the sizes at which kernels change their way; ties, NaN, infinities,
-0, the least and the largest integers, negative steps and indices, indices that are outside. Half of the operands are views or results: a Transpose, Slice or Expand stands before the node."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

TYPES = {"f32": T.FLOAT, "f64": T.DOUBLE, "f16": T.FLOAT16, "bf16": T.BFLOAT16, "i8": T.INT8, "i16": T.INT16, "i32": T.INT32, "i64": T.INT64, "u8": T.UINT8, "u16": T.UINT16, "u32": T.UINT32,
         "u64": T.UINT64, "bool": T.BOOL}
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.float32, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
         "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}
FLOATS, REALS = ("f32", "f64", "f16", "bf16"), ("f32", "f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
NUMBERS, ALL = FLOATS + INTEGERS, FLOATS + INTEGERS + ("bool",)
LAST, FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class Node:
    """One node while it is made: operands are inputs of the model."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.given, self.arrays, self.constants = [], [], [], []
        self.operator, self.attributes, self.n_outputs, self.exact, self.opset, self.domain = None, {}, 1, True, 18, ""

    def one(self, *choices): return choices[self.r.integers(len(choices))]
    def flag(self): return int(self.r.integers(2))
    def number(self, low, high): return int(self.r.integers(low, high + 1))
    def dims(self, low=1, high=4, most=7): return [self.one(1, 1, 2, 3, self.number(0, most)) for _ in range(self.number(low, high))]

    def array(self, dtype, dims, values="edges"):
        """values: edges, ties (few values), plain, unit (small), positive"""
        n = int(np.prod(dims, dtype=np.int64))
        if dtype == "bool": return self.r.integers(0, 2, dims).astype(bool)
        if dtype in FLOATS:
            x = self.r.standard_normal(n) * (1 if dtype in ("f16", "bf16") else self.one(1, 1, 1 if values == "unit" else 100))
            if values == "ties": x = np.round(x)
            if values == "positive": x = np.abs(x) + .1
            if values == "edges" and n:
                for edge in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                    if self.flag(): x[self.r.integers(0, n, self.number(1, 3))] = edge
            x = x.astype(NUMPY[dtype])
            if dtype == "bf16": x = (x.view(np.uint32) & 0xffff0000).view(np.float32)
            return x.reshape(dims)
        info = np.iinfo(NUMPY[dtype])
        x = self.r.integers(max(info.min, -9), 10, n).astype(NUMPY[dtype])
        if values == "edges" and n:
            for edge in (info.min, info.max, info.max - 1):
                if self.flag(): x[self.r.integers(0, n, self.number(1, 3))] = edge
        return x.reshape(dims)

    def operand(self, dtype, dims, values="edges", plain=False):
        """A name of the operand; plain: no node before it."""
        way = "" if plain or not dims else self.one("", "", "", "transpose", "slice", "expand")
        if way == "transpose":
            order = list(self.r.permutation(len(dims)))
            source = [0] * len(dims)
            for i, o in enumerate(order): source[o] = dims[i]
            return self.node("Transpose", [self.feed(self.array(dtype, source, values), dtype)], perm=[int(o) for o in order])
        if way == "slice":
            axis = self.number(0, len(dims) - 1)
            wide = list(dims)
            step, wide[axis] = self.one(1, 2, -1, -3), 3 * dims[axis] + 2
            start = 1 if step > 0 else wide[axis] - 1
            stop = start + step * dims[axis]
            if stop < 0: stop = FIRST
            x = self.feed(self.array(dtype, wide, values), dtype)
            return self.node("Slice", [x] + [self.feed(np.array([v], np.int64)) for v in (start, stop, axis, step)])
        if way == "expand":
            narrow = [1 if self.flag() else d for d in dims]
            return self.node("Expand", [self.feed(self.array(dtype, narrow, values), dtype), self.feed(np.array(dims, np.int64))])
        return self.feed(self.array(dtype, dims, values), dtype)

    def feed(self, array, dtype=None):
        name = f"x{len(self.given)}"
        array = np.asarray(array)
        self.given.append(h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(array.dtype), [f"{name}_{k}" for k in range(array.ndim)]))
        self.arrays.append(array)
        return self.node("Cast", [name], to=T.BFLOAT16) if dtype == "bf16" else name

    def node(self, operator, inputs, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(h.make_node(operator, inputs, [name], **attributes))
        return name

    def call(self, operator, inputs, dtypes, n_outputs=1, exact=True, opset=None, domain="", **attributes):
        """dtypes: of the outputs."""
        self.operator, self.attributes, self.exact, self.dtypes = operator, attributes, exact, dtypes
        outputs = [f"y{i}" for i in range(n_outputs)]
        self.nodes.append(h.make_node(operator, inputs, outputs, domain=domain, **attributes))
        self.opset, self.domain = opset or self.opset, domain
        made = []
        for o, dtype in zip(outputs, dtypes):
            if dtype == "bf16": self.nodes.append(h.make_node("Cast", [o], [o + "_"], to=T.FLOAT))
            made.append(h.make_tensor_value_info(o + "_" if dtype == "bf16" else o, T.FLOAT if dtype == "bf16" else TYPES[dtype], None))
        imports = [h.make_opsetid("", self.opset)] + ([h.make_opsetid(domain, 1)] if domain else [])
        self.model = h.make_model(h.make_graph(self.nodes, operator, self.given, made, initializer=self.constants), opset_imports=imports, ir_version=10)


def top_k(g):
    dtype, long_row = g.one(*NUMBERS), g.one(0, 0, 2047, 2048, 2049, 4097, 8192, 8193, 9001)
    dims, axis = (g.one([long_row], [2, long_row], [long_row, 2]), None) if long_row else (g.dims(), None)
    axis = int(np.argmax(dims)) if long_row else g.number(0, len(dims) - 1)
    n = dims[axis]
    k = min(n, g.one(0, 1, n, n - 1 if n else 0, g.number(0, n), g.number(0, min(n, 9))))
    x, most = g.operand(dtype, dims, g.one("edges", "ties")), g.feed(np.array([k], np.int64))
    g.call("TopK", [x, most], [dtype, "i64"], 2, axis=g.one(axis, axis - len(dims)), largest=g.flag())


def unique(g):
    dtype, dims = g.one(*ALL), g.one(g.dims(), [g.one(255, 256, 257, 1025)], [g.number(1, 70), 2])
    attributes = {"axis": g.number(-len(dims), len(dims) - 1)} if g.flag() else {}
    g.call("Unique", [g.operand(dtype, dims, g.one("edges", "ties"))], [dtype, "i64", "i64", "i64"], g.number(1, 4), sorted=g.flag(), **attributes)


def nonzero(g):
    g.call("NonZero", [g.operand(g.one(*ALL), g.one(g.dims(), [g.one(2047, 2048, 2049, 4100)], [3, 1500]), g.one("edges", "ties"))], ["i64"])


def compress(g):
    dtype, dims = g.one(*ALL), g.dims()
    attributes = {"axis": g.number(-len(dims), len(dims) - 1)} if g.flag() else {}
    n = dims[attributes["axis"]] if attributes else int(np.prod(dims))
    g.call("Compress", [g.operand(dtype, dims), g.operand("bool", [g.one(n, g.number(0, n), 1)])], [dtype], **attributes)


def cumsum(g):
    dtype, dims = g.one("f32", "f64", "i32", "i64", "u32", "u64", "f16", "bf16"), g.one(g.dims(), [g.one(2048, 2049, 5000)], [2, 3000], [2100, 3])
    axis = np.array(g.number(-len(dims), len(dims) - 1), g.one(np.int32, np.int64))
    g.call("CumSum", [g.operand(dtype, dims, "plain"), g.feed(axis)], [dtype], exact=dtype in INTEGERS, exclusive=g.flag(), reverse=g.flag())


def slice_(g):
    dtype, dims = g.one(*ALL), g.dims()
    axes = [int(a) for a in g.r.permutation(len(dims))[:g.number(1, len(dims))]]
    edge = lambda d: g.one(0, d, -1, -d, d - 1, FIRST, LAST, -LAST, g.number(-9, 9))
    starts, ends = [edge(dims[a]) for a in axes], [edge(dims[a]) for a in axes]
    steps = [g.one(1, 1, -1, 2, -2, 3, LAST, FIRST + 1, -7) for _ in axes]
    index = g.one(np.int32, np.int64)
    cut = lambda v: g.feed(np.clip(np.array(v, np.int64), np.iinfo(index).min, np.iinfo(index).max).astype(index))
    g.call("Slice", [g.operand(dtype, dims), cut(starts), cut(ends), cut([a - len(dims) if g.flag() else a for a in axes]), cut(steps)], [dtype])


def pad(g):
    dtype, dims, mode = g.one(*ALL), [max(d, 2) for d in g.dims()], g.one("constant", "constant", "reflect", "edge", "wrap")
    pads = [g.number(-1, 1 if mode in ("reflect", "wrap") else 4) for _ in range(2 * len(dims))]
    inputs = [g.operand(dtype, dims), g.feed(np.array(pads, np.int64))]
    if mode == "constant": inputs.append(g.operand(dtype, [], plain=True) if g.flag() else "")
    g.call("Pad", inputs, [dtype], opset=19, mode=mode)


def gather(g):
    dtype, dims = g.one(*ALL), g.dims()
    axis, index = g.number(0, len(dims) - 1), g.one(np.int32, np.int64)
    n, outside = dims[axis], g.r.random() < .1
    at = g.r.integers(-n, max(n, 1), g.dims(0, 3)).astype(index) if n else np.zeros([0], index)
    if outside and at.size: at.flat[g.number(0, at.size - 1)] = g.one(n, -n - 1, np.iinfo(index).max, np.iinfo(index).min)
    g.call("Gather", [g.operand(dtype, dims), g.feed(at)], [dtype], axis=g.one(axis, axis - len(dims)))


def gather_elements(g):
    dtype, dims = g.one(*ALL), g.dims()
    axis, index = g.number(0, len(dims) - 1), g.one(np.int32, np.int64)
    shape = [g.number(0, d) for d in dims]
    shape[axis], n = g.number(0, 9), dims[axis]
    if not n: shape[axis] = 0
    at = g.r.integers(-n, max(n, 1), shape).astype(index)
    g.call("GatherElements", [g.operand(dtype, dims), g.feed(at)], [dtype], axis=g.one(axis, axis - len(dims)))


def gather_nd(g):
    dtype, dims = g.one(*ALL), [max(1, d) for d in g.dims(2, 4)]
    batch = g.number(0, len(dims) - 1)
    depth = g.number(1, len(dims) - batch)
    shape = dims[:batch] + g.dims(0, 2) + [depth]
    if len(shape) <= batch: return gather(g)
    at = np.stack([g.r.integers(-dims[batch + k], dims[batch + k], shape[:-1]) for k in range(depth)], -1).astype(np.int64)
    g.call("GatherND", [g.operand(dtype, dims), g.feed(at)], [dtype], batch_dims=batch)


def scatter_elements(g):
    dtype, dims, reduction = g.one(*NUMBERS), g.dims(), g.one("none", "add", "mul", "max", "min")
    axis, index = g.number(0, len(dims) - 1), g.one(np.int32, np.int64)
    shape = [g.number(0, d) for d in dims]
    shape[axis] = g.number(0, 9) if dims[axis] else 0
    at = g.r.integers(-dims[axis], max(dims[axis], 1), shape).astype(index)
    g.call("ScatterElements", [g.operand(dtype, dims, "edges"), g.feed(at), g.operand(dtype, shape, "edges")], [dtype], axis=axis, reduction=reduction)


def scatter_nd(g):
    dtype, dims, reduction = g.one(*NUMBERS), [max(1, d) for d in g.dims()], g.one("none", "add", "mul", "max", "min")
    depth, shape = g.number(1, len(dims)), g.dims(0, 2)
    at = np.stack([g.r.integers(-dims[k], dims[k], shape) for k in range(depth)], -1).astype(np.int64)
    if g.r.random() < .1 and at.size: at.flat[0] = g.one(dims[0], FIRST, LAST)
    g.call("ScatterND", [g.operand(dtype, dims, "edges"), g.feed(at), g.operand(dtype, shape + dims[depth:], "edges")], [dtype], reduction=reduction)


def reduce_(g):
    operator = g.one("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
    decides = operator in ("ReduceMax", "ReduceMin")
    dtype, dims = g.one(*(NUMBERS if decides else ("f32", "f64", "f16", "bf16", "i32", "i64"))), g.one(g.dims(1, 5), [20000], [3, 9000], [300, 70])
    axes = [int(a) for a in g.r.permutation(len(dims))[:g.number(0, len(dims))]]
    inputs = [g.operand(dtype, dims, "edges" if decides else "positive" if "Log" in operator else "plain")]
    if axes: inputs.append(g.feed(np.array([a - len(dims) if g.flag() else a for a in axes], np.int64)))
    g.call(operator, inputs, [dtype], exact=dtype in INTEGERS and operator in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare") or decides, opset=20,
           keepdims=g.flag(), noop_with_empty_axes=g.flag())


def arg_reduce(g):
    dtype, dims = g.one(*NUMBERS), [max(d, 1) for d in g.one(g.dims(), [9000], [2, 3000], [3000, 2])]
    g.call(g.one("ArgMax", "ArgMin"), [g.operand(dtype, dims, g.one("edges", "ties"))], ["i64"], axis=g.number(-len(dims), len(dims) - 1), keepdims=g.flag(), select_last_index=g.flag())


def softmax(g):
    dtype, dims, operator = g.one(*REALS), g.one(g.dims(), [2, 5000], [1025, 3]), g.one("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
    values = g.one("plain", "edges") if operator == "Hardmax" else "plain"
    more = {"p": g.one(1, 2)} if operator == "LpNormalization" else {}
    g.call(operator, [g.operand(dtype, dims, values)], [dtype], exact=operator == "Hardmax", axis=g.number(-len(dims), len(dims) - 1), **more)


def pool(g):
    dtype, axes, operator = g.one(*REALS), g.number(1, 3), g.one("MaxPool", "AveragePool", "LpPool")
    kernel = [g.number(1, 3) for _ in range(axes)]
    dims = [g.one(0, 1, 2), g.number(1, 5)] + [g.number(3, 9) for _ in range(axes)]
    attributes = {"kernel_shape": kernel, "strides": [g.number(1, 3) for _ in kernel], "pads": [g.number(0, k - 1) for k in kernel] + [g.number(0, k - 1) for k in kernel], "ceil_mode": g.flag()}
    if g.flag(): attributes["dilations"] = [g.number(1, 2) for _ in kernel]
    if operator == "AveragePool": attributes["count_include_pad"] = g.flag()
    if operator == "LpPool": attributes["p"] = g.number(1, 3)
    with_indices = operator == "MaxPool" and g.flag()
    if with_indices: attributes["storage_order"] = g.flag()
    g.call(operator, [g.operand(dtype, dims, "ties" if operator == "MaxPool" else "plain")], [dtype, "i64"], 1 + with_indices, exact=operator == "MaxPool", opset=19, **attributes)


def resize(g):
    dtype, mode = g.one("f32", "f32", "f64", "f16", "bf16", "u8", "i8"), g.one("nearest", "linear", "cubic")
    dims = [1, 1] + [g.number(1, 9) for _ in range(g.number(1, 2 if mode == "cubic" else 3))]
    attributes = {"mode": mode, "coordinate_transformation_mode": g.one("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")}
    if mode == "nearest": attributes["nearest_mode"] = g.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    else: attributes["antialias"] = g.flag()
    if mode == "cubic": attributes.update(exclude_outside=g.flag(), cubic_coeff_a=g.one(-.75, -.5))
    x = g.operand(dtype, dims, "plain")
    sizes = dims[:2] + [g.number(1, 14) for _ in dims[2:]]
    if g.flag(): tail = [g.feed(np.zeros(0, np.float32)), g.feed(np.array(sizes, np.int64))]
    else: tail = [g.feed(np.array([1, 1] + [g.one(.5, .3, 2., 1.7, 1.) for _ in dims[2:]], np.float32))]
    g.call("Resize", [x, ""] + tail, [dtype], exact=dtype in INTEGERS or mode == "nearest", **attributes)


def conv(g):
    dtype, axes, groups = g.one(*REALS), g.number(1, 3), g.one(1, 1, 2, 3)
    transposed, channels, made = g.flag(), groups * g.number(1, 9), groups * g.number(1, 9)
    kernel, spatial = [g.number(1, 3) for _ in range(axes)], [g.number(5, 8) for _ in range(axes)]
    attributes = {"group": groups, "kernel_shape": kernel, "strides": [g.number(1, 2) for _ in kernel], "dilations": [g.number(1, 2) for _ in kernel], "pads": [g.number(0, 2) for _ in range(2 * axes)]}
    w = [channels, made // groups] + kernel if transposed else [made, channels // groups] + kernel
    inputs = [g.operand(dtype, [g.one(0, 1, 1, 2), channels] + spatial, "plain"), g.operand(dtype, w, "plain")]
    if g.flag(): inputs.append(g.operand(dtype, [made], "plain"))
    if transposed:
        attributes["output_padding"] = [g.number(0, max(s, d) - 1) for s, d in zip(attributes["strides"], attributes["dilations"])]
        attributes["pads"] = [min(p, 1) for p in attributes["pads"]]
    g.call("ConvTranspose" if transposed else "Conv", inputs, [dtype], exact=False, **attributes)


def matmul(g):
    dtype, batch = g.one("f32", "f32", "f64", "f16", "bf16", "i32", "i64", "u32", "u64"), g.dims(0, 2, 3)
    m, k, n = (g.one(0, 1, 1, 5, 17, 65, 130) for _ in range(3))
    of = lambda tail: [1 if g.r.random() < .3 else d for d in batch][g.number(0, len(batch)):] + tail
    a, b = of([m, k]), of([k, n])
    if g.r.random() < .1: a = [k]
    g.call("MatMul", [g.operand(dtype, a, "plain"), g.operand(dtype, b, "plain")], [dtype], exact=dtype in INTEGERS)


def gemm(g):
    dtype = g.one("f32", "f64", "f16", "bf16", "i32", "i64")
    m, k, n = (g.one(0, 1, 4, 33, 66) for _ in range(3))
    a, b = g.flag(), g.flag()
    inputs = [g.operand(dtype, [k, m] if a else [m, k], "plain"), g.operand(dtype, [n, k] if b else [k, n], "plain")]
    if g.flag(): inputs.append(g.operand(dtype, g.one([], [1], [n], [m, 1], [1, n], [m, n]), "plain"))
    g.call("Gemm", inputs, [dtype], exact=dtype in INTEGERS, transA=a, transB=b, **({} if dtype in INTEGERS else {"alpha": g.one(1., .5), "beta": g.one(1., 2., 0.)}))


def nms(g):
    batches, classes, n = g.number(0, 2), g.number(1, 3), g.one(0, 1, 5, 63, 64, 65, 130, 200)
    boxes = g.array("f32", [batches, n, 4], g.one("ties", "plain", "edges"))
    scores = g.array("f32", [batches, classes, n], g.one("ties", "edges", "plain"))
    inputs = [g.feed(boxes), g.feed(scores), g.feed(np.array([g.one(0, 1, 3, 1000, LAST)], np.int64))]
    if g.flag():
        inputs.append(g.feed(np.array([g.one(0., .3, .5, 1.)], np.float32)))
        if g.flag(): inputs.append(g.feed(np.array([g.one(-1., 0., .5, -np.inf, np.nan)], np.float32)))
    g.call("NonMaxSuppression", inputs, ["i64"], center_point_box=g.flag())


def roi_align(g):
    dtype, n = g.one(*REALS), g.one(0, 1, 3, 5)
    dims = [g.number(1, 2), g.number(1, 20), g.number(1, 9), g.number(1, 9)]
    corner = np.round(g.r.standard_normal([n, 4]) * 6, 1).astype(NUMPY[dtype])
    if dtype == "bf16": corner = np.round(corner)
    inputs = [g.operand(dtype, dims, "plain"), g.feed(corner, dtype), g.feed(g.r.integers(0, dims[0], n).astype(np.int64))]
    g.call("RoiAlign", inputs, [dtype], exact=False, mode=g.one("avg", "max"), output_height=g.number(1, 4), output_width=g.number(1, 4), sampling_ratio=g.number(0, 3),
           spatial_scale=g.one(1., .5, .25), coordinate_transformation_mode=g.one("half_pixel", "output_half_pixel"))


def image(g, dtype, channels, height, width, batch, last, values="plain"):
    """An operand of one image or several; channels first or last."""
    dims = [height, width, channels] if last else [channels, height, width]
    return g.operand(dtype, [batch] * (batch is not None) + dims, values)


def regions(g):
    """torchvision's pools of regions and their gradients."""
    name, dtype = g.one("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"), g.one(*REALS)
    batch, last, backward, n = g.one(None, 1, 2, 3), g.flag(), g.flag(), g.one(0, 1, 3, 8, 35)
    channels, height, width, bins = g.one(1, 2, 5, 33), g.one(1, 2, 5, 9), g.one(1, 3, 8, 14), [g.number(1, 4), g.number(1, 4)]
    planes = channels * (bins[0] * bins[1] if name.startswith("ps_") else 1)
    scale = g.one(1., .5, .25)
    corners = np.round(g.r.uniform(-3, max(height, width) + 3, [n, 4]) / scale, g.one(0, 1, 3))
    if g.flag(): corners[:, 2:] = np.maximum(corners[:, :2], corners[:, 2:])  # else: some have no extent
    if n and g.flag(): corners[g.number(0, n - 1), g.number(0, 3)] = g.one(np.nan, np.inf, -np.inf, 1e9, -1e9)
    if n and g.flag(): corners[g.number(0, n - 1)] += 1000  # off the map
    if batch is not None: corners = np.concatenate([g.r.integers(0, batch, [n, 1]), corners], axis=1)
    own = dtype if dtype == "f64" else "f32"
    rois = g.feed(corners.astype(NUMPY[own]), own)
    pooled = [n] + (bins + [channels] if last else [channels] + bins)
    inputs = [g.operand(dtype, pooled, g.one("plain", "ties")) if backward else image(g, dtype, planes, height, width, batch, last), rois]
    if backward and name == "roi_pool": inputs.append(g.feed(g.r.integers(-2, height * width + 2, pooled).astype(np.int32)))
    if backward: inputs.append(g.feed(np.array([batch] * (batch is not None) + ([height, width, planes] if last else [planes, height, width]), np.int64)))
    more = {"sampling_ratio": g.one(-1, 0, 1, 2, 3, 11)} if "align" in name else {}
    if name == "roi_align": more["aligned"] = g.flag()
    with_pixels = name == "roi_pool" and not backward
    g.call(name + "_backward" * backward, inputs, [dtype, "i32"], 2 if with_pixels else 1, exact=False, domain="torchvision", pooled_height=bins[0], pooled_width=bins[1], spatial_scale=scale,
           channels_last=last, **more)


def deform(g):
    """torchvision's deformable convolution and its gradients."""
    dtype, batch, last, backward = g.one(*REALS), g.one(None, 1, 2), g.flag(), g.flag()
    groups, offset_groups, kernel, stride, dilation, pad = g.one(1, 1, 2, 3), g.one(1, 1, 2, 3), *([g.number(*r), g.number(*r)] for r in ((1, 3), (1, 2), (1, 2), (0, 2)))
    channels, outputs = groups * offset_groups * g.one(1, 2, 6), groups * g.one(1, 3, 9)
    size = [g.number(1, 3) + (kernel[i] - 1) * dilation[i] + g.one(0, 3, 6) for i in range(2)]
    out = [(size[i] + 2 * pad[i] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(2)]
    taps, mask = kernel[0] * kernel[1] * offset_groups, g.flag()
    inputs = [image(g, dtype, outputs, *out, batch, last)] if backward else []
    inputs.append(image(g, dtype, channels, *size, batch, last))
    inputs.append(g.operand(dtype, [outputs, channels // groups, *kernel], "plain"))
    places = g.array(dtype, [batch] * (batch is not None) + ([*out, 2 * taps] if last else [2 * taps, *out]), "plain")
    # places on a pixel have no slope, and a rounded half may lie on the other side of one: quarters and an eighth
    places = (np.round(np.clip(places.astype(np.float32), -12, 12) * 4) / 4 + .125).astype(places.dtype)
    if places.size and g.flag(): places.flat[g.number(0, places.size - 1)] = g.one(np.nan, np.inf, -np.inf)
    inputs.append(g.feed(places, dtype))
    if mask or not backward: inputs.append(image(g, dtype, taps, *out, batch, last) if mask else "")
    if not backward and g.flag(): inputs.append(g.operand(dtype, [outputs], "plain"))
    wanted = g.number(1, 5) if backward else 1
    g.call("deform_conv2d" + "_backward" * backward, inputs, [dtype] * 5, wanted, exact=False, domain="torchvision", stride_h=stride[0], stride_w=stride[1], pad_h=pad[0], pad_w=pad[1],
           dilation_h=dilation[0], dilation_w=dilation[1], groups=groups, offset_groups=offset_groups, channels_last=last)


def grid_sample(g):
    dtype, axes = g.one(*REALS), g.number(1, 3)
    n, samples = g.number(0, 2), [g.number(0, 4) for _ in range(axes)]
    grid = g.r.uniform(-1.4, 1.4, [n, *samples, axes]).astype(np.float32)
    g.call("GridSample", [g.operand(dtype, [n, g.number(1, 20)] + [g.number(1, 9) for _ in range(axes)], "plain"), g.feed(grid)], [dtype], opset=22, exact=False,
           mode=g.one("linear", "nearest", "cubic"), padding_mode=g.one("zeros", "border", "reflection"), align_corners=g.flag())


def trilu(g):
    dtype, dims = g.one(*ALL), g.dims(2, 4)
    inputs = [g.operand(dtype, dims)]
    if g.flag(): inputs.append(g.feed(np.array(g.one(0, 1, -1, 3, -9, LAST, FIRST, LAST - 3), np.int64)))
    g.call("Trilu", inputs, [dtype], upper=g.flag())


def one_hot(g):
    dtype, dims, depth, index = g.one(*ALL), g.dims(0, 3), g.number(1, 6), g.one("i32", "i64", "f32", "u8")
    at = g.array(index, dims, "ties")
    g.call("OneHot", [g.feed(at), g.feed(np.array(depth, g.one(np.int64, np.int32, np.float32))), g.feed(g.array(dtype, [2], "ties"), dtype)], [dtype], axis=g.number(-1, len(dims)))


def eye_like(g):
    dtype = g.one(*ALL)
    g.call("EyeLike", [g.operand(g.one(*NUMBERS), g.dims(2, 2))], [dtype], opset=22, dtype=TYPES[dtype], k=g.one(0, 1, -1, 5, -5, LAST, FIRST))


def reverse_sequence(g):
    dtype, dims, batch = g.one(*ALL), [max(d, 1) for d in g.dims(2, 4)], g.flag()
    lengths = g.r.integers(0, dims[1 - batch] + 1, dims[batch]).astype(np.int64)
    g.call("ReverseSequence", [g.operand(dtype, dims), g.feed(lengths)], [dtype], batch_axis=batch, time_axis=1 - batch)


def concat(g):
    dtype, dims = g.one(*ALL), g.dims()
    axis = g.number(0, len(dims) - 1)
    parts = [dims[:axis] + [g.one(0, 1, 2, 5)] + dims[axis + 1:] for _ in range(g.number(1, 4))]
    g.call("Concat", [g.operand(dtype, p) for p in parts], [dtype], axis=g.one(axis, axis - len(dims)))


def tile(g):
    dtype, dims = g.one(*ALL), g.dims()
    g.call("Tile", [g.operand(dtype, dims), g.feed(np.array([g.one(1, 1, 2, 3, 0) for _ in dims], np.int64))], [dtype])


def norm(g):
    dtype, operator = g.one(*REALS), g.one("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization")
    if operator in ("LayerNormalization", "RMSNormalization"):
        dims = [max(d, 1) for d in g.one(g.dims(2, 4), [2, 1025], [1, 17000])]
        axis = g.number(1, len(dims) - 1)
        parameters, attributes = dims[axis:], {"axis": g.one(axis, axis - len(dims))}
    else:
        groups = g.number(1, 3)
        dims = [g.number(1, 2), groups * g.number(1, 3)] + g.one([g.number(1, 5), g.number(1, 5)], [1025], [9000])
        parameters, attributes = [dims[1]], {"num_groups": groups} if operator == "GroupNormalization" else {}
    inputs = [g.operand(dtype, dims, "unit"), g.operand(dtype, parameters, "unit")]
    if operator != "RMSNormalization": inputs.append(g.operand(dtype, parameters, "unit"))
    g.call(operator, inputs, [dtype], exact=False, opset=23 if operator == "RMSNormalization" else 21, epsilon=1e-2, **attributes)


def depth_space(g):
    dtype, block = g.one(*ALL), g.number(1, 3)
    dims = [g.number(0, 2), g.number(1, 3), g.number(1, 4), g.number(1, 4)]
    if g.flag(): g.call("DepthToSpace", [g.operand(dtype, [dims[0], dims[1] * block * block] + dims[2:])], [dtype], blocksize=block, mode=g.one("DCR", "CRD"))
    else: g.call("SpaceToDepth", [g.operand(dtype, dims[:2] + [d * block for d in dims[2:]])], [dtype], blocksize=block)


def cast(g):
    """Of values that fit the target: others are not defined."""
    source, target = g.one(*ALL), g.one(*ALL)
    x = g.array(source, g.dims(), "plain")
    if target not in FLOATS and target != "bool" and source != "bool": x = np.abs(x) % 100 if source in FLOATS else np.clip(x, 0, 100)
    if source in FLOATS and target in FLOATS + ("bool",): x = g.array(source, g.dims(), "edges")
    g.call("Cast", [g.feed(x.astype(NUMPY[source]), source)], [target], to=TYPES[target])


def unary(g):
    operator = g.one("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Relu", "Sqrt", "Reciprocal", "Exp", "Log", "Tanh", "Sigmoid", "Erf", "IsNaN", "IsInf", "Not", "BitwiseNot", "Softplus", "Softsign",
                     "HardSigmoid", "HardSwish", "Elu", "Selu", "Gelu", "Mish", "LeakyRelu", "Sin", "Cos", "Atan", "Asinh", "Celu", "Shrink", "ThresholdedRelu", "Identity")
    dtype = g.one(*REALS)
    if operator in ("Abs", "Sign"): dtype = g.one(*NUMBERS)
    if operator == "Neg": dtype = g.one("f32", "f16", "i8", "i16", "i32", "i64")
    if operator == "Relu": dtype = g.one("f32", "f16", "i8", "i16", "i32", "i64")
    if operator == "Not": dtype = "bool"
    if operator == "BitwiseNot": dtype = g.one(*INTEGERS)
    if operator == "Celu": dtype = "f32"
    if operator == "IsInf": dtype = g.one("f32", "f64")
    exact = operator in ("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Relu", "IsNaN", "IsInf", "Not", "BitwiseNot", "Identity", "Sqrt", "ThresholdedRelu")
    attributes = {"detect_negative": g.flag(), "detect_positive": g.flag()} if operator == "IsInf" else {}
    g.call(operator, [g.operand(dtype, g.dims(0, 5))], ["bool" if operator.startswith("Is") else dtype], exact=exact, opset=20, **attributes)


def binary(g):
    operator = g.one("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "Equal", "Less", "GreaterOrEqual", "BitShift", "BitwiseAnd", "BitwiseXor", "And", "Or", "Xor", "Where", "Clip", "PRelu")
    dtype = g.one(*NUMBERS)
    if operator in ("BitwiseAnd", "BitwiseXor", "Mod"): dtype = g.one(*INTEGERS)
    if operator == "BitShift": dtype = g.one("u8", "u16", "u32", "u64")
    if operator in ("And", "Or", "Xor"): dtype = "bool"
    if operator in ("Pow", "PRelu"): dtype = g.one("f32", "f64", "f16")
    if operator in ("Equal", "Where"): dtype = g.one(*ALL)
    dims = g.dims(0, 5)
    broadcast = lambda: [1 if g.r.random() < .3 else d for d in dims][g.number(0, len(dims)) if g.flag() else 0:]
    a, b = g.operand(dtype, broadcast()), broadcast()
    if operator == "Where": return g.call("Where", [g.operand("bool", broadcast()), a, g.operand(dtype, b)], [dtype])
    if operator == "Clip":
        ends = [g.feed(g.array(dtype, []), dtype) if g.flag() else "" for _ in range(2)]
        return g.call("Clip", [a] + ends, [dtype])
    y = g.array(dtype, b)
    if operator in ("Div", "Mod") and dtype in INTEGERS: y = np.where(y == 0, 3, y).astype(y.dtype)
    if operator == "BitShift": y = (y % (8 * y.dtype.itemsize)).astype(y.dtype)
    attributes = {"direction": g.one("LEFT", "RIGHT")} if operator == "BitShift" else {}
    if operator == "PRelu": return g.call("PRelu", [g.operand(dtype, dims), g.operand(dtype, [g.one(1, d) for d in dims])], [dtype])
    out = "bool" if operator in ("Equal", "Less", "GreaterOrEqual") else dtype
    g.call(operator, [a, g.feed(y, dtype)], [out], exact=operator != "Pow", **attributes)


def recurrent(g):
    dtype, operator, batch_steps = g.one("f32", "f64", "f16"), g.one("RNN", "GRU", "LSTM"), (g.number(1, 3), g.number(1, 4))
    gates, direction = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator], g.one("forward", "reverse", "bidirectional")
    n, (batch, steps), features, hidden = 1 + (direction == "bidirectional"), batch_steps, g.number(1, 5), g.one(1, 4, 33)
    inputs = [g.operand(dtype, [steps, batch, features], "plain"), g.operand(dtype, [n, gates * hidden, features], "plain"), g.operand(dtype, [n, gates * hidden, hidden], "plain")]
    inputs.append(g.operand(dtype, [n, 2 * gates * hidden], "plain") if g.flag() else "")
    inputs.append(g.feed(g.r.integers(0 if g.flag() else 1, steps + 1, batch).astype(np.int32)) if g.flag() else "")
    if g.flag(): inputs.append(g.operand(dtype, [n, batch, hidden], "plain"))
    more = {"linear_before_reset": g.flag()} if operator == "GRU" else {}
    g.call(operator, inputs, [dtype] * 3, 3 if operator == "LSTM" else 2, exact=False, hidden_size=hidden, direction=direction, **more)


def transpose(g):
    dtype, dims = g.one(*ALL), g.one(g.dims(1, 6, 5), [g.one(31, 33, 65), g.one(31, 33, 257)], [2, g.one(7, 33), g.one(8, 65)])
    g.call("Transpose", [g.operand(dtype, dims)], [dtype], perm=[int(p) for p in g.r.permutation(len(dims))])


def split(g):
    dtype, dims = g.one(*ALL), g.dims()
    axis, parts = g.number(0, len(dims) - 1), [g.one(0, 1, 2, 5) for _ in range(g.one(1, 2, 3, 9))]
    dims[axis] = sum(parts)
    g.call("Split", [g.operand(dtype, dims), g.feed(np.array(parts, np.int64))], [dtype] * len(parts), len(parts), axis=g.one(axis, axis - len(dims)))


def expand(g):
    dtype, dims = g.one(*ALL), g.dims(0, 4)
    wanted = [g.one(1, d) if d != 1 else g.one(0, 1, 2, 33) for d in dims]
    lead = g.flag() * [g.one(0, 1, 3)]
    g.call("Expand", [g.operand(dtype, dims), g.feed(np.array(lead + wanted[g.number(0, len(dims)) if not lead else 0:], np.int64))], [dtype])


def batch_norm(g):
    dtype, dims = g.one(*REALS), [g.one(0, 1, 2), g.one(1, 3, 33)] + [g.one(1, 2, 5, 31) for _ in range(g.number(0, 3))]
    more = [g.operand(dtype, [dims[1]], v) for v in ("plain", "plain", "plain", "positive")]
    g.call("BatchNormalization", [g.operand(dtype, dims, "plain")] + more, [dtype], exact=False, epsilon=g.one(1e-5, .1))


def global_pool(g):
    dtype, operator = g.one(*REALS), g.one("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    dims = [g.one(0, 1, 2), g.one(1, 3, 33)] + g.one([1, 1], [5, 7], [33, 31], [257], [2, 3, 4], [100, 100])
    g.call(operator, [g.operand(dtype, dims, "plain")], [dtype], exact=operator == "GlobalMaxPool", **({"p": g.one(1, 2, 3)} if operator == "GlobalLpPool" else {}))


def col2im(g):
    dtype, axes = g.one(*REALS), g.number(1, 3)
    block, stride, dilation = ([g.number(1, n) for _ in range(axes)] for n in (3, 3, 2))
    pads, size = [g.number(0, 1) for _ in range(2 * axes)], [g.number(6, 9) for _ in range(axes)]
    places = [(size[i] + pads[i] + pads[i + axes] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1 for i in range(axes)]
    x = g.operand(dtype, [g.one(0, 1, 2), g.one(1, 3) * int(np.prod(block)), int(np.prod(places))], "plain")
    g.call("Col2Im", [x, g.feed(np.array(size, np.int64)), g.feed(np.array(block, np.int64))], [dtype], exact=False, strides=stride, dilations=dilation, pads=pads)


def rotary(g):
    dtype, four, batch, length, heads, half = g.one("f32", "f16", "bf16"), g.flag(), g.number(1, 3), g.one(0, 1, 5, 33), g.number(1, 3), g.number(1, 5)
    size = 2 * half + g.one(0, 0, 2)
    partial, positions = size > 2 * half, g.flag()
    if partial: four = 1
    x = g.operand(dtype, [batch, heads, length, size] if four else [batch, length, heads * size], "plain")
    tables = [g.one(1, 7) + length, half] if positions else [batch, length, half]
    inputs = [x, g.operand(dtype, tables, "plain"), g.operand(dtype, tables, "plain")]
    if positions: inputs.append(g.feed(g.r.integers(0, tables[0], [batch, length]).astype(np.int64)))
    g.call("RotaryEmbedding", inputs, [dtype], exact=False, opset=23, interleaved=g.flag(), **({} if four else {"num_heads": heads}), **({"rotary_embedding_dim": 2 * half} if partial else {}))


def generate(g):
    dtype, way = g.one("f32", "f64", "i16", "i32", "i64"), g.flag()
    if way:
        first, step = g.number(-5, 5), g.one(1, 2, -1, -3)
        values = [np.array(v, NUMPY[dtype]) for v in (first, first + step * g.one(0, 1, 31, 33, 257, -1), step)]
        return g.call("Range", [g.feed(v, dtype) for v in values], [dtype])
    dtype = g.one(*ALL)
    if dtype == "bf16": dtype = "f16"
    value = h.make_tensor("value", TYPES[dtype], [1], g.array(dtype, [1], "plain").tobytes(), raw=True)
    g.call("ConstantOfShape", [g.feed(np.array(g.dims(0, 4), np.int64))], [dtype], value=value)


def dropout(g):
    dtype = g.one(*REALS)
    g.call("Dropout", [g.operand(dtype, g.dims(0, 4))], [dtype, "bool"], 2)


def max_roi_pool(g):
    dtype, n = g.one("f32", "f64", "f16"), g.one(0, 1, 5, 33)
    dims = [g.number(1, 2), g.one(1, 5, 33), g.number(1, 9), g.number(1, 9)]
    corners = np.concatenate([g.r.integers(0, dims[0], [n, 1]), np.round(g.r.uniform(-3, 12, [n, 4]))], axis=1)
    g.call("MaxRoiPool", [g.operand(dtype, dims, "ties"), g.feed(corners.astype(NUMPY[dtype]), dtype)], [dtype], pooled_shape=[g.number(1, 4), g.number(1, 4)], spatial_scale=g.one(1., .5, .25))


def variadic(g):
    operator = g.one("Sum", "Mean", "Max", "Min")
    dtype, dims = g.one(*REALS) if operator in ("Sum", "Mean") else g.one(*NUMBERS), g.one(g.dims(0, 5), [33, 257], [31, 1, 5])
    broadcast = lambda: [1 if g.r.random() < .3 else d for d in dims][g.number(0, len(dims)) if g.flag() else 0:]
    g.call(operator, [g.operand(dtype, broadcast()) for _ in range(g.number(1, 5))], [dtype], exact=operator in ("Max", "Min"))


def smooth(g):
    """Functions whose values are computed, at their edges, too."""
    operator, dtype = g.one("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan", "Cos", "Sin", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Gelu", "Mish", "Softplus", "Softsign", "Selu", "Elu", "Swish"), g.one(*REALS)
    x = g.array(dtype, g.one(g.dims(0, 4), [257], [31, 33]), "edges" if g.flag() else "unit")
    if operator in ("Tan", "Cos", "Sin"): x = np.where(np.abs(x) > 50, 1, x).astype(x.dtype)
    if operator == "Swish": return g.call(operator, [g.feed(x, dtype)], [dtype], exact=False, opset=24, alpha=g.one(1., .5, -2.))
    g.call(operator, [g.feed(x, dtype)], [dtype], exact=False, opset=20, **({"approximate": g.one("none", "tanh")} if operator == "Gelu" else {}))


def fused(g):
    """Element-wise nodes in a chain, which become one program."""
    dtype, dims = g.one("f32", "f32", "f16", "f64", "bf16", "i32", "i64"), g.one(g.dims(1, 4), [g.one(31, 33), 257], [3, 1, 65], [1025])
    broadcast = lambda: [1 if g.r.random() < .3 else d for d in dims][g.number(0, len(dims)) if g.flag() else 0:]
    names = [g.operand(dtype, broadcast(), "edges" if dtype in INTEGERS else "plain") for _ in range(3)] + [g.operand(dtype, dims, "plain")]
    for _ in range(g.number(2, 7)):
        a, b = (names[g.number(0, len(names) - 1)] for _ in range(2))
        operator = g.one("Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Where", "Clip") if dtype in INTEGERS else g.one("Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Where", "Floor", "Clip")
        if operator in ("Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Floor", "Clip"): names.append(g.node(operator, [a]))
        elif operator == "Where": names.append(g.node("Where", [g.node("Less", [a, b]), a, b]))
        else: names.append(g.node(operator, [a, b]))
    g.call("Add", [names[-1], names[-2]], [dtype], exact=dtype in INTEGERS)


OPERATORS = [top_k, unique, nonzero, compress, cumsum, slice_, pad, gather, gather_elements, gather_nd, scatter_elements, scatter_nd, reduce_, arg_reduce, softmax, pool, resize, conv, matmul, gemm, nms,
             roi_align, grid_sample, regions, deform, trilu, one_hot, eye_like, reverse_sequence, concat, tile, norm, depth_space, cast, unary, binary, binary, unary, recurrent, transpose,
             split, expand, batch_norm, global_pool, col2im, rotary, generate, dropout, max_roi_pool, variadic, smooth, fused]


def make(g, seed, only):
    """Makes one node, and returns its description."""
    made = [f for f in OPERATORS if not only or f.__name__.strip("_") in only]
    made[g.r.integers(len(made))](g)
    return f"seed {seed}: {g.operator} {g.attributes} of {', '.join(f'{a.dtype}{list(a.shape)}' for a in g.arrays)}"
