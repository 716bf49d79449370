"""Code that stands once: the writer of JSON, the hash table, XXH64, the choice of references and views, the assembly of
a kernel's call, formulas that two kernels share, the version.

Each row is a pattern of source text, the files at home with it, and other files with the reason for theirs. A file with
the pattern and without a row fails; so does a row whose file lacks the pattern.

    check_once.py ROOT"""
import os, re, sys

SOURCES = ('base', 'bytecode', 'ops', 'shapefuncs', 'device', 'allocator', 'loader', 'vm', 'compiler', 'tools', 'bench',
           'examples', 'include')
ROWS = [  # (the one thing, pattern, files at home, {other file: reason}, also in tests)
    ('escapes of JSON strings', r'\\\\u%04x', ['base/json.c'], {
        'bytecode/text/dis.c': 'strings of assembly text',
        'compiler/onnx/problems.c': 'a name in a list of lines, which line breaks must not part',
        'tools/plain.c': 'text for a terminal',
    }, False),
    ('JSON from a format string', r'"[^"\n]*\\"\w+\\":[^"\n]*%', [], {
        'bench/bench_decode.c': 'one line of numbers, of a program against the public headers alone',
        'bench/bench_steps.c': 'one line of numbers, of a program against the public headers alone',
    }, False),
    ('documents made with cJSON, which only reads here', r'\bcJSON_(Create|Add)\w*\(', [], {}, True),
    ('open addressing', r'\b(\w+) = \(?\1 \+ 1\)? (&|%) |\? 0 : \w+ \+ 1\b', ['base/table.c'], {
        'ops/cpu/image/nms_order.c': "the classes of one call, in 32-bit slots of the call's scratch",
    }, False),
    ('primes of XXH64', r'0x9e3779b185ebca87|0xc2b2ae3d27d4eb4f|11400714785074694791', ['base/hash.c'], {}, False),
    ('splitmix64', r'0xbf58476d1ce4e5b9', ['base/random.h'], {}, False),
    ('choice of a reference', r'\breference_prepare_(?!\w+\(const )|->reference\b', ['ops/cpu/table.c', 'ops/cpu/kernels.def'], {}, False),
    ('choice of a view', r'\b(half_prepare_as_f32|widen_prepare|channels_prepare_second|unpack_prepare)\((?!const )',
     ['ops/cpu/table.c'], {}, False),
    ('copy of a call for a view', r'^reed_status call_copy_init\(', ['ops/cpu/views/call_copy.c', 'ops/cpu/views/call_copy.h'], {}, False),
    ("assembly of a kernel's call", r'reed_kernel_call \w+ = \{|\(reed_kernel_call\)\s*\{', ['ops/call.c'], {
        'bench/bench_conv.c': "oneDNN's side of a comparison, which only diagnoses failures by it",
        'bench/layers.c': 'an environment alone, for loops that take no operator',
    }, False),
    ('softcap', r'tanhf?\((x|\S*scores\[\w+\]) / \S*cap\)', ['ops/cpu/sequence/attention_state.c'], {
        'ops/cpu/reference/attention.c': 'the reference, in double',
    }, False),
    ('check of an attribute by its row', r'\bop_attr_is_valid\((?!const )', ['shapefuncs/shapefn.c'], {
        'ops/registry.c': "defaults in a custom operator's rows",
    }, False),
    ('the version', r'\b0\.1\.0\b', ['include/reed/reed.h'], {}, True),
]


def files_of(root, folders):
    for folder in folders:
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith(('.c', '.h', '.def', '.cu', '.cuh', '.cc', '.hpp', '.py', '.sh', '.build')):
                    yield os.path.relpath(os.path.join(at, name), root)


def main():
    root = os.path.realpath(sys.argv[1])
    texts = {f: open(os.path.join(root, f), encoding='utf-8').read() for f in files_of(root, SOURCES + ('tests',))}
    faults = []
    for thing, pattern, home, others, in_tests in ROWS:
        found = {f for f, text in texts.items() if f != 'tests/tools/check_once.py' and
                 (in_tests or not f.startswith('tests/')) and re.search(pattern, text, re.M)}
        faults += [f'{f}: {thing} stands at home in {", ".join(home) or "no file"}' for f in sorted(found - set(home) - set(others))]
        faults += [f'{f}: no {thing}: the row in check_once.py is not true' for f in sorted((set(home) | set(others)) - found)]
    print('\n'.join(faults) or f'{len(ROWS)} things stand once in {len(texts)} files')
    return 1 if faults else 0


sys.exit(main())
