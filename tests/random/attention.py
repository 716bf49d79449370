"""Attention in exported language models: for each model, which of its attentions are found, which masks are folded, whether results are onnxruntime's, and whether bound caches grow.

usage: attention.py --build build [--batch 2] FOLDER/NAME.onnx ...     models of language.py; needs onnx and onnxruntime, which refuses some exports of opset 23 for batches above 1

One line a model: layers whose attention is one operator, of all; Softmax operators that are left; masks that are left, and Expand, Tile and Gather operators that repeat heads;
the largest difference from onnxruntime over a prompt and some steps, of the largest element; caches that grew in place in bound memory, of all; hits that renewed an entry.
Exit status 1: an attention was not found, heads are repeated, results differ, or a cache was copied."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402
from caches import Run, is_cache  # noqa: E402

STATES, WORDS, TOLERANCE = 12, 40, 2e-5
LENGTHS = (6, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1)  # tokens a step


def sites(vm, path):
    """The attentions of the compiled model as (inputs, attributes), and the number of its operators by name."""
    with tempfile.NamedTemporaryFile(suffix=".reed") as module:
        subprocess.run([vm, "compile", path, "-o", module.name], check=True, capture_output=True)
        text = subprocess.run([vm, "dis", module.name], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^[.]site \w+ = (\w+) [(](\d+) -> \d+[)] .*?(?:[{](.*)[}])?$", text, re.M)
    counts = {}
    for operator, _, _ in found: counts[operator] = counts.get(operator, 0) + 1
    return [(int(n), attributes) for operator, n, attributes in found if operator == "Attention"], counts


def difference(got, expected):
    if got.shape != expected.shape: return np.inf
    return float(np.abs(got.astype(np.float64) - expected).max(initial=0)) / max(1e-30, float(np.abs(expected).max(initial=0)))


def peer_of(path):
    """A function of the inputs by name: onnxruntime's, or onnx's reference where onnxruntime lacks an operator."""
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        session = onnx.reference.ReferenceEvaluator(path)
    return lambda given: session.run(None, given)


def compare(library, path):
    """The largest difference, caches in place, all caches, renewed entries."""
    model = onnx.load(path)
    with open(path, "rb") as f: module = library.compile(f.read())
    peer = peer_of(path)
    caches = [i for i in model.graph.input if is_cache(i)]
    random = np.random.default_rng(5)
    states = [random.standard_normal((options.batch, STATES, i.type.tensor_type.shape.dim[2].dim_value)).astype(np.float32) for i in model.graph.input if len(i.type.tensor_type.shape.dim) == 3]
    runs = [Run(library, model, module, options.batch, capacity=capacity) for capacity in (0, sum(LENGTHS))]
    largest = 0.0
    for run in runs: run.begin()
    expected = [np.zeros(dims, np.float32) for dims in runs[0].empty]
    for n in LENGTHS:
        given = [random.integers(0, WORDS, (options.batch, n))] + states
        made = peer(dict(zip([i.name for i in model.graph.input], given + expected)))
        expected = made[len(made) - len(caches):] if caches else []
        for run in runs: largest = max([largest] + [difference(a, b) for a, b in zip(run.step(*given), made)])
    in_place, renewed = runs[1].in_place, runs[1].stats["memo"]["renewed"]
    for run in runs: run.close()
    return largest, in_place, len(LENGTHS) * len(caches), renewed


def check(library, vm, path):
    found, counts = sites(vm, path)
    softmaxes = counts.get("Softmax", 0)
    masks = sum(n > 3 for n, _ in found)
    repeats = sum(counts.get(name, 0) for name in ("Expand", "Tile"))
    largest, in_place, caches, renewed = compare(library, path)
    ok = softmaxes == 0 and found and largest <= TOLERANCE and in_place == caches
    print(f"| {os.path.basename(path)[:-5]} | {len(found)} of {len(found) + softmaxes} | {masks} | {repeats} | {largest:.1e} | {in_place} of {caches} | {renewed} |{'' if ok else ' !'}", flush=True)
    return ok


parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+")
parser.add_argument("--build", default="build")
parser.add_argument("--batch", type=int, default=2)
options = parser.parse_args()
library = reed.Library(options.build)
print("| model | attentions found | masks left | Expand and Tile | largest difference | caches in place | renewed |\n|---|---|---|---|---|---|---|")
passed = []
for path in options.models:
    try:
        passed.append(bool(check(library, os.path.join(options.build, "tools/vm"), path)))
    except Exception as error:
        print(f"| {os.path.basename(path)[:-5]} | {type(error).__name__}: {str(error)[:150]} | !", flush=True)
        passed.append(False)
print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed, 0 skipped")
sys.exit(not all(passed))
