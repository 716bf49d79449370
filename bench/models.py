"""torchvision's detectors, a transformer, two recurrent nets and a sub-pixel network: making them, calibrating their weights, and their inputs. Engines are in engines.py.

Random weights give all detections or none. So the weights of the detectors are calibrated. Batch-norm statistics come from one forward pass over a structured picture. Class logits are
centred for each class and scaled to a standard deviation of 3. The bias of the background (or of all classes, for a model without a background) is shifted until about the wanted number of
candidates passes the score threshold in that picture. If the last maps of a model have one pixel, as those of the SSDs, statistics come from eight pictures, because one pixel has no
deviation. RetinaNet has no norms after its backbone, so its convolutions there are normalised themselves (even_levels). Each model has a small version (small_models.py), which is
calibrated in the same way, but always over eight pictures and with a standard deviation of 2, because saturated scores give ties.
"""
import os
import sys

import numpy as np
import torch
import torchvision
import torchvision.models.detection as D
from torch import nn
from torch.nn import functional as F
from torchvision.models.detection.ssd import SSD
from torchvision.ops.misc import FrozenBatchNorm2d

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small_models

# Detectors: the function that makes one, the number of candidates that shall pass its score threshold, and its outputs.
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


def inputs_of(model, layers, images):
    """Records one forward pass: for each of the layers, the inputs of its calls."""
    kept = [[] for _ in layers]
    hooks = [layer.register_forward_pre_hook(lambda module, inputs, calls=calls: calls.append(inputs[0])) for layer, calls in zip(layers, kept)]
    model(images)
    for hook in hooks:
        hook.remove()
    return kept


def rows(layer, inputs):
    """The layer's outputs for all of the inputs, as rows [n, channels]."""
    return torch.cat([out.movedim(1, -1).reshape(-1, out.shape[1]) for out in map(layer, inputs)])


def set_norm_statistics(model, images):
    """Sets the statistics of every batch norm, frozen ones included, from its inputs. A head has several levels as inputs; the last level's statistics remain."""
    def before(module, inputs):
        x = inputs[0].double()
        module.running_mean.copy_(x.mean((0, 2, 3)))
        module.running_var.copy_(x.var((0, 2, 3), unbiased=False) + 1e-3)
    norms = [m for m in model.modules() if isinstance(m, (nn.BatchNorm2d, FrozenBatchNorm2d))]
    hooks = [m.register_forward_pre_hook(before) for m in norms]
    if norms:
        model(images)
    for hook in hooks:
        hook.remove()


def even_levels(model, images):
    """Gives the features of RetinaNet's class logits the same spread on all levels, and bounds them; for a model without norms in its pyramid and head.

    Otherwise the pyramid's first level alone has all candidates, and the few places with features of 10 standard deviations, at which every class is far above the
    threshold, have scores of exactly 1, which tie. So each convolution of the pyramid and of the head gets channels of mean 0 and deviation 1 (Mishkin and
    Matas, All you need is a good init, 2016; of the levels that share a head the first and largest counts), and the head's last hidden convolution is minus the
    identity with a bias of 1: with the ReLUs before and after it, this convolution cuts features at 1."""
    convolutions = lambda part: [m for m in part.modules() if isinstance(m, nn.Conv2d)]
    *head, last = convolutions(model.head.classification_head.conv)
    nn.init.dirac_(last.weight).neg_()
    nn.init.ones_(last.bias)
    left = {*convolutions(model.backbone.fpn), *head}
    def first_call(conv, inputs, out):
        if conv in left:
            left.remove(conv)
            mean, deviation = out.mean((0, 2, 3), keepdim=True), out.std((0, 2, 3), keepdim=True).clamp(min=1e-6)
            conv.weight.div_(deviation.view(-1, 1, 1, 1))
            conv.bias.sub_(mean.flatten()).div_(deviation.flatten())
            return (out - mean) / deviation
    hooks = [conv.register_forward_hook(first_call) for conv in left]
    model(images)
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


def scores_over(model, logits, softmax, centerness):
    """The classes' scores, the background's left out, over the model's threshold."""
    scores = logits.softmax(1)[:, 1:] if softmax else logits.sigmoid()
    if centerness is not None:
        scores = (scores * centerness.sigmoid()).sqrt()
    return scores / (model.roi_heads if hasattr(model, "roi_heads") else model).score_thresh


def mean_input(layer, inputs, places=slice(None)):
    """The average factor of each of the layer's weights over those places, as rows [channels, weights]: the derivative of the mean output."""
    with torch.enable_grad():
        return torch.autograd.grad(rows(layer, inputs)[places].mean(0).sum(), layer.weight)[0].flatten(1)


