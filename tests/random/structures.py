"""The structures of the public headers for ctypes. The test `structures` compares them with the headers; this file needs no package."""
import ctypes


class SessionOptions(ctypes.Structure):
    header, name = "reed/reed.h", "reed_session_options"
    _fields_ = [("device", ctypes.c_char_p), ("n_threads", ctypes.c_int), ("memory_cap_bytes", ctypes.c_int64),
                ("memo_entries", ctypes.c_int64), ("memo_bytes", ctypes.c_int64), ("max_call_depth", ctypes.c_int64),
                ("max_instructions", ctypes.c_int64), ("profile", ctypes.c_bool), ("cancel_at_kernel", ctypes.c_int64), ("keep_outputs", ctypes.c_bool), ("graphs", ctypes.c_int),
                ("seed", ctypes.c_uint64)]


class CompileOptions(ctypes.Structure):
    header, name = "reed/compiler.h", "reed_compile_options"
    _fields_ = [("registry", ctypes.c_void_p), ("disabled_passes", ctypes.POINTER(ctypes.c_char_p)), ("precision", ctypes.c_int),
                ("external_folder", ctypes.c_char_p), ("progress", ctypes.c_void_p), ("progress_context", ctypes.c_void_p), ("sink", ctypes.c_void_p),
                ("external_anywhere", ctypes.c_bool), ("reading", ctypes.c_void_p), ("reading_context", ctypes.c_void_p),
                ("target", ctypes.c_char_p), ("cancel", ctypes.c_void_p), ("counts", ctypes.c_int),
                ("dims", ctypes.c_void_p), ("n_dims", ctypes.c_size_t)]
