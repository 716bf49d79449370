"""Random nodes of onnxruntime's domain com.microsoft beside onnxruntime: fused and quantised products, norms, attentions with masks, biases and caches, rotary embeddings.

usage: contrib.py --build build [--seeds 0:200] [--device 'cuda-emulated?late=1&poison=1&seed=3']

Ranks are declared, extents are not. Prints the nodes that differ; the exit status is 1 if there are any."""
import argparse
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reed  # noqa: E402

TOLERANCE = 2e-5  # of the largest element
TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int32): T.INT32, np.dtype(np.int64): T.INT64, np.dtype(np.int8): T.INT8, np.dtype(np.uint8): T.UINT8}


class Case:
    """One node with its operands: graph inputs of undeclared extents, or initializers."""

    def __init__(self, r):
        self.r, self.names, self.inputs, self.weights, self.attributes = r, [], {}, {}, {}
        self.n_compared = None  # outputs that have a meaning; None: all

    def floats(self, *shape):
        return np.asarray(self.r.standard_normal(shape), np.float32)

    def add(self, array, constant=False):
        if array is None:
            self.names.append("")
            return
        name = f"x{len(self.names)}"
        self.names.append(name)
        (self.weights if constant else self.inputs)[name] = array

    def chance(self, p=.5):
        return self.r.random() < p

    def model(self, op, n_outputs):
        names = self.names
        while names and not names[-1]: names = names[:-1]
        outputs = [f"y{i}" for i in range(n_outputs)]
        node = h.make_node(op, names, outputs, domain="com.microsoft", **self.attributes)
        graph = h.make_graph([node], "contrib",
                             [h.make_tensor_value_info(n, TYPES[a.dtype], [f"{n}_{i}" for i in range(a.ndim)]) for n, a in self.inputs.items()],
                             [h.make_tensor_value_info(o, T.FLOAT, None) for o in outputs],
                             [onnx.numpy_helper.from_array(a, n) for n, a in self.weights.items()])
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)], ir_version=10).SerializeToString()


def mask(c, batch, queries, keys, is_packed):
    kind = c.r.integers(4 if is_packed else 3)
    if kind == 0: return None
    if kind == 1: return c.r.integers(1, keys + 1, batch).astype(np.int32)
    m = c.r.integers(0, 2, (batch, keys) if kind == 2 else (batch, queries, keys)).astype(np.int32)
    m[..., 0] = 1
    return m


def multi_head_attention(c):
    r = c.r
    batch, heads, size = r.integers(1, 3), r.integers(1, 4), 4 * r.integers(1, 4)
    queries, past = r.integers(1, 6), r.integers(0, 4) * c.chance()
    causal = c.chance(.3)
    keys = queries if causal or past else r.integers(1, 7)
    width, crossed = heads * size, c.chance(.2) and not past and not causal
    c.add(c.floats(batch, queries, width))
    for _ in range(2): c.add(c.floats(batch, heads, keys, size) if crossed else c.floats(batch, keys, width))
    c.add(c.floats(3 * width) if c.chance() and not crossed else None)
    c.add(mask(c, batch, queries, keys + past, False))
    c.add(c.floats(1 if c.chance(.3) else batch, heads, queries, keys + past) if c.chance(.4) else None)
    for _ in range(2): c.add(c.floats(batch, heads, past, size) if past else None)
    c.attributes = {"num_heads": int(heads), "unidirectional": int(causal)}
    if c.chance(.3): c.attributes["scale"] = .3
    if c.chance(.3): c.attributes["mask_filter_value"] = -100.
    return "MultiHeadAttention", 3 if past else 1


def attention(c):
    r = c.r
    batch, heads, size, places = r.integers(1, 3), r.integers(1, 4), 4 * r.integers(1, 4), r.integers(1, 6)
    past, width = r.integers(1, 4) * c.chance(), heads * size
    of_values = width if past or c.chance() else heads * 4
    c.add(c.floats(batch, places, 12))
    c.add(c.floats(12, 2 * width + of_values), True)
    c.add(c.floats(2 * width + of_values), True)
    c.add(mask(c, batch, places, places + past, True))
    c.add(c.floats(2, batch, heads, past, size) if past else None)
    c.add(c.floats(batch, heads, places, places + past) if c.chance(.4) else None)
    c.attributes = {"num_heads": int(heads), "unidirectional": int(c.chance(.3))}
    if of_values != width: c.attributes["qkv_hidden_sizes"] = [int(width), int(width), int(of_values)]
    return "Attention", 2 if past else 1


