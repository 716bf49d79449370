#!/usr/bin/env python3
"""The cost of a size never seen before, Reed beside onnxruntime: runs of new extents beside repeated runs of the same extents.

    steps.py --build BUILDDIR [--threads 1,2] [--steps 50] [--warm 8] [--block 5] [--bound LENGTH] MODEL.onnx SYMBOL=EXTENTS... [-- MODEL.onnx SYMBOL=EXTENTS...]...

The module MODEL.reed lies beside each MODEL.onnx. Every extent that the model leaves open needs EXTENTS: 7 (the same in every step), 100+ (one more in each step), 32:640 (drawn for each
step), 32:640/32 (drawn among multiples of 32).

Reed runs through its C API (bench_steps --orders), onnxruntime with bound inputs. Each engine has a process of its own. A step runs a new size once and then twice more; the engines take turns of
--block steps each, of the same sizes, in an order that changes. A turn is one order, so that no other process runs between its steps. It begins with a pause, in which the other engine's idle threads stop spinning, and a step that is not counted; it ends with steps of its sizes once more, which are known then. Figures: medians in ms, and the 99th percentile of a new size; the ratio of the medians, new over repeated; the median of the
ratios of the same size; the median of the ratios to the first run of the same size's later step (known), which, as the new one, comes after other work of the process, with cold caches; onnxruntime's new size over Reed's (above 1 Reed is faster); shapes and plan, and page faults, of Reed's new sizes.

With --bound the models are decoders, and a row more tells of steps whose caches lie in memory of the caller's from LENGTH rows on (bench_decode --again): steps of lengths never seen beside
steps of lengths that the memo has, and the hits of the memo in a step of each.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

from worker import Worker, answers

PAUSE_S = .05


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--block", type=int, default=5)
    parser.add_argument("--bound", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser.parse_args()


# ---- onnxruntime's process: each order has the extents of a turn's steps ----

def work(path, threads):
    import numpy as np
    import onnxruntime
    answer_with = answers()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}

    def step(extents):
        binding, keep = session.io_binding(), []
        for i in session.get_inputs():
            dims = [extents[d] if isinstance(d, str) else d for d in i.shape]
            n = int(np.prod(dims))
            a = ((np.arange(n) * 7919 % 1021) / 1021 if i.type == "tensor(float)" else np.ones(n)).reshape(dims).astype(dtypes[i.type])
            keep.append(onnxruntime.OrtValue.ortvalue_from_numpy(a))
            binding.bind_ortvalue_input(i.name, keep[-1])
        for o in session.get_outputs():
            binding.bind_output(o.name)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            session.run_with_iobinding(binding)
            taken.append((time.perf_counter() - start) * 1e6)
        return {"new": taken[0], "again": taken[1], "third": taken[2]}

    for line in sys.stdin:
        answer_with({"rows": [step(extents) for extents in json.loads(line)["sizes"]]})


# ---- Reed's process ----

class Reed:
    def __init__(self, build, path, threads):
        self.process = subprocess.Popen([os.path.join(build, "bench", "bench_steps"), os.path.splitext(path)[0] + ".reed", "--threads", str(threads), "--orders", "1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, sizes):
        self.process.stdin.write(" ; ".join(" ".join(f"{name}={n}" for name, n in extents.items()) for extents in sizes) + "\n")
        self.process.stdin.flush()
        return {"rows": [json.loads(self.process.stdout.readline()) for _ in sizes]}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the rounds ----

EXTENTS = re.compile(r"([^=]+)=(\d+)(?:(\+)|:(\d+)(?:/([1-9]\d*))?)?")


def check(word):
    found = EXTENTS.fullmatch(word)
    if not found or found[4] and int(found[4]) < int(found[2]):
        raise SystemExit(f"steps.py: '{word}' is not SYMBOL=EXTENTS; EXTENTS are 7, 100+, 32:640 or 32:640/32")


def draw(word, step, generator):
    name, low, grows, high, unit = EXTENTS.fullmatch(word).groups()
    if high:
        return name, generator.randrange(int(low), int(high) + 1, int(unit or 1))
    return name, int(low) + (step if grows else 0)


def measure(arguments, path, words, threads):
    generator = random.Random(11)
    engines = {"Reed": Reed(arguments.build, path, threads),
               "onnxruntime": Worker([os.path.abspath(__file__), "--build", arguments.build, "--threads", str(threads), "--worker", os.path.abspath(path)], threads)}
    rows = {name: [] for name in engines}
    for turn in range(-(-(arguments.warm + arguments.steps) // arguments.block)):
        sizes = [dict(draw(word, turn * (arguments.block + 1) + i, generator) for word in words) for i in range(arguments.block + 1)]
        for name in list(engines)[::1 if turn % 2 else -1]:
            time.sleep(PAUSE_S)
            answer = engines[name].ask(sizes=sizes + sizes[1:])
            if answer is None:
                raise SystemExit(f"{name} on {path}: {engines[name].error}")
            fresh, known = answer["rows"][1:len(sizes)], answer["rows"][len(sizes):]
            if turn * arguments.block >= arguments.warm:
                rows[name] += [{**row, "known": later["new"]} for row, later in zip(fresh, known)]
    for engine in engines.values():
        engine.close()
    return rows


def report(path, threads, rows):
    new = {}
    for name, taken in rows.items():
        column = lambda key: sorted(row[key] for row in taken)
        new[name], again = statistics.median(column("new")), statistics.median(column("again"))
        ratio = statistics.median(row["new"] / row["again"] for row in taken)
        known = statistics.median(row["new"] / row["known"] for row in taken)
        p99 = column("new")[int(.99 * len(taken))]
        beside = ""
        if name == "Reed":
            plan = column("plan")
            beside = f"  shapes and plan {plan[0]:.0f} us, median {statistics.median(plan):.0f}, p99 {plan[int(.99 * len(plan))]:.0f}; faults {statistics.median(row['faults'][0] for row in taken):.0f}"
        print(f"{os.path.basename(path):20} {threads} {name:12} {new[name] / 1e3:9.3f} {p99 / 1e3:9.3f} {again / 1e3:9.3f} {new[name] / again:8.3f} {ratio:8.3f} {known:8.3f}{beside}")
    print(f"{os.path.basename(path):20} {threads} onnxruntime's new size over Reed's: {new['onnxruntime'] / new['Reed']:.3f}", flush=True)


def report_bound(arguments, path, threads):
    command = [os.path.join(arguments.build, "bench", "bench_decode"), os.path.splitext(path)[0] + ".reed", "--threads", str(threads), "--steps", str(arguments.steps), "--warm", str(arguments.warm),
               "--again", "1", str(arguments.bound)]
    row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    print(f"{os.path.basename(path):20} {threads} {'Reed, bound':12} {row['new'] / 1e3:9.3f} {'':9} {row['again'] / 1e3:9.3f} {row['new'] / row['again']:8.3f} {row['of_one']:8.3f}"
          f"  CPU time {row['cpu']:.3f}; hits in a step: {row['hits'][0]:.2f} of new lengths, {row['hits'][1]:.2f} of known ones", flush=True)


def main():
    arguments = arguments_of()
    if arguments.worker:
        return work(arguments.words[0], int(arguments.threads))
    models = [[]]
    for word in arguments.words:
        if word == "--":
            models.append([])
        else:
            models[-1].append(word)
    print(f"{'':20} {'':1} {'':12} {'new ms':>9} {'p99':>9} {'repeated':>9} {'medians':>8} {'of one':>8} {'known':>8}")
    for _, *words in models:
        for word in words:
            check(word)
    for path, *words in models:
        for threads in map(int, arguments.threads.split(",")):
            report(path, threads, measure(arguments, path, words, threads))
            if arguments.bound:
                report_bound(arguments, path, threads)


if __name__ == "__main__":
    main()
