"""Are results equal? The truth is the eager model in float64; an engine passes a bar that the worse of its peers sets.

Detections are matched by label and IoU > 0.9, the best first; what has no partner counts as unmatched, on either side. A mask is pasted into a box of whole pixels,
which the graph gets by cutting off the fractions of the detection's box: where the truth's edge is no further from a whole number than the engine's edge is from
the truth's, either side of it is right, and the mask counts as tied, not as wrong. A keypoint is the point of a map where it is largest, and a map's points lie
half a pixel to a pixel apart: a detection with a keypoint more than a tenth of a pixel off counts as jumped (to another peak, or because its map has become a
pixel wider, for the same reason as the masks'), and the others' keypoints are compared. Ties, jumps and unmatched detections may be no more than the worst peer's.
"""
import os

import numpy as np

import engines
import models as M

MASK_SIZE = 28
JUMP = 0.1  # pixels
COUNTS = ("unmatched", "mask_ties", "keypoint_jumps")
# Figures with a bar of their own, where twice the worst peer's is less. Values of about 1 that are sums of hundreds of products: float32 rounds to 6e-8.
FLOORS = {"box_median": 0.0, "box_largest": 0.05, "score_largest": 2e-3, "mask_mean": 1e-4, "mask_iou_loss": 1e-3, "keypoint_median": 0.0,
          "keypoint_largest": 0.05, "keypoint_score_largest": 2e-3, "mean": 1e-7, "largest": 1e-6}


def iou(a, b):
    """IoU of every box of a with every box of b."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=2)
    area = lambda x: np.prod(x[:, 2:] - x[:, :2], axis=1)
    return inner / np.maximum(area(a)[:, None] + area(b)[None] - inner, 1e-12)


def pairs(truth, found):
    """[(index in truth, index in found)] of the matched detections."""
    overlap = iou(truth["boxes"].astype(np.float64), found["boxes"].astype(np.float64))
    overlap[truth["labels"][:, None] != found["labels"][None]] = 0
    matched = []
    while overlap.size and overlap.max() > .9:
        t, f = np.unravel_index(overlap.argmax(), overlap.shape)
        matched.append((t, f))
        overlap[t], overlap[:, f] = 0, 0
    return matched


def pasted_box(box):
    """The edges, before the fractions are cut off, of the box that torchvision pastes a detection's mask into: one cell of the mask wider on each side."""
    box = box.astype(np.float64)
    centre, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * (MASK_SIZE + 2) / MASK_SIZE
    return np.concatenate([centre - half, centre + half])


def compare_masks(truth, found, matched):
    means, losses, ties = [0.0], [0.0], 0
    for i, j in matched:
        want, got = pasted_box(truth["boxes"][i]), pasted_box(found["boxes"][j])
        a, b = truth["masks"][i, 0], found["masks"][j, 0]
        mean = np.abs(a - b).sum() / max(1, np.count_nonzero(a))
        # float32 computes the edges themselves to 1e-3 or so: hundreds of pixels, three operations
        if (np.abs(want - np.round(want)) <= np.abs(want - got) + 1e-3).any() and mean > FLOORS["mask_mean"]:
            ties += 1
            continue
        means.append(mean)
        either = ((a > .5) | (b > .5)).sum()
        losses.append(1 - ((a > .5) & (b > .5)).sum() / either if either else 0)
    return {"mask_mean": max(means), "mask_iou_loss": max(losses), "mask_ties": ties}


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
        figures.update(compare_masks(truth, found, matched))
    if "keypoints" in truth:
        points, scores = error("keypoints").max((1, 2)), error("keypoints_scores").max(1)
        near = points <= JUMP
        figures.update(keypoint_jumps=int((~near).sum()))
        if near.any():
            figures.update(keypoint_median=np.median(error("keypoints")[near]), keypoint_largest=points[near].max(), keypoint_score_largest=scores[near].max())
    return figures


def compare_values(truth, found):
    if truth["out"].shape != found["out"].shape:
        return {"unmatched": 1}
    error = np.abs(truth["out"] - found["out"].astype(np.float64))
    return {"unmatched": 0, "mean": error.mean(), "largest": error.max()}


def compare(name, truth, outputs):
    """Error figures of a model's outputs against the truth's."""
    if name in M.DETECTORS:
        names = M.DETECTORS[name][2]
        return compare_detections(dict(zip(names, truth)), dict(zip(names, outputs)))
    return compare_values({"out": truth[0]}, {"out": outputs[0]})


def verdict(figures, peers):
    """Which of the figures miss their bar: names with figure and bar; nothing is a pass."""
    missed = []
    for name, value in ((n, figures[n]) for n in (*COUNTS, *FLOORS) if n in figures):
        worst = max((p[name] for p in peers if name in p), default=0)
        bar = worst if name in COUNTS else max(FLOORS[name], 2 * worst)
        if not value <= bar:
            missed.append(f"{name} {value:.3g} > {bar:.3g}")
    return missed


def stored(path, source, make):
    """A list of arrays, or an exception's text, from `path` if that is newer than `source`; else made and kept there."""
    if os.path.exists(path) and os.path.getmtime(path) > os.path.getmtime(source):
        with np.load(path) as kept:
            if "error" in kept:
                raise RuntimeError(str(kept["error"]))
            return [kept[k] for k in sorted(kept.files)]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        arrays, error = make(), None
        kept = {f"{i:02}": a for i, a in enumerate(arrays)}
    except Exception as e:  # whatever a peer fails with is a result
        error, kept = e, {"error": np.array(str(e).strip()[:300] or type(e).__name__)}
    with open(path + ".part", "wb") as f:
        np.savez_compressed(f, **kept)
    os.replace(path + ".part", path)
    if error:
        raise RuntimeError(str(kept["error"]))
    return arrays


class Reference:
    """One model's inputs, truth and peers' results, by size; computed when first asked for and kept in FOLDER/results. Sizes are those of models.example,
    or `quiet`: a picture in which nothing is found."""

    def __init__(self, folder, name, threads):
        self.folder, self.name, self.threads, self.opened = folder, name, threads, {}

    def close(self):
        """Frees the engine's memory; what is asked for later opens it again."""
        for label in list(self.opened):
            self.opened.pop(label).close()

    def engine(self, which):
        if which not in self.opened:
            self.close()  # one at a time in memory
            self.opened[which] = (engines.Eager(self.folder, self.name, self.threads, True) if which == "float64" else
                                  engines.PEERS[which](self.folder, self.name, self.threads))
        return self.opened[which]

    def kept(self, size, what, make):
        return stored(os.path.join(self.folder, "results", f"{self.name}_{size}_{what}.npz"), os.path.join(self.folder, self.name + ".pt"), make)

    def inputs(self, size):
        seed = sum(size.encode())  # any number that differs from size to size
        if size == "quiet":
            return self.kept(size, "inputs", lambda: [M.quiet_picture(self.engine("eager").detector, 16, 448, .005, 60)])
        return M.example(self.name, size, seed)

    def outputs(self, which, size):
        """What `which` ("float64" or an engine of engines.PEERS) gives; RuntimeError where it fails."""
        arrays = self.inputs(size)
        def make():
            # float64 pictures of masks would be most of the memory; 1e-7 is far below what is compared
            return [o.astype(np.float32) if o.ndim == 4 and self.name in M.DETECTORS else o for o in self.engine(which)(arrays)]
        return self.kept(size, which, make)