def rotary_embedding(c):
    r = c.r
    batch, heads, size, places = r.integers(1, 3), r.integers(1, 4), 4 * r.integers(1, 4), r.integers(1, 6)
    part, has_axis = size, c.chance()
    if c.chance(.3) and size > 4: part = size // 2
    c.add(c.floats(batch, heads, places, size) if has_axis else c.floats(batch, places, heads * size))
    c.add(r.integers(0, 10, (batch, places)) if c.chance() else r.integers(0, 10, 1))
    for _ in range(2): c.add(c.floats(20, part // 2), c.chance())
    c.attributes = {"interleaved": int(c.chance())}
    if part != size: c.attributes["rotary_embedding_dim"] = int(part)
    if part != size or c.chance(): c.attributes["num_heads"] = int(heads)
    return "RotaryEmbedding", 1


def fused_matmul(c):
    m, k, n = c.r.integers(1, 6, 3)
    front, ta, tb = tuple(c.r.integers(1, 4, c.r.integers(0, 3))), c.chance(), c.chance()
    c.add(c.floats(*front, *((k, m) if ta else (m, k))))
    c.add(c.floats(*(front if c.chance() else ()), *((n, k) if tb else (k, n))), c.chance())
    c.attributes = {"transA": int(ta), "transB": int(tb), "alpha": float(c.r.choice([1, .25]))}
    return "FusedMatMul", 1


def skip_norm(c):
    batch, places, width = c.r.integers(1, 5, 3)
    root = c.chance()
    c.add(c.floats(batch, places, width))
    c.add(c.floats(batch, places, width))
    c.add(c.floats(width), True)
    if not root: c.add(c.floats(width) if c.chance() else None, True)
    c.add(c.floats(width) if c.chance() else None, True)
    c.attributes = {"epsilon": .125}
    return "SkipSimplifiedLayerNormalization" if root else "SkipLayerNormalization", 1


def group_query_attention(c):
    """First runs, single steps and longer ones, with caches of the past's length or longer. Rows of a cache behind the keys have no meaning: then only the first output is compared."""
    r = c.r
    batch, key_heads, group, size = r.integers(1, 3), r.integers(1, 3), r.integers(1, 4), 16 * r.integers(1, 3)
    heads, first, rotary, is_packed = key_heads * group, c.chance(.4), c.chance(), c.chance(.3)
    places = r.integers(1, 6) if first or batch == 1 else 1
    past = 0 if first else r.integers(1, 6)
    total = past + places
    lengths = np.array([total] * batch) if first or c.chance(.6) else np.array([total] + [places + r.integers(0, past + 1) for _ in range(batch - 1)])
    rows = past if c.chance(.7) else total + r.integers(0, 3)
    if is_packed:
        c.add(c.floats(batch, places, (heads + 2 * key_heads) * size))
        for _ in range(2): c.add(None)
    else:
        c.add(c.floats(batch, places, heads * size))
        for _ in range(2): c.add(c.floats(batch, places, key_heads * size))
    for _ in range(2): c.add(c.floats(batch, key_heads, rows, size) if rows else None)
    c.add((lengths - 1).astype(np.int32))
    c.add(np.array([total], np.int32), c.chance(.3))
    for _ in range(2): c.add(c.floats(20, size // 2) if rotary else None, True)
    c.attributes = {"num_heads": int(heads), "kv_num_heads": int(key_heads), "do_rotary": int(rotary)}
    if rotary and c.chance(): c.attributes["rotary_interleaved"] = 1
    if c.chance(.3): c.attributes["local_window_size"] = int(r.integers(1, 5))
    if c.chance(.3): c.attributes["scale"] = .3
    if c.chance(.3): c.attributes["softcap"] = 2.
    if rows > total or (lengths < total).any(): c.n_compared = 1
    return "GroupQueryAttention", 3


def matmul_bits(c):
    r = c.r
    bits, block = int(r.choice([4, 8])), int(r.choice([16, 32, 64]))
    m, k, n = r.integers(1, 5), int(r.integers(1, 150)), int(r.integers(1, 20))
    blocks = -(-k // block)
    c.add(c.floats(m, k) if c.chance() else c.floats(2, m, k))
    c.add(r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8), c.chance(.7))
    c.add(c.floats(n * blocks) if c.chance() else c.floats(n, blocks), True)
    bytes_of_points = -(-blocks * bits // 8)
    c.add(r.integers(0, 256, n * bytes_of_points).astype(np.uint8) if c.chance() else None, True)
    c.add(None)
    c.add(c.floats(n) if c.chance(.3) else None, True)
    c.attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    return "MatMulNBits", 1


def dynamic_quantize_matmul(c):
    r, (m, k, n) = c.r, c.r.integers(1, 9, 3)
    dtype, each = (np.int8 if c.chance() else np.uint8), c.chance()
    c.add(c.floats(m, k))
    c.add(r.integers(-100 if dtype == np.int8 else 0, 100, (k, n)).astype(dtype), c.chance())
    c.add(np.asarray(np.abs(c.floats(*((n,) if each else ()))) + np.float32(.1)), True)
    c.add(r.integers(0, 50, (n,) if each else ()).astype(dtype) if c.chance() else None, True)
    c.add(c.floats(n) if c.chance() else None, c.chance())
    return "DynamicQuantizeMatMul", 1


def matmul_integer_to_float(c):
    r, (m, k, n) = c.r, c.r.integers(1, 9, 3)
    dtype, each = (np.int8 if c.chance() else np.uint8), c.chance()
    c.add(r.integers(0, 256, (m, k)).astype(np.uint8))
    c.add(r.integers(-100 if dtype == np.int8 else 0, 100, (k, n)).astype(dtype), c.chance())
    c.add(np.asarray(np.abs(c.floats()) + np.float32(.1)))
    c.add(np.asarray(np.abs(c.floats(*((n,) if each else ()))) + np.float32(.1)), True)
    c.add(np.array(r.integers(0, 256), np.uint8) if c.chance() else None)
    c.add(r.integers(0, 50, (n,) if each else ()).astype(dtype) if c.chance() else None, True)
    c.add(c.floats(n) if c.chance() else None)
    return "MatMulIntegerToFloat", 1


KINDS = [multi_head_attention, attention, rotary_embedding, fused_matmul, skip_norm, group_query_attention, matmul_bits, dynamic_quantize_matmul,
         matmul_integer_to_float]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--device", default="host")
    arguments = parser.parse_args()
    library, wrong, counts = reed.Library(arguments.build), 0, {}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for seed in range(*(int(s) for s in arguments.seeds.split(":"))):
        c = Case(np.random.default_rng(seed))
        kind = KINDS[seed % len(KINDS)]
        op, n_outputs = kind(c)
        model = c.model(op, n_outputs)
        described = f"seed {seed}: {op} {[(n, a.shape) for n, a in (c.inputs | c.weights).items()]} {c.attributes}"
        try:
            peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            wanted = peer.run(None, c.inputs)
        except Exception as e:
            counts["refused by onnxruntime"] = counts.get("refused by onnxruntime", 0) + 1
            if os.environ.get("VERBOSE"): print(described, str(e)[:200])
            continue
        try:
            module = library.compile(model, target=arguments.device)
            got = reed.Session(library, module, arguments.device, n_threads=2).run(list(c.inputs.values()))
        except reed.Error as e:
            print(f"{described}: {e}")
            wrong += 1
            continue
        counts[op] = counts.get(op, 0) + 1
        for k, (a, b) in enumerate(list(zip(got, wanted))[:c.n_compared]):
            if a.shape != b.shape or np.abs(a - b).max(initial=0) > TOLERANCE * np.abs(b).max(initial=1):
                print(f"{described}: output {k} {a.shape} differs from {b.shape} by {np.abs(a - b).max(initial=0) if a.shape == b.shape else 'its shape'}")
                wrong += 1
                break
    print(f"{counts}, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
