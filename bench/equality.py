"""Compares an engine's results with the truth, which is the eager model in float64. An engine passes if its errors are within bars that the worst of its peers sets.

Detections are matched by label and IoU > 0.9, the best first. A detection without a partner, on either side, counts as unmatched. Boxes without area, which FCOS gives, have IoU 0
even with themselves, so two of them are compared as if they were a pixel larger, as in Pascal VOC.

Some results jump where a number passes a limit; near such a limit both sides are right. A mask is pasted into a box of whole pixels, which the graph gets by cutting off the fractions
of the detection's box. A keypoint is the largest point of a map, and the map's extents are those of the box in pixels, rounded up. A mask or keypoint is *in doubt* if the number is no
further from its limit than twice the peers' error in the same detection (or twice their median error in the picture, if that is larger), because an engine may have twice the peers'
error. Doubts are found before the engine's results are seen. Masks and keypoints in doubt are counted and not compared.
"""
import hashlib
import importlib.metadata
import os

import numpy as np

import engines
import models as M

MASK_SIZE = 28
COUNTS = ("unmatched",)
TOLD = ("mask_doubts", "keypoint_doubts")
# Figures with a bar of their own, where twice the worst peer's is less.
FLOORS = {"box_median": 0.0, "box_largest": 0.05, "score_largest": 2e-3, "mask_mean": 1e-4, "mask_iou_loss": 1e-3, "keypoint_median": 0.0,
          "keypoint_largest": 0.05, "keypoint_score_largest": 2e-3, "mean": 0.0, "largest": 0.0}


def iou(a, b):
    """IoU of every box of a with every box of b, [len(a), len(b)]."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda x: np.prod(x[:, 2:] - x[:, :2], axis=1)
    return inner / np.maximum(area(a)[:, None] + area(b)[None] - inner, 1e-12)


def pairs(truth, found):
    """[(index in truth, index in found)] of the matched detections."""
    overlap = iou(truth["boxes"].astype(np.float64), found["boxes"].astype(np.float64))
    flat = lambda boxes: (boxes[:, 2:] - boxes[:, :2]).min(1) < FLOORS["box_largest"]
    larger = [boxes + np.array([0, 0, 1, 1]) for boxes in (truth["boxes"], found["boxes"])]
    overlap = np.where(flat(truth["boxes"])[:, None] & flat(found["boxes"])[None], iou(*larger), overlap)
    overlap[truth["labels"][:, None] != found["labels"][None]] = 0
    matched = []
    while overlap.size and overlap.max() > .9:
        t, f = np.unravel_index(overlap.argmax(), overlap.shape)
        matched.append((t, f))
        overlap[t], overlap[:, f] = 0, 0
    return matched


def pasted_boxes(boxes):
    """The edges, before the fractions are cut off, of the boxes that torchvision pastes detections' masks into: one cell of the mask wider on each side."""
    boxes = boxes.astype(np.float64)
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2 * (MASK_SIZE + 2) / MASK_SIZE
    return np.concatenate([centre - half, centre + half], 1)


def allowed(truth, peers, name):
    """The allowed error of an engine's output of that name, for each detection of the truth, [n]: twice the peers' largest error in the detection, or twice their median error."""
    errors = np.zeros(len(truth["boxes"]))
    for found in peers:
        for i, j in pairs(truth, found):
            errors[i] = max(errors[i], np.abs(truth[name][i].astype(np.float64) - found[name][j]).max())
    return 2 * np.maximum(errors, np.median(errors)) if len(errors) else errors


def from_whole(x):
    return np.abs(x - np.round(x))


def doubts(name, truth, peers):
    """Which of the truth's masks, [n], and keypoints, [n, keypoints], are in doubt, as the file's head says; from the truth's and the peers' outputs."""
    names, kinds = (*M.DETECTORS.get(name, ((), (), ()))[2], "margins", "extents"), {}
    truth, peers = dict(zip(names, truth)), [dict(zip(names, p)) for p in peers]
    if "masks" in truth:
        # float32 computes the edges themselves to 1e-3 or so: hundreds of pixels, three operations
        edges = allowed(truth, peers, "boxes") * (MASK_SIZE + 2) / MASK_SIZE + 1e-3
        kinds["masks"] = (from_whole(pasted_boxes(truth["boxes"])) <= edges[:, None]).any(1)
    if "keypoints" in truth:
        boxes, scores = allowed(truth, peers, "boxes"), allowed(truth, peers, "keypoints_scores")
        # the map's extents are in the pixels of the resized picture, and have two edges; two points of the map are compared
        scale = (truth["extents"] / np.maximum(truth["boxes"][:, 2:] - truth["boxes"][:, :2], 1e-6)).max(1, initial=0)
        resized = (from_whole(truth["extents"]) <= (2 * boxes * scale)[:, None]).any(1)
        kinds["keypoints"] = (truth["margins"] <= 2 * scores[:, None]) | resized[:, None]
    return kinds


def compare_masks(truth, found, matched, doubtful):
    means, losses = [0.0], [0.0]
    for i, j in matched:
        if doubtful[i]:
            continue
        a, b = truth["masks"][i, 0], found["masks"][j, 0]
        means.append(np.abs(a - b).sum() / max(1, np.count_nonzero(a)))
        either = ((a > .5) | (b > .5)).sum()
        losses.append(1 - ((a > .5) & (b > .5)).sum() / either if either else 0)
    return {"mask_mean": max(means), "mask_iou_loss": max(losses), "mask_doubts": int(doubtful.sum())}


