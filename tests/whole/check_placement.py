"""Compiles the exported models for the target `cuda`, and prints for each how many calls run on the device and on the host. A call on the host whose operator
has no kernel in ops/cuda.def is a fault, unless it only reads extents (Shape, Size, Constant); so is a read-back for anything but an output, because then a call on the host
computes with elements of a tensor on the device. Needs no CUDA.

usage: check_placement.py ROOT VM FOLDER    FOLDER has the models, NAME.onnx"""
import collections, os, re, subprocess, sys, tempfile

root, vm, folder = sys.argv[1:]
MODELS = ['bert', 'faster', 'faster_mobile', 'fcos', 'gru', 'keypoint', 'lstm', 'mask', 'retinanet', 'ssd300', 'ssdlite', 'subpixel', 'subpixel_f16']
SHAPES = {'Shape', 'Size', 'Constant'}

with open(os.path.join(root, 'ops/cuda.def')) as f: known = set(re.findall(r'^CUDA_OPERATOR\((\w+),', f.read(), re.M))
faults = []
for name in MODELS:
    with tempfile.TemporaryDirectory() as scratch:
        module = os.path.join(scratch, 'm.reed')
        subprocess.run([vm, 'compile', os.path.join(folder, name + '.onnx'), '-o', module, '--target', 'cuda'], check=True, stdout=subprocess.DEVNULL)
        text = subprocess.run([vm, 'dis', module], check=True, capture_output=True, text=True).stdout
    calls = re.findall(r'^\s+invoke\S* k\d+, (\w+),.*; \d+ (\w+)', text, re.M)
    if not calls: faults.append(f'{name}: no call was found')
    host = collections.Counter(op for where, op in calls if where == 'host')
    lacks = {op: n for op, n in host.items() if op not in known}
    faults += [f'{name}: {op} has no kernel on the device' for op in sorted(set(lacks) - SHAPES)]
    faults += [f'{name}: {op} {node} reads elements of the device on the host ({why})'
               for why, node, op in re.findall(r'^\s+readback \w+, \w+, (\w+), k\d+, \d+ @ ("[^"]*").*; \d+ (\w+)', text, re.M) if why != 'output']
    print(f'{name}: {len(calls) - sum(host.values())} calls on the device, {sum(host.values())} on the host, of them without a kernel: {lacks or "none"}')
print('\n'.join(faults))
sys.exit(bool(faults))
