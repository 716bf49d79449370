"""The engines that run the exported models: Reed, onnxruntime, OpenVINO and eager PyTorch. An engine is opened from FOLDER and the model's NAME and called with the arrays of one
input. It imports its packages when it is opened, so that a process that measures one engine holds no other."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "random"))


def with_option(device, option):
    """The device's name with one more option; None: as it is."""
    return device + (("&" if "?" in device else "?") + option if option else "")


class Reed:
    """The model compiled in memory, or, with `ahead`, the module FOLDER/NAME.reed that `vm compile` wrote."""

    def __init__(self, folder, name, threads, build, device="host", ahead=False):
        import reed
        library = reed.Library(build)
        if ahead:
            module = os.path.join(folder, name + ".reed")
        else:
            with open(os.path.join(folder, name + ".onnx"), "rb") as f:
                module = library.compile(f.read(), target=device if device.startswith("cuda") else None)
        self.session = reed.Session(library, module, device, n_threads=threads)

    def __call__(self, arrays):
        return self.session.run(arrays)

    def close(self):
        self.session.close()


class Onnxruntime:
    def __init__(self, folder, name, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        self.session = onnxruntime.InferenceSession(os.path.join(folder, name + ".onnx"), options, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.session.get_inputs()]

    def __call__(self, arrays):
        return self.session.run(None, dict(zip(self.names, arrays)))

    def close(self):
        self.session = None


class Openvino:
    def __init__(self, folder, name, threads):
        import openvino
        core = openvino.Core()
        self.model = core.compile_model(os.path.join(folder, name + ".onnx"), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        self.request = self.model.create_infer_request()
        self.names = [i.any_name for i in self.model.inputs]

    def __call__(self, arrays):
        found = self.request.infer(dict(zip(self.names, arrays)))
        return [found[o] for o in self.model.outputs]

    def close(self):
        self.request = self.model = None


class Eager:
    """PyTorch itself, in float32 (float16 for a model that is) or, as the truth, in float64. The truth's outputs of a model with keypoints are followed by
    models.keypoints_decided."""

    def __init__(self, folder, name, threads, double=False):
        import torch
        import models
        torch.set_num_threads(threads)
        model = models.build(name)
        model.load_state_dict(torch.load(os.path.join(folder, name + ".pt")))
        self.torch, self.models = torch, models
        self.module = models.wrap(name, model.double() if double else model)
        self.dtype = torch.float64 if double else None

    def __call__(self, arrays):
        tensors = [self.torch.from_numpy(a) for a in arrays]
        if self.dtype:
            tensors = [t.to(self.dtype) if t.is_floating_point() else t for t in tensors]
        with self.torch.inference_mode():
            out = self.module(*tensors)
        decided = self.models.keypoints_decided if self.dtype else []
        arrays = [o.numpy() for o in (out if isinstance(out, tuple) else (out,))] + decided
        self.models.keypoints_decided[:] = []
        return arrays

    def close(self):
        self.module = None


# The packages that an engine imports when it is opened.
MODULES = {"reed": "reed", "onnxruntime": "onnxruntime", "openvino": "openvino", "eager": "models"}
PEERS = {"onnxruntime": Onnxruntime, "openvino": Openvino, "eager": Eager}
