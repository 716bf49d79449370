"""A random graph while it grows: values with their arrays at every size, nodes that were valid at all of them, in the forms of one opset."""
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx.reference import ReferenceEvaluator

N_SIZES = 3
OPSETS = (11, 13, 17, 18, 21, 23)
F32, F64, F16, BOOL = (np.dtype(t) for t in (np.float32, np.float64, np.float16, np.bool_))
I64, I32, I16, I8, U64, U32, U16, U8 = (np.dtype(t) for t in ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"))
ONNX_TYPES = {F32: T.FLOAT, F64: T.DOUBLE, F16: T.FLOAT16, I64: T.INT64, I32: T.INT32, I16: T.INT16, I8: T.INT8, U64: T.UINT64, U32: T.UINT32,
              U16: T.UINT16, U8: T.UINT8, BOOL: T.BOOL}
FLOATS = (F32, F64)        # f16 would only show how far rounding errors grow...
EXACT = (F32, F64, F16)    # ... but a result that is rounded once is the same in every evaluator
INTS = (I64, I32)
UNSIGNED = (U8, U16, U32, U64)

# Axes (and the like) that were attributes: operator -> (input, attribute, first opset in which it is an input).
MOVED = {"ReduceSum": (1, "axes", 13), "Squeeze": (1, "axes", 13), "Unsqueeze": (1, "axes", 13), "Split": (1, "split", 13)}
MOVED.update({op: (1, "axes", 18) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp",
                                              "ReduceSumSquare")})
# First opset of an operator that is younger than the oldest here.
SINCE = {"Celu": 12, "Einsum": 12, "GreaterOrEqual": 12, "LessOrEqual": 12, "HardSwish": 14, "Trilu": 14, "CastLike": 15, "LayerNormalization": 17, "Mish": 18,
         "BitwiseAnd": 18, "BitwiseOr": 18, "BitwiseXor": 18, "BitwiseNot": 18, "GroupNormalization": 21, "CenterCropPad": 18, "Gelu": 20, "RMSNormalization": 23}


class Skip(Exception):
    """The chosen operator or value does not work here: the caller chooses again."""


def open_onnxruntime(model):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options)


# Operators for which the reference evaluator is wrong: growth and the end of Loops, planes of one or three axes, statistics, older softmaxes, slices in the order of X.
ONLY_ONNXRUNTIME = ("If", "Loop", "Scan", "LSTM", "GRU", "RNN", "GlobalMaxPool", "MaxPool", "AveragePool", "BatchNormalization", "Softmax", "LogSoftmax", "Hardmax", "Unique")


def evaluator_of(model):
    """onnxruntime, or the reference evaluator for operators that onnxruntime lacks."""
    try:
        return open_onnxruntime(model)
    except Exception as e:
        if model.graph.node[0].op_type in ONLY_ONNXRUNTIME:
            raise Skip(str(e)) from e
    try:
        return ReferenceEvaluator(model)
    except Exception as e:
        raise Skip(str(e)) from e


class Value:
    """A graph value and its arrays at every size."""

    def __init__(self, name, arrays):
        self.name, self.arrays = name, arrays
        self.dtype = arrays[0].dtype
        self.uses = 0
        self.final = False  # no operator reads the value

    @property
    def rank(self):
        return self.arrays[0].ndim

    def shapes(self):
        return [a.shape for a in self.arrays]

    def fixed(self, axis):
        """The extent if it is the same at every size, else None."""
        extents = {s[axis] if -len(s) <= axis < len(s) else None for s in self.shapes()}
        return extents.pop() if len(extents) == 1 else None


