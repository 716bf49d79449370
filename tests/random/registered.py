"""The list of all functions that add nodes to random graphs. A seed's graph depends on the list's order, which is the order of registration."""
from graph import I8, I16, UNSIGNED

OPERATORS = []
SMALL = UNSIGNED + (I16, I8)


def operator(weight=1.0):
    """Each function adds one or a few nodes to a random graph (graph.py), or raises Skip."""
    def add(f):
        OPERATORS.append((f, weight))
        return f
    return add
