#!/usr/bin/env python3
"""The cost of a number of boxes never seen before: pictures of one size, of which each is run three times.

    counts.py --build BUILDDIR [--threads 1,2] [--rounds 9] [--steps 160] [--warm 8] [--pictures 1|2] [--keep FILE] [--instructions] MODEL.reed SYMBOL=EXTENT...

Pictures 1 are for the shapes model (1 to 21 boxes), pictures 2 for models with random weights, which find 0 to 100 boxes (bench_steps --pictures).

A round is one process, and every round has the same pictures, so the first run of picture 7 does the same work in each of them. The time of a run of a picture is the median over the rounds. That takes away what the
machine did meanwhile, which in a single round is several times the figures. Printed are ratios of these medians over all pictures, mean and 95th percentile: the first run over the second, and as the noise floor the
second over the third; for CPU time, and for time. Beside them the pictures whose first run had a miss and the others, each alone, the page faults, and the part of the time that shapes and plans took.

--keep adds each round to a file, and the figures are those of all its rounds of the same call: so a long measurement can be made in parts (--rounds 1 again and again; --rounds 0 measures nothing and prints the figures). A
large model wants fewer --steps and --warm as well.

With --instructions there is one round under callgrind, and the figures are instructions of user code, which other work on the machine does not change. They leave out page faults and the caches' misses. Valgrind has no
AVX-512, so the kernels are those of AVX2.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile

RUNS = ("first", "second", "third")


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--pictures", type=int, choices=(1, 2), default=1)
    parser.add_argument("--keep", metavar="FILE", help="adds the rounds to this file, and takes those of the same call in it as well")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("model")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


def run_round(arguments, threads, before=()):
    """A row of figures for each picture, as bench_steps --rows prints it."""
    command = [*before, os.path.join(arguments.build, "bench", "bench_steps"), arguments.model, "--threads", str(threads), "--steps", str(arguments.steps), "--warm", str(arguments.warm),
               "--pictures", str(arguments.pictures), "--rows", "1", *arguments.words]
    return [json.loads(line) for line in subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if before else None, check=True, text=True).stdout.splitlines()]


def instructions_of(folder, skipped):
    """Instructions of the runs in their order, without the first ones: callgrind writes a file at the end of each run."""
    totals = []
    for path in sorted(glob.glob(os.path.join(folder, "out.*")), key=lambda path: int(path.rsplit(".", 1)[1])):
        with open(path) as file:
            totals.append(next(int(line.split()[1]) for line in file if line.startswith("summary:")))
    return totals[skipped:]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def print_ratios(name, rows):
    """rows: the figures of the three runs of each picture."""
    for a, b in ((0, 1), (1, 2)):
        ratios = [row[a] / row[b] for row in rows]
        print(f"  {name}: {RUNS[a]} over {RUNS[b]} run: mean {statistics.mean(ratios):.4f}, 95th percentile {percentile(ratios, .95):.4f}, most {max(ratios):.4f}", flush=True)


def report(arguments, name, rows, missed):
    print_ratios(name, rows)
    for kind in (True, False):
        some = [row for row, miss in zip(rows, missed) if bool(miss) == kind]
        if some:
            print_ratios(f"{name}, pictures {'with a' if kind else 'without a'} miss", some)


def report_misses(rows):
    missed = [row["misses"][0] > 0 for row in rows]
    again = sum(row["misses"][1] for row in rows)
    counts = [row["rows"] for row in rows]
    print(f"  {min(counts)} to {max(counts)} boxes, {len(set(counts))} counts; misses: {sum(missed)} of {len(rows)} first runs, {sum(row['misses'][0] for row in rows):.0f} epochs; {again:.0f} epochs of second runs")
    return missed


def title(arguments, threads):
    return f"{os.path.basename(arguments.model)}, {threads} thread{'s' if threads > 1 else ''}"


def measure_instructions(arguments, threads):
    print(f"{title(arguments, threads)}, one round under callgrind:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = run_round(arguments, threads, ("valgrind", "--tool=callgrind", "--zero-before=reed_session_run", "--dump-after=reed_session_run", f"--callgrind-out-file={folder}/out"))
        totals = instructions_of(folder, 3 * arguments.warm)
    report(arguments, "instructions", [totals[i:i + 3] for i in range(0, 3 * len(rows), 3)], report_misses(rows))


def rounds_of(arguments, threads):
    """The rows of all rounds: those that --keep's file has of this call, and those that are measured."""
    call = {"build": os.path.abspath(arguments.build), "model": os.path.abspath(arguments.model), "words": arguments.words, "threads": threads, "steps": arguments.steps, "warm": arguments.warm, "pictures": arguments.pictures}
    rounds = []
    if arguments.keep and os.path.exists(arguments.keep):
        with open(arguments.keep) as file:
            rounds = [kept["rows"] for kept in map(json.loads, file) if kept["call"] == call]
    for _ in range(arguments.rounds):
        rounds.append(run_round(arguments, threads))
        if arguments.keep:
            with open(arguments.keep, "a") as file:
                print(json.dumps({"call": call, "rows": rounds[-1]}), file=file)
    return rounds


def measure_time(arguments, threads):
    rounds = rounds_of(arguments, threads)
    print(f"{title(arguments, threads)}, {len(rounds)} round{'s' if len(rounds) != 1 else ''}:", flush=True)
    if not rounds:
        return
    missed = report_misses(rounds[0])
    median = lambda figures: [statistics.median(column) for column in zip(*figures)]
    pictures = list(zip(*rounds))
    report(arguments, "CPU time", [median(row["cpu"] for row in picture) for picture in pictures], missed)
    report(arguments, "time", [median((row["new"], row["again"], row["third"]) for row in picture) for picture in pictures], missed)
    faults = [median(row["faults"] for row in picture) for picture in pictures]
    plans = sum(statistics.median(row["plan"] for row in picture) for picture in pictures)
    again = sum(statistics.median(row["again"] for row in picture) for picture in pictures)
    print(f"  page faults of first, second and third runs, mean: {', '.join(f'{statistics.mean(column):.1f}' for column in zip(*faults))}; shapes and plans of first runs over the time of second runs: {plans / again:.4f}", flush=True)


def main():
    arguments = arguments_of()
    for threads in map(int, arguments.threads.split(",")):
        (measure_instructions if arguments.instructions else measure_time)(arguments, threads)


if __name__ == "__main__":
    main()
