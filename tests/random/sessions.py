#!/usr/bin/env python3
"""Random series of calls on two sessions of one random graph on a device: every output has the bits of a session that is opened for one run, with inputs on the host and without graphs.

usage: sessions.py --build build [--seeds 0:200] [--device sim] [--shrink]

A series opens and closes sessions (some with few memo entries, with or without graphs, some cancelled at a kernel), runs them at three sizes, and changes where tensors lie from run to run: inputs on the host, on the
device in new or in the same memory, one tensor for two inputs, transposed views by DLPack; outputs that stay on the device, that are bound to memory of host or device with and without room, that are kept and looked at
later. Inputs must stay as they are. Every fourth series has a call of the device that fails once: its runs may fail, and later ones must be right. --shrink prints the calls that a failure needs. Exit status 1: a
series failed."""
import argparse
import ctypes
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402
from graph import N_SIZES  # noqa: E402
from random_graphs import generate  # noqa: E402
from structures import SessionOptions  # noqa: E402

GRAPHS_OFF, ERROR_SHAPE, ERROR_CANCELLED, ERROR_ARGUMENT = 2, -7, -12, -1
MOST_FAILURES = 25  # of a series with a failing call: each session that opens the device anew counts its calls from 1
FAILING = {"sim": (("fail_copy", "fail_launch", "fail_allocation"), 120), "cuda-emulated": (("fail_call", "fail_memory"), 2500)}
Pointer = ctypes.c_void_p


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("data", Pointer), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64), ("context", Pointer), ("deleter", Pointer)]


DELETER = ctypes.CFUNCTYPE(None, Pointer)
VIEWS = {}  # DLPack views that are open


class Tensor:
    """A reed_tensor, until close()."""

    def __init__(self, library, handle): self.library, self.handle = library, Pointer(handle)

    def close(self): self.library.reed.reed_tensor_close(ctypes.byref(self.handle))

    def array(self):
        r, host = self.library.reed, Pointer()
        self.library.check(r.reed_tensor_to_host(self.handle, ctypes.byref(host), self.library.diagnosis))
        shape, n = [r.reed_tensor_dims(host)[k] for k in range(r.reed_tensor_rank(host))], r.reed_tensor_bytes(host)
        made = np.frombuffer(ctypes.string_at(r.reed_tensor_data(host), n) if n else b"", reed.DTYPES[r.reed_tensor_dtype(host)]).reshape(shape).copy()
        r.reed_tensor_close(ctypes.byref(host))
        return made

    def on(self, device):
        """A copy on the device; this one is closed."""
        made = Pointer()
        try: self.library.check(self.library.reed.reed_tensor_to_device(self.handle, device.encode(), ctypes.byref(made), self.library.diagnosis))
        finally: self.close()
        return Tensor(self.library, made.value)

    def transposed(self):
        """A view of the same memory with the axes in reverse order, by DLPack; this one is closed."""
        r, managed = self.library.reed, ctypes.POINTER(DLManagedTensor)()
        self.library.check(r.reed_tensor_to_dlpack(self.handle, ctypes.byref(managed)))
        own, n = managed.contents, managed.contents.ndim
        shape, strides = [own.shape[k] for k in range(n)], [1] * n
        for k in range(n - 2, -1, -1): strides[k] = strides[k + 1] * shape[k + 1]
        view = DLManagedTensor(own.data, own.device_type, own.device_id, n, own.code, own.bits, own.lanes, (ctypes.c_int64 * n)(*shape[::-1]), (ctypes.c_int64 * n)(*strides[::-1]), own.byte_offset)

        def drop(_):
            ctypes.cast(own.deleter, DELETER)(ctypes.cast(managed, Pointer).value)
            del VIEWS[id(view)]

        call = DELETER(drop)
        view.deleter = ctypes.cast(call, Pointer)
        VIEWS[id(view)] = view, call, managed
        made = Pointer()
        self.library.check(r.reed_tensor_from_dlpack(ctypes.byref(view), ctypes.byref(made)))
        self.close()
        return Tensor(self.library, made.value)


def tensor_of(library, array):
    dims, handle, dense = (ctypes.c_int64 * max(1, array.ndim))(*array.shape), Pointer(), np.ascontiguousarray(array)
    library.check(library.reed.reed_tensor_open(reed.NUMBERS[array.dtype], array.ndim, dims, ctypes.byref(handle)))
    if array.nbytes: ctypes.memmove(library.reed.reed_tensor_data(handle), dense.ctypes.data, array.nbytes)
    return Tensor(library, handle.value)


