"""Decoders with a growing cache on a device against the host: a prompt of several tokens, then steps of one token and some of a few, with the caches returned to the
next step or growing in bound memory of the device. Logits and caches must equal the host's within the kernel tests' tolerances, and bits must not depend on graphs.

usage: decoders.py --build build [--device cuda-emulated] [--steps 5] [--layers 1] [--rounds 3] [MODEL.onnx ...]

Without a model: three decoders of random weights, whose caches are joined by Concat, by Concat with K as [batch, heads, size, length], and by Attention with a key head
for two heads. A model's inputs are the ids, i64[batch, tokens], and caches f32[batch, heads, past, size]; its outputs the logits and the grown caches, in the same
order. The host may need no elements of the device but the outputs. A round begins with empty caches; in the
second the launches of each step are recorded, from the third round on they are replayed. Prints for each model the largest difference, the caches that grew in place
and the graphs that were replayed."""
import argparse
import os
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402
from caches import Run  # noqa: E402

BATCH, HEADS, SIZE, WORDS, PLACES = 2, 2, 8, 40, 512
SPELLINGS = ("concat", "transposed", "operator")
TOLERANCE = 2e-5  # of the largest element: sums of a few hundred terms in another order


def decoder(spelling, layers, seed=0):
    """The model of one spelling, as exporters write it: pre-norm blocks with learned places and a causal mask."""
    r, width = np.random.default_rng(seed), HEADS * SIZE
    nodes, weights, count = [], [], [0]

    def name():
        count[0] += 1
        return f"v{count[0]}"

    def weight(array):
        weights.append(onnx.numpy_helper.from_array(np.asarray(array), name()))
        return weights[-1].name

    def random(*shape):
        return weight((r.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def node(operator, *inputs, **attributes):
        n = attributes.pop("outputs", 1)
        outputs = [name() for _ in range(n)]
        nodes.append(h.make_node(operator, list(inputs), outputs, **attributes))
        return outputs[0] if n == 1 else outputs

    def index(*values):
        return weight(np.array(values, np.int64))

    def normed(x):
        return node("LayerNormalization", x, weight(np.ones(width, np.float32)), weight(np.zeros(width, np.float32)), axis=-1)

    def heads(x, n, perm):
        return node("Transpose", node("Reshape", x, index(0, 0, n, SIZE)), perm=perm)

    key_heads = 1 if spelling == "operator" else HEADS
    first = "p0"
    tokens = node("Gather", node("Shape", "ids"), index(1))
    past = node("Gather", node("Shape", first), index(3 if spelling == "transposed" else 2))
    total = node("Add", past, tokens)
    scalar = weight(np.array([], np.int64))
    places = node("Range", node("Reshape", past, scalar), node("Reshape", total, scalar), weight(np.array(1, np.int64)))
    x = node("Add", node("Gather", random(WORDS, width), "ids"), node("Gather", random(PLACES, width), places))
    keys = node("Range", weight(np.array(0, np.int64)), node("Reshape", total, scalar), weight(np.array(1, np.int64)))
    hidden = node("Greater", node("Unsqueeze", keys, index(0)), node("Unsqueeze", places, index(1)))
    inputs, outputs = [], []
    for layer in range(layers):
        y = normed(x)
        q, k, v = (node("MatMul", y, random(width, n * SIZE)) for n in (HEADS, key_heads, key_heads))
        k_perm = [0, 2, 3, 1] if spelling == "transposed" else [0, 2, 1, 3]
        q, k, v = heads(q, HEADS, [0, 2, 1, 3]), heads(k, key_heads, k_perm), heads(v, key_heads, [0, 2, 1, 3])
        pk, pv = f"p{2 * layer}", f"p{2 * layer + 1}"
        inputs += [h.make_tensor_value_info(pk, T.FLOAT, ["b", key_heads, SIZE, "n"] if spelling == "transposed" else ["b", key_heads, "n", SIZE]),
                   h.make_tensor_value_info(pv, T.FLOAT, ["b", key_heads, "n", SIZE])]
        if spelling == "operator":
            y, k, v = node("Attention", q, k, v, "", pk, pv, outputs=3, is_causal=1)
        else:
            k = node("Concat", pk, k, axis=3 if spelling == "transposed" else 2)
            v = node("Concat", pv, v, axis=2)
            turned = k if spelling == "transposed" else node("Transpose", k, perm=[0, 1, 3, 2])
            scores = node("Div", node("MatMul", q, turned), weight(np.float32(np.sqrt(SIZE))))
            y = node("MatMul", node("Softmax", node("Where", hidden, weight(np.float32(-1e9)), scores), axis=-1), v)
        outputs += [k, v]
        y = node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), index(0, 0, width))
        x = node("Add", x, node("MatMul", y, random(width, width)))
        y = node("Relu", node("Add", node("MatMul", normed(x), random(width, 2 * width)), random(2 * width)))
        x = node("Add", x, node("MatMul", y, random(2 * width, width)))
    logits = node("MatMul", normed(node("Slice", x, index(-1), index(2**62), index(1))), random(width, WORDS))
    graph = h.make_graph(nodes, spelling, [h.make_tensor_value_info("ids", T.INT64, ["b", "t"])] + inputs,
                         [h.make_tensor_value_info(o, T.FLOAT, None) for o in [logits] + outputs], weights)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10)


