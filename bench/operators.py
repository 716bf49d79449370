#!/usr/bin/env python3
"""Single operators beside onnxruntime, one thread each: which of them would a user find slower?

    operators.py --build BUILD [--large] [--only TopK,Softmax] [--runs 8] [--above 1.0] [--folder DIR]

Each case is a model of one operator, of the extents that usual models have; with --large also the long rows and awkward extents of chunks.py. The engines run by turns, the figure is the least of their runs, because other
work on the machine only ever adds to it; the graph's inputs lie in memory before, and Reed is measured by `vm bench`, onnxruntime in this process with its own tensors. Results are compared with onnxruntime's. Printed are the
cases that take more than --above times as long as onnxruntime's, the slowest first, those that differ, and the geometric mean of all ratios; an operator that onnxruntime lacks is left out. The exit status is 1 if a result
differs or a case fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from operator_cases import GROUPS, cases_of, model_of, saved, text_of, usual

FREE = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}  # results are not determined
TURNS = 2


class Failed(Exception):
    """A case that Reed does not run, or whose result differs."""


def vm(options, command, path, *words):
    done = subprocess.run([os.path.join(options.build, "tools", "vm"), command, path, *words, "--threads", "1"], capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr + done.stdout).splitlines()
        raise Failed(next((line for line in lines if " differ" in line), lines[0])[:200])
    return done.stdout


def least_of(session, names, values, runs):
    least = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        session.run_with_ort_values(names, values)
        least = min(least, time.perf_counter() - begin)
    return least * 1e6


def measured(options, case, folder):
    """Reed's and onnxruntime's least time in us; None if onnxruntime does not run the case."""
    import onnxruntime
    path = os.path.join(folder, "one.onnx")
    arrays = model_of(case, path)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        expected = session.run(names, arrays)
    except Exception:  # each failure has a class of its own
        return None
    words, wanted = saved(arrays, folder), []
    for name, array in zip(names, expected):
        if isinstance(array, np.ndarray) and array.dtype != object:
            np.save(os.path.join(folder, name + ".want.npy"), array)
            wanted += ["--expect", f"{name}={os.path.join(folder, name)}.want.npy"]
    if case[0] not in FREE and case[2].get("sorted", 1) and wanted:  # (unsorted: the order of TopK's results is free)
        vm(options, "run", path, *words, *wanted, "--atol", "1e-3")
    ours, theirs = float("inf"), float("inf")
    for _ in range(TURNS):
        theirs = min(theirs, least_of(session, names, values, options.runs))
        text = vm(options, "bench", path, *words, "--runs", str(options.runs), "--warmup", "2", "--json", "-")
        ours = min(ours, json.loads(text[text.index("{"):])["min_us"])
    return ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--above", type=float, default=1.0)
    parser.add_argument("--folder")
    options = parser.parse_args()
    found, failed, lacking = [], 0, 0
    if options.folder:
        os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for case in cases_of((usual, *GROUPS) if options.large else (usual,), options.only):
            try:
                figures = measured(options, case, folder)
            except Failed as failure:
                print(f"{text_of(case)}: {failure}", flush=True)
                failed += 1
                continue
            lacking += figures is None
            if figures:
                found.append((figures[0] / figures[1], *figures, text_of(case)))
    for ratio, ours, theirs, text in sorted(found, reverse=True):
        if ratio > options.above:
            print(f"{ratio:6.2f}  {ours:9.0f} us, onnxruntime {theirs:9.0f} us  {text}")
    if found:
        mean = np.exp(np.mean(np.log([row[0] for row in found])))
        print(f"{len(found)} cases: {mean:.3f} of onnxruntime's time in the geometric mean, {sum(row[0] > options.above for row in found)} above {options.above:g}; {lacking} that onnxruntime lacks; {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