def calibrate(model, images, shown, wanted, deviation):
    """Makes the class logits of `images` busy, as the file's head says; returns how many candidates pass in `shown`, which are about as many as wanted. In the
    quiet picture none may: until nothing passes, the background's weights turn from the mean features of `images` to those of the places where something is
    found, or all classes' weights turn away."""
    layers, classes, softmax = class_layers(model)
    centers = [model.head.regression_head.bbox_ctrness] if isinstance(model, D.FCOS) else []
    busy, quiet = (inputs_of(model, layers + centers, pictures) for pictures in (images, [torch.from_numpy(quiet_picture())]))
    seen = busy if len(shown) == len(images) else inputs_of(model, layers + centers, shown)  # shown: the first of images
    centerness, best_center = (rows(centers[0], seen[-1]), torch.tensor(torch.inf)) if centers else (None, None)
    push = torch.tensor([1.0] + [0.0] * (classes - 1)) if softmax else -torch.ones(classes)
    for layer, inputs in zip(layers, busy):
        x = rows(layer, inputs)
        scale = deviation / x.std(0, unbiased=False).mean().clamp(min=1e-6)
        layer.weight.mul_(scale)
        layer.bias.copy_((layer.bias - x.mean(0)) * scale)
    means = [mean_input(layer, inputs) for layer, inputs in zip(layers, busy)]
    for _ in range(100):
        logits, low, high = torch.cat([rows(layer, inputs).reshape(-1, classes) for layer, inputs in zip(layers, seen)]), -80.0, 80.0
        for _ in range(30):
            shift = (low + high) / 2
            found = int((scores_over(model, logits + shift * push, softmax, centerness) > 1).sum())
            low, high = (shift, high) if found > wanted else (low, shift)
        quiet_already = True
        for layer, mean, inputs in zip(layers, means, quiet):
            over = scores_over(model, rows(layer, inputs).reshape(-1, classes) + shift * push, softmax, best_center)
            places = (over > .5).reshape(-1, len(mean) // classes * over.shape[1]).any(1)
            if places.any():
                quiet_already = False
                way = mean_input(layer, inputs, places) - mean
                way *= (push.repeat(len(way) // classes) / way.square().sum(1))[:, None]  # raises those places' logits by 1 on average
                layer.weight.add_(way.view_as(layer.weight), alpha=2)
                layer.bias.sub_((way * mean).sum(1), alpha=2)  # the mean logits of `images` stay
        if quiet_already:
            break
    else:
        raise SystemExit("something is found in the quiet picture")
    for layer in layers:
        layer.bias.view(-1, classes).add_(shift * push)
    return found


def resize(image, shortest, longest, target=None, fixed_size=None):
    """torchvision's own resize, but to the size that its exported graph computes: there 800 / 375 is the product with a reciprocal, all in float32, and 375
    rows become 799, where the eager model has 800. Without this resize such sizes could not be compared. The exported graph has torchvision's own resize."""
    if torchvision._is_tracing() or fixed_size is not None:
        return torchvisions_resize(image, shortest, longest, target, fixed_size)
    extents = np.array(image.shape[-2:], np.float32)
    scale = min(1 / extents.min() * np.float32(shortest), 1 / extents.max() * np.float32(longest))
    return F.interpolate(image[None], size=[int(e) for e in np.floor(extents * scale)], mode="bilinear", align_corners=False)[0], target


torchvisions_resize, D.transform._resize_image_and_masks = D.transform._resize_image_and_masks, resize


def keypoints_from_maps(maps, rois):
    """torchvision's own function, which in float64 also keeps in `keypoints_decided` by how much each keypoint's place beats the second best in its map, [people,
    keypoints], and the maps' extents before they are rounded up, [people, 2]: from these equality.py tells whether float32 can decide."""
    if maps.dtype == torch.float64:
        extents = (rois[:, 2:] - rois[:, :2]).clamp(min=1)
        sizes = [[int(e) for e in extent.flip(0).ceil()] for extent in extents]
        best = [F.interpolate(m[None], size=size, mode="bicubic", align_corners=False)[0].flatten(1) for m, size in zip(maps, sizes)]
        best = [F.pad(b, (0, 1), value=-torch.inf).topk(2).values for b in best]
        margins = torch.stack([b[:, 0] - b[:, 1] for b in best]) if best else maps.new_zeros(0, maps.shape[1])
        keypoints_decided[:] = [margins.detach().numpy(), extents.detach().numpy()]
    return torchvisions_keypoints(maps, rois)


keypoints_decided = []
torchvisions_keypoints, D.roi_heads.heatmaps_to_keypoints = D.roi_heads.heatmaps_to_keypoints, keypoints_from_maps


def quiet_picture():
    """A picture in which no model that calibrate has made busy finds anything: all grey."""
    return np.full((3, 16, 448), .5, np.float32)


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

    def __init__(self, kind, inputs=64, hidden=128):
        super().__init__()
        self.net = kind(inputs, hidden, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.net(packed)[0], batch_first=True)[0]


class Encoder(nn.Module):
    """transformers' BertModel, six layers of 768 unless told: tokens and their mask in, the last layer's states out."""

    def __init__(self, **sizes):
        super().__init__()
        from transformers import BertConfig, BertModel
        self.bert = BertModel(BertConfig(**{"num_hidden_layers": 6, **sizes}, attn_implementation="eager"), add_pooling_layer=False)

    def forward(self, tokens, mask):
        return self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state


def recurrent(kind):
    return lambda small: Recurrent(kind, *((12, 8) if small else ()))


def encoder(small):
    sizes = dict(vocab_size=WORDS[small], hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40)
    return Encoder(**sizes) if small else Encoder(vocab_size=WORDS[small])


# The other models: how to make the large or small model, and its inputs' and output's names with their dynamic axes, the output last.
WORDS = {False: 30522, True: 50}
IMAGES = {"images": {0: "batch", 2: "height", 3: "width"}, "enlarged": {0: "batch", 2: "height4", 3: "width4"}}
TOKENS = {"tokens": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}, "states": {0: "batch", 1: "length"}}
SEQUENCES = {"x": {0: "batch", 1: "length"}, "lengths": {0: "batch"}, "states": {0: "batch", 1: "longest"}}
OTHERS = {
    "bert": (encoder, TOKENS),
    "subpixel": (lambda small: SubPixel(8, 2) if small else SubPixel(), IMAGES),
    "subpixel_f16": (lambda small: (SubPixel(8, 2) if small else SubPixel()).half(), IMAGES),
    "lstm": (recurrent(nn.LSTM), SEQUENCES),
    "gru": (recurrent(nn.GRU), SEQUENCES),
}


# The same for models that scripts take by name only, because they are large.
NAMED = {"bert_base": (lambda small: encoder(small) if small else Encoder(num_hidden_layers=12), TOKENS)}
NO_DETECTORS = {**OTHERS, **NAMED}


# Sizes at which engines are compared: the usual size, and a size that the exporter did not see.
COMPARED = {"bert": "1x128,2x77", "bert_base": "1x128,2x77", "lstm": "4x50,3x33", "gru": "4x50,3x33", "subpixel": "120x160,90x121", "subpixel_f16": "120x160,90x121"}


def sizes_of(name):
    return COMPARED.get(name, "480x640,375x501").split(",")


def wrap(name, model):
    """The module that is exported: tensors in, a tuple of tensors or one out."""
    return Detections(model, DETECTORS[name][2]).eval() if name in DETECTORS else model


def axes_of(name):
    """(input names, output names, dynamic axes) of the exported module."""
    if name in NO_DETECTORS:
        axes = NO_DETECTORS[name][1]
        return list(axes)[:-1], list(axes)[-1:], axes
    outputs = list(DETECTORS[name][2])
    axes = {"image": {1: "height", 2: "width"}, **{n: {0: "detections"} for n in outputs}}
    if "masks" in outputs:
        axes["masks"] = {0: "detections", 2: "height", 3: "width"}
    return ["image"], outputs, axes


def example(name, size=None, seed=0, small=False):
    """One input's arrays: the picture of that HEIGHTxWIDTH, or BATCHxLENGTH tokens or sequences, of which some are shorter."""
    size = size or ("48x64" if name.startswith("subpixel") or small and name in DETECTORS else "480x640" if name in DETECTORS else "3x11")
    a, b = map(int, size.split("x"))
    random = np.random.default_rng(seed)
    if name in DETECTORS or name.startswith("subpixel"):
        image = picture(a, b, seed).numpy()
        if small:
            image = np.round(image * 64) / 64  # compresses
        return [image] if name in DETECTORS else [image[None].astype(np.float16 if name.endswith("f16") else np.float32)]
    if name.startswith("bert"):
        return [random.integers(0, WORDS[small], (a, b)), (np.arange(b) < random.integers(1, b + 1, (a, 1))).astype(np.int64)]
    lengths = random.integers(1, b + 1, a)
    lengths[-1] = b  # the exported graph keeps the padding, the eager model cuts to the longest
    return [random.standard_normal((a, b, 12 if small else 64)).astype(np.float32), lengths]


def build(name, small=False):
    """The model with random weights, the same ones each time; nothing is calibrated."""
    torch.manual_seed(0)
    if name in NO_DETECTORS:
        return NO_DETECTORS[name][0](small).eval()
    return (small_models.DETECTORS[name][0]() if small else DETECTORS[name][0](weights=None, weights_backbone=None)).eval()


def build_busy(name, small=False):
    """(model, the number of candidates that pass for the structured pictures; None: not a detector)."""
    model = build(name, small)
    if name in NO_DETECTORS:
        return model, None
    with torch.no_grad():
        images = [picture(*((48, 64) if small else (480, 640)), seed) for seed in range(8 if small or isinstance(model, SSD) else 1)]
        shown = images if small else images[:1]
        set_norm_statistics(model, images)
        if isinstance(model, D.RetinaNet):
            even_levels(model, images)
        wanted = (small_models.DETECTORS if small else DETECTORS)[name][1]
        return model, calibrate(model, images, shown, wanted * len(shown), 2 if small else 3)
