"""Single nodes (nodes.py) of which one extent of most operands is a count that a kernel reports: with counts left on the device beside fetched counts and beside the host.

usage: counted_nodes.py --build build [--seeds 0:1000] [--only top_k,pad] [--device 'cuda-emulated?late=1&poison=1&seed=3&order=7']

An operand is rows of a table at places that NonZero finds, so that its extent along some axis is a count times 1, 2 or 3; operands of as many rows may share the count. Other operands are constants or inputs. Each session
runs four times, with other counts in between. With counts on the device the node must have the bits of the same device with fetched counts. Exit status 1: a node differs. The last line says of how many nodes of each
operator the count stayed on the device, and of how many it was fetched for the node."""
import os
import re
import sys

import numpy as np
from onnx import helper as h

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import device_nodes  # noqa: E402
import nodes  # noqa: E402
import reed  # noqa: E402


class Counted(nodes.Node):
    def __init__(self, seed):
        super().__init__(seed)
        self.masks = {}  # by number of rows and factor: the name of the places, and which array is the mask

    def feed(self, array, dtype=None):
        array = np.asarray(array)
        may_be_values = array.ndim == 1 and array.size < 9 and array.dtype in (np.int64, np.int32)  # which the host reads
        if array.size < 3000 and dtype != "bf16":
            if array.ndim and not may_be_values and self.r.random() < .6: return self.rows(array)
            if self.r.random() < .6: return self.constant(array)
        return super().feed(array, dtype)

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(h.make_tensor(name, h.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True))
        return name

    def rows(self, array):
        """A name of the array as rows of a table, which has more of them."""
        axis = self.number(0, array.ndim - 1) if self.flag() else next((a for a, d in enumerate(array.shape) if d != 1), 0)
        n = array.shape[axis]
        factor = self.one(*[f for f in (1, 1, 2, 3) if n % f == 0]) if array.size else 1
        n //= factor
        if (n, factor) not in self.masks or self.r.random() < .2:
            mask = np.zeros(n + self.number(0, 3), bool)
            mask[self.r.permutation(mask.size)[:n]] = True
            found = self.node("NonZero", [super().feed(mask)])
            self.masks[n, factor] = self.node("Reshape", [found, self.constant(np.array([-1]))]), len(self.arrays) - 1
        places, at = self.masks[n, factor]
        mask = self.arrays[at]
        before, after = list(array.shape[:axis]), list(array.shape[axis + 1:])
        split = array.reshape(before + [n] + [factor] * (factor > 1) + after)
        table = np.take(split, np.arange(mask.size) % n, axis) if n else np.zeros(before + [mask.size] + list(split.shape[axis + 1:]), array.dtype)
        np.moveaxis(table, axis, 0)[np.flatnonzero(mask)] = np.moveaxis(split, axis, 0)
        taken = self.node("Gather", [super().feed(table), places], axis=axis)
        return taken if factor == 1 else self.node("Reshape", [taken, self.constant(np.array(before + [-1] + after))])

    def other_counts(self, share):
        """The arrays, with masks of which about `share` is true."""
        changed = {at for _, at in self.masks.values()}
        return [self.r.random(a.shape) < share if i in changed else a for i, a in enumerate(self.arrays)]


def results(library, module, device, rounds):
    """Of each round, in one session: its results, or its failure."""
    session, made = None, []
    try:
        session = reed.Session(library, module, device)
        for arrays in rounds:
            try: made.append([a.copy() for a in session.run(arrays)])
            except reed.Error as error: made.append(error)
        return made
    except reed.Error as error: return [error] * len(rounds)
    finally:
        if session: session.close()


def differs(g, want, exact, got):
    """Of one round's results: of the host, with fetched counts, with counts on the device."""
    trio = want, exact, got
    failures = [x.status for x in trio if isinstance(x, reed.Error)]
    if failures: return None if len(failures) == 3 and len(set(failures)) == 1 else f"host, counts fetched, counts on the device: {[x if isinstance(x, reed.Error) else 'no failure' for x in trio]}"
    for i, dtype in enumerate(g.dtypes[:len(want)]):
        wrong = device_nodes.differs(exact[i], want[i], dtype, g.exact)
        if wrong: return f"output {i}, counts fetched, beside the host: {wrong}"
        wrong = device_nodes.differs(got[i], exact[i], dtype, True)
        if wrong or got[i].tobytes() != exact[i].tobytes(): return f"output {i}, counts on the device: {wrong or 'other bits'}"
    return None


def check(library, seed, options, kept):
    g = Counted(seed)
    text = nodes.make(g, seed, options.only)
    if not g.masks: return ""
    target = options.device.split("?")[0].replace("cuda-emulated", "cuda")
    try: modules = [library.compile(g.model.SerializeToString(), target=t, counts=c, report=True) for t, c in ((None, "host"), (target, "host"), (target, "device"))]
    except reed.Error as error: return "" if "not supported" in str(error) else f"{text}: {error}"
    kept.setdefault(g.operator, [0, 0])[re.search(f'"why": ?"{g.operator} ', modules[2][1]) is not None] += 1
    rounds = [g.arrays, g.other_counts(.5), g.other_counts(g.one(0, 1)), g.arrays]
    made = [results(library, module[0], device, rounds) for module, device in zip(modules, ("host", options.device, options.device))]
    for k, trio in enumerate(zip(*made)):
        wrong = differs(g, *trio)
        if wrong: return f"{text}: run {k}: {wrong}"
    return None


def main():
    kept = {}
    failed = device_nodes.check_seeds(device_nodes.parser_of_seeds().parse_args(), lambda *case: check(*case, kept))
    print("on the device/fetched: " + ", ".join(f"{operator} {a}/{b}" for operator, (a, b) in sorted(kept.items())))
    return failed


sys.exit(main())