def compare_detections(truth, found, doubtful):
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
        figures.update(compare_masks(truth, found, matched, doubtful["masks"]))
    if "keypoints" in truth:
        sure = ~doubtful["keypoints"][t]
        figures.update(keypoint_doubts=int(doubtful["keypoints"].sum()))
        if sure.any():
            places = error("keypoints")[sure]
            figures.update(keypoint_median=np.median(places), keypoint_largest=places.max(), keypoint_score_largest=error("keypoints_scores")[sure].max())
    return figures


def compare_values(truth, found):
    if truth["out"].shape != found["out"].shape:
        return {"unmatched": 1}
    error = np.abs(truth["out"] - found["out"].astype(np.float64))
    return {"unmatched": 0, "mean": error.mean(), "largest": error.max()}


def compare(name, truth, outputs, doubtful):
    """Error figures of a model's outputs against the truth's. doubtful: the result of `doubts` for the truth."""
    if name in M.DETECTORS:
        names = M.DETECTORS[name][2]
        return compare_detections(dict(zip(names, truth)), dict(zip(names, outputs)), doubtful)
    return compare_values({"out": truth[0]}, {"out": outputs[0]})


def serious(peers):
    """The peers that compute the same results. A peer whose error is a thousand times another peer's computes something else (OpenVINO for an LSTM's shorter sequences)."""
    least = min((p["mean"] for p in peers if "mean" in p), default=0)
    return [p for p in peers if p.get("mean", 0) <= 1000 * least]


def verdict(figures, peers):
    """The figures that miss their bar, by name, with figure and bar; empty: a pass. If the truth has no detections, the engine must have none, even if peers
    have some, because no score is near the threshold in such a picture."""
    missed, peers = [], serious(peers)
    for name, value in ((n, figures[n]) for n in (*COUNTS, *FLOORS) if n in figures):
        worst = 0 if figures.get("of") == 0 else max((p[name] for p in peers if name in p), default=0)
        bar = worst if name in COUNTS else max(FLOORS[name], 2 * worst)
        if not value <= bar:
            missed.append(f"{name} {value:.3g} > {bar:.3g}")
    return missed


def content(*parts):
    """A short hash of files, named by their paths, of arrays and of other values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str) and os.path.isfile(part):
            with open(part, "rb") as f:
                for block in iter(lambda: f.read(1 << 22), b""):
                    digest.update(block)
        else:
            digest.update(repr((part.dtype, part.shape)).encode() + part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()[:16]


def stored(path, key, make):
    """A list of arrays, or an exception's text: from the file `path` if it has the same key, else made and written to the file."""
    if os.path.exists(path):
        with np.load(path) as kept:
            if "key" in kept and str(kept["key"]) == key:
                if "error" in kept:
                    raise RuntimeError(str(kept["error"]))
                return [kept[k] for k in sorted(set(kept.files) - {"key"})]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        arrays, error = make(), None
        kept = {f"{i:02}": a for i, a in enumerate(arrays)}
    except Exception as e:  # any failure of a peer is a result
        error, kept = e, {"error": np.array(str(e).strip()[:300] or type(e).__name__)}
    with open(path + ".part", "wb") as f:
        np.savez_compressed(f, key=np.array(key), **kept)
    os.replace(path + ".part", path)
    if error:
        raise RuntimeError(str(kept["error"]))
    return arrays


class Reference:
    """One model's inputs, truth and peers' results, by size; computed when first asked for and kept in FOLDER/results as long as the model's files, the
    inputs and the engine's version stay the same. Sizes are those of models.example, or `quiet`: a picture in which nothing is found."""

    def __init__(self, folder, name, threads):
        self.folder, self.name, self.threads, self.opened, self.doubtful = folder, name, threads, {}, {}
        self.model = content(*(os.path.join(folder, name + suffix) for suffix in (".onnx", ".pt")))

    def close(self):
        """Frees the engine's memory; a later request opens the engine again."""
        for label in list(self.opened):
            self.opened.pop(label).close()

    def engine(self, which):
        if which not in self.opened:
            self.close()  # only one engine at a time is in memory
            self.opened[which] = (engines.Eager(self.folder, self.name, self.threads, True) if which == "float64" else
                                  engines.PEERS[which](self.folder, self.name, self.threads))
        return self.opened[which]

    def inputs(self, size):
        # a seed for each size
        return [M.quiet_picture()] if size == "quiet" else M.example(self.name, size, sum(size.encode()))

    def doubts(self, size):
        """For `compare`; from the results of those peers that have any."""
        if self.name not in ("mask", "keypoint"):
            return {}
        if size not in self.doubtful:
            found = []
            for peer in engines.PEERS:
                try:
                    found.append(self.outputs(peer, size))
                except RuntimeError:
                    pass
            self.doubtful[size] = doubts(self.name, self.outputs("float64", size), found)
        return self.doubtful[size]

    def outputs(self, which, size):
        """The outputs of `which` ("float64" or an engine of engines.PEERS); RuntimeError if it fails."""
        arrays = self.inputs(size)
        def make():
            # float64 pictures of masks would be most of the memory; 1e-7 is far below the compared errors
            return [o.astype(np.float32) if o.ndim == 4 and self.name in M.DETECTORS else o for o in self.engine(which)(arrays)]
        package = which if which in ("onnxruntime", "openvino") else "torch"
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as e:
            raise RuntimeError(f"{package} is not installed") from e
        return stored(os.path.join(self.folder, "results", f"{self.name}_{size}_{which}.npz"),
                      content(self.model, version, *arrays), make)