def check(library, name, model, device, steps, rounds):
    """Prints a line; True if nothing differs."""
    text, order = model.SerializeToString(), "late=1&poison=1&seed=3" if device.startswith(("cuda-emulated", "sim")) else ""
    words = next((i.dims[0] for i in model.graph.initializer if len(i.dims) == 2), WORDS)
    lengths = [7] + [3 if i % 5 == 4 else 1 for i in range(steps - 1)]
    separator = "&" if "?" in device else "?"
    places = {"host": ("host", 2, 0), "graphs": (device + (separator + order if order else ""), 1, 0), "no graphs": (device, 2, 0),
              "in place, graphs": (device, 1, sum(lengths)), "in place, no graphs": (device, 2, sum(lengths))}
    runs, began = {}, time.time()
    for key, (place, graphs, capacity) in places.items():
        module = library.compile(text, target=None if place == "host" else place)
        runs[key] = Run(library, model, module, BATCH, place, graphs, capacity)
    wrong, largest = [], 0.0
    for step, n in enumerate(lengths * rounds):
        if step % len(lengths) == 0:
            for run in runs.values(): run.begin()
        ids = np.random.default_rng(step).integers(0, min(words, WORDS), (BATCH, n))
        made = {key: run.step(ids) for key, run in runs.items()}
        for key in list(places)[1:]:
            for k, (got, expected, bits) in enumerate(zip(made[key], made["host"], made["graphs"])):
                error = np.abs(got - expected).max(initial=0) / max(1e-30, np.abs(expected).max(initial=0)) if got.shape == expected.shape else np.inf
                largest = max(largest, error)
                if not error <= TOLERANCE: wrong.append(f"{key}, step {step}, output {k}: {error:.2e} of the largest element, {got.shape} and {expected.shape}")
                if got.shape == bits.shape and got.tobytes() != bits.tobytes(): wrong.append(f"{key}, step {step}, output {k}: other bits than with graphs")
    n_caches = rounds * len(lengths) * (len(model.graph.input) - 1)
    for key in places:
        if key.startswith("in place") and runs[key].in_place != n_caches: wrong.append(f"{key}: {runs[key].in_place} of {n_caches} caches grew in place")
    for key, run in runs.items():
        if run.fetched: wrong.append(f"{key}: the host needs elements of the device: {sorted(run.fetched)}")
    if rounds > 2 and not all(runs[key].replayed for key in ("graphs", "in place, graphs")): wrong.append("no graph was replayed")
    print(f"{'ok' if not wrong else 'FAILED'} {name}: {rounds} rounds of {len(lengths)} steps to {sum(lengths)} tokens, largest difference {largest:.1e} of the largest element, "
          f"{runs['in place, graphs'].in_place} of {n_caches} caches in place, {runs['in place, graphs'].replayed} graphs replayed, {time.time() - began:.1f} s", flush=True)
    for line in wrong[:8]: print("  " + line)
    for run in runs.values(): run.close()
    return not wrong


parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="*")
parser.add_argument("--build", default="build")
parser.add_argument("--device", default="cuda-emulated")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()
library = reed.Library(options.build)
given = [(os.path.basename(path), onnx.load(path)) for path in options.models] or [(s, decoder(s, options.layers)) for s in SPELLINGS]
passed = [check(library, name, model, options.device, options.steps, options.rounds) for name, model in given]
print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed, 0 skipped")
sys.exit(not all(passed))