class Session(reed.Session):
    """A session whose inputs and outputs are Tensors."""

    def __init__(self, library, module, device, **options):
        super().__init__(library, module, device, **options)
        self.may_be_cancelled, self.bound = "cancel_at_kernel" in options, set()

    def run(self, tensors):
        n = self.l.reed.reed_program_output_count(self.program)
        inputs, outputs = (Pointer * max(1, len(tensors)))(*[t.handle for t in tensors]), (Pointer * max(1, n))()
        self.l.check(self.l.reed.reed_session_run(self.session, inputs, ctypes.c_size_t(len(tensors)), outputs, ctypes.c_size_t(n), self.l.diagnosis))
        return [Tensor(self.l, outputs[k]) for k in range(n)]

    def keep(self, output, on): self.l.check(self.l.reed.reed_session_keep_output(self.session, ctypes.c_size_t(output), ctypes.c_bool(on), self.l.diagnosis))

    def bind(self, output, memory, axis=-1):
        self.l.check(self.l.reed.reed_session_bind_output(self.session, ctypes.c_size_t(output), memory.handle if memory else None, axis, self.l.diagnosis))
        if memory: self.bound.add(output)
        else: self.bound.discard(output)


def same(a, b): return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def series(r, n_inputs, n_outputs):
    """Calls as tuples, the first of which is the call's name."""
    one, flag, output = lambda *c: c[r.integers(len(c))], lambda: bool(r.integers(2)), lambda: int(r.integers(n_outputs))
    calls = []
    for step in range(40):
        number = one(0, 0, 1)  # of the session
        if step == 0 or r.random() < .06:
            options = {}
            if r.random() < .25: options["cancel_at_kernel"] = int(r.integers(1, 60))
            if r.random() < .3: options["memo_entries"] = one(1, 2, 3)
            if r.random() < .2: options["keep_outputs"] = True
            if r.random() < .3: options["graphs"] = one(1, GRAPHS_OFF)
            calls.append(("open", number, options))
        if r.random() < .15: calls.append(("keep", number, output(), flag()))
        if r.random() < .12: calls.append(("bind", number, output(), one(0, 0, 1, 2), flag(), one(-1, -1, 0, 1, 2, 3), one(1, 2, 40)))
        if r.random() < .06: calls.append(("unbind", number, output()))
        places = [(one("host", "host", "device", "same memory", "same memory", "one tensor", "strided"), int(r.integers(2))) for _ in range(n_inputs)]
        calls.append(("run", number, one(0, 0, 0, 1, 1, 2), places, flag(), [r.random() < .3 for _ in range(n_outputs)]))
        if r.random() < .5: calls.append(("look", int(r.integers(8))))
    return calls


