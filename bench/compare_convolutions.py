#!/usr/bin/env python3
"""Reed beside onnxruntime, OpenVINO, MNN and ncnn (the last two use Winograd's convolutions too), on convolution nets of fixed size: VGG-16's convolutions at 300x300, ResNet-50 at 224x224, and RetinaNet's backbone and heads at
800x1088; or on any of torchvision's classifiers, segmentation nets and nets of videos by name.

    compare_convolutions.py --folder DIR --build BUILD [--models vgg16,resnet50,retinanet] [--engines reed,onnxruntime,openvino,mnn,ncnn] [--threads 2] [--rounds 5] [--json FILE]

The program installs nothing: the Python that runs it has torch, torchvision, onnx and onnxruntime, and from PyPI openvino, MNN, ncnn and pnnx; an engine whose package is missing is left out. DIR gets the models (seeded weights),
exported and converted by the engines' own tools.

Each engine has a process of its own; one engine works at a time, and they take turns; a figure is the median of the rounds, one run each, after one to warm up. Every engine's outputs are compared with
onnxruntime's. A ratio is a peer's time over Reed's, so above 1 Reed is better. The exit status is 1 if Reed fails or differs.
"""
import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time

from engines import Onnxruntime, Openvino, Reed
from worker import Worker, answers

USUAL = "vgg16,resnet50,retinanet"
SIZES = {"vgg16": (300, 300), "retinanet": (800, 1088), "inception_v3": (299, 299)}
KINDS = {"segmentation": (320, 320), "video": (8, 112, 112)}  # torchvision.models.KIND
PEERS = ("onnxruntime", "openvino", "mnn", "ncnn")
RELATIVE = 1e-3  # of the largest element: peers and Reed round in orders of their own
PAUSE_S = .05


# ---- models ----

def kind_of(name):
    import torchvision
    return next((k for k in KINDS if name in vars(getattr(torchvision.models, k))), None)


def shape_of(name):
    return (1, 3, *SIZES.get(name, KINDS.get(kind_of(name), (224, 224))))


