"""The least time of each kernel of a model on an H100, without a card: for every kernel its launches, bytes, operations, the larger of the times for both by the data sheet,
its share of all kernels' and the part of it that bytes take.

usage: gpu_floors.py --build build [--tf32] [--precision f16] MODEL.onnx NAME=3x480x640 [NAME=8x128xi64 ...]      inputs are random
       gpu_floors.py --build build [--tf32] MODEL.onnx CASE.npy                                inputs are the file's first arrays

Launches are planned for the card by the module over the fake driver (device option values=1: the host's kernels compute the results, because shapes may come from
them). These are floors, not times: no card has run. An operand counts with all of its bytes, a counted one with those of its bound (device/cuda/fake/floors.c)."""
import argparse
import ctypes
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/random"))
import reed  # noqa: E402


PRECISIONS = ("f32", "bf16", "f16")  # reed_precision


class Floor(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("launches", ctypes.c_int64)] + [(n, ctypes.c_double) for n in ("read", "written", "operations", "seconds", "of_bytes")]


def random_input(text, r):
    dims = text.split("x")
    dtype = {"i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_, "f16": np.float16}.get(dims[-1])
    if dtype: dims.pop()
    dims = [int(d) for d in dims]
    if dtype in (None, np.float16): return r.random(dims, np.float32).astype(dtype or np.float32)
    return r.integers(0, 2 if dtype == np.bool_ else 10, dims).astype(dtype)


def inputs_of(options):
    """The inputs in the model's order."""
    if len(options.inputs) == 1 and options.inputs[0].endswith(".npy"):
        import onnx
        n = len(onnx.load(options.model, load_external_data=False).graph.input)
        with open(options.inputs[0], "rb") as f: return [np.load(f) for _ in range(n)]
    r, given = np.random.default_rng(0), dict(text.split("=", 1) for text in options.inputs)
    if len(given) == 1: return [random_input(next(iter(given.values())), r)]
    import onnx
    return [random_input(given[i.name], r) for i in onnx.load(options.model, load_external_data=False).graph.input]


parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--precision", choices=PRECISIONS, default="f32")
parser.add_argument("model")
parser.add_argument("inputs", nargs="+")
options = parser.parse_args()
library = reed.Library(options.build)
device = "cuda-emulated?card=H100&values=1" + ("&tf32=1" if options.tf32 else "")
with open(options.model, "rb") as f: module = library.compile(f.read(), target="cuda-emulated", precision=PRECISIONS.index(options.precision))
session = reed.Session(library, module, device, graphs=2)
given = inputs_of(options)
session.run_only(given)  # constants are uploaded, and packed weights are read, once
emulated = ctypes.CDLL(os.path.join(options.build, "libreed-cuda-emulated.so"))
floors = (Floor * 256)()
emulated.reed_fake_floors(floors, len(floors))
session.run_only(given)
rows = sorted(floors[:emulated.reed_fake_floors(floors, len(floors))], key=lambda f: -f.seconds)
total = sum(f.seconds for f in rows)
print(f"{os.path.basename(options.model)}, {' '.join('x'.join(map(str, a.shape)) for a in given)}: floors on an H100 by its data sheet, f32 {'in TF32' if options.tf32 else 'strict'}")
print(f"{'kernel':<28}{'launches':>9}{'MB':>10}{'GFLOP':>10}{'floor us':>10}{'share':>8}{'bytes':>8}")
for f in rows:
    print(f"{f.kernel.decode():<28}{f.launches:>9}{(f.read + f.written) / 1e6:>10.2f}{f.operations / 1e9:>10.3f}{f.seconds * 1e6:>10.2f}{100 * f.seconds / total:>7.1f}%"
          f"{100 * f.of_bytes / f.seconds if f.seconds else 0:>7.0f}%")
print(f"{'all':<28}{sum(f.launches for f in rows):>9}{sum(f.read + f.written for f in rows) / 1e6:>10.2f}{sum(f.operations for f in rows) / 1e9:>10.3f}{total * 1e6:>10.2f}")
session.close()
