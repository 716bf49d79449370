"""Reed's C library through ctypes, just enough for tests: compile bytes, open, run one session many times."""
import ctypes
import os

import numpy as np

from structures import CompileOptions, SessionOptions

DTYPES = {1: np.float32, 2: np.float64, 3: np.float16, 5: np.int8, 6: np.int16, 7: np.int32, 8: np.int64,
          9: np.uint8, 10: np.uint16, 11: np.uint32, 12: np.uint64, 13: np.bool_}
COUNTS = {None: 0, "host": 1, "device": 2}  # reed_counts of compiler.h
NUMBERS = {np.dtype(d): n for n, d in DTYPES.items()}


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.message = message


class Library:
    def __init__(self, build):
        find = lambda name: next(p for p in (os.path.join(build, d, name) for d in ("", "vm", "compiler")) if os.path.exists(p))
        self.reed = ctypes.CDLL(find("libreed.so"), mode=ctypes.RTLD_GLOBAL)
        self.compiler = ctypes.CDLL(find("libreed-compiler.so"), mode=ctypes.RTLD_GLOBAL)
        for name in ("message",):
            getattr(self.reed, "reed_diagnosis_" + name).restype = ctypes.c_char_p
        self.reed.reed_tensor_dims.restype = ctypes.POINTER(ctypes.c_int64)
        self.reed.reed_tensor_data.restype = ctypes.c_void_p
        self.reed.reed_tensor_bytes.restype = ctypes.c_int64
        self.reed.reed_program_output_count.restype = ctypes.c_size_t
        self.diagnosis = ctypes.c_void_p()
        assert self.reed.reed_diagnosis_open(ctypes.byref(self.diagnosis)) == 0

    def check(self, status):
        if status:
            raise Error(status, self.reed.reed_diagnosis_message(self.diagnosis).decode(errors="replace"))

    def text(self, function, *arguments):
        out = ctypes.c_char_p()
        self.check(function(*arguments, ctypes.byref(out), self.diagnosis))
        value = out.value.decode()
        self.reed.reed_text_free(out)
        return value

    def compile(self, onnx_bytes, disabled=(), target=None, counts=None, precision=0, report=False):
        """The module's bytes; report: these and the report as JSON."""
        names = (ctypes.c_char_p * (len(disabled) + 1))(*[d.encode() for d in disabled], None)
        options = CompileOptions(disabled_passes=names if disabled else None, target=target.encode() if target else None, counts=COUNTS[counts],
                                 precision=precision)
        out, n, said = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_char_p()
        self.check(self.compiler.reed_compile_bytes(onnx_bytes, ctypes.c_size_t(len(onnx_bytes)), ctypes.byref(options),
                                                    ctypes.byref(out), ctypes.byref(n), ctypes.byref(said) if report else None, self.diagnosis))
        data = ctypes.string_at(out, n.value)
        self.reed.reed_text_free(out)
        if not report: return data
        text = said.value.decode()
        self.reed.reed_text_free(said)
        return data, text


class Memory:
    """An output's memory, seen by arrays without a copy; closed when the last of them goes."""

    def __init__(self, library, tensor):
        self.library, self.tensor = library, tensor

    def __del__(self):
        self.library.reed.reed_tensor_close(ctypes.byref(self.tensor))


class Session:
    """`module`: its bytes, or the path of a file, which is mapped."""

    def __init__(self, library, module, device="host", **options):
        self.l = library
        self.program, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        r = library.reed
        if isinstance(module, str):
            library.check(r.reed_program_open(module.encode(), None, ctypes.byref(self.program), library.diagnosis))
        else:
            library.check(r.reed_program_open_bytes(module, ctypes.c_size_t(len(module)), None, ctypes.byref(self.program), library.diagnosis))
        o = SessionOptions(device=device.encode(), **options)
        library.check(r.reed_session_open(self.program, ctypes.byref(o), ctypes.byref(self.session), library.diagnosis))

    def outputs(self, arrays):
        """Runs, and returns the output tensors' handles, which the caller closes."""
        r = self.l.reed
        inputs = (ctypes.c_void_p * max(1, len(arrays)))()
        keep = []
        for i, a in enumerate(arrays):
            a = np.ascontiguousarray(a).reshape(np.shape(a))
            keep.append(a)
            dims = (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
            handle = ctypes.c_void_p()
            self.l.check(r.reed_tensor_open_borrowed(NUMBERS[a.dtype], a.ndim, dims, ctypes.c_void_p(a.ctypes.data), None, None, ctypes.byref(handle)))
            inputs[i] = handle.value
        n_out = r.reed_program_output_count(self.program)
        outputs = (ctypes.c_void_p * max(1, n_out))()
        try:
            self.l.check(r.reed_session_run(self.session, inputs, ctypes.c_size_t(len(arrays)), outputs, ctypes.c_size_t(n_out), self.l.diagnosis))
        finally:
            for i in range(len(arrays)):
                handle = ctypes.c_void_p(inputs[i])
                r.reed_tensor_close(ctypes.byref(handle))
        return [ctypes.c_void_p(outputs[i]) for i in range(n_out)]

    def run_only(self, arrays):
        """Runs and drops the outputs: with the option keep_outputs no output is copied to the host."""
        for handle in self.outputs(arrays): self.l.reed.reed_tensor_close(ctypes.byref(handle))

    def run(self, arrays):
        r, results = self.l.reed, []
        for handle in self.outputs(arrays):
            dtype = np.dtype(DTYPES[r.reed_tensor_dtype(handle)])
            shape = [r.reed_tensor_dims(handle)[k] for k in range(r.reed_tensor_rank(handle))]
            n, memory = r.reed_tensor_bytes(handle), Memory(self.l, handle)
            if n:
                buffer = (ctypes.c_char * n).from_address(r.reed_tensor_data(handle))
                buffer.memory = memory
                results.append(np.frombuffer(buffer, dtype).reshape(shape))
            else:
                results.append(np.empty(shape, dtype))
        return results

    def close(self):
        self.l.reed.reed_session_close(ctypes.byref(self.session))
        self.l.reed.reed_program_close(ctypes.byref(self.program))
