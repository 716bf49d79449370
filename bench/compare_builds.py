#!/usr/bin/env python3
"""Two builds of Reed beside each other, in turns: latency, load and memory of models.

    compare_builds.py --old BUILD --new BUILD [--rounds 20] [--runs 20] [--markdown FILE] MODEL.onnx INPUT... [-- MODEL.onnx INPUT...]...

Each build compiles each ONNX file itself and runs it with its own `vm bench` on one thread, in one process for each turn. INPUT: as for `vm bench -i`. A round is one turn of
old, new and old again, in an order that rotates, so that a machine that changes its speed changes all of them alike. Figures are medians over the rounds. The third column,
old beside old, is the ratio that the machine's noise alone gives. The last rows are `bench_vm` of the builds that have it: nanoseconds for a kernel on a memo hit.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

FIGURES = (("median_us", "latency", "us"), ("load_us", "load", "us"), ("first_us", "first run", "us"), ("peak_resident_bytes", "peak memory", "B"))
TURNS = ("old", "new", "again")


def bench(build, module, inputs, runs):
    words = [os.path.join(build, "tools/vm"), "bench", module, "--runs", str(runs), "--threads", "1", "--json", "-"]
    for value in inputs:
        words += ["-i", value]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return json.loads(text[text.index("{"):])


def nanoseconds_a_kernel(build):
    program = os.path.join(build, "bench/bench_vm")
    if not os.path.exists(program):
        return None
    text = subprocess.run([program, "200"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"([\d.]+) ns", text)
    return float(found.group(1)) if found else None


def models_of(words):
    models = [[]]
    for word in words:
        if word == "--":
            models.append([])
        else:
            models[-1].append(word)
    return [(m[0], m[1:]) for m in models if m]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--markdown", help="where the table goes besides the standard output")
    known, rest = parser.parse_known_args(sys.argv[1:])
    builds = {"old": known.old, "new": known.new, "again": known.old}
    lines = ["| model | figure | old | new | new / old | old / old |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for path, inputs in models_of(rest):
            name = os.path.splitext(os.path.basename(path))[0]
            modules = {}
            for turn in ("old", "new"):
                modules[turn] = os.path.join(folder, f"{name}.{turn}.reed")
                subprocess.run([os.path.join(builds[turn], "tools/vm"), "compile", path, "-o", modules[turn]], check=True, capture_output=True)
            modules["again"] = modules["old"]
            taken = {turn: [] for turn in TURNS}
            for i in range(known.rounds):
                for k in range(3):
                    turn = TURNS[(i + k) % 3]
                    taken[turn].append(bench(builds[turn], modules[turn], inputs, known.runs))
            for key, title, unit in FIGURES:
                old, new, again = (statistics.median(t[key] for t in taken[turn]) for turn in TURNS)
                lines.append(f"| {name} | {title} | {old:,.0f} {unit} | {new:,.0f} {unit} | {new / old:.3f} | {again / old:.3f} |")
            print(*lines[-len(FIGURES):], sep="\n", flush=True)
        kernels = {turn: [] for turn in TURNS}
        for i in range(known.rounds):
            for k in range(3):
                turn = TURNS[(i + k) % 3]
                kernels[turn].append(nanoseconds_a_kernel(builds[turn]))
        if all(kernels["old"]) and all(kernels["new"]):
            old, new, again = (statistics.median(kernels[turn]) for turn in TURNS)
            lines.append(f"| chain of 1,000 adds | a kernel on a hit | {old:.1f} ns | {new:.1f} ns | {new / old:.3f} | {again / old:.3f} |")
            print(lines[-1])
    if known.markdown:
        with open(known.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
