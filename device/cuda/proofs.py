"""Writes the header with the table `cuda_proofs`: for each kernel the hash of its PTX, and the card, driver and date of the run that has proven this very PTX on a card.

usage: proofs.py OUT.h VERIFIED.tsv FILE.ptx...

VERIFIED.tsv (tests/cuda/verified.tsv, written by scripts/gpu_check.sh) has the columns kernel, hash, card, driver, date, and one row for a kernel; another form is an error. A row counts if its hash
is the kernel's; a row of a kernel that is no longer there does not matter. A kernel's hash
covers its own code and everything in its file that belongs to no kernel (functions, tables); comments, the lines that name the PTX version and the architecture, and the folder of the source do not count: nvcc
writes a checksum of the source's path into the names of what a file has for itself (_INTERNAL_33918857_7_topk_cu_)."""
import hashlib, re, sys


def kernels_of(text):
    """{kernel: hash} of a PTX file."""
    lines = [line.split('//')[0].strip() for line in re.sub(r'_INTERNAL_[0-9a-f]{8}_', '_INTERNAL_', text).splitlines()]
    lines = [line for line in lines if line and not re.match(r'\.(version|target|address_size)\b', line)]
    shared, own, name = [], {}, None
    for line in lines:
        begins = re.match(r'(?:\.visible |\.weak )?\.entry (\w+)\(', line)
        if begins: name = begins.group(1)
        (own.setdefault(name, []) if name else shared).append(line)
        if line == '}' and name: name = None
    return {kernel: hashlib.sha256('\n'.join(shared + body).encode()).hexdigest()[:16] for kernel, body in own.items()}


def rows_of(path):
    """{kernel: (hash, card, driver, date)}; ends the program with a sentence if the file is missing or a row is wrong."""
    rows = {}
    try:
        with open(path) as f: lines = f.read().splitlines()
    except OSError as e: sys.exit(f'{path}: {e.strerror}; scripts/gpu_check.sh writes it, and without proofs it has its two lines of comments alone')
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith('#'): continue
        row = line.split('\t')
        if len(row) != 5 or not all(cell.strip() for cell in row): sys.exit(f'{path}:{number}: a row has 5 columns, none of them empty, this one: {row}')
        if not re.fullmatch('[0-9a-f]{16}', row[1]): sys.exit(f"{path}:{number}: a kernel's hash has 16 hexadecimal digits, not '{row[1]}'")
        if not re.fullmatch(r'\d{4}-\d\d-\d\d', row[4]): sys.exit(f"{path}:{number}: a date is YYYY-MM-DD, not '{row[4]}'")
        if row[0] in rows: sys.exit(f"{path}:{number}: a second row of the kernel '{row[0]}'")
        rows[row[0]] = row[1:]
    return rows


def main(out, verified, files):
    text = lambda s: '"' + s.replace('\\', '\\\\').replace('"', '\\"') + '"'
    found, rows = {}, rows_of(verified)
    for file in files:
        with open(file) as f: found.update(kernels_of(f.read()))
    with open(out, 'w') as f:
        f.write('const cuda_proof cuda_proofs[] = {\n')
        for kernel in sorted(found):
            row = rows.get(kernel)
            proof = row[1:] if row and row[0] == found[kernel] else None
            f.write('  {' + ', '.join([text(kernel), text(found[kernel])] + ([text(x) for x in proof] if proof else ['0', '0', '0'])) + '},\n')
        f.write('  {0}};\n')


if __name__ == '__main__': main(sys.argv[1], sys.argv[2], sys.argv[3:])
