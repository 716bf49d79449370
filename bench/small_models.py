"""Small versions of the models of export_torchvision.py: the same operators and the same exporter, few channels, a few kilobytes of random weights.

Continuous integration runs them (tests/whole/exports). Nothing is trained; export_torchvision.py calibrates them as it calibrates the large models. A scale of 56 pixels (not 224) chooses the
pyramid's levels, and the pictures' size chooses the anchors, so that pictures of 64 pixels fill every level.
"""
from collections import OrderedDict
from functools import partial

import torch
import torchvision.models.detection as D
from torch import nn
from torch.nn import functional as F
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.fcos import FCOSHead
from torchvision.models.detection.keypoint_rcnn import KeypointRCNNHeads, KeypointRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.ssdlite import SSDLiteFeatureExtractorMobileNet, SSDLiteHead
from torchvision.models.mobilenetv3 import MobileNetV3, _mobilenet_v3_conf
from torchvision.models.resnet import Bottleneck
from torchvision.ops import MultiScaleRoIAlign
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7
from torchvision.ops.misc import FrozenBatchNorm2d

CLASSES, CHANNELS = 6, 16
SIZES = {"min_size": 64, "max_size": 112}
ASPECTS = (0.5, 1.0, 2.0)
FEW = {"rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 50, "box_detections_per_img": 12}


def resnet_fpn(channels=CHANNELS, levels=(1, 2, 3, 4), extra=LastLevelMaxPool):
    """A residual network with one bottleneck block a stage and a feature pyramid."""
    def block(inputs, planes, stride):
        down = nn.Sequential(nn.Conv2d(inputs, 4 * planes, 1, stride, bias=False), FrozenBatchNorm2d(4 * planes))
        return nn.Sequential(Bottleneck(inputs, planes, stride, down, norm_layer=FrozenBatchNorm2d))
    stem = [("conv1", nn.Conv2d(3, 8, 7, 2, 3, bias=False)), ("bn1", FrozenBatchNorm2d(8)), ("relu", nn.ReLU()), ("maxpool", nn.MaxPool2d(3, 2, 1))]
    planes = (8, 4, 4, 8, 8)
    stages = [(f"layer{i}", block(planes[0] if i == 1 else 4 * planes[i - 1], planes[i], 1 if i == 1 else 2)) for i in (1, 2, 3, 4)]
    returned = {f"layer{i}": str(n) for n, i in enumerate(levels)}
    return BackboneWithFPN(nn.Sequential(OrderedDict(stem + stages)), returned, [4 * planes[i] for i in levels], channels, extra_blocks=extra())


def mobilenet(reduced_tail=False, norm_layer=None):
    settings, last = _mobilenet_v3_conf("mobilenet_v3_large", width_mult=.125, reduced_tail=reduced_tail)
    return MobileNetV3(settings, last, norm_layer=norm_layer).features


def pool(size):
    return MultiScaleRoIAlign(["0", "1", "2", "3"], size, 2, canonical_scale=56)


def rcnn(make=D.FasterRCNN, **parts):
    anchors = AnchorGenerator(tuple((s,) for s in (8, 16, 32, 64, 96)), (ASPECTS,) * 5)
    return make(resnet_fpn(), rpn_anchor_generator=anchors, box_roi_pool=pool(3), box_head=TwoMLPHead(CHANNELS * 9, 32),
                box_predictor=FastRCNNPredictor(32, parts.pop("classes", CLASSES)), **SIZES, **FEW, **parts)


def mask():
    return rcnn(D.MaskRCNN, mask_roi_pool=pool(6), mask_head=MaskRCNNHeads(CHANNELS, (8, 8), 1), mask_predictor=MaskRCNNPredictor(8, 8, CLASSES))


def keypoint():
    return rcnn(D.KeypointRCNN, classes=2, keypoint_roi_pool=pool(6), keypoint_head=KeypointRCNNHeads(CHANNELS, (8, 8)),
                keypoint_predictor=KeypointRCNNPredictor(8, 5))


def faster_mobile():
    features = mobilenet()
    taken = [i for i, b in enumerate(features) if getattr(b, "_is_cn", False)][-1], len(features) - 1
    backbone = BackboneWithFPN(features, {str(i): str(n) for n, i in enumerate(taken)}, [features[i].out_channels for i in taken], CHANNELS,
                               extra_blocks=LastLevelMaxPool())
    return D.FasterRCNN(backbone, rpn_anchor_generator=AnchorGenerator(((8, 16, 32, 64),) * 3, (ASPECTS,) * 3), box_roi_pool=MultiScaleRoIAlign(["0", "1"], 3, 2),
                        box_head=TwoMLPHead(CHANNELS * 9, 32), box_predictor=FastRCNNPredictor(32, CLASSES), **SIZES, **FEW)


def retinanet():
    anchors = AnchorGenerator(tuple((s, int(s * 1.26), int(s * 1.59)) for s in (8, 16, 32, 64, 96)), (ASPECTS,) * 5)
    backbone = resnet_fpn(levels=(2, 3, 4), extra=partial(LastLevelP6P7, CHANNELS, CHANNELS))
    return D.RetinaNet(backbone, CLASSES, anchor_generator=anchors, detections_per_img=20, topk_candidates=60, **SIZES)


def fcos():
    """The head's group norm has 32 groups, so the head has 32 channels. A group needs more than one value on the last level, so pictures are larger inside."""
    backbone = resnet_fpn(32, levels=(2, 3, 4), extra=partial(LastLevelP6P7, 32, 32))
    anchors = AnchorGenerator(tuple((s,) for s in (8, 16, 32, 64, 96)), ((1.0,),) * 5)
    return D.FCOS(backbone, CLASSES, anchor_generator=anchors, head=FCOSHead(32, 1, CLASSES, num_convs=2), detections_per_img=20, topk_candidates=60,
                  min_size=136, max_size=224)


class VggFeatures(nn.Module):
    """SSD300's backbone with few channels: a normalised first map, a dilated convolution after an odd pooling, then strided maps."""

    def __init__(self):
        super().__init__()
        conv = lambda i, o, **k: nn.Sequential(nn.Conv2d(i, o, 3, **k), nn.ReLU())
        self.scale = nn.Parameter(torch.full((16,), 20.0))
        self.first = nn.Sequential(conv(3, 8, padding=1), nn.MaxPool2d(2, 2), conv(8, 12, padding=1), nn.MaxPool2d(2, 2, ceil_mode=True), conv(12, 16, padding=1))
        self.rest = nn.ModuleList([
            nn.Sequential(nn.MaxPool2d(2, 2), conv(16, 16, padding=1), nn.MaxPool2d(3, 1, 1), conv(16, 24, padding=6, dilation=6), nn.Conv2d(24, 24, 1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(24, 8, 1), nn.ReLU(), conv(8, 16, padding=1, stride=2)),
            nn.Sequential(nn.Conv2d(16, 8, 1), nn.ReLU(), conv(8, 16))])

    def forward(self, x):
        x = self.first(x)
        maps = [self.scale.view(1, -1, 1, 1) * F.normalize(x)]
        for part in self.rest:
            x = part(x)
            maps.append(x)
        return OrderedDict((str(i), m) for i, m in enumerate(maps))


def ssd300():
    boxes = DefaultBoxGenerator([[2], [2, 3], [2, 3], [2]], scales=[.1, .25, .45, .7, .95], steps=[4, 9, 17, 33])
    head = D.ssd.SSDHead([16, 24, 16, 16], boxes.num_anchors_per_location(), CLASSES)
    return SSD(VggFeatures(), boxes, (66, 66), CLASSES, head=head, detections_per_img=20, topk_candidates=60)


def ssdlite():
    norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
    features = mobilenet(True, norm)
    c4 = [i for i, b in enumerate(features) if getattr(b, "_is_cn", False)][-1]
    backbone = SSDLiteFeatureExtractorMobileNet(features, c4, norm, width_mult=.01)
    boxes = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    maps = D._utils.retrieve_out_channels(backbone, (96, 96))
    return SSD(backbone, boxes, (96, 96), CLASSES, head=SSDLiteHead(maps, boxes.num_anchors_per_location(), CLASSES, norm), score_thresh=.001, nms_thresh=.55,
               detections_per_img=20, topk_candidates=60, image_mean=[.5] * 3, image_std=[.5] * 3)


# The same tables as DETECTORS and OTHERS of models.py: how to make the small model, and how many candidates shall pass.
DETECTORS = {"mask": (mask, 40), "faster": (rcnn, 40), "keypoint": (keypoint, 16), "faster_mobile": (faster_mobile, 40), "retinanet": (retinanet, 24),
             "fcos": (fcos, 16), "ssd300": (ssd300, 10), "ssdlite": (ssdlite, 12)}
