"""Operators of sequences for random graphs: parts of tensors, lists, and sequences that a Loop carries."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

from graph import FLOATS, I32, I64, INTS, ONNX_TYPES, Skip
from registered import operator


class Chain:
    """Nodes whose values are sequences, and those that make tensors of them."""

    def __init__(self, g):
        self.g, self.nodes, self.inputs, self.outputs = g, [], [], []

    def add(self, op, *names, **attributes):
        out = self.g.name("q")
        inputs = [n if isinstance(n, str) else n.name for n in names]
        self.inputs += [n for n in names if not isinstance(n, str)]
        self.nodes.append(h.make_node(op, inputs, [out], name=self.g.name(op.lower()), **attributes))
        return out

    def tensor(self, op, *names, **attributes):
        self.outputs.append(self.add(op, *names, **attributes))

    def end(self):
        if not self.outputs:
            raise Skip("nothing made")
        self.g.finish_all(self.nodes, self.inputs, self.outputs)

    def use(self, sequence, n_least, axis, new_axis):
        """Items at places that the sequence has at every size, its length, its items along an axis."""
        g = self.g
        if g.flag(.3) and g.opset >= 14:  # before, Identity takes tensors alone
            sequence = self.add("Identity", sequence)
        for _ in range(g.flag() + g.flag()):
            if n_least:
                self.tensor("SequenceAt", sequence, g.const(int(g.r.integers(-n_least, n_least)), I64 if g.flag(.7) else I32))
        if g.flag():
            self.tensor("SequenceLength", sequence)
        if g.flag(.6):
            self.tensor("ConcatFromSequence", sequence, axis=axis, **({"new_axis": 1} if new_axis else {}))


@operator(1.5)
def parts(g):
    """Parts of equal extents, of extent 1, of given or computed extents."""
    v = g.pick(FLOATS + INTS, rank=(1, 2, 3, 4), nonempty=True)
    axis = g.axis(v)
    extents, chain, kind = [s[axis] for s in v.shapes()], Chain(g), int(g.r.integers(4))
    keeps, n_least, by = True, min(extents), []
    if kind == 0:
        chunk = int(g.r.integers(1, 4))
        by, n_least = [g.const(chunk, I64 if g.flag(.7) else I32)], min(-(-e // chunk) for e in extents)
    elif kind == 1:
        keeps = g.flag()
    elif kind == 2 and v.fixed(axis):
        first = int(g.r.integers(0, v.fixed(axis) + 1))
        by, n_least = [g.const([first, v.fixed(axis) - first], I64)], 2
    else:
        whole = g.extent(v, axis)
        half = g.node("Div", [whole, g.axes(2)])
        by, n_least = [g.node("Concat", [half, g.node("Sub", [whole, half])], axis=0)], 2
    s = chain.add("SplitToSequence", v, *by, axis=axis, **({} if keeps or by else {"keepdims": 0}))
    chain.use(s, n_least, axis, not keeps)
    chain.end()


@operator()
def lists(g):
    v = g.pick(FLOATS + INTS, rank=(0, 1, 2, 3))
    like = [w for w in g.values if w.dtype == v.dtype and w.shapes() == v.shapes() and not w.final]
    chain, n = Chain(g), int(g.r.integers(1, 4))
    items = [v] + [like[int(g.r.integers(len(like)))] for _ in range(n - 1)]
    if g.flag():
        s = chain.add("SequenceConstruct", *items)
    else:
        s, n = chain.add("SequenceEmpty", dtype=ONNX_TYPES[v.dtype]), 0
        for w in items:
            s = chain.add("SequenceInsert", s, w, *([g.const(int(g.r.integers(-n, n + 1)), I64)] if g.flag() else []))
            n += 1
    if g.flag(.3) and n > 1:
        s, n = chain.add("SequenceErase", s, *([g.const(int(g.r.integers(-n, n)), I64)] if g.flag() else [])), n - 1
    new_axis = v.rank == 0 or g.flag()
    rank = v.rank + new_axis
    chain.use(s, n, int(g.r.integers(-rank, rank)), new_axis)
    chain.end()


@operator()
def carried(g):
    """A Loop that appends an item a round: of equal extents, or the first rows of a tensor. With a number of rounds that is a constant it may insert in front, and twice."""
    if g.opset < 13:
        raise Skip("opset")
    v = g.pick(FLOATS, rank=(1, 2, 3), nonempty=True)
    trips, p, chain = g.const(int(g.r.integers(1, 5)), I64), g.name("l"), Chain(g)
    known = g.flag()
    if not known: trips = g.node("Identity", [trips])
    more = known and g.flag()
    grows, one = g.flag(.4), g.const(1, I64)
    if grows:
        end = g.axes(0)
        item = [h.make_node("Add", [p + "i", one.name], [p + "n"]), h.make_node("Unsqueeze", [p + "n", end.name], [p + "e"]) if g.opset >= 13 else
                h.make_node("Unsqueeze", [p + "n"], [p + "e"], axes=[0]), h.make_node("Slice", [v.name, end.name, p + "e", end.name], [p + "y"])]
    else:
        end = one
        item = [h.make_node("Cast", [p + "i"], [p + "n"], to=ONNX_TYPES[v.dtype]), h.make_node("Add", [v.name, p + "n"], [p + "y"])]
    nodes = item + [h.make_node("SequenceInsert", [p + "s", p + "y"], [p + ("r" if more else "t")]), h.make_node("Identity", [p + "c"], [p + "d"])]
    if more: nodes += [h.make_node("Constant", [], [p + "0"], value_int=0), h.make_node("SequenceInsert", [p + "r", p + "y", p + "0"], [p + "t"])]
    kind = ONNX_TYPES[v.dtype]
    body = h.make_graph(nodes, g.name("body"), [h.make_tensor_value_info(p + "i", T.INT64, []), h.make_tensor_value_info(p + "c", T.BOOL, []),
                                                h.make_tensor_sequence_value_info(p + "s", kind, None)],
                        [h.make_tensor_value_info(p + "d", T.BOOL, []), h.make_tensor_sequence_value_info(p + "t", kind, None)])
    s = chain.add("Loop", trips, "", chain.add("SequenceEmpty", dtype=kind), body=body)
    chain.inputs += [v, one, end]
    n = int(np.min(trips.arrays[0])) * (1 + more)
    chain.use(s, 0 if grows else n, 0, not grows and g.flag())
    chain.end()
