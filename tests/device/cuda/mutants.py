"""Plants faults of order and of alignment: each barrier of a kernel, each check of an address before a vector is loaded or stored, each recording of an event and each wait for one
in the module, and each entering and leaving of the card's context, is left out once, and the tests must notice.

usage: mutants.py --build build-test [--only topk.cu,queue.c] [--text in_vectors] [--jobs 2]

A mutant of a kernel (device/cuda/kernels/*.cu, *.cuh) lacks one __syncthreads, __syncwarp or wait for copies, or takes one address for a multiple of 16. It is linked into the kernel tests that run the kernel, which go forward, in reverse and in random
order of threads. A mutant of the module (device/cuda/*.c) lacks one call of the driver that orders work, or does not enter or leave the card's context; it takes the place of libreed-cuda-emulated.so in the build folder while its tests run. The build
must be one without sanitizers, and up to date: `ninja -C build-test`. Each survivor and each mutant that cannot be built is
printed. Exit status 1: there is one."""
import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
KERNELS = "device/cuda/kernels"
BARRIER = re.compile(r"^(?P<before>(?:.*[;{)]\s*|\s*(?:else\s+)?))(?P<statement>__syncthreads\(\)|__syncwarp\([^;]*\)|\w+(?:\.|->)wait(?:_all)?(?:<[^>]*>)?\([^;]*\));")
# The address in a check; not in the declaration of in_vectors.
ADDRESS = re.compile(r"(?<=\bin_vectors\()(?!const\b)[^,()]+(?=,)|(?<=\()reinterpret_cast<uintptr_t>\(data\)(?= \+)")
# A program of tests that runs late on a busy machine has noticed nothing.
ENVIRONMENT = dict(os.environ, CK_TIMEOUT_MULTIPLIER="30", REED_EXAMPLES=os.path.join(ROOT, "examples/shapes"))
ORDERING = re.compile(r"(?:\w+->)+(?:driver\.)?(?:event_record|stream_wait|event_synchronize|stream_synchronize)\(|(?P<enter>\bcuda_enter(?:_again)?\()(?!cuda_device)|(?P<leave>\bcuda_leave\()(?!cuda_device)")
# Tests of a kernel file beside those whose name begins with the file's.
TESTS = {"parts": ["vectors", "cuda_elementwise"], "indices": ["cuda_movement", "cuda_rooms"], "cache": ["cuda_attention"], "attention": ["attention_mma", "cuda_attention"], "attention_mma": ["attention_mma", "cuda_attention"], "conv": ["cuda_linear", "mma"], "norm_rows": ["cuda_norm", "long_rows", "norm_dense"], "regions": ["cuda_results", "bounded"],
         "select": ["cuda_movement", "cuda_unique"], "blocks": ["cuda_topk", "cuda_movement", "cuda_reduce"], "product": ["cuda_linear", "mma"], "product_mma": ["mma", "cuda_linear"], "mma_loader": ["mma", "cuda_linear"],
         "scan": ["cuda_reduce"], "nms": ["cuda_nms", "nms"], "topk": ["cuda_topk", "bounded"], "softmax": ["cuda_softmax"], "roi_pool": ["cuda_vision"], "deform_backward": ["cuda_deform"], "reduce": ["cuda_reduce"], "recurrent": ["cuda_recurrent"]}
MODULE_TESTS = ["tests/device/cuda/test_cuda_module", "tests/device/cuda/test_cuda_graph", "tests/whole/test_streams", "tests/whole/test_counts", "tests/whole/test_graphs"]
# Tests of a module file before those.
TESTS_OF_MODULE = {"library.c": ["tests/whole/test_cublas", "tests/whole/test_cudnn"], "weights.c": ["tests/whole/test_cublas", "tests/whole/test_cudnn"]}


class Mutant:
    def __init__(self, path, number, line, text):
        self.path, self.number, self.line, self.text = path, number, line, text

    def __str__(self): return f"{self.path}:{self.line} ({self.number}): {self.text}"


