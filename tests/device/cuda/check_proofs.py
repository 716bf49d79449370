"""Proofs of kernels on a card, with made-up kernels, runs and cards: device/cuda/proofs.py takes a row of verified.tsv only while the kernel's PTX is the PTX that was proven, and
refuses a file that is no record; scripts/gpu_results.py writes rows of the kernels that a run on a card has launched; `vm ops --device cuda` and `vm info --devices` say which
operators and kernels no card has proven. usage: check_proofs.py ROOT BUILD MODULE (libreed-cuda.so with made_up.ptx and made_up.tsv)"""
import glob, json, os, shutil, subprocess, sys, tempfile

root, build, module = map(os.path.abspath, sys.argv[1:])
sys.path.insert(0, os.path.join(root, 'device/cuda'))
import proofs

PTX = '''// Compiler Build 1
.version 9.0
.target sm_80
.address_size 64
.shared .align 4 .b8 _ZZN34_INTERNAL_88c1ed2c_4_t_cu_4ff2a1c36of_warp[128];
.func helper() { add.s32 %r1, %r1, 1; }
.visible .entry reed_a(
	.param .b64 p
)
{
	ret; // done
}
.visible .entry reed_b(
	.param .b64 p
)
{
	mov.u32 %r1, 7;
	ret;
}
'''
PROOF = 'NVIDIA X\tCUDA 13.0\t2026-01-02'
before = proofs.kernels_of(PTX)


def check_hashes():
    assert sorted(before) == ['reed_a', 'reed_b'] and before['reed_a'] != before['reed_b'], before
    assert proofs.kernels_of(PTX.replace('Build 1', 'Build 2').replace('9.0', '9.1').replace('sm_80', 'sm_90')) == before, 'comments, version and architecture count'
    assert proofs.kernels_of(PTX.replace('88c1ed2c', '0e559f82')) == before, 'the folder of the source counts'
    after = proofs.kernels_of(PTX.replace('%r1, 7', '%r1, 8'))
    assert after['reed_a'] == before['reed_a'] and after['reed_b'] != before['reed_b'], 'a change of one kernel is not a change of that kernel alone'
    after = proofs.kernels_of(PTX.replace('%r1, 1', '%r1, 2'))
    assert after['reed_a'] != before['reed_a'] and after['reed_b'] != before['reed_b'], 'a function of the file counts for its kernels'


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f: f.write(text)
    return path


def read(path):
    with open(path) as f: return f.read()


def header_of(folder, record, ptx=PTX):
    """The header for the text of a record, None: there is no file; or the sentence of its refusal."""
    path = os.path.join(folder, 'none.tsv') if record is None else write(folder, 'verified.tsv', record)
    done = subprocess.run([sys.executable, os.path.join(root, 'device/cuda/proofs.py'), os.path.join(folder, 'out.h'), path, write(folder, 'x.ptx', ptx)], capture_output=True, text=True)
    return read(os.path.join(folder, 'out.h')) if done.returncode == 0 else done.stderr


def row(kernel, hash_): return f'{{"{kernel}", "{hash_}", "NVIDIA X", "CUDA 13.0", "2026-01-02"}}'


def bare(kernel, hash_): return f'{{"{kernel}", "{hash_}", 0, 0, 0}}'


def check_records(folder):
    a = f'reed_a\t{before["reed_a"]}\t{PROOF}\n'
    made = header_of(folder, f'# kernel\n{a}reed_b\t0123456789abcdef\t{PROOF}\nreed_gone\t0123456789abcdef\t{PROOF}\n\n')
    assert row('reed_a', before['reed_a']) in made and bare('reed_b', before['reed_b']) in made and 'gone' not in made, made
    assert 'NVIDIA' not in header_of(folder, '# kernel\n') and 'NVIDIA' not in header_of(folder, '')
    # the PTX of another compute capability whose code differs: the record has no proof of it
    other = PTX.replace('sm_80', 'sm_75').replace('ret; // done', 'mul.f32 %f1, %f1, %f1; ret;')
    made = header_of(folder, a, other)
    assert bare('reed_a', proofs.kernels_of(other)['reed_a']) in made, made
    for record, sentence in ((a + a, 'verified.tsv:2: a second row of the kernel \'reed_a\''),
                             (a + f'reed_a\t0123456789abcdef\t{PROOF}\n', "verified.tsv:2: a second row of the kernel 'reed_a'"),
                             (f'# kernel\nreed_a\t{before["reed_a"]}\tNVIDIA X\n', 'verified.tsv:2: a row has 5 columns'),
                             (f'reed_a {before["reed_a"]} X 13 2026-01-02\n', 'verified.tsv:1: a row has 5 columns'),
                             (a.replace('NVIDIA X', ''), 'verified.tsv:1: a row has 5 columns, none of them empty'),
                             (a.replace(before['reed_a'], 'abc'), 'verified.tsv:1: a kernel\'s hash has 16 hexadecimal digits, not \'abc\''),
                             (a.replace('2026-01-02', 'today'), "verified.tsv:1: a date is YYYY-MM-DD, not 'today'"),
                             (None, 'none.tsv: No such file or directory')):
        said = header_of(folder, record)
        assert sentence in said and 'Traceback' not in said, said


