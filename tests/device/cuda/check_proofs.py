"""device/cuda/proofs.py: a row of verified.tsv counts only while the kernel's PTX is the PTX that was proven. usage: check_proofs.py ROOT"""
import os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(sys.argv[1], 'device/cuda'))
import proofs

PTX = '''// Compiler Build 1
.version 9.0
.target sm_80
.address_size 64
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
before = proofs.kernels_of(PTX)
assert sorted(before) == ['reed_a', 'reed_b'] and before['reed_a'] != before['reed_b'], before
assert proofs.kernels_of(PTX.replace('Build 1', 'Build 2').replace('9.0', '9.1').replace('sm_80', 'sm_90')) == before, 'comments, version and architecture count'
after = proofs.kernels_of(PTX.replace('%r1, 7', '%r1, 8'))
assert after['reed_a'] == before['reed_a'] and after['reed_b'] != before['reed_b'], 'a change of one kernel is not a change of that kernel alone'
after = proofs.kernels_of(PTX.replace('%r1, 1', '%r1, 2'))
assert after['reed_a'] != before['reed_a'] and after['reed_b'] != before['reed_b'], 'a function of the file counts for its kernels'
with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)
    with open(at('x.ptx'), 'w') as f: f.write(PTX)
    with open(at('verified.tsv'), 'w') as f: f.write(f'# kernel\nreed_a\t{before["reed_a"]}\tNVIDIA X\tCUDA 13.0\t2026-01-02\nreed_b\t0123456789abcdef\tNVIDIA X\tCUDA 13.0\t2026-01-02\n')
    subprocess.run([sys.executable, os.path.join(sys.argv[1], 'device/cuda/proofs.py'), at('out.c'), at('verified.tsv'), at('x.ptx')], check=True)
    with open(at('out.c')) as f: made = f.read()
assert f'{{"reed_a", "{before["reed_a"]}", "NVIDIA X", "CUDA 13.0", "2026-01-02"}}' in made, made
assert f'{{"reed_b", "{before["reed_b"]}", 0, 0, 0}}' in made, made