def read(path):
    with open(os.path.join(ROOT, path)) as f: return f.read()


def closing(text, at):
    """The place after the bracket that closes the one at text[at]."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0: return i + 1
    raise ValueError("a bracket is not closed")


def mutants_of(path):
    """(mutant, source) of a file."""
    text, made = read(path), []
    if path.endswith(".c"):
        for m in ORDERING.finditer(text):
            end = closing(text, m.end() - 1)
            line = text.count("\n", 0, m.start()) + 1
            instead = "REED_OK" if m["enter"] else "(void)0" if m["leave"] else "(cu_result)0"
            made.append((Mutant(path, len(made), line, text[m.start():end].replace("\n", " ")), text[:m.start()] + instead + text[end:]))
        return made
    for m in ADDRESS.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        made.append((Mutant(path, len(made), line, text.split("\n")[line - 1].strip()), text[:m.start()] + (f"(0 & {m[0]})" if "<" in m[0] else "nullptr") + text[m.end():]))
    lines = text.split("\n")
    for i, line in enumerate(lines):
        m = BARRIER.match(line)
        if m and not line.strip().startswith(("static", "/*", "*")):
            changed = lines[:i] + [line[:m.start("statement")] + line[m.end("statement"):]] + lines[i + 1:]
            made.append((Mutant(path, len(made), i + 1, m["statement"]), "\n".join(changed)))
    return made


class NotBuilt(Exception):
    """A mutant that does not compile or link, with what the compiler says."""


class Build:
    def __init__(self, folder): self.folder = folder

    def command(self, target):
        """Of the last step that makes the target."""
        out = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", "-s", target], capture_output=True, text=True, check=True).stdout
        return out.strip().split("\n")[-1]

    def run(self, command, timeout=600, **more):
        return subprocess.run(command, cwd=self.folder, shell=True, capture_output=True, text=True, timeout=timeout, **more)


def users(header):
    """The kernel files that include a header, also through others."""
    found, wanted = set(), {header}
    while wanted:
        name = wanted.pop()
        for other in os.listdir(os.path.join(ROOT, KERNELS)):
            if other.endswith((".cu", ".cuh")) and other not in found and f'#include "{KERNELS}/{name}"' in read(f"{KERNELS}/{other}"):
                found.add(other)
                if other.endswith(".cuh"): wanted.add(other)
    return sorted(f for f in found if f.endswith(".cu"))


def tests_of(name):
    stem = os.path.splitext(name)[0]
    return [f"tests/{KERNELS}/test_{t}" for t in TESTS.get(stem, [f"cuda_{stem}"])]


def kernel_survives(build, mutant, source):
    """None: a test has noticed; otherwise the tests that passed."""
    name = os.path.basename(mutant.path)
    files = [name] if name.endswith(".cu") else users(name)
    with tempfile.TemporaryDirectory() as scratch:
        own = os.path.join(scratch, KERNELS)
        os.makedirs(own)
        with open(os.path.join(own, name), "w") as f: f.write(source)
        tests, objects = tests_of(name), []
        for file in files:
            target = f"{KERNELS}/libcuda_emulated_kernels.a.p/meson-generated_{file}.cc.o"
            command, made = build.command(target), os.path.join(scratch, file + ".o")
            at = os.path.join(own, file) if file == name else os.path.join(ROOT, KERNELS, file)
            command = re.sub(r" -MD -MQ \S+ -MF \S+ -o \S+ -c \S+$", f" -Wno-error -o {shlex.quote(made)} -c {shlex.quote(at)}", command).replace(" -I", f" -I{shlex.quote(scratch)} -I", 1)
            done = build.run(command)
            if done.returncode: raise NotBuilt(done.stderr)
            objects.append(made)
        for small in (True, False):  # few elements first, because they show most
            for test in tests:
                program = os.path.join(scratch, os.path.basename(test))
                if not os.path.exists(program):
                    link = build.command(test).replace(f"-o {test} ", f"-o {shlex.quote(program)} {' '.join(map(shlex.quote, objects))} ", 1)
                    done = build.run(link)
                    if done.returncode: raise NotBuilt(done.stderr)
                if small and "/test_cuda_" not in test: continue
                environment = dict(ENVIRONMENT, **({"REED_CASE_ELEMENTS": "300"} if small else {}))
                try:
                    if build.run(shlex.quote(program), env=environment).returncode: return None
                except subprocess.TimeoutExpired: return None
        return tests


def module_survives(build, mutant, source):
    tests = TESTS_OF_MODULE.get(os.path.basename(mutant.path), []) + MODULE_TESTS
    library = os.path.join(build.folder, "libreed-cuda-emulated.so")
    with tempfile.TemporaryDirectory() as scratch:
        at, made = os.path.join(scratch, os.path.basename(mutant.path)), os.path.join(scratch, "mutant.o")
        with open(at, "w") as f: f.write(source)
        target = "libreed-cuda-emulated.so.p/" + mutant.path.replace("/", "_") + ".o"
        command = re.sub(r" -MD -MQ \S+ -MF \S+ -o \S+ -c \S+$", f" -Wno-error -o {shlex.quote(made)} -c {shlex.quote(at)}", build.command(target))
        done = build.run(command)
        if done.returncode: raise NotBuilt(done.stderr)
        link = build.command("libreed-cuda-emulated.so").replace(f" {target} ", f" {shlex.quote(made)} ", 1).replace("-o libreed-cuda-emulated.so ", f"-o {shlex.quote(scratch)}/mutant.so ", 1)
        done = build.run(link)
        if done.returncode: raise NotBuilt(done.stderr)
        kept = os.path.join(scratch, "kept.so")
        shutil.copy2(library, kept)
        try:
            os.replace(shutil.copy2(os.path.join(scratch, "mutant.so"), library + ".new"), library)
            for test in tests:
                try:
                    if build.run(shlex.quote("./" + test), env=ENVIRONMENT).returncode: return None
                except subprocess.TimeoutExpired: return None
        finally:
            os.replace(shutil.copy2(kept, library + ".new"), library)
    return tests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build-test")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--text", default="", help="only mutants whose text has this part")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="the mutants alone")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the module is put back
    build = Build(os.path.abspath(options.build))
    kernels = sorted(f"{KERNELS}/{n}" for n in os.listdir(os.path.join(ROOT, KERNELS)) if n.endswith((".cu", ".cuh")) and n not in ("ptx.cuh", "wgmma.cuh"))
    module = sorted(f"device/cuda/{n}" for n in os.listdir(os.path.join(ROOT, "device/cuda")) if n.endswith(".c"))
    unknown = set(options.only or ()) - {os.path.basename(p) for p in kernels + module}
    if unknown: parser.error(f"--only: no kernel or file of the module: {', '.join(sorted(unknown))}")
    wanted = [p for p in kernels + module if not options.only or os.path.basename(p) in options.only]
    all_mutants = [pair for path in wanted for pair in mutants_of(path) if options.text in pair[0].text]
    if options.list: return print("\n".join(str(m) for m, _ in all_mutants))
    survivors, not_built = [], []

    def judge(pair):
        mutant, source = pair
        try: passed = (module_survives if mutant.path.endswith(".c") else kernel_survives)(build, mutant, source)
        except NotBuilt as why:
            not_built.append(mutant)
            return print(f"not built: {mutant}: {str(why)[:300]}", flush=True)
        if passed: survivors.append(mutant)
        print(f"{'SURVIVES' if passed else 'noticed'}: {mutant}", flush=True)

    of_kernels = [p for p in all_mutants if not p[0].path.endswith(".c")]
    with ThreadPoolExecutor(options.jobs) as pool: list(pool.map(judge, of_kernels))
    for pair in all_mutants[len(of_kernels):]: judge(pair)
    print(f"{len(all_mutants)} mutants, {len(survivors)} survive, {len(not_built)} are not built")
    return len(survivors) + len(not_built) > 0


if __name__ == "__main__": sys.exit(main())
