"""Writes the header with the table `cuda_proofs`: for each kernel the hash of its PTX, and the card, driver and date of the run that has proven this very PTX on a card.

usage: proofs.py OUT.h VERIFIED.tsv FILE.ptx...

VERIFIED.tsv (tests/cuda/verified.tsv, written by scripts/gpu_check.sh) has the columns kernel, hash, card, driver, date. A row counts if its hash is the kernel's. A kernel's hash
covers its own code and everything in its file that belongs to no kernel (functions, tables); comments and the lines that name the PTX version and the architecture do not count."""
import hashlib, re, sys


def kernels_of(text):
    """{kernel: hash} of a PTX file."""
    lines = [line.split('//')[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not re.match(r'\.(version|target|address_size)\b', line)]
    shared, own, name = [], {}, None
    for line in lines:
        begins = re.match(r'(?:\.visible |\.weak )?\.entry (\w+)\(', line)
        if begins: name = begins.group(1)
        (own.setdefault(name, []) if name else shared).append(line)
        if line == '}' and name: name = None
    return {kernel: hashlib.sha256('\n'.join(shared + body).encode()).hexdigest()[:16] for kernel, body in own.items()}


def rows_of(path):
    with open(path) as f: rows = [line.rstrip('\n').split('\t') for line in f if line.strip() and not line.startswith('#')]
    wrong = [row for row in rows if len(row) != 5]
    if wrong: sys.exit(f'{path}: a row has 5 columns, this one {len(wrong[0])}: {wrong[0]}')
    return {(row[0], row[1]): row[2:] for row in rows}


def main(out, verified, files):
    text = lambda s: '"' + s.replace('\\', '\\\\').replace('"', '\\"') + '"'
    found, rows = {}, rows_of(verified)
    for file in files:
        with open(file) as f: found.update(kernels_of(f.read()))
    with open(out, 'w') as f:
        f.write('const cuda_proof cuda_proofs[] = {\n')
        for kernel in sorted(found):
            proof = rows.get((kernel, found[kernel]))
            f.write('  {' + ', '.join([text(kernel), text(found[kernel])] + ([text(x) for x in proof] if proof else ['0', '0', '0'])) + '},\n')
        f.write('  {0}};\n')


if __name__ == '__main__': main(sys.argv[1], sys.argv[2], sys.argv[3:])
