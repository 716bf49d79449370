#!/usr/bin/env python3
"""A detector's export whose score threshold is an input, so that a run's number of boxes can be chosen (counts.py --pictures 2).

    threshold_input.py MODEL.onnx NODE[,NODE]... LOW OUT.onnx

A NODE compares scores with a constant, as /model/roi_heads/Greater of a torchvision R-CNN does; of RetinaNet and FCOS each level of the pyramid has one. The new input `threshold` in 0..1 stands for a threshold in LOW..1. With a LOW of which about 100 scores are larger, an input
drawn evenly gives 0 to 100 boxes: 0.36 for the exports of models.py, which have random weights.
"""
import argparse
import sys

import onnx
from onnx import TensorProto, helper


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("nodes", type=lambda text: text.split(","))
    parser.add_argument("low", type=float)
    parser.add_argument("out")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    model = onnx.load(arguments.model)
    graph = model.graph
    places = [i for i, node in enumerate(graph.node) if node.name in arguments.nodes]
    missing = set(arguments.nodes) - {graph.node[place].name for place in places}
    if missing:
        sys.exit(f"no node {', '.join(sorted(missing))} in {arguments.model}")
    for place in places:
        graph.node[place].input[1] = "threshold_of_scores"
    scale = [helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
             for name, value in (("threshold_low", arguments.low), ("threshold_range", 1 - arguments.low))]
    scale.append(helper.make_node("Mul", ["threshold", "threshold_range"], ["threshold_scaled"]))
    scale.append(helper.make_node("Add", ["threshold_scaled", "threshold_low"], ["threshold_of_scores"]))
    for node in reversed(scale):
        graph.node.insert(places[0], node)
    graph.input.append(helper.make_tensor_value_info("threshold", TensorProto.FLOAT, []))
    onnx.save(model, arguments.out)


if __name__ == "__main__":
    main()
