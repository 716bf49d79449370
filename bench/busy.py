#!/usr/bin/env python3
"""Reed and onnxruntime beside processes that take the CPUs: the latency of a model, and how many times as long a run takes as on the idle machine.

    busy.py --build BUILDDIR [--busy 0,3,6] [--threads 2] [--rounds 3] [--runs 10] [--pause 0] [--torch] [--load COMMAND] MODEL.onnx SYMBOL=EXTENT...
    busy.py --build BUILDDIR [FLAGS] MODEL.onnx INPUT...

Every extent that the model leaves open needs a value, as b=1, or past=100+, which is one more in each run; or each input is given, as bench_open takes it: "2x1x128", "=16000". Each engine has a process
of its own; one engine works at a time. A round is one turn of each engine beside each number of busy processes; a turn is --runs runs with a pause of --pause ms before each. The figures are the median over all runs of all rounds, and the mean, which shows runs that stall; then a run's CPU time on the idle machine over its share of the CPUs, if the scheduler shares them evenly among the busy processes and the engine's threads:
so long takes a run that wastes nothing.
With --load the busy processes are shells that run COMMAND, as a build or a test suite, and take whatever CPUs that takes; then no even share is known. Their output is dropped.
With --torch each process multiplies matrices with PyTorch's own threads (OpenMP) before each run, so that two teams of threads share the process.
The inputs are the same for all engines: floats from a seeded normal distribution, ones for integers.
"""
import argparse
import contextlib
import functools
import os
import signal
import statistics
import subprocess
import sys
import time

from worker import Worker, answers

ENGINES = ("reed", "onnxruntime")


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--busy", default="0,3,6")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--load", help="what each busy process runs; else an endless loop")
    parser.add_argument("--worker", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("model")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


# ---- a worker: one engine in a process; each line of input is an order for one turn ----

@functools.cache
def graph_of(path):
    import onnx
    return onnx.load(path, load_external_data=False).graph


def inputs_of(path, words, run=0):
    """words: SYMBOL=EXTENT[+] for each open extent, or EXTENTS[=VALUE] for each input. run: what is added to an extent with a +."""
    import numpy as np
    from onnx.helper import tensor_dtype_to_np_dtype
    graph, random, arrays = graph_of(path), np.random.default_rng(7), []
    constants = {i.name for i in graph.initializer}
    given = bool(words) and (words[0][0].isdigit() or words[0][0] == "=")
    texts = [word.partition("=") for word in words]
    extents = {} if given else {name: int(value.rstrip("+")) + value.endswith("+") * run for name, _, value in texts}
    for value in graph.input:
        if value.name in constants:
            continue
        t = value.type.tensor_type
        text, _, fill = texts[len(arrays)] if given else ("", "", "")
        dims = [int(e) for e in text.split("x") if e] if given else [extents[d.dim_param] if d.dim_param else d.dim_value for d in t.shape.dim]
        dtype = tensor_dtype_to_np_dtype(t.elem_type)
        floating = np.issubdtype(dtype, np.floating)
        arrays.append(np.asarray(random.standard_normal(dims) if floating else np.full(dims, int(fill or 1))).astype(dtype))
    return arrays


def work(arguments):
    import engines
    answer_with = answers()
    arrays = inputs_of(arguments.model, arguments.words)
    folder, name = os.path.split(os.path.abspath(arguments.model))
    name = os.path.splitext(name)[0]
    engine = (engines.Reed(folder, name, arguments.threads, arguments.build) if arguments.worker == "reed" else
              engines.PEERS[arguments.worker](folder, name, arguments.threads))
    beside = None
    if arguments.torch:
        import torch
        torch.set_num_threads(arguments.threads)
        matrix = torch.randn(512, 512)
        beside = lambda: matrix @ matrix
    for _ in range(3):
        engine(arrays)
    grows, runs = any(word.endswith("+") for word in arguments.words), 0
    for _ in sys.stdin:
        seconds, torch_seconds, cpu_seconds = [], [], []
        for _ in range(arguments.runs):
            runs += 1
            if grows:
                arrays = inputs_of(arguments.model, arguments.words, runs)
            time.sleep(arguments.pause / 1e3)
            if beside:
                start = time.perf_counter()
                beside()
                torch_seconds.append(time.perf_counter() - start)
            start, cpu_start = time.perf_counter(), time.process_time()
            engine(arrays)
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
        answer_with({"seconds": seconds, "torch": torch_seconds, "cpu": cpu_seconds})


# ---- the parent ----

def busy_process(load):
    """A busy process, in a process group of its own."""
    if load:
        return subprocess.Popen(load, shell=True, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)


def end(others):
    """Ends busy processes with all that they have started; one that has ended itself may have left some."""
    for other in others:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(other.pid, signal.SIGKILL)
        other.wait()


def main():
    arguments = arguments_of()
    if arguments.worker:
        return work(arguments)
    counts = [int(n) for n in arguments.busy.split(",")]
    workers = {e: Worker([os.path.abspath(__file__), "--worker", e, *sys.argv[1:]], arguments.threads) for e in ENGINES}
    found = {(n, e): [] for n in counts for e in ENGINES}
    torch_found = {(n, e): [] for n in counts for e in ENGINES}
    cpu_idle = {e: [] for e in ENGINES}
    n_cpus = len(os.sched_getaffinity(0))
    for worker in workers.values():
        worker.ask()  # each engine opens the model
    for _ in range(arguments.rounds):
        for n in counts:
            others = [busy_process(arguments.load) for _ in range(n)]
            try:
                time.sleep(0.3)
                for e, worker in workers.items():
                    answer = worker.ask() or sys.exit(f"busy.py: {e}: {worker.error}")
                    found[n, e] += answer["seconds"]
                    torch_found[n, e] += answer["torch"]
                    cpu_idle[e] += answer["cpu"] if n == counts[0] else []
            finally:
                end(others)
    print(f"{'busy':>4}  " + "  ".join(f"{e:>12} median    mean  slowdown    even" for e in ENGINES) + "   onnxruntime / Reed")
    for n in counts:
        cells, share = [], min(arguments.threads, n_cpus, n_cpus * arguments.threads / (n + arguments.threads))
        for e in ENGINES:
            median, mean, idle = statistics.median(found[n, e]), statistics.fmean(found[n, e]), statistics.fmean(found[counts[0], e])
            even = "-" if arguments.load and n else f"{statistics.fmean(cpu_idle[e]) / share * 1e3:.2f}"
            cells.append(f"{median * 1e3:>16.2f} ms {mean * 1e3:>7.2f}  {mean / idle:>7.2f}x {even:>7}")
        print(f"{n:>4}  " + "  ".join(cells) + f"   {statistics.fmean(found[n, 'onnxruntime']) / statistics.fmean(found[n, 'reed']):.2f}")
        if arguments.torch:
            print("      PyTorch's product: " + ", ".join(f"beside {e} {statistics.median(torch_found[n, e]) * 1e3:.2f} ms (mean {statistics.fmean(torch_found[n, e]) * 1e3:.2f})" for e in ENGINES))


main()
