"""Compares each CUDA kernel's registers and memory of a multiprocessor with device/cuda/kernels/ptxas.tsv, both ways: a kernel of the table that is not
compiled, a compiled one that the table lacks, and any other number are faults. Needs nvcc, no GPU.

usage: check_ptxas.py ROOT [--nvcc PATH] [--archs 80,90] [--files topk.cu,nms.cu] [--write]

Every .cu file is compiled for the given compute capabilities (default: those of the table) with the flags that the module is built with, warnings as errors. The
table: kernel, compute capability, registers, spilled bytes, static shared memory, stack, and the instructions of its PTX that load and store 16 bytes of the
card's memory at once. --files compiles and compares the kernels of these files alone; a kernel that has left them is then not noticed. --write makes the table's
rows anew for the given capabilities and files, and keeps the others."""
import argparse, os, re, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

parser = argparse.ArgumentParser()
parser.add_argument('root')
parser.add_argument('--nvcc')
parser.add_argument('--archs')
parser.add_argument('--files')
parser.add_argument('--write', action='store_true')
options = parser.parse_args()
nvcc = options.nvcc or shutil.which('nvcc') or ('/usr/local/cuda/bin/nvcc' if os.path.exists('/usr/local/cuda/bin/nvcc') else None)
if not nvcc:
    print('nvcc is not installed')
    sys.exit(77)
folder = os.path.join(options.root, 'device/cuda/kernels')
table = os.path.join(folder, 'ptxas.tsv')
COLUMNS = 'registers', 'spilled bytes', 'static shared bytes', 'stack bytes', '16-byte loads', '16-byte stores'
HEAD = ('# Resources of each kernel for each compute capability, as ptxas -v says; made and compared by tests/device/cuda/kernels/check_ptxas.py.\n# '
        + '\t'.join(('kernel', 'capability') + COLUMNS) + '\n')


def read_table():
    with open(table) as f: rows = [line.rstrip('\n').split('\t') for line in f if line.strip() and not line.startswith('#')]
    return {(row[0], row[1]): tuple(map(int, row[2:])) for row in rows}


archs = options.archs.split(',') if options.archs else sorted({arch for _, arch in read_table()}, key=int)


def target(arch):
    """9.0 with the instructions of these cards alone, as the module is built."""
    return arch + 'a' if arch == '90' else arch


def compile_file(name):
    """{(kernel, capability): numbers in the order of COLUMNS} of a file."""
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        code = [f'-gencode=arch=compute_{target(arch)},code=sm_{target(arch)}' for arch in archs]
        done = subprocess.run([nvcc, '-std=c++17', '-Werror', 'all-warnings', '-fmad=false', *code, '-Xptxas', '-v', '-I', options.root, '-I', os.path.join(options.root, 'include'),
                               '-fatbin', '--keep', '--keep-dir', scratch, '-o', os.path.join(scratch, 'x.fatbin'), os.path.join(folder, name)], capture_output=True, text=True)
        if done.returncode: sys.exit(f'{name}: {done.stderr}')
        stem, vectors = name[:-len('.cu')], {}
        for arch in archs:
            with open(os.path.join(scratch, f'{stem}.ptx' if len(archs) == 1 else f'{stem}.compute_{target(arch)}.ptx')) as f:
                for kernel, body in re.findall(r'\.entry (\w+)\((.*?)^\}', f.read(), re.M | re.S):
                    vectors[kernel, arch] = tuple(len(re.findall(rf'\b{way}\.global(?:\.nc)?\.(?:v4\.\w32|v2\.\w64)\b', body)) for way in ('ld', 'st'))
    for part in re.split(r"Compiling entry function ", done.stderr)[1:]:
        kernel, arch = re.match(r"'(\w+)' for 'sm_(\d+)a?'", part).groups()
        own = part[part.index(f'Function properties for {kernel}'):]
        stack, stores, loads = map(int, re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', own).groups())
        used = re.search(r'Used (\d+) registers[^\n]*', own)
        shared = re.search(r'(\d+) bytes smem', used.group(0))
        rows[kernel, arch] = (int(used.group(1)), stores + loads, int(shared.group(1)) if shared else 0, stack, *vectors[kernel, arch])
    return rows


def is_asked(row): return row[1] in archs and (not options.files or row in found)
def by_number(row): return row[0], int(row[1])


found = {}
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for rows in pool.map(compile_file, options.files.split(',') if options.files else sorted(n for n in os.listdir(folder) if n.endswith('.cu'))): found.update(rows)
with open(os.path.join(folder, 'kernels.def')) as f:
    listed = {('reed_' + name, arch) for name in re.findall(r'^CUDA_KERNEL\((\w+),', f.read(), re.M) for arch in archs if not options.files or ('reed_' + name, arch) in found}
names = lambda rows: [f'{kernel} for {arch}' for kernel, arch in sorted(rows, key=by_number)]
faults = [f'{n} is in kernels.def, but not compiled' for n in names(listed - set(found))] + [f'{n} is compiled, but not in kernels.def' for n in names(set(found) - listed)]
if options.write:
    kept = {row: numbers for row, numbers in read_table().items() if not is_asked(row)} | found
    with open(table, 'w') as f: f.write(HEAD + ''.join('\t'.join(map(str, (*row, *kept[row]))) + '\n' for row in sorted(kept, key=by_number)))
known = {row: numbers for row, numbers in read_table().items() if is_asked(row)}
faults += [f'ptxas.tsv lacks {n}' for n in names(set(found) - set(known))] + [f'{n} of ptxas.tsv is not compiled' for n in names(set(known) - set(found))]
faults += [f'{n[0]} for {n[1]}: {", ".join(COLUMNS)} are {found[n]}, not {known[n]}' for n in sorted(set(found) & set(known), key=by_number) if found[n] != known[n]]
print('\n'.join(faults) if faults else f'{len(found)} kernels and capabilities as ptxas.tsv says, {sum(v[1] > 0 for v in found.values())} of them spill')
sys.exit(bool(faults))
