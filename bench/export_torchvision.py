#!/usr/bin/env python3
"""Writes torchvision's detectors, a transformer, two recurrent nets and a sub-pixel network as ONNX files of dynamic shape.

Random weights give all detections or none, so the detectors' are made busy. Batch-norm statistics come from one forward pass over a structured picture, class
logits are centred per class and scaled to a standard deviation of 3, and the bias of the background (or of all classes, where there is none) is shifted until
about the wanted number of candidates passes the score threshold.

    pip install torch==2.15.* torchvision==0.29.* transformers onnx     (a virtual environment of its own; Reed's build and tests need none of it)
    export_torchvision.py --out FOLDER [--models faster,mask,...]

For each model: FOLDER/NAME.onnx, FOLDER/NAME.pt (its state) and one line of JSON. check_torchvision.py in this folder compares them with PyTorch.
"""
import argparse
import json
import os
import warnings

import numpy as np
import torch
import torchvision.models.detection as D
from torch import nn
from torchvision.ops.misc import FrozenBatchNorm2d

OPSET = 17

# Detectors: how to make one, how many candidates shall pass its score threshold, and what it puts out.
BOXES = ("boxes", "labels", "scores")
DETECTORS = {
    "mask": (D.maskrcnn_resnet50_fpn, 1500, BOXES + ("masks",)),
    "faster": (D.fasterrcnn_resnet50_fpn, 1500, BOXES),
    "keypoint": (D.keypointrcnn_resnet50_fpn, 300, BOXES + ("keypoints", "keypoints_scores")),
    "faster_mobile": (D.fasterrcnn_mobilenet_v3_large_fpn, 1500, BOXES),
    "retinanet": (D.retinanet_resnet50_fpn, 2500, BOXES),
    "fcos": (D.fcos_resnet50_fpn, 2500, BOXES),
    "ssd300": (D.ssd300_vgg16, 6000, BOXES),
    "ssdlite": (D.ssdlite320_mobilenet_v3_large, 6000, BOXES),
}


def picture(height, width, seed=0):
    """A structured picture: a shaded ground with rectangles and discs, f32 [3, height, width] in 0..1."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = np.stack([0.4 + 0.3 * np.sin(x / 37 + c) * np.cos(y / 29 - c) for c in range(3)])
    for _ in range(40):
        cy, cx, s = r.uniform(0, height), r.uniform(0, width), r.uniform(6, max(8, min(height, width) / 4))
        colour = r.uniform(0, 1, 3)[:, None]
        if r.random() < .5:
            inside = (abs(y - cy) < s) & (abs(x - cx) < s * r.uniform(.5, 1.5))
        else:
            inside = (y - cy) ** 2 + (x - cx) ** 2 < s * s
        image[:, inside] = colour + .1 * np.sin(x[inside] / 3)
    return torch.from_numpy(np.clip(image + r.normal(0, .02, image.shape), 0, 1).astype(np.float32))


def outputs_of(model, layers, image):
    """What each of the layers puts out in one forward pass: per layer, all its calls' outputs as rows [n, channels]."""
    kept = [[] for _ in layers]
    hooks = [layer.register_forward_hook(lambda module, inputs, out, rows=rows: rows.append(out)) for layer, rows in zip(layers, kept)]
    model([image])
    for hook in hooks:
        hook.remove()
    return [torch.cat([o.movedim(1, -1).reshape(-1, o.shape[1]) for o in rows]) for rows in kept]


def set_norm_statistics(model, image):
    """Every batch norm's statistics from what passes it, frozen ones included. Heads see several levels: theirs are the last one's."""
    def before(module, inputs):
        x = inputs[0].double()
        module.running_mean.copy_(x.mean((0, 2, 3)))
        module.running_var.copy_(x.var((0, 2, 3), unbiased=False) + 1e-3)
    norms = [m for m in model.modules() if isinstance(m, (nn.BatchNorm2d, FrozenBatchNorm2d))]
    hooks = [m.register_forward_pre_hook(before) for m in norms]
    model([image])
    for hook in hooks:
        hook.remove()


def class_layers(model):
    """(layers that put out class logits, number of classes, whether class 0 is the background of a softmax)."""
    if hasattr(model, "roi_heads"):
        layer = model.roi_heads.box_predictor.cls_score
        return [layer], layer.out_features, True
    head = model.head.classification_head
    if hasattr(head, "cls_logits"):
        return [head.cls_logits], head.num_classes, False
    # SSD: one block per level, whose last convolution (ssdlite's 1x1) has the logits.
    return [[m for m in block.modules() if isinstance(m, nn.Conv2d)][-1] for block in head.module_list], head.num_columns, True


def passing(model, logits, softmax, shift, centerness):
    """How many (place, class) pairs pass the model's score threshold once background or classes are shifted."""
    if softmax:
        moved = logits.clone()
        moved[:, 0] += shift
        return int((moved.softmax(1)[:, 1:] > (model.roi_heads if hasattr(model, "roi_heads") else model).score_thresh).sum())
    scores = (logits - shift).sigmoid()
    if centerness is not None:
        scores = (scores * centerness.sigmoid()).sqrt()
    return int((scores > model.score_thresh).sum())


