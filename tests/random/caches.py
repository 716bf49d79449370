"""A session of a decoder whose caches stay tensors of the library from step to step, returned to the next step or growing in bound memory."""
import ctypes
import json

import numpy as np

import reed


def is_cache(given):
    """True for an input with one inner axis that grows, f32[batch, heads, past, size] or f32[batch, heads, size, past]; ids, an encoder's states, and its keys and values grow not."""
    return len(given.type.tensor_type.shape.dim) == 4 and not given.name.startswith("cross")


class Run:
    """model: the ONNX model, whose caches are its last inputs and its last outputs. capacity: rows of the bound memory; 0: no memory is bound."""

    def __init__(self, library, model, module, batch, device="host", graphs=0, capacity=0):
        self.l, self.r = library, library.reed
        self.session = reed.Session(library, module, device, graphs=graphs)
        self.memory, self.caches, self.in_place, self.copied, self.replayed, self.stats = [], [], 0, 0, 0, {}
        self.fetched = set()  # why elements came from the device, but for outputs
        self.empty = []
        caches = [i for i in model.graph.input if is_cache(i)]
        self.n_given, self.n_made = len(model.graph.input) - len(caches), len(model.graph.output) - len(caches)
        for i, given in enumerate(caches):
            dims = [d.dim_value or (batch if k == 0 else 0) for k, d in enumerate(given.type.tensor_type.shape.dim)]
            axis = max(k for k, d in enumerate(given.type.tensor_type.shape.dim) if k and not d.dim_value)
            self.empty.append(dims)
            if not capacity: continue
            room = self.open(device, dims[:axis] + [capacity] + dims[axis + 1:])
            self.memory.append(room)
            library.check(self.r.reed_session_bind_output(self.session.session, ctypes.c_size_t(self.n_made + i), room, axis, library.diagnosis))

    def begin(self):
        for handle in self.caches: self.r.reed_tensor_close(ctypes.byref(handle))
        self.caches = [self.open("host", dims) for dims in self.empty]

    def open(self, device, dims):
        out = ctypes.c_void_p()
        self.l.check(self.r.reed_tensor_open_on(device.encode(), 1, len(dims), (ctypes.c_int64 * len(dims))(*dims), ctypes.byref(out), self.l.diagnosis))
        return out

    def array(self, handle):
        host = ctypes.c_void_p()
        self.l.check(self.r.reed_tensor_to_host(handle, ctypes.byref(host), self.l.diagnosis))
        shape = [self.r.reed_tensor_dims(host)[k] for k in range(self.r.reed_tensor_rank(host))]
        n = self.r.reed_tensor_bytes(host)
        made = np.frombuffer(ctypes.string_at(self.r.reed_tensor_data(host), n) if n else b"", np.float32).reshape(shape)
        self.r.reed_tensor_close(ctypes.byref(host))
        return made

    def borrowed(self, array):
        out = ctypes.c_void_p()
        self.l.check(self.r.reed_tensor_open_borrowed(reed.NUMBERS[array.dtype], array.ndim, (ctypes.c_int64 * array.ndim)(*array.shape), ctypes.c_void_p(array.ctypes.data), None, None,
                                                      ctypes.byref(out)))
        return out

    def run(self, arrays, take):
        """The outputs' handles after a step from the caches; take: the caches are closed."""
        arrays = [np.ascontiguousarray(a) for a in arrays]
        fed = [self.borrowed(a) for a in arrays]
        given = fed + self.caches
        n_outputs = self.n_made + len(self.caches)
        inputs, outputs = (ctypes.c_void_p * len(given))(*given), (ctypes.c_void_p * n_outputs)()
        try:
            self.l.check(self.r.reed_session_run(self.session.session, inputs, ctypes.c_size_t(len(given)), outputs, ctypes.c_size_t(n_outputs), self.l.diagnosis))
        finally:
            for handle in given if take else fed: self.r.reed_tensor_close(ctypes.byref(handle))
        self.stats = json.loads(self.l.text(self.r.reed_session_stats_json, self.session.session))
        self.in_place += self.stats["caches"]["in_place"]
        self.copied += self.stats["caches"]["copied"]
        self.replayed += self.stats["graphs"]["replayed"]
        self.fetched |= {(c["reason"], c.get("operator")) for c in self.stats["copies"] if c["direction"] == "device-to-host" and c["reason"] != "output"}
        return [ctypes.c_void_p(o) for o in outputs]

    def branch(self, *arrays):
        """A step whose outputs are no next past: their handles, which the caller closes."""
        return self.run(arrays, take=False)

    def step(self, *arrays):
        """All outputs after the step: the caches are the last of them."""
        handles = self.run(arrays, take=True)
        made = [self.array(h) for h in handles]
        for handle in handles[:self.n_made]: self.r.reed_tensor_close(ctypes.byref(handle))
        self.caches = handles[self.n_made:]
        return made

    def close(self):
        for handle in self.caches + self.memory: self.r.reed_tensor_close(ctypes.byref(handle))
        self.session.close()