class Series:
    """Makes the calls of one series."""

    def __init__(self, library, module, device, feeds, expected, may_fail):
        self.library, self.module, self.device, self.feeds, self.expected, self.may_fail = library, module, device, feeds, expected, may_fail
        self.sessions, self.kept, self.memory = {}, [], {}

    def make(self, calls):
        """Returns the first wrong result, or ""."""
        n_failed = 0
        try:
            for n, (name, *arguments) in enumerate(calls):
                if name not in ("open", "look") and arguments[0] not in self.sessions: continue
                try: wrong = getattr(self, name)(*arguments)
                except reed.Error as error:
                    n_failed += 1
                    wrong = None if self.may_fail and n_failed <= MOST_FAILURES else error
                if wrong: return f"call {n}, {name} {arguments}: {wrong}"
            while self.kept:
                wrong = self.look(0)
                if wrong: return f"at the end: {wrong}"
        except reed.Error as error: return "" if self.may_fail else f"at the end: {error}"
        finally:
            for session in self.sessions.values(): session.close()
            for tensor in [t for t, _ in self.kept] + list(self.memory.values()): tensor.close()
        return ""

    def open(self, number, options):
        if number in self.sessions: self.sessions.pop(number).close()
        self.sessions[number] = Session(self.library, self.module, self.device, **options)

    def keep(self, number, output, on): self.sessions[number].keep(output, on)
    def unbind(self, number, output): self.sessions[number].bind(output, None)

    def bind(self, number, output, size, on_device, axis, room):
        like = self.expected(size)[output]
        dims, axis = list(like.shape), axis if axis < like.ndim else -1
        if axis >= 0: dims[axis] += room
        memory = tensor_of(self.library, np.zeros(dims, like.dtype))
        if on_device: memory = memory.on(self.device)
        try: self.sessions[number].bind(output, memory, axis)
        except reed.Error as error:
            if error.status != ERROR_ARGUMENT: raise
        finally: memory.close()

    def look(self, which):
        """Looks at an output of an earlier run, and closes it."""
        if not self.kept: return None
        tensor, expected = self.kept.pop(which % len(self.kept))
        try: return None if same(tensor.array(), expected) else "an output of an earlier run has changed"
        finally: tensor.close()

    def input(self, size, i, place, which, tensors, own):
        """A tensor of input i; own: those to be closed."""
        array = self.feeds[size][i]
        if place == "one tensor":
            equal = [t for t, other in zip(tensors, self.feeds[size]) if same(array, other)]
            if equal: return equal[0]
        if place == "same memory":
            if (size, i, which) not in self.memory: self.memory[size, i, which] = tensor_of(self.library, array).on(self.device)
            return self.memory[size, i, which]
        strided = place == "strided" and array.ndim > 1 and array.size > 0
        made = tensor_of(self.library, array.transpose() if strided else array)
        if place != "host" and not (strided and which): made = made.on(self.device)
        if strided: made = made.transposed()
        own.append(made)
        return made

    def run(self, number, size, places, close_early, keeps):
        session, expected, tensors, own, outputs = self.sessions[number], self.expected(size), [], [], []
        try:
            for i, (place, which) in enumerate(places): tensors.append(self.input(size, i, place, which, tensors, own))
            try: outputs = session.run(tensors)
            except reed.Error as error:
                if error.status == ERROR_CANCELLED and session.may_be_cancelled: session.may_be_cancelled = False
                elif error.status == ERROR_SHAPE and session.bound:
                    for output in list(session.bound): session.bind(output, None)
                else: raise
                return None
            if not all(same(t.array(), array) for t, array in zip(tensors, self.feeds[size])): return "an input has changed"
            if close_early:
                while own: own.pop().close()
            wrong = [i for i, (t, array) in enumerate(zip(outputs, expected)) if not same(t.array(), array)]
            if wrong: return f"other bits in the outputs {wrong}"
            for i, (tensor, keeps_it) in enumerate(zip(list(outputs), keeps)):
                if keeps_it and i not in session.bound:
                    self.kept.append((tensor, expected[i]))
                    outputs.remove(tensor)
        finally:
            for tensor in own + outputs: tensor.close()
        return None


def shrunk(calls, fails):
    n = len(calls) // 2
    while n:
        i = 0
        while i < len(calls):
            fewer = calls[:i] + calls[i + n:]
            if fails(fewer): calls = fewer
            else: i += n
        n //= 2
    return calls


def check(library, seed, name, shrink):
    """None: the graph has no outputs, or an operator that Reed has not."""
    graph, model, outputs = generate(seed)
    if not outputs: return None
    r = np.random.default_rng([seed, 78])
    feeds, counts = [[v.arrays[k] for v, _ in graph.inputs] for k in range(N_SIZES)], ("host", "device")[r.integers(2)]
    try: module = library.compile(model.SerializeToString(), target=None if name == "host" else name.replace("cuda-emulated", "cuda"), counts=counts)
    except reed.Error as error: return None if error.status == -5 else str(error)
    device, may_fail, known = name, False, {}
    if name != "host": device += f"?seed={r.integers(1, 1000)}" + ("", "&late=1", "&late=1&poison=1")[r.integers(3)]
    if name == "cuda-emulated": device += f"&order={r.integers(9)}"
    if name in FAILING and r.integers(4) == 0:
        (options, most), may_fail = FAILING[name], True
        device += f"&{options[r.integers(len(options))]}={r.integers(1, most)}"

    def expected(size):
        if size not in known:
            session = reed.Session(library, module, name, graphs=GRAPHS_OFF)
            known[size] = [a.copy() for a in session.run(feeds[size])]
            session.close()
        return known[size]

    make = lambda calls: Series(library, module, device, feeds, expected, may_fail).make(calls)
    calls = series(r, len(feeds[0]), len(outputs))
    wrong = make(calls)
    if wrong and shrink: wrong += "".join(f"\n    {call}" for call in shrunk(calls, make))
    return wrong and f"{device}, counts {counts}: {wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--device", default="sim", choices=("host", "sim", "cuda-emulated"))
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    library = reed.Library(options.build)
    first, last = (int(n) for n in options.seeds.split(":"))
    results = {"passed": 0, "failed": 0, "skipped": 0}
    for seed in range(first, last):
        wrong = check(library, seed, options.device, options.shrink)
        results["skipped" if wrong is None else "failed" if wrong else "passed"] += 1
        if wrong: print(f"seed {seed}: {wrong}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in results.items()))
    return results["failed"] > 0


if __name__ == "__main__": sys.exit(main())
