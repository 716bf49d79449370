#!/usr/bin/env python3
"""The longest chunk of every operator with large extents: how long may a thread have to wait for another one?

    chunks.py --build BUILD [--threads 2,3] [--only CumSum,TopK] [--cases 0-99,305] [--most 50] [--again 5] [--folder DIR]

Each case is a model of one operator: few long rows, many short ones, long columns, awkward extents. `vm profile` runs it four times before the profiled runs; a figure is the mean over three profiled runs, of the least of
--again processes, because other work on the machine makes chunks longer and never shorter. --cases takes the cases of these numbers alone, so that a whole run, five minutes on an idle machine and longer beside other work, can be made in slices. Printed are the cases, with
their numbers, whose longest chunk, or time outside of chunks, is above --most microseconds in every process, and at the end the number of cases and the operators without one. The exit status is 1 if a case does not compile or run, or if one was found that
KNOWN does not list: it holds the chunks that stay long because shorter ones would make the call slower, with the reason.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from operator_cases import GROUPS, cases_of, model_of, saved, text_of

NEVER = {"If", "Loop", "Scan", "Constant", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Shape", "Size", "Upsample"}  # have regions, no kernel of their own, or another operator's

# Beginnings of a case's text (text_of), the longest chunk in us that is known, and why it is not cut.
KNOWN = (
    (("MatMul 3072x768", "MatMul 512x1024, 1024x1024 const"), 125, "Strassen's form: the first items of a thread add its panels of B besides"),
    (("Conv 1x256x100x136:float16", "Conv 1x128x75x75:float16"), 115, "the longest of thousands of items (docs/threads.md)"),
    (("Conv ", "MatMul ", "Gemm "), 80, "products' chunks take 20 to 30 us in the mean; shorter ones read the weights, or fill the panels, more often"),
    (("GRU 20x32x256", "LSTM 20x32x256"), 100, "groups of fewer than 6 sequences read the weights once more for each: a GRU in two directions is 5 % slower already"),
    (("LSTM 3x1x2000", "GRU 3x1x2000", "GRU 10x1x1024, 2x", "LSTM 10x1x1024"), 100, "a block of 16 units of all gates is 0.3 MB of weights, read from memory"),
    (("MaxRoiPool", "RoiAlign", "torchvision.roi"), 75, "a large region of 16 channels, or a channel of one, is a step"),
    (("Attention 1x8x512x256", "Attention 1x1x2048x64"), 80, "heads of 256: a block of 32 queries by 64 keys; smaller ones take more than 2 % longer"),
    (("ScatterElements", "ScatterND"), 75, "updates of random places: as long as the caches make it"),
    (("Unique 200000",), 115, "a part's elements are written to their places in the order: as long as the caches make it"),
    (("NonMaxSuppression 1x2000x4",), 60, "a block of 224 boxes is compared with itself, one box after the other"),
)


def reason_of(case, longest):
    """Why the case's chunk is as long as that; None if KNOWN does not tell."""
    return next((reason for texts, most, reason in KNOWN if longest <= most and text_of(case).startswith(texts)), None)


def numbers_of(text):
    """The ranges that a text such as "0-99,305" names; None for all."""
    return [range(int(first), int(last or first) + 1) for first, _, last in (part.partition("-") for part in text.split(","))] if text else None


def measure(options, path, words, threads):
    done = subprocess.run([os.path.join(options.build, "tools", "vm"), "profile", path, *words, "--threads", str(threads), "--warmup", "4", "--runs", "3", "--json", "-"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:300])
    operators = json.loads(done.stdout[done.stdout.index("{"):])["operators"]
    return {o["operator"]: (o.get("longest_chunk_us", 0), o.get("alone_us", 0), o.get("chunks", 0), o["total_us"] / max(o["calls"], 1)) for o in operators}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--threads", default="2,3")
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default="", help="numbers and ranges of cases, counted from 0 among those of --only")
    parser.add_argument("--most", type=float, default=50)
    parser.add_argument("--again", type=int, default=5)
    parser.add_argument("--folder")
    options = parser.parse_args()
    seen, count, long, known, broken = set(), 0, 0, 0, 0
    wanted = numbers_of(options.cases)
    if options.folder:
        os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, module = os.path.join(folder, "one.onnx"), os.path.join(folder, "one.reed")
        for number, case in enumerate(cases_of(GROUPS, options.only)):
            seen.add(case[0])
            if wanted and not any(number in part for part in wanted):
                continue
            words = saved(model_of(case, path), folder)
            compiled = subprocess.run([os.path.join(options.build, "tools", "vm"), "compile", path, "-o", module], capture_output=True, text=True)
            if compiled.returncode:
                print("not compiled:", text_of(case), compiled.stderr.strip()[:200], flush=True)
                broken += 1
                continue
            for threads in map(int, options.threads.split(",")):
                count += 1
                least = {}
                for _ in range(options.again):
                    try:
                        for operator, figures in measure(options, module, words, threads).items():
                            before = least.get(operator, figures)
                            least[operator] = tuple(min(a, b) for a, b in zip(before, figures))
                    except RuntimeError as error:
                        print("not run:", text_of(case), error, flush=True)
                        broken += 1
                        break
                    if all(max(figures[:2]) <= options.most for figures in least.values()):
                        break
                for operator, (longest, alone, chunks, total) in least.items():
                    if max(longest, alone) > options.most:
                        reason = reason_of(case, max(longest, alone))
                        known, long = known + (reason is not None), long + (reason is None)
                        print(f"{threads} threads, longest {longest:7.0f} us, outside of chunks {alone:7.0f} us, a call {total:8.0f} us, {chunks / 3:.0f} chunks: {operator}: case {number}: {text_of(case)}{'; known: ' + reason if reason else ''}", flush=True)
    listed = subprocess.run([os.path.join(options.build, "tools", "vm"), "ops"], capture_output=True, text=True, check=True).stdout
    print(f"{count} measurements, {long} above {options.most:g} us, {known} more that are known, {broken} not compiled or not run")
    if not options.only and not wanted:
        operators = {line.split()[0] for line in listed.splitlines()[1:] if line and line[0].isalpha()}
        print("operators without a case:", ", ".join(sorted(operators - seen - NEVER)) or "none")
    return long > 0 or broken > 0


if __name__ == "__main__":
    sys.exit(main())
