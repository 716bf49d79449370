"""Whole models with every kernel emulated thread by thread (no option values=1), with graphs and without, against the host.

usage: emulated.py --build build [--language FOLDER] [--only NAME,...] [--jobs 2] [--device cuda-emulated]

The models: the shapes model at five sizes, the small exports of tests/whole/exports (the build has unpacked them), and the language models of FOLDER (language.py makes
them), whose caches grow for some steps. Results that are whole numbers must be equal; others must be the host's within 2e-5 of the output's largest element, which
is what the kernel tests allow; the places of detections within 2e-4, because regions carry such a difference on. Bits must not depend on graphs: a session with graphs
runs all inputs three times, in a seeded order of work and of threads (queues, recorded, replayed), one without graphs once."""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
EXPORTS = ("ssdlite", "bert", "lstm", "gru", "subpixel", "subpixel_f16", "faster_mobile", "ssd300", "retinanet", "faster", "keypoint", "fcos", "mask")
LANGUAGE = ("bert", "whisper_encoder", "gpt2", "llama", "t5", "whisper_decoder")
WINDOWS = ((0, 16, 100, 92), (0, 16, 180, 92), (96, 20, 80, 160), (40, 108, 56, 60), (100, 96, 40, 76))  # of a scene: top, left, height, width
SIDE, PROPOSALS = 32, 8  # of the shapes model while it is emulated
WITH, WITHOUT = "late=1&poison=1&seed=3&order=7", "order=1"
TOLERANCE, TOLERANCE_OF_PLACES, TOLERANCE_F16 = 2e-5, 2e-4, 2e-3
LENGTHS = (6, 1, 1, 3)  # tokens a step


def arrays_of(path):
    """The arrays of a file, which follow each other without a table."""
    with open(path, "rb") as f:
        while f.peek(1): yield np.load(f)


class Fixed:
    """A model whose inputs do not depend on results."""

    def __init__(self, inputs): self.inputs = inputs
    def steps(self): return len(self.inputs)
    def feed(self, i, last): return self.inputs[i]


class Decoder:
    """Ids, perhaps an encoder's states, and two caches, which are the results of the step before."""

    def __init__(self, shapes):
        r = np.random.default_rng(5)
        self.ids = [r.integers(0, 40, (2, n)) for n in LENGTHS]
        self.states = [r.standard_normal((2, 12, 16)).astype(np.float32)] if len(shapes) == 4 else []
        self.empty = [np.zeros((2, shape[1], 0, shape[3]), np.float32) for shape in shapes[-2:]]

    def steps(self): return len(LENGTHS)
    def feed(self, i, last): return [self.ids[i]] + self.states + (self.empty if i == 0 else list(last[1:3]))


def small_shapes():
    """The shapes model with all its operators, but shorter sides of SIDE pixels in place of 192, and PROPOSALS proposals in place of 300: a hundredth of the work."""
    import onnx
    from onnx import numpy_helper
    model = onnx.load(os.path.join(ROOT, "examples/shapes/shapes.onnx"))
    smaller = {192.0: SIDE, 384.0: 2 * SIDE, 300: PROPOSALS}
    changed = 0
    for node in model.graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            value = numpy_helper.to_array(attribute.t)
            if value.size == 1 and value.item() in smaller:
                attribute.t.CopyFrom(numpy_helper.from_array(np.full_like(value, smaller[value.item()])))
                changed += 1
    assert changed == 8, f"{changed} constants of sizes and proposals, not 8"
    return model.SerializeToString()


def load(name, options):
    """The model's bytes or path, and its inputs."""
    kind, _, model = name.partition("/")
    if kind == "shapes":
        picture = np.load(os.path.join(ROOT, "examples/shapes/scene1_image.npy"))
        return small_shapes(), Fixed([[np.ascontiguousarray(picture[:, y:y + h, x:x + w])] for y, x, h, w in WINDOWS])
    if kind == "export":
        path = os.path.join(options.build, "tests/whole", model + ".onnx")
        import onnx
        n, arrays = len(onnx.load(path).graph.input), list(arrays_of(path[:-5] + ".npy"))
        return path, Fixed([arrays[:n]])
    import onnx
    path = os.path.join(options.language, model + ".onnx")
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load(path).graph.input]
    r = np.random.default_rng(7)
    if model == "bert": return path, Fixed([[r.integers(0, 40, (2, n)), np.repeat(np.arange(n)[None] < [[n], [n - 2]], 1, 0).astype(np.int64)] for n in (7, 12)])
    if model == "whisper_encoder": return path, Fixed([[r.standard_normal((b, 8, 24)).astype(np.float32)] for b in (1, 2)])
    return path, Decoder(shapes)


