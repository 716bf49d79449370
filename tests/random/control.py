"""Random bodies of If and Loop: nested in each other, capturing several values of the graphs around them, giving back captured values, with conditions
and trip counts that the host knows, and with ones that only the data decide."""
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

from graph import F32, ONNX_TYPES, Skip


class Body:
    """Nodes of one body. Values are names of floats of the dtype `dtype`: those in `same` have the shape of the chosen value (as far as is known),
    those in `scalars` are scalars."""

    def __init__(self, g, v, same, scalars, depth):
        self.g, self.v, self.same, self.scalars, self.depth = g, v, list(same), list(scalars), depth
        self.nodes, self.type = [], ONNX_TYPES[v.dtype]

    def add(self, op, inputs, n_out=1, **attributes):
        out = [self.g.name("b") for _ in range(n_out)]
        self.nodes.append(h.make_node(op, inputs, out, name=self.g.name(op.lower()), **attributes))
        return out[0] if n_out == 1 else out

    def const(self, array, dtype=None):
        """An initializer of the main graph, captured."""
        c = self.g.const(array, dtype or self.v.dtype)
        self.g.captured_constants.append(c)
        return c.name

    def one(self):
        return str(self.g.r.choice(self.same))

    def reduced(self):
        """A mean or, if the values may have no elements, the number of elements."""
        if all(a.size for a in self.v.arrays):
            return self.add("ReduceMean", [self.one()], keepdims=0)
        return self.add("Cast", [self.add("Size", [self.one()])], to=self.type)

    def step(self):
        """One more value of the same shape."""
        r = self.g.r
        kind = r.integers(7 if self.depth < 2 else 5)
        if kind == 0:
            self.same.append(self.add(str(r.choice(["Relu", "Neg", "Tanh", "Abs", "Sigmoid", "Identity"])), [self.one()]))
        elif kind == 1:
            self.same.append(self.add(str(r.choice(["Add", "Sub", "Max", "Min"])), [self.one(), self.one()]))
        elif kind == 2 and self.scalars:
            self.same.append(self.add(str(r.choice(["Add", "Mul", "Sub"])), [self.one(), str(r.choice(self.scalars))]))
        elif kind == 3:
            self.same.append(self.add("Mul", [self.one(), self.const(.5)]))
        elif kind == 4:
            self.scalars.append(self.reduced())
        elif kind == 5:
            self.same.append(self.nested_if())
        elif kind == 6:
            self.same.append(self.nested_loop())

    def grown(self):
        """Another shape: longer, shorter, counted from the data, or of another rank."""
        r, v, x = self.g.r, self.v, self.one()
        kind = r.integers(4) if v.rank else 3
        if kind == 0:
            return self.add("Concat", [x, self.one()], axis=0)
        if kind == 1:
            return self.add("Slice", [x, self.const([0], np.int64), self.const([int(r.integers(0, 3))], np.int64), self.const([0], np.int64)])
        if kind == 2:
            positive = self.add("Greater", [x, self.const(.137)])
            return self.add("Cast", [self.add("NonZero", [positive])], to=self.type)
        return self.add("Reshape", [x, self.const([1] + [0] * v.rank if self.g.flag() and not any(d == 0 for s in v.shapes() for d in s) and v.rank == 0 else [-1], np.int64)])

    def condition(self):
        if self.g.flag(.3):  # from extents
            size = self.add("Size", [self.one()])
            return self.add("Less", [size, self.const(int(self.g.r.integers(1, 30)), np.int64)])
        scalar = str(self.g.r.choice(self.scalars)) if self.scalars and self.g.flag() else self.reduced()
        return self.add("Greater", [scalar, self.const(float(np.round(self.g.r.standard_normal() * .3, 2)))])

    def branch(self, keep_shape):
        b = Body(self.g, self.v, self.same, self.scalars, self.depth + 1)
        for _ in range(int(self.g.r.integers(0, 4))):
            b.step()
        last = b.add("Identity", [b.one()]) if not b.nodes or b.same[-1] not in [o for n in b.nodes for o in n.output] else b.same[-1]
        if not keep_shape and self.g.flag(.4):
            last = b.grown()
        return b, last

    def nested_if(self):
        cond = self.condition()
        graphs = []
        for _ in range(2):
            b, last = self.branch(True)
            graphs.append(h.make_graph(b.nodes, self.g.name("branch"), [], [h.make_tensor_value_info(last, self.type, None)]))
        return self.add("If", [cond], then_branch=graphs[0], else_branch=graphs[1])

    def nested_loop(self):
        trips = self.const(int(self.g.r.integers(0, 4)), np.int64)
        if self.g.flag(.4):
            trips = self.add("Cast", [self.add("Clip", [self.add("Abs", [self.reduced()]), self.const(0), self.const(2)])], to=T.INT64)
        graph, _ = loop_body(self.g, self.v, self.same, self.scalars, self.depth + 1, 1, False)
        return self.add("Loop", [trips, "", self.one()], body=graph)