def calibrate(model, image, wanted):
    """Makes the class logits busy, as the file's head says; returns how many candidates pass for `image`."""
    layers, classes, softmax = class_layers(model)
    for layer, x in zip(layers, outputs_of(model, layers, image)):
        scale = 3 / x.std(0, unbiased=False).mean().clamp(min=1e-6)
        layer.weight.mul_(scale)
        layer.bias.copy_((layer.bias - x.mean(0)) * scale)
    logits = torch.cat([x.reshape(-1, classes) for x in outputs_of(model, layers, image)])
    centerness = None
    if isinstance(model, D.FCOS):
        centerness = outputs_of(model, [model.head.regression_head.bbox_ctrness], image)[0].reshape(-1, 1)
    low, high = -40.0, 40.0
    for _ in range(40):
        shift = (low + high) / 2
        found = passing(model, logits, softmax, shift, centerness)
        low, high = (shift, high) if found > wanted else (low, shift)
    for layer in layers:
        bias = layer.bias.view(-1, classes)
        if softmax:
            bias[:, 0] += shift
        else:
            bias -= shift
    return found


def build_detector(name, seed=0):
    """(model, how many candidates pass for the structured picture), the same for the same seed."""
    torch.manual_seed(seed)
    make, wanted, _ = DETECTORS[name]
    model = make(weights=None, weights_backbone=None).eval()
    with torch.no_grad():
        image = picture(480, 640)
        set_norm_statistics(model, image)
        return model, calibrate(model, image, wanted)


class Detections(nn.Module):
    """One image in, the detections' tensors out in a fixed order."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, image):
        found = self.model([image])
        found = found[1][0] if isinstance(found, tuple) else found[0]  # scripted detectors give (losses, detections)
        return tuple(found[n] for n in self.names)


class SubPixel(nn.Module):
    """EDSR-like: residual blocks at the input's size, then two steps of convolution and depth to space, to four times its size."""

    def __init__(self, width=64, blocks=8):
        super().__init__()
        conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
        self.head, self.tail = conv(3, width), conv(width, 3)
        self.blocks = nn.ModuleList(nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width)) for _ in range(blocks))
        self.up = nn.Sequential(conv(width, 4 * width), nn.PixelShuffle(2), conv(width, 4 * width), nn.PixelShuffle(2))

    def forward(self, image):
        first = x = self.head(image)
        for block in self.blocks:
            x = x + .1 * block(x)
        return self.tail(self.up(x + first))


class Recurrent(nn.Module):
    """A bidirectional LSTM or GRU of two layers over padded sequences with lengths."""

    def __init__(self, kind):
        super().__init__()
        self.net = kind(64, 128, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.net(packed)[0], batch_first=True)[0]


class Encoder(nn.Module):
    """transformers' BertModel, six layers of 768: tokens and their mask in, the last layer's states out."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel
        self.bert = BertModel(BertConfig(num_hidden_layers=6, attn_implementation="eager"), add_pooling_layer=False)

    def forward(self, tokens, mask):
        return self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state


# The others: how to make one, an example of its inputs, and their names with the dynamic axes.
IMAGES = {"images": {0: "batch", 2: "height", 3: "width"}, "enlarged": {0: "batch", 2: "height4", 3: "width4"}}
TOKENS = {"tokens": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}, "states": {0: "batch", 1: "length"}}
SEQUENCES = {"x": {0: "batch", 1: "length"}, "lengths": {0: "batch"}, "states": {0: "batch", 1: "longest"}}
OTHERS = {
    "bert": (Encoder, lambda: (torch.randint(0, 30000, (2, 17)), torch.ones(2, 17, dtype=torch.int64)), TOKENS),
    "subpixel": (SubPixel, lambda: (picture(48, 64)[None],), IMAGES),
    "subpixel_f16": (lambda: SubPixel().half(), lambda: (picture(48, 64)[None].half(),), IMAGES),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: (torch.randn(3, 11, 64), torch.tensor([11, 4, 7])), SEQUENCES),
    "gru": (lambda: Recurrent(nn.GRU), lambda: (torch.randn(3, 11, 64), torch.tensor([11, 4, 7])), SEQUENCES),
}


def build_other(name, seed=0):
    """(model, example inputs), the same for the same seed."""
    torch.manual_seed(seed)
    make, example, _ = OTHERS[name]
    return make().eval(), example()


def export(name, folder):
    """Writes one model; returns what the line of JSON says of it."""
    path = os.path.join(folder, name + ".onnx")
    facts = {"model": name}
    if name in DETECTORS:
        model, facts["candidates"] = build_detector(name)
        inputs, names, outputs = (picture(480, 640),), ["image"], list(DETECTORS[name][2])
        wrapped = Detections(model, outputs).eval()
        axes = {"image": {1: "height", 2: "width"}, **{n: {0: "detections"} for n in outputs}}
        if "masks" in outputs:
            axes["masks"] = {0: "detections", 2: "height", 3: "width"}
    else:
        model, inputs = build_other(name)
        wrapped, axes = model, OTHERS[name][2]
        names, outputs = list(axes)[:-1], list(axes)[-1:]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(wrapped, inputs, path, dynamo=False, opset_version=OPSET, input_names=names, output_names=outputs, dynamic_axes=axes)
        if name in DETECTORS:
            facts["detections"] = len(wrapped(*inputs)[0])
    torch.save(model.state_dict(), os.path.join(folder, name + ".pt"))
    return {**facts, "bytes": os.path.getsize(path)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join([*DETECTORS, *OTHERS]))
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    for name in arguments.models.split(","):
        print(json.dumps(export(name, arguments.out)), flush=True)


if __name__ == "__main__":
    main()
