"""ONNX's Attention (opset 23, 24) and TensorScatter (24) with random inputs, outputs and attributes against onnx's reference evaluator.

usage: attention_node.py --build build [--seeds 0:400] [--device 'cuda-emulated?late=1&poison=1&seed=3&order=7'] [--graphs off]

Attention: rank 3 or 4, shared heads, masks of bools or numbers of every rank, is_causal, earlier keys, lengths without padding, softcap, scale, all modes of qk_matmul_output. TensorScatter: any axis,
linear and circular, with and without write_indices. f32, f16 and bf16. An accelerator runs each
node three times (on queues, recorded, replayed) with the same bits; half of the nodes leave their counts there. Exit status 1: a result differs."""
import argparse
import os
import sys

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402
from random_graphs import GRAPHS, module_for  # noqa: E402

DTYPES = {"f32": (T.FLOAT, 2e-5), "f16": (T.FLOAT16, 1e-3), "bf16": (T.BFLOAT16, 4e-3)}  # the tolerance is of the largest element; results of halves are rounded once
INDEX_TYPES = {np.dtype(bool): T.BOOL, np.dtype(np.int64): T.INT64}
MODES_WITHOUT_CAP = (1, 2, 3)  # with a softcap the reference evaluator also caps the scores of mode 0, against the operator's text and its function body


def rounded(array):
    """f32 elements that bf16 and f16 have, too."""
    return (array.astype(np.float32).view(np.uint32) & 0xffff0000).view(np.float32)


def random_attention(r):
    """The node's inputs, outputs, attributes, and arrays by name."""
    opset, four = int(r.choice([23, 24])), r.random() < .6
    batch, kv_heads = int(r.integers(1, 4)), int(r.choice([1, 2, 3]))
    heads, queries, keys = kv_heads * int(r.choice([1, 2, 3])), int(r.choice([1, 2, 5, 9])), int(r.choice([1, 2, 5, 8, 33, 140]))
    size, value_size, past = int(r.choice([4, 8, 16])), int(r.choice([4, 8, 24])), int(r.choice([-1, -1, 0, 1, 7, 130]))
    if past >= 0: keys = queries
    total, arrays, attributes = keys + max(0, past), {}, {}
    shapes = [(heads, queries, size), (kv_heads, keys, size), (kv_heads, keys, value_size)]
    for name, (n, length, width) in zip("QKV", shapes):
        arrays[name] = rounded(r.standard_normal((batch, n, length, width) if four else (batch, length, n * width)))
    inputs = ["Q", "K", "V", "", "", "", ""]
    if not four: attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
    if r.random() < .4: attributes["is_causal"] = 1
    mask = [None, (queries, total), (batch, heads, queries, total), (batch, 1, queries, total), (1, heads, queries, total)][r.integers(5)]
    if mask:
        arrays["M"], inputs[3] = (r.random(mask) < .7) if r.random() < .5 else rounded(r.standard_normal(mask)), "M"
        if arrays["M"].dtype == bool: arrays["M"][..., 0] = True
    if past >= 0:
        arrays["PK"], arrays["PV"] = (rounded(r.standard_normal((batch, kv_heads, past, width))) for width in (size, value_size))
        inputs[4:6] = "PK", "PV"
    elif opset == 24 and r.random() < .4 and keys >= queries:
        arrays["N"], inputs[6] = r.integers(queries, keys + 1, batch), "N"
    if r.random() < .3: attributes["softcap"] = float(r.choice([.5, 2., 30.]))
    if r.random() < .3: attributes["scale"] = float(r.choice([.1, .5, 1.]))
    outputs = ["Y", "PRESENT_K", "PRESENT_V"] if past >= 0 and r.random() < .7 else ["Y"]
    if r.random() < .4:
        outputs = (outputs + ["", ""])[:3] + ["SCORES"]
        attributes["qk_matmul_output_mode"] = int(r.choice(MODES_WITHOUT_CAP if "softcap" in attributes else range(4)))
    while not inputs[-1]: inputs.pop()
    return opset, "Attention", inputs, outputs, attributes, arrays


