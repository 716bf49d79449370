#!/usr/bin/env python3
"""Are the exported models' results equal to PyTorch's? Runs what export_torchvision.py wrote in Reed (host and sim), onnxruntime and eager PyTorch.

The truth is the eager model in float64. Detections are matched by label and IoU > 0.9; what has no partner counts as unmatched, on either side. Reed passes
where it has no more unmatched than the worse peer (onnxruntime, eager float32), a median box error of at most twice the worse peer's, a largest of at most
0.05 px or twice the worse peer's, scores within 2e-3 or twice the worse peer's; masks and keypoints likewise. Where onnxruntime is off by as much as Reed
and eager float32 is not, the exported graph itself differs from the eager model.

    check_torchvision.py --folder MODELS --build BUILDDIR [--models faster,mask,...] [--sizes 480x640,...,quiet] [--json FILE]

Needs what export_torchvision.py needs, and onnxruntime. Exit status 1 if Reed fails anywhere. Times and memory are by the way: nothing is claimed from them.
"""
import argparse
import datetime
import gc
import json
import os
import sys
import time
import warnings

import numpy as np
import onnxruntime
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "random")]
import export_torchvision as X
import reed

SIZES = "480x640,640x427,375x501,224x900,quiet"
TOKENS, GRID = "1x1,2x17,3x128,1x77,4x33", "48x64,64x43,37x51,1x1,120x90"
PEERS = ("onnxruntime", "eager f32")
# Error figures with bars of their own; the others' bar is twice the worse peer's.
FLOORS = {"box_largest": 0.05, "score_largest": 2e-3, "box_median": 0.0, "mask_mean": 1e-4, "mask_iou_loss": 1e-3, "keypoint_median": 0.0,
          "keypoint_largest": 0.05, "keypoint_score_largest": 2e-3, "mean": 0.0, "largest": 0.0}


