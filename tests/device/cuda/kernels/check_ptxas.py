"""Compares each CUDA kernel's registers and memory of a multiprocessor with device/cuda/kernels/ptxas.tsv, both ways: a kernel of the table that is not
compiled, a compiled one that the table lacks, and any other number are faults. Needs nvcc, no GPU.

usage: check_ptxas.py ROOT [--nvcc PATH] [--archs 80,90] [--files topk.cu,nms.cu] [--write] [--built FILE...]

Every .cu file is compiled for the given compute capabilities (default: those of the table) with the flags that the module is built with, warnings as errors. The
table: kernel, compute capability, registers, spilled bytes, static shared memory, stack, the instructions of its PTX that load and store 16 bytes of the
card's memory at once, and the hash of that PTX (device/cuda/proofs.py). --files compiles and compares the kernels of these files alone; a kernel that has left them is then not noticed. --write
makes the table's rows anew for the given files and all capabilities of the table, and keeps the others.

--built compares what a build of the module has written beside its fat binaries (device/cuda/compile.py), for the capabilities that it has code for. Nothing is compiled,
and the hash shows whether the rows of the other capabilities were made from this source; rows with '-' for a hash are not compared. Another version of nvcc than the table's gives other numbers: the check is skipped."""
import argparse, os, re, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

parser = argparse.ArgumentParser()
parser.add_argument('root')
parser.add_argument('--nvcc')
parser.add_argument('--archs')
parser.add_argument('--files')
parser.add_argument('--write', action='store_true')
parser.add_argument('--built', nargs='+')
options = parser.parse_args()
nvcc = options.nvcc or shutil.which('nvcc') or ('/usr/local/cuda/bin/nvcc' if os.path.exists('/usr/local/cuda/bin/nvcc') else None)
if not nvcc and not options.built:
    print('nvcc is not installed')
    sys.exit(77)
if options.write and options.archs: sys.exit('--write makes the rows of all compute capabilities, because rows of one source belong together')
folder = os.path.join(options.root, 'device/cuda/kernels')
table = os.path.join(folder, 'ptxas.tsv')
COLUMNS = 'registers', 'spilled bytes', 'static shared bytes', 'stack bytes', '16-byte loads', '16-byte stores', 'PTX'
HEAD = ('# Resources of each kernel for each compute capability, as ptxas -v says; made and compared by tests/device/cuda/kernels/check_ptxas.py.\n# '
        + '\t'.join(('kernel', 'capability') + COLUMNS) + '\n')
VERSION = '# nvcc '


def read_rows(path):
    """The version of nvcc and {(kernel, capability): the columns} of the table or of one file of a build."""
    with open(path) as f: lines = f.read().splitlines()
    version = next((line[len(VERSION):] for line in lines if line.startswith(VERSION)), None)
    rows = [line.split('\t') for line in lines if line.strip() and not line.startswith('#')]
    return version, {(row[0], row[1]): (*map(int, row[2:-1]), row[-1]) for row in rows}


version, in_table = read_rows(table)
archs = options.archs.split(',') if options.archs else sorted({arch for _, arch in in_table}, key=int)


def target(arch):
    """9.0 with the instructions of these cards alone, as the module is built."""
    return arch + 'a' if arch == '90' else arch


def compile_file(name):
    """The version of nvcc and the rows of a file, compiled as a build compiles it."""
    with tempfile.TemporaryDirectory() as scratch:
        code = [f'-gencode=arch=compute_{target(arch)},code=sm_{target(arch)}' for arch in archs]
        made = [os.path.join(scratch, 'x.' + suffix) for suffix in ('fatbin', 'ptx', 'tsv')]
        done = subprocess.run([sys.executable, os.path.join(options.root, 'device/cuda/compile.py'), *made, name[:-len('.cu')], nvcc, '-fatbin', '-std=c++17', '-Werror', 'all-warnings',
                               '-fmad=false', *code, '-I', options.root, '-I', os.path.join(options.root, 'include'), os.path.join(folder, name)], capture_output=True, text=True)
        if done.returncode: sys.exit(f'{name}: {done.stderr}')
        return read_rows(made[2])


def is_asked(row): return row[1] in archs and (not options.files or row in found)
def by_number(row): return row[0], int(row[1])


found, versions = {}, set()
with ThreadPoolExecutor(os.cpu_count()) as pool:
    names = options.files.split(',') if options.files else sorted(n for n in os.listdir(folder) if n.endswith('.cu'))
    for made, rows in map(read_rows, options.built) if options.built else pool.map(compile_file, names):
        versions.add(made)
        found.update(rows)
if options.built:
    if versions != {version}:
        print(f'the build has nvcc {", ".join(sorted(map(str, versions)))}, the table {version}')
        sys.exit(77)
    archs = sorted({arch for _, arch in found}, key=int)
    # (kernels with instructions of one capability alone have code for it in every build)
    whole = [arch for arch in archs if len({kernel for kernel, a in found if a == arch}) == len({kernel for kernel, _ in found})]
else:
    whole = archs
with open(os.path.join(folder, 'kernels.def')) as f:
    kernels = {'reed_' + name for name in re.findall(r'^CUDA_KERNEL\((\w+),', f.read(), re.M)}
listed = {(kernel, arch) for kernel in kernels for arch in archs if (arch in whole and not options.files) or (kernel, arch) in found}
names_of = lambda rows: [f'{kernel} for {arch}' for kernel, arch in sorted(rows, key=by_number)]
faults = [f'{n} is in kernels.def, but not compiled' for n in names_of(listed - set(found))] + [f'{n} is compiled, but not in kernels.def' for n in names_of(set(found) - listed)]
if options.write:
    kept = {row: numbers for row, numbers in in_table.items() if not is_asked(row)} | found
    version = sorted(versions)[0]
    with open(table, 'w') as f: f.write(HEAD + f'{VERSION}{version}\n' + ''.join('\t'.join(map(str, (*row, *kept[row]))) + '\n' for row in sorted(kept, key=by_number)))
known = {row: numbers for row, numbers in (read_rows(table)[1] if options.write else in_table).items() if is_asked(row) and (row[1] in whole or row in found)}
if options.built:  # rows that were made from an unknown state of the source have no hash, and wait for --write
    unknown = {row for row, numbers in known.items() if numbers[-1] == '-'}
    known, found = ({row: numbers for row, numbers in rows.items() if row not in unknown} for rows in (known, found))
faults += [f'ptxas.tsv lacks {n}' for n in names_of(set(found) - set(known))] + [f'{n} of ptxas.tsv is not compiled' for n in names_of(set(known) - set(found))]
faults += [f'{n[0]} for {n[1]}: {", ".join(COLUMNS)} are {found[n]}, not {known[n]}; check_ptxas.py --files FILE.cu --write makes the rows of its file anew' for n in sorted(set(found) & set(known), key=by_number) if found[n] != known[n]]
print('\n'.join(faults) if faults else f'{len(found)} kernels and capabilities as ptxas.tsv says, {sum(v[1] > 0 for v in found.values())} of them spill')
sys.exit(bool(faults))