def build(name):
    import torch
    import torchvision
    torch.manual_seed(1)
    if name == "vgg16":
        return torchvision.models.vgg16(weights=None).features.eval()
    if name == "retinanet":
        model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None).eval()
    else:
        model = torchvision.models.get_model(name, weights=None, **({"weights_backbone": None} if kind_of(name) == "segmentation" else {})).eval()

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            maps = list(self.model.backbone(x).values())
            classes, boxes = self.model.head.classification_head, self.model.head.regression_head
            return tuple([classes.cls_logits(classes.conv(m)) for m in maps] + [boxes.bbox_reg(boxes.conv(m)) for m in maps])

    class Picture(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["out"]
    return Features() if name == "retinanet" else Picture() if kind_of(name) == "segmentation" else model


def path_of(arguments, name, suffix):
    return os.path.join(arguments.folder, name + suffix)


def prepare(arguments, name):
    """Makes the files of the model that are missing."""
    import torch
    onnx = path_of(arguments, name, ".onnx")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if not os.path.exists(onnx):
        torch.onnx.export(build(name), torch.zeros(shape_of(name)), onnx, input_names=["x"], dynamo=False, opset_version=17)
    subprocess.run([os.path.join(arguments.build, "tools", "vm"), "compile", onnx, "-o", path_of(arguments, name, ".reed")], check=True, **quiet)
    if not os.path.exists(path_of(arguments, name, ".mnn")) and "mnn" in arguments.engines:
        tool = "import sys, MNN.tools.mnnconvert as t; sys.argv[0] = 'mnnconvert'; t.main()"
        subprocess.run([sys.executable, "-c", tool, "-f", "ONNX", "--modelFile", onnx, "--MNNModel", path_of(arguments, name, ".mnn"), "--bizCode", "reed"], **quiet)
    if not os.path.exists(path_of(arguments, name, ".ncnn.param")) and "ncnn" in arguments.engines:
        import pnnx
        subprocess.run([os.path.join(os.path.dirname(pnnx.__file__), "pnnx"), onnx, f"inputshape=[{','.join(map(str, shape_of(name)))}]", "fp16=0"], cwd=arguments.folder, **quiet)


def available(engine):
    """Whether the engine's packages are there, without loading them."""
    from importlib.util import find_spec
    needed = {"onnxruntime": ["onnxruntime"], "openvino": ["openvino"], "mnn": ["MNN"], "ncnn": ["ncnn", "pnnx"]}
    return all(find_spec(p) for p in needed.get(engine, []))


# ---- engines: opened with the input; a call gives all outputs ----

def reed(arguments, name, x):
    return functools.partial(Reed(arguments.folder, name, arguments.threads, arguments.build, ahead=True), [x])


def onnxruntime(arguments, name, x):
    return functools.partial(Onnxruntime(arguments.folder, name, arguments.threads), [x])


def openvino(arguments, name, x):
    return functools.partial(Openvino(arguments.folder, name, arguments.threads), [x])


class Mnn:
    def __init__(self, arguments, name, x):
        import MNN
        import onnx
        self.mnn, self.net = MNN, MNN.Interpreter(path_of(arguments, name, ".mnn"))
        self.session = self.net.createSession({"backend": "CPU", "precision": "high", "numThread": arguments.threads})
        self.given = MNN.Tensor(x.shape, MNN.Halide_Type_Float, x, MNN.Tensor_DimensionType_Caffe)
        self.names = [o.name for o in onnx.load(path_of(arguments, name, ".onnx"), load_external_data=False).graph.output]

    def __call__(self):
        import numpy as np
        self.net.getSessionInput(self.session).copyFrom(self.given)
        self.net.runSession(self.session)
        found = []
        for name in self.names:
            made = self.net.getSessionOutput(self.session, name)
            host = self.mnn.Tensor(made.getShape(), self.mnn.Halide_Type_Float, np.empty(made.getShape(), np.float32), self.mnn.Tensor_DimensionType_Caffe)
            made.copyToHostTensor(host)
            found.append(np.array(host.getNumpyData(), copy=True).reshape(made.getShape()))
        return found


class Ncnn:
    def __init__(self, arguments, name, x):
        import ncnn
        self.ncnn, self.net, self.x = ncnn, ncnn.Net(), x
        self.net.opt.num_threads = arguments.threads
        for half in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(self.net.opt, half, False)
        self.net.load_param(path_of(arguments, name, ".ncnn.param"))
        self.net.load_model(path_of(arguments, name, ".ncnn.bin"))

    def __call__(self):
        import numpy as np
        with self.net.create_extractor() as run:
            run.input(self.net.input_names()[0], self.ncnn.Mat(self.x[0]))
            return [np.array(run.extract(name)[1], copy=True)[None] for name in self.net.output_names()]


OPENERS = {"reed": reed, "onnxruntime": onnxruntime, "openvino": openvino, "mnn": Mnn, "ncnn": Ncnn}


def work(arguments):
    import numpy as np
    which, name = arguments.worker
    answer_with = answers()
    x = np.random.default_rng(3).standard_normal(shape_of(name)).astype(np.float32)
    engine = None
    for line in sys.stdin:
        order, answer = json.loads(line), {}
        try:
            if order["do"] == "open":
                engine = OPENERS[which](arguments, name, x)
                engine()
            elif order["do"] == "outputs":
                np.savez(order["path"], **{f"{i:02}": o for i, o in enumerate(engine())})
            else:
                begin = time.perf_counter()
                engine()
                answer = {"seconds": time.perf_counter() - begin}
        except Exception as e:
            answer = {"error": (str(e).strip() or type(e).__name__)[:300]}
        answer_with(answer)


# ---- the parent ----

def difference(found, truth):
    """The largest difference over the largest element; None: other outputs."""
    import numpy as np
    if len(found) != len(truth) or any(a.size != b.size for a, b in zip(found, truth)):
        return None
    return max(float(np.abs(a.ravel() - b.ravel()).max() / (np.abs(b).max() or 1)) for a, b in zip(found, truth))


def measure(arguments, name, engines):
    import numpy as np
    words = [os.path.abspath(__file__), "--folder", arguments.folder, "--build", arguments.build, "--threads", str(arguments.threads), "--worker"]
    workers = {e: Worker([*words, e, name], arguments.threads) for e in engines}
    outputs, times = {}, {e: [] for e in engines}
    for e, worker in workers.items():
        path = path_of(arguments, name, ".npz")
        worker.ask(do="open")
        if worker.ask(do="outputs", path=path) is not None:
            with np.load(path) as z:
                outputs[e] = [z[k] for k in sorted(z.files)]
    for turn in range(arguments.rounds):
        for e in engines[turn % len(engines):] + engines[:turn % len(engines)]:
            answer = workers[e].ask(do="run")
            if answer:
                times[e].append(answer["seconds"])
            time.sleep(PAUSE_S)
    row = {}
    for e, worker in workers.items():
        row[e] = {"error": worker.error} if worker.error else {"seconds": statistics.median(times[e]), "difference": difference(outputs[e], outputs["onnxruntime"])}
        worker.close()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--build", required=True, help="Reed's build folder (a release build)")
    parser.add_argument("--models", default=USUAL)
    parser.add_argument("--engines", default=",".join(OPENERS), help="reed and onnxruntime are always among them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder, arguments.build = os.path.abspath(arguments.folder), os.path.abspath(arguments.build)
    if arguments.worker:
        return work(arguments)
    if not available("onnxruntime"):
        parser.error("onnxruntime is missing: pip install onnxruntime openvino MNN ncnn pnnx")
    os.makedirs(arguments.folder, exist_ok=True)
    wanted = arguments.engines.split(",")
    if unknown := [e for e in wanted if e not in OPENERS]:
        parser.error(f"no engine {unknown[0]}; known: {', '.join(OPENERS)}")
    engines = arguments.engines = ["reed", *(p for p in PEERS if available(p) and (p in wanted or p == "onnxruntime"))]
    for p in PEERS:
        if p in wanted and p not in engines:
            print(f"{p} is left out: pip install onnxruntime openvino MNN ncnn pnnx")
    report, failed = {}, False
    for name in arguments.models.split(","):
        prepare(arguments, name)
        row = report[name] = measure(arguments, name, engines)
        reed = row["reed"]
        for e, figures in row.items():
            ratio = f", {figures['seconds'] / reed['seconds']:.2f} of Reed's" if "seconds" in figures and "seconds" in reed else ""
            print(f"{name:18} {e:12}", figures.get("error") or f"{figures['seconds'] * 1e3:8.1f} ms{ratio}; difference {figures['difference']}", flush=True)
        failed |= "error" in reed or reed["difference"] is None or reed["difference"] > RELATIVE
    if arguments.json:
        with open(arguments.json, "w") as f:
            json.dump(report, f, indent=1)
    sys.exit(failed)


if __name__ == "__main__":
    main()
