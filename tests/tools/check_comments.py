"""Comments of code name only things that exist, and begin their sentences with nouns: a comment about a file or a function that has gone is found here.
usage: check_comments.py ROOT
Checked, over the comments of C, CUDA and Python files:
  - a file name stands for a file of the tree, a path for a file or folder of it; names in capitals are placeholders;
  - no sentence begins with a bare pronoun ("What", "Where", "That is", "Of which") in the place of its noun, in comments and in docs/;
  - a name with an underscore, such as a function's, occurs in code (also as the plural of a type), or begins a name of the code, or has a row in OUTSIDE."""
import os, re, sys

FOLDERS = ['include', 'base', 'bytecode', 'shapefuncs', 'ops', 'device', 'allocator', 'loader', 'vm', 'compiler', 'tools', 'examples', 'bench', 'scripts', 'tests', 'docs']
# name: its place outside of the tree's code
OUTSIDE = {
    **dict.fromkeys(['cuda.h', 'cublasLt.h', 'cudnn_graph.h', 'CUdevice_attribute', 'CUfunction_attribute', 'CUevent_flags', 'CUstream_flags', 'CUmemPool_attribute', 'CUpointer_attribute',
                     'CUmemAllocationGranularity_flags', 'CUmemAllocationProp_v1', 'CUmemAccessDesc_v1', 'CUmemPoolProps_v1', 'CU_STREAM_LEGACY', 'CU_STREAM_PER_THREAD',
                     'cudaStream_t'], "NVIDIA's headers"),
    **dict.fromkeys(['DNNL_MAX_NDIMS', 'SA_RESTART', 'doc/xxhash_spec.md', 'onnx_test_runner'], 'other projects'),
    **dict.fromkeys(['batched_nms', 'paste_masks_in_image', 'scaled_dot_product_attention'], "PyTorch's functions"),
    **dict.fromkeys(['device/contract.h', 'cuda_images.h', 'cuda_proofs.h', 'null_arguments.h'], 'made by the build'),
    **dict.fromkeys(['i_d', 'p_j', 'p_k', 's_go', 's_i', 's_trip', 'to_d', 'from_d', 'x_at', 'x_center', 'y_center', 'module_add_x', 'f_1_2', 'unk__7', 'fuzz_X',
                     'first_rows', 'formula_TAG', 'insn_emit_view'], 'symbols and examples of a text, names that a macro pastes'),
}
root = sys.argv[1]
C = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/|//[^\n]*)', re.S)
PYTHON = re.compile(r'("""(?:\\.|[^\\])*?"""|#[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
FILE = re.compile(r'(?<![\w./{*<-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cu|def|py|sh|tsv|md|rasm))\b(?![(/])')
FOLDER = re.compile(r'(?<![\w./*<-])((?:' + '|'.join(FOLDERS) + r')(?:/\w+)+)(?![\w.*{])')
PRONOUN = re.compile(r'(?:^|(?<=[.] )|(?<=\n[-|] ))(?:What|Where|That is|Of which) (?!\|)[^.]*')
NAME = re.compile(r'(?<![\w/.%<-])([A-Za-z]\w*_\w*[a-zA-Z0-9])\b(?!\.\w)')

files = ['meson.build'] + [os.path.relpath(os.path.join(d, f), root) for top in FOLDERS for d, _, fs in os.walk(os.path.join(root, top)) for f in fs]
paths = set(files) | {os.path.dirname(f) for f in files}
ends = {p.split('/', n)[-1] for p in paths for n in range(p.count('/') + 1)}
stems = {p.rsplit('.', 1)[0] for p in paths}
code, comments = {part for p in paths for part in re.split(r'[/.]', p)}, []
for path in files:
    if path.startswith('docs/') or path.endswith(('.reed', '.png', '.npy', '.onnx', '.xz')): continue
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f: text = f.read()
    pattern = C if path.endswith(('.c', '.h', '.cu', '.cuh', '.def')) else PYTHON if path.endswith('.py') else None
    if pattern: comments += [(path, text.count('\n', 0, m.start()) + 1, m.group(1)) for m in pattern.finditer(text) if m.group(1)]
    code.update(re.findall(r'\w+', pattern.sub(lambda m: ' ' if m.group(1) else m.group(0), text) if pattern else text))
begun = {name[:i] for name in code for i in range(len(name)) if name[i] == '_'}

faults = [f'{path}:{line}: {name} is not in the tree' for path, line, comment in comments for name in
          [n for n in FILE.findall(comment) if n not in ends and os.path.basename(n).split('.')[0] != os.path.basename(n).split('.')[0].upper() and n not in OUTSIDE] +
          [n for n in FOLDER.findall(comment) if n not in paths and n not in stems and n.upper() != n and not re.search(r'/[A-Z]+\b', n)] +
          [n for n in sorted(set(NAME.findall(comment))) if n not in code and n not in begun and n not in OUTSIDE and not (n.endswith('s') and n[:-1] in code)]]
pages = [(path, 1, open(os.path.join(root, path), encoding='utf-8').read()) for path in files if path.endswith('.md')] + [('README.md', 1, open(os.path.join(root, 'README.md'), encoding='utf-8').read())]
faults += [f'{path}:{line}: "{sentence[:60]}" begins without its noun' for path, line, text in comments + pages for sentence in
           PRONOUN.findall(text if path.endswith('.md') else re.sub(r'\s*\n[\s*#]*', ' ', text).strip('/*#" '))]
for fault in faults: print(fault)
print(f'{len(comments)} comments in {len(files)} files')
sys.exit(bool(faults))