def difference(got, expected):
    """Of the largest element; infinite if shapes, dtypes or whole numbers differ."""
    if got.shape != expected.shape or got.dtype != expected.dtype: return np.inf
    if got.dtype.kind != "f": return 0.0 if np.array_equal(got, expected) else np.inf
    if not np.array_equal(np.isnan(got), np.isnan(expected)): return np.inf
    return float(np.nanmax(np.abs(got.astype(np.float64) - expected), initial=0)) / max(1e-30, float(np.nanmax(np.abs(expected.astype(np.float64)), initial=0)))


def run_all(session, model, rounds):
    made = []
    for _ in range(rounds):
        last = None
        for i in range(model.steps()):
            last = [np.array(a) for a in session.run(model.feed(i, last))]
            made.append(last)
    return made


def check(name, options):
    began = time.time()
    library = reed.Library(options.build)
    text, model = load(name, options)
    if isinstance(text, str):
        with open(text, "rb") as f: text = f.read()
    steps, wrong, largest = model.steps(), [], 0.0
    made, graphs = {}, {}
    for key, device, mode, rounds in (("host", "host", 2, 1), ("graphs", options.device + "?" + WITH, 1, 3), ("no graphs", options.device + "?" + WITHOUT, 2, 1)):
        session = reed.Session(library, library.compile(text, target=None if key == "host" else options.device), device, graphs=mode)
        made[key] = run_all(session, model, rounds)
        graphs[key] = json.loads(library.text(library.reed.reed_session_stats_json, session.session))["graphs"]
        session.close()
    for at, results in enumerate(made["graphs"]):
        expected, without = made["host"][at % steps], made["no graphs"][at % steps]
        for k, (a, b, c) in enumerate(zip(results, expected, without)):
            error = difference(a, b)
            largest = max(largest, error)
            bar = TOLERANCE_F16 if a.dtype == np.float16 else TOLERANCE_OF_PLACES if name.startswith(("shapes", "export")) else TOLERANCE
            if not error <= bar: wrong.append(f"round {at // steps}, input {at % steps}, output {k}: {error:.2e} of the largest element, {a.shape} and {b.shape}")
            if a.tobytes() != c.tobytes(): wrong.append(f"round {at // steps}, input {at % steps}, output {k}: other bits than without graphs")
    if not all(sum(len(a) for a in results if a.ndim) for results in made["host"]): wrong.append("the results of an input are empty")
    if options.device.startswith("cuda") and not graphs["graphs"]["captured"]: wrong.append("no graph was captured")
    if options.device.startswith("cuda") and not graphs["graphs"]["replayed"]: wrong.append("no graph was replayed")
    print(f"{'ok' if not wrong else 'FAILED'} {name}: {steps} inputs, largest difference {largest:.1e}, {graphs['graphs']['captured']} graphs captured, "
          f"{graphs['graphs']['replayed']} replayed, {time.time() - began:.1f} s", flush=True)
    for line in wrong[:8]: print("  " + line, flush=True)
    return not wrong


parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build")
parser.add_argument("--language")
parser.add_argument("--device", default="cuda-emulated")
parser.add_argument("--only")
parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)  # another run of this program counts the models
parser.add_argument("--jobs", type=int, default=2)
options = parser.parse_args()
names = ["export/" + n for n in EXPORTS] + ["shapes"] + (["language/" + n for n in LANGUAGE] if options.language else [])
if options.only: names = [n for n in names if n in options.only.split(",") or n.partition("/")[0] in options.only.split(",")]
if len(names) == 1:
    good = check(names[0], options)
    if not options.counted: print(f"{int(good)} passed, {int(not good)} failed, 0 skipped")
    sys.exit(not good)
same = ["--build", options.build, "--device", options.device] + (["--language", options.language] if options.language else [])
running, passed, failed = [], 0, 0
for name in names + [None] * options.jobs:
    while len(running) >= (options.jobs if name else 1):
        done = [p for p in running if p.poll() is not None]
        for p in done:
            running.remove(p)
            passed, failed = passed + (p.returncode == 0), failed + (p.returncode != 0)
        if not done: time.sleep(0.1)
    if name: running.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), "--only=" + name, "--counted", *same]))
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
