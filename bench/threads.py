#!/usr/bin/env python3
"""Are two threads ever slower than one? Small models and decoders, in a tight loop and called every 30 ms.

    threads.py --folder DIR --build BUILD [--models silero,magika,...] [--threads 2] [--rounds 5] [--most 1.05] [MODEL.onnx SYMBOL=EXTENT... [-- MODEL.onnx SYMBOL=EXTENT...]...]

The small models are those of compare_small.py (--models none: none of them), which gets them into DIR; decoders and other models follow as words, with a value for every extent that they leave
open. Each model is compiled, and bench_threads runs it in one process with a session of one thread and a session of more, by turns. A figure is the median over the rounds of the turns' medians; the
ratio is more threads over one thread. The exit status is 1 if a ratio is above --most.
"""
import argparse
import os
import subprocess
import sys

import compare_small


def texts_of(model):
    """The model's inputs as bench_threads takes them: extents, and the value of all elements where the model wants one."""
    for dtype, extents, fill in compare_small.MODELS[model][2].values():
        yield "x".join(map(str, extents)) + ("" if isinstance(fill, str) else f"={fill if not extents else 1}")


def models_of(arguments):
    """(name, path, words) of each model."""
    for model in arguments.models.split(",") if arguments.models != "none" else []:
        yield model, compare_small.fetch(arguments.folder, model), list(texts_of(model))
    words = []
    for word in [*arguments.words, "--"]:
        if word != "--":
            words.append(word)
        elif words:
            yield os.path.splitext(os.path.basename(words[0]))[0], words[0], words[1:]
            words = []


def ratios(output):
    """(kind, ratio, the line's figures) of bench_threads's lines."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > 5 and words[-2] == words[-4] == "us":
            yield " ".join(words[:-5]), float(words[-1]), (float(words[-5]), float(words[-3]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--models", default=",".join(m for m in compare_small.MODELS if m != "PYTHON_CALL"))
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments, bad = parser.parse_args(), False
    os.makedirs(arguments.folder, exist_ok=True)
    print(f"{'model':14} {'called':18} {'1 thread, us':>13} {arguments.threads + ' threads':>11}  ratio", flush=True)
    for name, path, words in models_of(arguments):
        module = os.path.join(arguments.folder, name + ".reed")
        subprocess.run([os.path.join(arguments.build, "tools", "vm"), "compile", path, "-o", module], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([os.path.join(arguments.build, "bench", "bench_threads"), module, "--threads", arguments.threads, "--rounds", arguments.rounds, "--busy", "none", "--sessions", "0", *words],
                              capture_output=True, text=True)
        found = list(ratios(done.stdout))
        if done.returncode or not found:
            sys.exit(f"threads.py: {name}: {done.stderr.strip() or 'no figures'}")
        for kind, ratio, (one, more) in found:
            bad |= ratio > arguments.most
            print(f"{name:14} {kind:18} {one:13.1f} {more:11.1f}  {ratio:.3f}{' above ' + str(arguments.most) if ratio > arguments.most else ''}", flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