def loop_body(g, v, same, scalars, depth, n_states, may_grow):
    """The body's graph and the number of scan outputs."""
    p = g.name("l")
    states = [f"{p}x{k}" for k in range(n_states)]
    b = Body(g, v, list(same) + states, scalars, depth)
    if g.flag(.6):
        b.scalars.append(b.add("Cast", [p + "i"], to=b.type))
    for _ in range(int(g.r.integers(1, 5))):
        b.step()
    cond = b.add("Identity", [p + "c"]) if g.flag(.6) else b.condition()
    made = [o for n in b.nodes for o in n.output]
    results = []
    for k in range(n_states):
        kind = g.r.integers(5)
        if kind == 0:
            results.append(b.add("Identity", [str(g.r.choice(states))]))  # a state, carried on in its own place or in another state's
        elif kind == 1 and may_grow and v.rank:
            results.append(b.add("Concat", [states[k], b.one()], axis=0))
        else:
            out = b.one()
            results.append(out if out in made and out not in results else b.add("Identity", [out]))
    infos = [h.make_tensor_value_info(cond, T.BOOL, [])] + [h.make_tensor_value_info(o, b.type, None) for o in results]
    n_scans = int(g.r.integers(0, 3)) if depth == 0 else 0
    for _ in range(n_scans):
        step = b.add("Mul", [b.add("Cast", [p + "i"], to=b.type), b.const(.37)])  # a factor of no simple ratio, so that no ties arise
        out = b.add("Add", [b.reduced(), step]) if g.flag() else b.add("Identity", [str(g.r.choice(list(same) or states))])
        infos.append(h.make_tensor_value_info(out, b.type, None))
    params = [h.make_tensor_value_info(p + "i", T.INT64, []), h.make_tensor_value_info(p + "c", T.BOOL, [])]
    params += [h.make_tensor_value_info(s, b.type, None) for s in states]
    return h.make_graph(b.nodes, g.name("body"), params, infos), n_scans


def chosen(g):
    """A value and others of its shape to capture."""
    v = g.pick(rank=(0, 1, 2, 3), nonempty=g.r.random() < .8)
    g.captured_constants = []
    like = [w for w in g.values if w is not v and w.dtype == v.dtype and w.shapes() == v.shapes()]
    return v, [v] + like[:2], [w for w in g.values if w.dtype == v.dtype and w.rank == 0][-2:]


