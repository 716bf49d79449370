"""Attention in exported language models: for each model, which of its attentions are found, which masks are folded, whether results are onnxruntime's, and whether bound caches grow.

usage: attention.py --build build [--batch 2] [--padding 2] [--device cuda-emulated] FOLDER/NAME.onnx ...     models of language.py; needs onnx and onnxruntime, which refuses some exports of opset 23 for batches above 1

One line a model: layers whose attention is one operator, of all; masks that are left; keys and values whose heads are repeated (by Expand, Tile or Gather) for Attention; the largest difference from onnxruntime over a prompt and some steps, of the largest element; (in bound memory and without, and where each past has two continuations); caches that grew in place in bound memory, of all; hits that renewed an entry.
Exit status 1: an attention was not found, heads are repeated, results differ, or a cache was copied."""
import argparse
import ctypes
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


REPEATS, VIEWS = ("Expand", "Tile", "Gather"), ("Reshape", "Unsqueeze", "Squeeze", "Transpose")


def repeated(text, operators):
    """The keys and values of all Attentions that an operator of REPEATS makes, perhaps under other extents."""
    made, n = {}, 0
    for line in text.splitlines():
        view, call = re.match(r"  view (r\d+), (r\d+)", line), re.match(r"  invoke (k\d+), \w+, \[([^\]]*)\], \[([^\]]*)\]", line)
        if view: made[view[1]] = ("Reshape", [view[2]])
        if not call: continue
        operator, results, operands = operators[call[1]], call[2].split(", "), call[3].split(", ")
        for register in operands[1:3] if operator == "Attention" else ():
            while made.get(register, ("",))[0] in VIEWS: register = made[register][1][0]
            n += made.get(register, ("",))[0] in REPEATS
        for register in results: made[register] = (operator, operands)
    return n


def sites(vm, path):
    """The attentions of the compiled model as (inputs, attributes), the number of its operators by name, and of keys and values with repeated heads."""
    with tempfile.NamedTemporaryFile(suffix=".reed") as module:
        subprocess.run([vm, "compile", path, "-o", module.name], check=True, capture_output=True)
        text = subprocess.run([vm, "dis", module.name], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^[.]site (\w+) = (\w+) [(](\d+) -> \d+[)] .*?(?:[{](.*)[}])?$", text, re.M)
    counts = {}
    for _, operator, _, _ in found: counts[operator] = counts.get(operator, 0) + 1
    repeats = repeated(text, {site: operator for site, operator, _, _ in found})
    return [(int(n), attributes) for _, operator, n, attributes in found if operator == "Attention"], counts, repeats


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


def branched(run, other, given):
    """All outputs of a step, after another step from the same past whose outputs are kept: neither may overwrite the other's rows."""
    kept = run.branch(*other)
    before = [run.array(h) for h in kept]
    made = run.step(*given)
    changed = any(a.tobytes() != run.array(h).tobytes() for a, h in zip(before, kept))
    for handle in kept: run.r.reed_tensor_close(ctypes.byref(handle))
    if changed: raise AssertionError("a step has overwritten rows of another one from the same past")
    return made


def compare(library, path):
    """The largest difference, caches in place, all caches, renewed entries."""
    model = onnx.load(path)
    with open(path, "rb") as f: module = library.compile(f.read(), target=None if options.device == "host" else options.device)
    peer = peer_of(path)
    caches = [i for i in model.graph.input if is_cache(i)]
    random = np.random.default_rng(5)
    fixed = {i.name: random.standard_normal([d.dim_value or (STATES if k else options.batch) for k, d in enumerate(dims)]).astype(np.float32)
             for i, dims in ((i, i.type.tensor_type.shape.dim) for i in model.graph.input) if len(dims) > 2 and not is_cache(i)}
    runs = [Run(library, model, module, options.batch, options.device, capacity=capacity) for capacity in (0, sum(LENGTHS), sum(LENGTHS))]
    largest = 0.0
    for run in runs: run.begin()
    expected = [np.zeros(dims, np.float32) for dims in runs[0].empty]
    padding, place = np.arange(options.batch) * options.padding, 0
    for n in LENGTHS:
        place = place if caches else 0
        places = np.arange(place + n)[None]
        step = {"ids": random.integers(0, WORDS, (options.batch, n)), "mask": (places >= padding[:, None]).astype(np.int64),
                "positions": np.maximum(places - padding[:, None], 0)[:, place:].astype(np.int64), **fixed}
        place += n
        given = [step[i.name] for i in model.graph.input if i.name in step]
        made = peer(dict(zip([i.name for i in model.graph.input], given + expected)))
        expected = made[len(made) - len(caches):] if caches else []
        other = [(a + 1) % WORDS if i.name == "ids" else a for i, a in zip(model.graph.input, given)]
        for results in (runs[0].step(*given), runs[1].step(*given), branched(runs[2], other, given)): largest = max([largest] + [difference(a, b) for a, b in zip(results, made)])
    in_place, renewed = runs[1].in_place, runs[1].stats["memo"]["renewed"]
    for run in runs: run.close()
    return largest, in_place, len(LENGTHS) * len(caches), renewed


def check(library, vm, path):
    found, counts, repeats = sites(vm, path)
    softmaxes = counts.get("Softmax", 0)
    masks = sum(n > 3 for n, _ in found)
    largest, in_place, caches, renewed = compare(library, path)
    ok = softmaxes == 0 and found and repeats == 0 and largest <= TOLERANCE and in_place == caches
    print(f"| {os.path.basename(path)[:-5]} | {len(found)} of {len(found) + softmaxes} | {masks} | {repeats} | {largest:.1e} | {in_place} of {caches} | {renewed} |{'' if ok else ' !'}", flush=True)
    return ok


parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+")
parser.add_argument("--build", default="build")
parser.add_argument("--device", default="host")
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--padding", type=int, default=2, help="padded places before a sequence, times its number in the batch")
options = parser.parse_args()
library = reed.Library(options.build)
print("| model | attentions found | masks left | heads repeated | largest difference | caches in place | renewed |\n|---|---|---|---|---|---|---|")
passed = []
for path in options.models:
    try:
        passed.append(bool(check(library, os.path.join(options.build, "tools/vm"), path)))
    except Exception as error:
        print(f"| {os.path.basename(path)[:-5]} | {type(error).__name__}: {str(error)[:150]} | !", flush=True)
        passed.append(False)
print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed, 0 skipped")
sys.exit(not all(passed))
