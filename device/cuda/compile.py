"""Compiles one file of kernels with nvcc, and writes each kernel's resources for each compute capability that it is compiled for.

usage: compile.py FATBIN PTX RESOURCES STEM NVCC ARGUMENT...

The PTX is that of the newest architecture, as the fat binary holds it (proofs.py takes its hash); nvcc makes it on the way, so that the file is compiled once.
RESOURCES has rows as device/cuda/kernels/ptxas.tsv has them (tests/device/cuda/kernels/check_ptxas.py), behind a line with nvcc's version."""
import glob, os, re, shutil, subprocess, sys, tempfile

sys.dont_write_bytecode = True
from proofs import kernels_of

VECTOR = r'\b%s\.global(?:\.nc)?\.(?:v4\.\w32|v2\.\w64)\b'


def resources_of(said, ptx):
    """{(kernel, capability): numbers and hash in the order of check_ptxas.py's columns} by what ptxas -v has said and the PTX of each capability."""
    rows, of_ptx = {}, {}
    for arch, text in ptx.items():
        hashes = kernels_of(text)
        for kernel, body in re.findall(r'\.entry (\w+)\((.*?)^\}', text, re.M | re.S):
            of_ptx[kernel, arch] = (*(len(re.findall(VECTOR % way, body)) for way in ('ld', 'st')), hashes[kernel])
    for part in re.split('Compiling entry function ', said)[1:]:
        kernel, arch = re.match(r"'(\w+)' for 'sm_(\d+)a?'", part).groups()
        own = part[part.index(f'Function properties for {kernel}'):]
        stack, stores, loads = map(int, re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', own).groups())
        used = re.search(r'Used (\d+) registers[^\n]*', own)
        shared = re.search(r'(\d+) bytes smem', used.group(0))
        rows[kernel, arch] = (int(used.group(1)), stores + loads, int(shared.group(1)) if shared else 0, stack, *of_ptx[kernel, arch])
    return rows


def version_of(text):
    """The compiler's version, such as V13.0.88, by the first lines of a PTX file."""
    return re.search(r'release [\d.]+, (V[\d.]+)', text).group(1)


def main(fatbin, ptx, resources, stem, *command):
    with tempfile.TemporaryDirectory() as steps:
        done = subprocess.run([*command, '-Xptxas', '-v', '--keep', '--keep-dir', steps, '-o', fatbin], stderr=subprocess.PIPE, text=True)
        if done.returncode: sys.exit(done.stderr)
        # with one architecture STEM.ptx, with several STEM.compute_80.ptx, STEM.compute_90a.ptx and so on
        made = {}
        for path in glob.glob(f'{steps}/{stem}.ptx') + glob.glob(f'{steps}/{stem}.compute_*.ptx'):
            with open(path) as f: text = f.read()
            made[re.search(r'^\.target sm_(\d+)', text, re.M).group(1)] = path, text
        path, text = made[max(made, key=int)]
        shutil.copyfile(path, ptx)
        rows = resources_of(done.stderr, {arch: text for arch, (_, text) in made.items()})
        with open(resources, 'w') as f:
            f.write(f'# nvcc {version_of(text)}\n')
            for row in sorted(rows): f.write('\t'.join(map(str, (*row, *rows[row]))) + '\n')


if __name__ == '__main__': main(*sys.argv[1:])