def results_of(folder, units, cards, few=''):
    """The record after a run of gpu_check.sh whose stage `parity` had these units: name, how it ended, kernels that it launched."""
    out, into = os.path.join(folder, 'out'), os.path.join(folder, 'into')
    shutil.rmtree(out, ignore_errors=True)
    write(out, 'parity.md', '### Stage parity\n')
    for name, end, kernels in units:
        write(out, f'parity/{name}.{end}', '')
        write(out, f'parity/{name}.kernels', ''.join(f'{kernel}\t2\t10.5\n' for kernel in kernels))
    about = {'devices': [{'name': 'cuda', 'driver': 'CUDA 13.0', 'cards': cards, 'kernels': [{'kernel': k, 'ptx': before[k]} for k in sorted(before)]}]}
    vm = write(folder, 'build/tools/vm', f"#!/bin/sh\ncat <<'END'\n{json.dumps(about)}\nEND\n")
    os.chmod(vm, 0o755)
    environment = {k: v for k, v in os.environ.items() if k != 'few'}
    subprocess.run([sys.executable, os.path.join(root, 'scripts/gpu_results.py'), out, into, os.path.join(folder, 'build'), 'cuda', root], check=True, capture_output=True,
                   env=dict(environment, **({'few': few} if few else {})))
    assert '### Stage parity' in read(os.path.join(into, 'docs/gpu.md'))
    return read(os.path.join(into, 'tests/cuda/verified.tsv'))


def check_results(folder):
    record, old = os.path.join(folder, 'into/tests/cuda/verified.tsv'), f'# kernel\nreed_a\t0123456789abcdef\t{PROOF}\nreed_old\t0123456789abcdef\t{PROOF}\n'
    passed = [('test_x', 'passed', ['reed_a']), ('test_y', 'passed', [])]
    write(folder, 'into/tests/cuda/verified.tsv', old)
    for end in ('failed', 'missing', 'log'):  # log: a unit that was cut
        both = [('test_x', 'passed', ['reed_a', 'reed_b']), ('test_z', end, ['reed_a', 'reed_b'])]
        assert results_of(folder, both, [{'card': 'NVIDIA Y'}]) == old, f'a kernel of a unit that has passed and one that has not ({end}) is proven'
        assert f'reed_a\t{before["reed_a"]}\tNVIDIA Y' in results_of(folder, passed + [('test_z', end, ['reed_b'])], [{'card': 'NVIDIA Y'}]), 'a unit unproves kernels that it did not launch'
        write(folder, 'into/tests/cuda/verified.tsv', old)
    assert results_of(folder, passed, [{'card': 'NVIDIA Y'}], few='1') == old, 'a part of the cases proves a kernel'
    assert results_of(folder, passed, []) == old, 'a kernel is proven without a card'
    made = results_of(folder, passed, [{'card': 'NVIDIA Y'}])
    assert made.count('reed_a\t') == 1 and f'reed_a\t{before["reed_a"]}\tNVIDIA Y\tCUDA 13.0\t' in made, made
    assert 'reed_b\t' not in made and f'reed_old\t0123456789abcdef\t{PROOF}\n' in made, made
    assert '"NVIDIA Y"' in header_of(folder, read(record)) and bare('reed_b', before['reed_b']) in header_of(folder, read(record))


def shown(vm, *words):
    folder = os.path.dirname(os.path.dirname(vm))  # of its libraries, before those of the build, which may have the real module beside them
    return subprocess.run([vm, *words], capture_output=True, text=True, check=True, env={**os.environ, 'LD_LIBRARY_PATH': folder}).stdout


def check_shown(folder):
    """The tool beside the made-up module."""
    os.makedirs(os.path.join(folder, 'tools'))
    for library in glob.glob(os.path.join(build, 'libreed*.so*')):
        if os.path.isfile(library) and not os.path.basename(library).startswith('libreed-cuda'): shutil.copy2(library, folder)
    shutil.copy2(module, folder)
    vm = shutil.copy2(os.path.join(build, 'tools/vm'), os.path.join(folder, 'tools'))
    places = {}
    for line in shown(vm, 'ops', '--device', 'cuda').splitlines():
        words = line.split(None, 1)
        if len(words) == 2: places[words[0]] = words[1]
    only = {name for name, place in places.items() if 'emulated only' in place and place.startswith('kernel')}
    assert only == {'CumSum', 'Resize'} and places['Softmax'].startswith('kernel') and '2 of them have a kernel that no card has proven (emulated only)' in ' '.join(places.values()), places
    assert 'cuda: 5 kernels, 3 of them proven on a card; 2 operators emulated only (vm ops --device cuda)\n' in shown(vm, 'info', '--devices')
    device = next(d for d in json.loads(shown(vm, 'info', '--devices', '--json', '-'))['devices'] if d['name'] == 'cuda')
    proven = {k['kernel']: (k['proven_on'], k['proven_driver'], k['proven_date']) for k in device['kernels'] if 'proven_on' in k}
    assert proven == dict.fromkeys(('reed_resize_tables', 'reed_softmax', 'reed_softmax_parts'), ('NVIDIA X', 'CUDA 13.0', '2026-01-02')), proven
    assert sorted(device['emulated_only']) == ['CumSum', 'Resize'], device


check_hashes()
for check in (check_records, check_results, check_shown):
    with tempfile.TemporaryDirectory() as scratch: check(scratch)