class Graph:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.opset = int(self.r.choice(OPSETS))
        self.nodes, self.values, self.inits, self.inputs = [], [], [], []
        self.count = 0
        n_symbols = self.r.integers(1, 4)
        chances = [.04, .08, .13, .15, .15, .15, .1, .1, .1]
        self.sizes = [[int(self.r.choice([0, 1, 2, 3, 4, 5, 7, 8, 12], p=chances)) for _ in range(n_symbols)] for _ in range(N_SIZES)]
        if self.r.random() < .12:  # long enough for threads, blocks and their remainders
            self.sizes[int(self.r.integers(N_SIZES))][0] = int(self.r.choice([33, 64, 100, 257, 1000]))
        for i in range(self.r.integers(1, 4)):
            self.add_input(i)

    # ---- building ----
    def name(self, hint="v"):
        self.count += 1
        return f"{hint}{self.count}"

    def random(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype == BOOL:
            return self.r.random(shape) < .5
        a = self.r.standard_normal(shape) if dtype.kind == "f" else self.r.integers(0 if dtype.kind == "u" else -5, 6, shape)
        return np.asarray(a, dtype)

    def add_input(self, i):
        r = self.r
        rank = int(r.choice([0, 1, 2, 3, 4, 5], p=[.03, .2, .28, .24, .22, .03]))
        symbolic = [r.random() < .7 for _ in range(rank)]
        symbols = [int(r.integers(len(self.sizes[0]))) for _ in range(rank)]
        fixed = [int(r.choice([1, 2, 3, 4, 6])) for _ in range(rank)]
        if any(np.prod([size[symbols[d]] if symbolic[d] else fixed[d] for d in range(rank)]) > 60000 for size in self.sizes):
            symbolic = [s and d == 0 for d, s in enumerate(symbolic)]
        rare = str(r.choice([d.name for d in (I16, I8, U64, U32, U16, U8)]))
        dtype = np.dtype(r.choice([F32.name, F64.name, F16.name, I64.name, I32.name, rare, BOOL.name], p=[.6, .1, .06, .08, .07, .05, .04]))
        arrays = [self.random([size[symbols[d]] if symbolic[d] else fixed[d] for d in range(rank)], dtype) for size in self.sizes]
        named = r.random() < .85
        dims = [(f"s{symbols[d]}" if named else None) if symbolic[d] else fixed[d] for d in range(rank)]
        v = Value(f"in{i}", arrays)
        self.inputs.append((v, h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], dims)))
        self.values.append(v)

    def const(self, array, dtype=None, hint="c"):
        array = np.asarray(array, dtype)
        name = self.name(hint)
        if self.r.random() < .15:  # a Constant node instead of an initializer
            self.nodes.append(h.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)))
        self.inits.append(onnx.numpy_helper.from_array(array, name))
        return Value(name, [array] * N_SIZES)

    def axes(self, *axes):
        return self.const(np.array(axes, np.int64))

    def node(self, op, inputs, n_out=1, **attributes):
        """Adds the node, in this opset's form, after evaluating it at every size."""
        op = str(op)
        if SINCE.get(op, 0) > self.opset:
            raise Skip("opset")
        index, attribute, since = MOVED.get(op, (0, None, 0))
        if attribute and self.opset < since:
            if len(inputs) > index and inputs[index]:
                constant = next((i for i in self.inits if i.name == inputs[index].name), None)
                if constant is None:
                    raise Skip("computed")
                attributes[attribute] = [int(i) for i in onnx.numpy_helper.to_array(constant)]
            inputs = inputs[:index]
            attributes.pop("noop_with_empty_axes", None)
        outputs = [self.name() for _ in range(n_out)]
        node = h.make_node(op, [v.name if v else "" for v in inputs], outputs, name=self.name(op.lower()), **attributes)
        return self.finish(node, [v for v in inputs if v])

    def finish(self, node, inputs, stacked=0):
        """stacked: the last outputs, of which onnxruntime says little when they are empty."""
        return self.finish_all([node], inputs, node.output, stacked)

    def finish_all(self, nodes, inputs, outputs, stacked=0):
        """Adds nodes of which only the outputs are values: tensors, which are evaluated at every size."""
        node, captured = nodes[0], {v.name: v for v in inputs}
        results = [[] for _ in outputs]
        infos = [h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], [None] * v.rank) for v in captured.values()]
        graph = h.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=8)
        if node.op_type in ("If", "Loop", "Scan"):
            for o, dtype in zip(graph.output, result_types(node)):
                o.type.tensor_type.elem_type = dtype
            model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=8)
        evaluator = evaluator_of(model)
        if node.op_type in ("Sin", "Cos") and any(a.size and np.abs(a).max() > 100 for v in captured.values() for a in v.arrays):
            raise Skip("ill-conditioned")  # for a large argument its last bit is a large part of the function's period
        for k in range(N_SIZES):
            try:
                got = evaluator.run(None, {v.name: v.arrays[k] for v in captured.values()})
            except Exception as e:  # the node is not valid at this size: the caller chooses again
                raise Skip(str(e)) from e
            for slot, a in zip(results, got):
                a = np.asarray(a)
                if a.dtype not in ONNX_TYPES or a.size > 100000 or a.ndim > 6:
                    raise Skip("size")
                if a.dtype.kind == "f" and a.size and not (np.isfinite(a).all() and np.abs(a).max() < (1e4 if a.dtype != F16 else 1e3)):
                    raise Skip("large")
                slot.append(a)
        for slot in results:
            if len({a.dtype for a in slot}) > 1:
                raise Skip("dtype")
        if any(a.shape[0] == 0 for slot in results[len(results) - stacked:] for a in slot):
            raise Skip("no rounds")
        self.nodes += nodes
        for v in inputs:
            v.uses += 1
        made = [Value(o, slot) for o, slot in zip(outputs, results)]
        self.values += made
        return made[0] if len(made) == 1 else made

    # ---- choosing ----
    def pick(self, dtype=FLOATS, rank=None, where=None, nonempty=False):
        """A value; dtype: None for any, one, or several."""
        dtypes = dtype if isinstance(dtype, tuple) or dtype is None else (np.dtype(dtype),)
        fits = [v for v in self.values if not v.final and (dtypes is None or v.dtype in dtypes) and (rank is None or {a.ndim for a in v.arrays} <= {v.rank} & set(rank)) and (where is None or where(v)) and
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

    def flag(self, chance=.5):
        return int(self.r.random() < chance)

    def extent(self, v, axis):
        """The extent as an int64 vector of one element, computed in the graph."""
        shape = self.node("Shape", [v])
        return self.node("Gather", [shape, self.axes(axis % v.rank)], axis=0)

    def small_number(self, v, high):
        """A number 0..high that only v's elements decide, as an int64 scalar computed in the graph."""
        total = self.node("ReduceSum", [self.node("Abs", [v])], keepdims=0)
        total = self.node("Add", [self.node("Mul", [total, self.const(.73, v.dtype)]), self.const(.113, v.dtype)])  # rounding must not decide
        return self.node("Cast", [self.node("Clip", [total, self.const(0, v.dtype), self.const(high, v.dtype)])], to=T.INT64)

    def vector(self, scalar):
        return self.node("Reshape", [scalar, self.axes(1)])

    def model(self):
        used = set()
        collect_names(self.nodes, used)
        outputs = [v for v in self.values if not v.name.startswith("in") and (v.name not in used or self.r.random() < .06)]
        outputs = [v for v in outputs if self.r.random() < .95]  # values that are left out become dead code
        outputs += [v for v, _ in self.inputs if self.r.random() < .08]  # an output that is an input
        ranked = lambda v: [None] * v.rank if len({a.ndim for a in v.arrays}) == 1 else None
        infos = [h.make_tensor_value_info(v.name, ONNX_TYPES[v.dtype], ranked(v)) for v in outputs]
        for n in self.nodes:
            if self.r.random() < .1:
                n.ClearField("name")
        made = {o for n in self.nodes for o in n.output}
        inits = [i for i in self.inits if i.name not in made]
        graph = h.make_graph(self.nodes, "random", [i for _, i in self.inputs], infos, inits)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=8), outputs


def result_types(node):
    """The dtypes of an If's or Loop's outputs, from its first body."""
    body = next(a.g for a in node.attribute if a.HasField("g"))
    results = body.output[1:] if node.op_type == "Loop" else body.output
    return [o.type.tensor_type.elem_type for o in results]


def collect_names(nodes, used):
    for n in nodes:
        used.update(n.input)
        for a in n.attribute:
            if a.HasField("g"):
                collect_names(a.g.node, used)


def broadcastable(a, b):
    try:
        for x, y in zip(a.arrays, b.arrays):
            np.broadcast_shapes(x.shape, y.shape)
        return True
    except ValueError:
        return False