def peak_megabytes():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def resident_megabytes():
    with open("/proc/self/statm") as line:
        return int(line.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class Meter:
    """Seconds passed and the peak of resident memory over what there was at the start (Linux resets the peak on request)."""

    def __enter__(self):
        gc.collect()
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        self.resident, self.start = resident_megabytes(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = round(time.monotonic() - self.start, 3)
        self.megabytes = round(peak_megabytes() - self.resident, 1)


def iou(a, b):
    """IoU of every box of a with every box of b."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda x: np.prod(x[:, 2:] - x[:, :2], axis=1)
    return inner / np.maximum(area(a)[:, None] + area(b)[None] - inner, 1e-12)


def pairs(truth, found):
    """[(index in truth, index in found)]: equal labels, IoU > 0.9, the best first."""
    overlap = iou(truth["boxes"].astype(np.float64), found["boxes"].astype(np.float64))
    overlap[truth["labels"][:, None] != found["labels"][None]] = 0
    matched = []
    while overlap.size and overlap.max() > .9:
        t, f = np.unravel_index(overlap.argmax(), overlap.shape)
        matched.append((t, f))
        overlap[t], overlap[:, f] = 0, 0
    return matched


def compare_detections(truth, found):
    """Error figures of `found` against `truth`, both dicts of arrays."""
    matched = pairs(truth, found)
    figures = {"detections": len(found["boxes"]), "of": len(truth["boxes"]),
               "unmatched": len(found["boxes"]) + len(truth["boxes"]) - 2 * len(matched)}
    if not matched:
        return figures
    t, f = np.array(matched).T
    error = lambda name: np.abs(truth[name][t].astype(np.float64) - found[name][f])
    figures.update(box_median=np.median(error("boxes")), box_largest=error("boxes").max(), score_largest=error("scores").max())
    if "masks" in truth:
        means, losses = [], []
        for i, j in matched:
            a, b = truth["masks"][i, 0], found["masks"][j, 0]
            means.append(np.abs(a - b).sum() / max(1, np.count_nonzero(a)))
            losses.append(1 - ((a > .5) & (b > .5)).sum() / max(1, ((a > .5) | (b > .5)).sum()) if (a > .5).any() or (b > .5).any() else 0)
        figures.update(mask_mean=np.max(means), mask_iou_loss=np.max(losses))
    if "keypoints" in truth:
        figures.update(keypoint_median=np.median(error("keypoints")), keypoint_largest=error("keypoints").max(),
                       keypoint_score_largest=error("keypoints_scores").max())
    return figures


def compare_values(truth, found):
    if truth["out"].shape != found["out"].shape:
        return {"unmatched": 1}
    error = np.abs(truth["out"] - found["out"].astype(np.float64))
    return {"unmatched": 0, "mean": error.mean(), "largest": error.max()}


def verdict(figures, peers):
    """Which of the figures miss their bar: names with figure and bar; nothing is a pass."""
    missed = []
    for name, value in figures.items():
        worst = max((p[name] for p in peers if name in p), default=0)
        if name == "unmatched" and value > worst or name in FLOORS and value > max(FLOORS[name], 2 * worst):
            missed.append(f"{name} {value:.3g} > {worst if name == 'unmatched' else max(FLOORS[name], 2 * worst):.3g}")
    return missed


# Engines: opened from a model's name and folder, then called with one input's arrays.

class Reed:
    def __init__(self, folder, name, library, device, threads):
        with Meter() as compiling, open(os.path.join(folder, name + ".onnx"), "rb") as f:
            module = library.compile(f.read())
        with Meter() as opening:
            self.session = reed.Session(library, module, device, n_threads=threads)
        self.facts = {"compile_s": compiling.seconds, "compile_mb": compiling.megabytes, "open_s": opening.seconds, "open_mb": opening.megabytes}

    def __call__(self, arrays):
        return self.session.run(arrays)

    def close(self):
        self.session.close()


class Onnxruntime:
    def __init__(self, folder, name, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        with Meter() as opening:
            self.session = onnxruntime.InferenceSession(os.path.join(folder, name + ".onnx"), options, providers=["CPUExecutionProvider"])
        self.facts = {"open_s": opening.seconds, "open_mb": opening.megabytes}

    def __call__(self, arrays):
        return self.session.run(None, dict(zip([i.name for i in self.session.get_inputs()], arrays)))

    def close(self):
        self.session = None


class Eager:
    def __init__(self, folder, name, double):
        if name in X.DETECTORS:
            make, _, outputs = X.DETECTORS[name]
            model = make(weights=None, weights_backbone=None)
            wrapped = X.Detections(model, outputs)
        else:
            wrapped = model = X.OTHERS[name][0]()
        model.load_state_dict(torch.load(os.path.join(folder, name + ".pt")))
        self.model = (wrapped.double() if double else wrapped).eval()
        self.dtype, self.facts = torch.float64 if double else None, {}

    def __call__(self, arrays):
        tensors = [torch.from_numpy(a) for a in arrays]
        if self.dtype:
            tensors = [t.to(self.dtype) if t.is_floating_point() else t for t in tensors]
        with torch.no_grad():
            out = self.model(*tensors)
        return [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]

    def close(self):
        self.model = None


def quiet_picture(model):
    """A picture in which the model finds nothing: of one colour if such a one does, or else all NaN, which passes no threshold."""
    for level in (0, .5, 1, np.nan):
        image = np.full((3, 320, 448), level, np.float32)
        if np.isnan(level) or not len(model([image])[0]):
            return image


def cases(name, sizes, folder):
    """[(what it is called, the inputs' arrays)] of one model."""
    if name in X.DETECTORS:
        if "quiet" in sizes:
            eager = Eager(folder, name, False)
        return [(s, [quiet_picture(eager) if s == "quiet" else X.picture(*map(int, s.split("x")), seed=i).numpy()]) for i, s in enumerate(sizes)]
    found, random = [], np.random.default_rng(0)
    for size in (GRID if name.startswith("subpixel") else TOKENS).split(","):
        a, b = map(int, size.split("x"))
        if name == "bert":
            arrays = [random.integers(0, 30000, (a, b)), (np.arange(b) < random.integers(1, b + 1, (a, 1))).astype(np.int64)]
        elif name.startswith("subpixel"):
            arrays = [X.picture(a, b).numpy()[None].astype(np.float16 if name.endswith("f16") else np.float32)]
        else:
            lengths = random.integers(1, b + 1, a)
            arrays = [random.standard_normal((a, b, 64)).astype(np.float32), lengths]
        found.append((size, arrays))
    return found


def named(name, outputs):
    return dict(zip(X.DETECTORS[name][2] if name in X.DETECTORS else ("out",), outputs))


def check(name, arguments, library):
    """One model: per engine the facts of opening it, and rows of figures per size."""
    todo = cases(name, arguments.sizes.split(","), arguments.folder)
    truth, engine = [], Eager(arguments.folder, name, True)
    for _, arrays in todo:
        outputs = [o.astype(np.float32) if o.ndim == 4 and name in X.DETECTORS else o for o in engine(arrays)]
        truth.append(named(name, outputs))
    del engine
    openers = {"eager f32": lambda: Eager(arguments.folder, name, False), "onnxruntime": lambda: Onnxruntime(arguments.folder, name, arguments.threads)}
    for device in arguments.devices.split(","):
        openers["reed " + device] = lambda device=device: Reed(arguments.folder, name, library, device, arguments.threads)
    result = {"model": name, "engines": {}, "rows": []}
    for label, opener in openers.items():
        try:
            engine = opener()
        except (reed.Error, RuntimeError) as e:
            result["rows"] += [{"engine": label, "size": size, "error": str(e)} for size, _ in todo]
            continue
        result["engines"][label] = engine.facts
        for (size, arrays), want in zip(todo, truth):
            row = {"engine": label, "size": size}
            try:
                with Meter() as first:
                    outputs = engine(arrays)
                row.update(first_s=first.seconds, first_mb=first.megabytes)
                if label not in PEERS:  # a shape seen before takes another way through Reed: that one's results are compared
                    with Meter() as again:
                        outputs = engine(arrays)
                    row.update(again_s=again.seconds)
                row.update((compare_detections if name in X.DETECTORS else compare_values)(want, named(name, outputs)))
            except Exception as e:
                row["error"] = str(e)
            outputs = None
            result["rows"].append(row)
        engine.close()
    for row in result["rows"]:
        if row["engine"].startswith("reed"):
            peers = [p for p in result["rows"] if p["size"] == row["size"] and p["engine"] in PEERS and "error" not in p]
            row["missed"] = [row["error"]] if "error" in row else verdict(row, peers)
    return result


def table(result):
    """The rows as a Markdown table."""
    columns = ["size", "engine"] + [c for c in ("detections", "of", "unmatched", *FLOORS) if any(c in r for r in result["rows"])]
    text = lambda v: "" if v is None else f"{v:.2e}" if isinstance(v, float) else str(v)
    lines = ["| " + " | ".join(columns + ["first s", "again s", "verdict"]) + " |", "|---" * (len(columns) + 3) + "|"]
    for row in sorted(result["rows"], key=lambda r: [q["size"] for q in result["rows"]].index(r["size"])):
        mark = row.get("error") or ("" if "missed" not in row else "; ".join(row["missed"]) or "pass")
        lines.append("| " + " | ".join([text(row.get(c)) for c in columns] + [str(row.get(c, "")) for c in ("first_s", "again_s")] + [mark]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--models", default=",".join([*X.DETECTORS, *X.OTHERS]))
    parser.add_argument("--sizes", default=SIZES, help="of the detectors' pictures, HEIGHTxWIDTH or quiet")
    parser.add_argument("--devices", default="host,sim")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    library = reed.Library(arguments.build)
    with open("/proc/cpuinfo") as lines:
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    report = {"cpu": cpu, "date": str(datetime.date.today()), "torch": torch.__version__, "onnxruntime": onnxruntime.__version__, "models": []}
    for name in arguments.models.split(","):
        report["models"].append(check(name, arguments, library))
        print(f"\n{name}: {json.dumps(report['models'][-1]['engines'])}\n{table(report['models'][-1])}", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as f:
                json.dump(report, f, indent=1, default=float)
    sys.exit(any(row.get("missed") for model in report["models"] for row in model["rows"]))


if __name__ == "__main__":
    main()