def random_scatter(r):
    rank = int(r.choice([3, 4, 5]))
    axis, dims = int(r.integers(1, rank)), [int(r.integers(1, 6)) for _ in range(rank)]
    rows, circular = int(r.integers(1, dims[axis] + 1)), bool(r.random() < .5)
    arrays = {"PAST": rounded(r.standard_normal(dims)), "NEW": rounded(r.standard_normal(dims[:axis] + [rows] + dims[axis + 1:]))}
    inputs = ["PAST", "NEW"]
    if r.random() < .75: arrays["AT"], inputs = r.integers(0, dims[axis] if circular else dims[axis] - rows + 1, dims[0]), inputs + ["AT"]
    attributes = {"axis": axis - rank if r.random() < .5 else axis, "mode": "circular" if circular else "linear"}
    return 24, "TensorScatter", inputs, ["PRESENT"], attributes, arrays


def model(opset, operator, inputs, outputs, attributes, arrays, dtype, named):
    """Inputs and outputs of floats are f32 and cast: numpy has no bf16."""
    nodes, given, made = [], [], []
    floats = [name for name, a in arrays.items() if a.dtype == np.float32]
    for name, a in arrays.items():
        given.append(h.make_tensor_value_info(name, INDEX_TYPES.get(a.dtype, T.FLOAT), [f"{name}{k}" for k in range(a.ndim)] if named else a.shape))
    for name in floats: nodes.append(h.make_node("Cast", [name], [name + "_"], to=dtype))
    nodes.append(h.make_node(operator, [i + "_" if i in floats else i for i in inputs], [o and o + "_" for o in outputs], **attributes))
    for name in filter(None, outputs):
        nodes.append(h.make_node("Cast", [name + "_"], [name], to=T.FLOAT))
        made.append(h.make_tensor_value_info(name, T.FLOAT, None))
    return h.make_model(h.make_graph(nodes, operator, given, made), opset_imports=[h.make_opsetid("", opset)], ir_version=10)


def difference(got, expected):
    """Of the largest element; infinite if shapes differ, or numbers that are not finite."""
    if got.shape != expected.shape or (np.isfinite(got) != np.isfinite(expected)).any(): return np.inf
    finite = np.isfinite(expected)
    return float(np.abs(got[finite].astype(np.float64) - expected[finite]).max(initial=0)) / max(1, float(np.abs(expected[finite]).max(initial=0)))


def check(library, seed):
    r = np.random.default_rng(seed)
    opset, operator, inputs, outputs, attributes, arrays = random_scatter(r) if r.random() < .25 else random_attention(r)
    dtype = str(r.choice(list(DTYPES)))
    number, tolerance = DTYPES[dtype]
    named = r.random() < .6 and "q_num_heads" not in attributes
    m = model(opset, operator, inputs, outputs, attributes, arrays, number, named)
    plain = model(opset, operator, inputs, outputs, attributes, arrays, T.FLOAT, named)  # in halves the reference evaluator rounds every step
    expected = ReferenceEvaluator(plain).run(None, arrays)
    session = reed.Session(library, module_for(library, m.SerializeToString(), options.device, seed), options.device, graphs=GRAPHS[options.graphs])
    runs = [[a.copy() for a in session.run(list(arrays.values()))] for _ in range(1 if options.device == "host" else 3)]
    session.close()
    wrong = [f"{o}: {difference(a, b):.1e}" for o, a, b in zip(filter(None, outputs), runs[0], expected) if not difference(a, b) <= tolerance]
    wrong += [f"other bits in run {k}" for k, again in enumerate(runs) if any(a.tobytes() != b.tobytes() for a, b in zip(again, runs[0]))]
    if wrong: print(f"seed {seed}: {operator}-{opset} {dtype} {attributes} {({n: a.shape for n, a in arrays.items()})}: {', '.join(wrong)}", flush=True)
    return not wrong


parser = argparse.ArgumentParser()
parser.add_argument("--build", default="build")
parser.add_argument("--seeds", default="0:400")
parser.add_argument("--device", default="host")
parser.add_argument("--graphs", choices=("on", "off"))
options = parser.parse_args()
library = reed.Library(options.build)
first, last = (int(n) for n in options.seeds.split(":"))
passed = [check(library, seed) for seed in range(first, last)]
print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed, 0 skipped")
sys.exit(not all(passed))
