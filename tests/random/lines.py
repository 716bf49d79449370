"""Random nets over sequences beside onnxruntime: convolutions and transposed ones of any window, groups, strides, dilations and pads, with activations and residuals.

usage: lines.py --build build [--seeds 0:200] [--precision bf16|f16]

Batch and length are symbolic; each net runs at three lengths with 1, 2 and 5 threads, whose bits must be equal. REED_CPU chooses the level. Prints the nets that differ; the exit status is 1 if there are any."""
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

TOLERANCE = {0: 5e-5, 1: 4e-2, 2: 8e-3}  # of the largest element, by precision
PRECISIONS = {None: 0, "bf16": 1, "f16": 2}  # reed_precision of compiler.h
CHANNELS = [1, 2, 3, 8, 12, 16, 24, 32, 48, 64, 100, 128]


class Net:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.weights, self.width = [], [], int(self.r.choice(CHANNELS))
        self.first, self.last = self.width, "x"
        self.same = None  # an earlier value of the same extents
        for _ in range(int(self.r.integers(2, 7))):
            self.layer()

    def chance(self, p=.5):
        return self.r.random() < p

    def node(self, op, inputs, **attributes):
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(op, inputs, [self.last], **attributes))

    def weight(self, *shape):
        self.weights.append(onnx.numpy_helper.from_array((self.r.standard_normal(shape) / max(1, np.prod(shape[1:])) ** .5).astype(np.float32), f"w{len(self.weights)}"))
        return f"w{len(self.weights) - 1}"

    def layer(self):
        r, x = self.r, self.last
        outputs = int(r.choice(CHANNELS))
        kind = r.choice(["conv", "same", "same", "groups", "depthwise", "transposed"])
        if kind == "transposed":
            stride = int(r.integers(1, 9))
            taps = int(r.choice([stride, 2 * stride, 2 * stride, 2 * stride + 1, r.integers(1, 18)]))
            pads = [int(v) for v in (r.integers(0, min(taps, 5), 2) if self.chance() else [(taps - stride) // 2 if taps > stride else 0] * 2)]
            more = int(r.integers(0, stride)) if self.chance(.3) else 0
            pads = [min(p, (taps - 1) // 2) for p in pads]
            inputs = [x, self.weight(self.width, outputs, taps)] + ([self.weight(outputs)] if self.chance() else [])
            self.node("ConvTranspose", inputs, strides=[stride], pads=pads, output_padding=[more])
            self.width, self.same = outputs, None
        else:
            groups = 1
            if kind == "depthwise": groups = outputs = self.width
            if kind == "groups":
                groups = int(r.choice([g for g in (1, 2, 4, 8, 16) if self.width % g == 0]))
                outputs = groups * int(r.integers(1, 25))
            if kind == "same": outputs = self.width
            taps = int(r.choice([1, 2, 3, 3, 3, 5, 7, 11, r.integers(1, 33)]))
            dilation, stride = int(r.choice([1, 1, 2, 3, 5, 9])), 1 if kind == "same" or self.chance(.7) else int(r.integers(2, 6))
            reach = (taps - 1) * dilation
            pads = [reach // 2, reach - reach // 2] if kind == "same" else [int(v) for v in r.integers(0, reach + 2, 2)]
            if sum(pads) < reach: pads[0] += reach - sum(pads)
            inputs = [x, self.weight(outputs, self.width // groups, taps)] + ([self.weight(outputs)] if self.chance() else [])
            self.node("Conv", inputs, strides=[stride], dilations=[dilation], pads=pads, group=groups)
            self.width = outputs
            if kind != "same": self.same = None
        if self.chance(.3): self.node("Relu", [self.last])
        elif self.chance(.4): self.node("LeakyRelu", [self.last], alpha=.1)
        elif self.chance(.2): self.node("Elu", [self.last])
        if self.same and self.chance(.6): self.node("Add", [self.last, self.same])
        self.same = self.last

    def model(self):
        graph = h.make_graph(self.nodes, "lines", [h.make_tensor_value_info("x", T.FLOAT, ["b", self.first, "n"])],
                             [h.make_tensor_value_info(self.last, T.FLOAT, ["c", self.width, "m"])], self.weights)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()


def check(library, seed, precision):
    net = Net(seed)
    model = net.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    module = library.compile(model, precision=precision)
    sessions = [reed.Session(library, module, n_threads=n) for n in (1, 2, 5)]
    for length in [int(n) for n in net.r.choice([1, 2, 7, 33, 100, 257, 600], 3)]:
        x = net.r.standard_normal((int(net.r.integers(1, 3)), net.first, length)).astype(np.float32)
        want = theirs.run(None, {"x": x})[0]
        got = [np.array(s.run([x])[0]) for s in sessions]
        if got[0].shape != want.shape: return f"length {length}: {got[0].shape}, not {want.shape}"
        off = np.abs(got[0] - want).max() / max(1e-6, np.abs(want).max()) if want.size else 0
        if not off < TOLERANCE[precision]: return f"length {length}: off by {off:.2g} of the largest"
        if any(g.tobytes() != got[0].tobytes() for g in got): return f"length {length}: threads differ"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--precision", choices=["bf16", "f16"])
    arguments = parser.parse_args()
    library, wrong, first, end = reed.Library(arguments.build), 0, *map(int, arguments.seeds.split(":"))
    for seed in range(first, end):
        said = check(library, seed, PRECISIONS[arguments.precision])
        if not said: continue
        wrong += 1
        print(f"seed {seed}: {said}", flush=True)
    print(f"{end - first} nets, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
