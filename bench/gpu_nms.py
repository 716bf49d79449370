#!/usr/bin/env python3
"""Times NonMaxSuppression of 5 classes of 1,000 boxes on a GPU, beside torchvision's batched_nms of the same boxes on the same card.

    gpu_nms.py --build BUILDDIR [--device cuda] [--boxes 1000] [--runs 50] --kernels FILE --json FILE

Kernels: microseconds of the operator's launches by events (option profile=FILE of the device). Run: microseconds of a run as the host sees it, with the copy of the inputs and
the wait. The indices of Reed are compared with those of the host. Needs NumPy; torchvision's row needs PyTorch.
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "random"))
CLASSES, IOU, SCORE = 5, .5, .05


def field(number, value):
    """One field of a protobuf message: an integer, or text, bytes or a message."""
    varint = lambda n: bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(value, int): return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def model(n_boxes):
    """The ONNX model (onnx.proto's fields by number): boxes [1, n, 4] and scores [1, classes, n] to the indices of the kept boxes. Written here so that no package is needed."""
    FLOAT, INT64 = 1, 7
    dims = lambda shape: b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    value = lambda name, dtype, shape: field(1, name) + field(2, field(1, field(1, dtype) + field(2, dims(shape))))
    constant = lambda name, dtype, array: field(5, field(1, len(array)) + field(2, dtype) + field(8, name) + field(9, array.tobytes()))
    inputs = ("boxes", "scores", "most", "iou", "score")
    node = b"".join(field(1, name) for name in inputs) + field(2, "kept") + field(4, "NonMaxSuppression")
    graph = (field(1, node) + field(2, "nms") + constant("most", INT64, np.array([n_boxes])) + constant("iou", FLOAT, np.array([IOU], np.float32)) +
             constant("score", FLOAT, np.array([SCORE], np.float32)) + field(11, value("boxes", FLOAT, (1, n_boxes, 4))) +
             field(11, value("scores", FLOAT, (1, CLASSES, n_boxes))) + field(12, value("kept", INT64, ("n", 3))))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def example(n_boxes):
    """Boxes in a picture of 640 x 480, of which each class keeps a part."""
    random = np.random.default_rng(0)
    corner, size = random.random((1, n_boxes, 2)) * (600, 440), 20 + random.random((1, n_boxes, 2)) * 80
    return [np.concatenate([corner, corner + size], 2).astype(np.float32), random.random((1, CLASSES, n_boxes), dtype=np.float32)]


def times_of(run, n_runs):
    times = []
    for _ in range(n_runs + 3):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e6)
    return times[3:]


def reed_row(a, arrays):
    import profiles
    import reed
    from engines import with_option
    library, bytes_of_model = reed.Library(a.build), model(a.boxes)
    expected = reed.Session(library, library.compile(bytes_of_model)).run(arrays)[0]
    module = library.compile(bytes_of_model, target=a.device)
    session = reed.Session(library, module, a.device, keep_outputs=True)
    times = times_of(lambda: session.run_only(arrays), a.runs)
    session.close()
    if os.path.exists(a.kernels): os.remove(a.kernels)
    session = reed.Session(library, module, with_option(a.device, f"profile={a.kernels}"), graphs=2)
    for _ in range(a.runs): found = session.run(arrays)[0].copy()  # (the output itself would keep the device open, which writes the profile as it closes)
    session.close()
    if not np.array_equal(found, expected): sys.exit(f"the device keeps {len(found)} boxes, the host {len(expected)}, or others")
    rows = profiles.read(a.kernels)
    return {"kept": len(found), "kernels_us": sum(row.us for row in rows) / a.runs, "launches": sum(row.launches for row in rows) / a.runs, "run_us": statistics.median(times),
            "kernels": [[row.kernel, row.launches / a.runs, row.us / a.runs] for row in rows]}


def torchvision_row(a, arrays):
    import torch
    from torchvision.ops import batched_nms
    boxes, scores = (torch.from_numpy(x[0]).to(a.torch_device) for x in arrays)
    every, classes = boxes.repeat(CLASSES, 1), torch.arange(CLASSES, device=a.torch_device).repeat_interleave(a.boxes)
    kept = None

    def run():
        nonlocal kept
        flat = scores.flatten()
        passed = flat > SCORE
        kept = batched_nms(every[passed], flat[passed], classes[passed], IOU)
        if a.torch_device == "cuda": torch.cuda.synchronize()
    times = times_of(run, a.runs)
    return {"kept": len(kept), "run_us": statistics.median(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--boxes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--torch-device", default="cuda")
    parser.add_argument("--kernels", required=True, help="takes the profile of the kernels")
    parser.add_argument("--json", required=True)
    a = parser.parse_args()
    arrays = example(a.boxes)
    rows = {"Reed": reed_row(a, arrays)}
    try:
        rows["torchvision's batched_nms"] = torchvision_row(a, arrays)
    except ImportError as e:
        rows["torchvision's batched_nms"] = {"error": str(e)}
    number = lambda row, key: f"{row[key]:.4g}" if key in row else row.get("error", "") if key == "kept" else ""
    lines = [f"NonMaxSuppression of {CLASSES} x {a.boxes} boxes", "", "| engine | kept | us of kernels | launches | us of a run |", "|---|---|---|---|---|"]
    lines += [f"| {name} | " + " | ".join(number(row, key) for key in ("kept", "kernels_us", "launches", "run_us")) + " |" for name, row in rows.items()]
    lines += ["", *(f"- {kernel}: {n:.4g} launches, {us:.4g} us" for kernel, n, us in rows["Reed"]["kernels"])]
    text = "\n".join(lines)
    print(text)
    with open(a.json + ".part", "w") as f: json.dump({"device": a.device, "engines": rows, "table": text}, f, indent=1)
    os.replace(a.json + ".part", a.json)


if __name__ == "__main__":
    main()