def if_(g):
    v, same, scalars = chosen(g)
    kind = g.r.integers(4)
    if kind == 0 and v.rank:  # from an extent: known on the host
        cond = g.node("Greater", [g.node("Squeeze", [g.extent(v, 0)]), g.const(np.int64(int(g.r.integers(1, 6))))])
    elif kind == 1 and all(a.size for a in v.arrays):  # from data
        cond = g.node("Greater", [g.node("ReduceSum", [v], keepdims=0), g.const(.071, v.dtype)])
    elif kind == 2:
        cond = g.pick(bool, where=lambda c: all(a.size == 1 and a.ndim == 0 for a in c.arrays))
    else:
        cond = g.node("Less", [g.node("Size", [v]), g.const(np.int64(20))])
    outer = Body(g, v, [w.name for w in same], [w.name for w in scalars], -1)
    n_out = int(g.r.integers(1, 3))
    graphs = []
    for _ in range(2):
        nodes, infos = [], []
        for _ in range(n_out):
            b, last = outer.branch(False)
            nodes += b.nodes
            infos.append(h.make_tensor_value_info(last, b.type, None))
        graphs.append(h.make_graph(nodes, g.name("branch"), [], infos))
    node = h.make_node("If", [cond.name], [g.name() for _ in range(n_out)], name=g.name("if"), then_branch=graphs[0], else_branch=graphs[1])
    g.finish(node, [cond] + same + scalars + g.captured_constants)


def loop(g):
    v, same, scalars = chosen(g)
    kind = g.r.integers(4)
    if kind == 0:
        trips = g.const(np.int64(int(g.r.integers(0, 5))))
    elif kind == 1 and v.rank:
        trips = g.node("Squeeze", [g.extent(v, 0)])
    elif kind == 2 and all(a.size for a in v.arrays):
        trips = g.small_number(v, 4)
    else:
        trips = g.const(np.int64(3))
    start = g.const(np.bool_(g.r.random() < .9)) if g.flag(.3) else None
    n_states = int(g.r.integers(0, 3))
    outside = [w.name for w in same]
    if n_states == 0 and not outside:
        raise Skip("nothing to do")
    body, n_scans = loop_body(g, v, outside, [w.name for w in scalars], 0, n_states, True)
    if n_states + n_scans == 0:
        raise Skip("no outputs")
    initial = [same[int(g.r.integers(len(same)))] for _ in range(n_states)]
    inputs = [trips.name, start.name if start else ""] + [w.name for w in initial]
    node = h.make_node("Loop", inputs, [g.name() for _ in range(n_states + n_scans)], name=g.name("loop"), body=body)
    g.finish(node, [trips] + ([start] if start else []) + same + scalars + g.captured_constants, stacked=n_scans)


def scan(g):
    """One state and one or two scanned values; axes and directions of both; a body that declares its results, their dtypes only, or neither."""
    v = g.pick(F32, rank=(1, 2, 3), nonempty=True)
    axis, n_scanned, out_axis = int(g.r.integers(v.rank)), int(g.r.integers(1, 3)), int(g.r.integers(v.rank))
    start, p = g.node("Gather", [v, g.const(np.int64(0))], axis=axis), g.name("s")
    names = [f"{p}{k}" for k in range(n_scanned + 1)]
    nodes = [h.make_node("Add", [names[0], names[-1]], [p + "a"]), h.make_node("Tanh", [p + "a"], [p + "b"]), h.make_node("Mul", [p + "b", names[1]], [p + "c"])]
    declared = int(g.r.integers(3))
    info = lambda name, how=0: onnx.ValueInfoProto(name=name) if how == 2 else h.make_tensor_value_info(name, ONNX_TYPES[v.dtype], None if how else [None] * (v.rank - 1))
    body = h.make_graph(nodes, g.name("body"), [info(n, declared) for n in names], [info(p + "b", declared), info(p + "c", declared)])
    node = h.make_node("Scan", [start.name] + [v.name] * n_scanned, [g.name(), g.name()], name=g.name("scan"), body=body, num_scan_inputs=n_scanned,
                       scan_input_axes=[axis] * n_scanned, scan_input_directions=[int(g.flag()) for _ in range(n_scanned)],
                       scan_output_axes=[out_axis - v.rank if g.flag() else out_axis], scan_output_directions=[int(g.flag())])
    g.finish(node, [start, v])
