#!/usr/bin/env python3
"""Writes the models of models.py as ONNX files of dynamic shape.

    pip install torch==2.15.* torchvision==0.29.* transformers onnx     (into a virtual environment; Reed's build and tests do not need them)
    export_torchvision.py --out FOLDER [--models faster,mask,...]       FOLDER/NAME.onnx, FOLDER/NAME.pt (the state), but for detectors FOLDER/NAME.f16.onnx; --inputs: FOLDER/NAME.INPUT.npy, an input of the usual size
    export_torchvision.py --out tests/whole/exports --small             NAME.onnx.xz, NAME.npy.xz for tests/whole/test_exports.c; needs onnxruntime

Prints one line of JSON for each model. check_torchvision.py compares the large models with PyTorch. NAME.npy.xz holds the arrays of some cases, each array as NumPy saves it: for each
case the inputs, then the outputs in float64, rounded to float32. Cases are chosen so that float32 breaks no tie differently: eager float32 and onnxruntime find every element within
a quarter of the test's tolerance (or the next seed is tried).
"""
import argparse
import io
import json
import lzma
import os
import warnings

import numpy as np
import torch

import models as M

OPSET = 17
SMALL_SIZES = {"detector": ("48x64", "67x45", "quiet"), "bert": ("1x1", "3x21"), "lstm": ("1x1", "3x11"), "gru": ("1x1", "3x11"),
               "subpixel": ("6x9", "11x5"), "subpixel_f16": ("6x9", "11x5")}
# The tolerances of tests/whole/test_exports.c, by the output's name.
ALLOWED = {"boxes": 0.02, "labels": 0, "scores": 2e-3, "masks": 1e-2, "keypoints": 0.02, "keypoints_scores": 1e-2, "states": 1e-4, "enlarged": 1e-4}
ALLOWED_F16 = 1e-2


def to_onnx(name, model, path, small, f16=False):
    names, outputs, axes = M.axes_of(name)
    arrays = tuple(torch.from_numpy(a) for a in M.example(name, small=small))
    if f16: arrays = tuple(a.half() if a.is_floating_point() else a for a in arrays)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(M.wrap(name, model), arrays, path, dynamo=False, opset_version=OPSET, input_names=names, output_names=outputs, dynamic_axes=axes)


def export(name, folder):
    """Writes one model; returns the contents of its line of JSON. Files are replaced in one step, because other programs may be reading the old ones."""
    path, state, part = os.path.join(folder, name + ".onnx"), os.path.join(folder, name + ".pt"), ".part"
    model, candidates = M.build_busy(name)
    to_onnx(name, model, path + part, False)
    torch.save(model.state_dict(), state + part)
    os.replace(state + part, state)
    os.replace(path + part, path)
    if name not in M.DETECTORS:
        halves = os.path.join(folder, name + ".f16.onnx")
        to_onnx(name, model.half(), halves + part, False, f16=True)
        os.replace(halves + part, halves)
        model.float()
    facts = {"model": name, "bytes": os.path.getsize(path)}
    if candidates is not None:
        facts.update(candidates=candidates, detections=len(run(M.wrap(name, model), M.example(name))[0]))
    return facts


def run(module, arrays):
    """The eager module's outputs as arrays; its parameters' precision is the inputs'."""
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        out = module(*(torch.from_numpy(a).to(dtype) if a.dtype.kind == "f" else torch.from_numpy(a) for a in arrays))
    return [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]


def robust(name, truth, others):
    """True if all these outputs are within a quarter of the tolerances, and no two scores are so close that detections could change places."""
    for output, want, *found in zip(M.axes_of(name)[1], truth, *others):
        if output == "scores" and np.abs(np.diff(want)).min(initial=1) < 1e-4:
            return False
        bar = (ALLOWED_F16 if name.endswith("f16") else ALLOWED[output]) / 4
        if any(f.shape != want.shape or np.abs(f.astype(np.float64) - want).max(initial=0) > bar for f in found):
            return False
    return True


def small_case(name, size, model, truth_model, session):
    """(inputs, outputs in float64) of a robust case of that size."""
    single, double = M.wrap(name, model), M.wrap(name, truth_model)
    for seed in range(50):
        if size == "quiet":
            arrays = [M.quiet_picture()]
        else:
            arrays = M.example(name, size, seed, small=True)
        truth, others = run(double, arrays), [run(single, arrays)]
        if not any(np.isnan(a).any() for a in arrays if a.dtype.kind == "f"):
            others.append(session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays))))
        if robust(name, truth, others) and (size == "quiet") == (name in M.DETECTORS and not len(truth[0])):
            return arrays, truth
    raise SystemExit(f"{name}: no case of {size} without ties in float32")


def export_small(name, folder):
    """Writes one small model and its cases; returns the contents of its line of JSON."""
    import onnxruntime
    model, candidates = M.build_busy(name, small=True)
    file = io.BytesIO()
    to_onnx(name, model, file, True)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    truth_model = M.build(name, small=True)
    truth_model.load_state_dict(model.state_dict())
    truth_model.double()
    cases, found = io.BytesIO(), []
    for size in SMALL_SIZES["detector" if name in M.DETECTORS else name]:
        inputs, outputs = small_case(name, size, model, truth_model, session)
        found.append(f"{len(outputs[0])} for {size}" + (" of NaN" if np.isnan(inputs[0]).any() else ""))
        for array in inputs + [o.astype(np.float32) if o.dtype == np.float64 else o for o in outputs]:
            np.save(cases, array)
    facts = {"model": name, "candidates": candidates, "found": found}
    for suffix, data in ((".onnx.xz", file.getvalue()), (".npy.xz", cases.getvalue())):
        packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
        facts["bytes " + suffix] = len(packed)
        with open(os.path.join(folder, name + suffix), "wb") as f:
            f.write(packed)
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join([*M.DETECTORS, *M.OTHERS]))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--inputs", action="store_true")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    for name in arguments.models.split(","):
        for label, array in zip(M.axes_of(name)[0], M.example(name, M.sizes_of(name)[0])) if arguments.inputs else ():
            np.save(os.path.join(arguments.out, f"{name}.{label}.npy"), array)
        print(json.dumps((export_small if arguments.small else export)(name, arguments.out)), flush=True)


if __name__ == "__main__":
    main()
