"""Compares each CUDA kernel's registers and memory of a multiprocessor with device/cuda/kernels/ptxas.tsv, both ways: a kernel of the table that is not
compiled, a compiled one that the table lacks, and any other number are faults. Needs nvcc, no GPU.

usage: check_ptxas.py ROOT [--nvcc PATH] [--write]

Every .cu file is compiled for sm_80 with the flags that the module is built with, warnings as errors. The table: kernel, registers, spilled bytes, static
shared memory, stack."""
import argparse, os, re, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

parser = argparse.ArgumentParser()
parser.add_argument('root')
parser.add_argument('--nvcc')
parser.add_argument('--write', action='store_true')
options = parser.parse_args()
nvcc = options.nvcc or shutil.which('nvcc') or ('/usr/local/cuda/bin/nvcc' if os.path.exists('/usr/local/cuda/bin/nvcc') else None)
if not nvcc:
    print('nvcc is not installed')
    sys.exit(77)
folder = os.path.join(options.root, 'device/cuda/kernels')
table = os.path.join(folder, 'ptxas.tsv')
HEAD = '# What ptxas -v says of each kernel for sm_80; made and compared by tests/device/cuda/kernels/check_ptxas.py.\n# kernel\tregisters\tspilled bytes\tstatic shared bytes\tstack bytes\n'


def compile_file(name):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([nvcc, '-std=c++17', '-Werror', 'all-warnings', '-fmad=false', '-arch=sm_80', '-Xptxas', '-v', '-I', options.root, '-I', os.path.join(options.root, 'include'),
                               '-cubin', '-o', os.path.join(scratch, 'x.cubin'), os.path.join(folder, name)], capture_output=True, text=True)
    if done.returncode: sys.exit(f'{name}: {done.stderr}')
    return done.stderr


def rows_of(text):
    rows = {}
    for part in re.split(r"Compiling entry function '", text)[1:]:
        name = part[:part.index("'")]
        own = part[part.index(f'Function properties for {name}'):]
        stack, stores, loads = map(int, re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', own).groups())
        used = re.search(r'Used (\d+) registers[^\n]*', own)
        shared = re.search(r'(\d+) bytes smem', used.group(0))
        rows[name] = (int(used.group(1)), stores + loads, int(shared.group(1)) if shared else 0, stack)
    return rows


def read_table():
    with open(table) as f:
        return {line.split('\t')[0]: tuple(map(int, line.split('\t')[1:])) for line in f if line.strip() and not line.startswith('#')}


found = {}
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for text in pool.map(compile_file, sorted(n for n in os.listdir(folder) if n.endswith('.cu'))): found.update(rows_of(text))
with open(os.path.join(folder, 'kernels.def')) as f:
    listed = {'reed_' + name for name in re.findall(r'^CUDA_KERNEL\((\w+),', f.read(), re.M)}
faults = [f'{n} is in kernels.def, but not compiled' for n in sorted(listed - set(found))] + [f'{n} is compiled, but not in kernels.def' for n in sorted(set(found) - listed)]
if options.write:
    with open(table, 'w') as f: f.write(HEAD + ''.join('\t'.join(map(str, (n, *found[n]))) + '\n' for n in sorted(found)))
known = read_table()
faults += [f'ptxas.tsv lacks {n}' for n in sorted(set(found) - set(known))] + [f'{n} of ptxas.tsv is not compiled' for n in sorted(set(known) - set(found))]
faults += [f'{n}: registers, spilled, shared, stack are {found[n]}, not {known[n]}' for n in sorted(set(found) & set(known)) if found[n] != known[n]]
print('\n'.join(faults) if faults else f'{len(found)} kernels as ptxas.tsv says, {sum(v[1] > 0 for v in found.values())} of them spill')
sys.exit(bool(faults))
