"""Writes the findings of gpu_check.sh's stages: the section of results in docs/gpu.md and tests/cuda/verified.tsv.

usage: gpu_results.py OUT INTO BUILD DEVICE ROOT

The section stands between two marks of the page and is made of the stages' parts, OUT/STAGE.md. A kernel is verified if the run was on a real card and without --few, the kernel
was launched in a unit of the stage `parity` that has passed (OUT/parity/UNIT.kernels), and in none that failed or was cut. A unit that was killed without a list verifies nothing. Rows
of kernels that this run does not verify stay as they are."""
import datetime, json, os, subprocess, sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'bench'))
import profiles

out, into, build, device, root = sys.argv[1:]
STAGES = ('build', 'parity', 'sanitizers', 'accuracy', 'speed')
BEGIN, END = '<!-- results: written by scripts/gpu_check.sh -->\n', '<!-- /results -->\n'


def described():
    kind = device.split(':')[0].split('?')[0]
    shown = subprocess.run([os.path.join(build, 'tools/vm'), 'info', '--devices', '--json', '-'], capture_output=True, text=True)
    if shown.returncode: return {}
    return next((d for d in json.loads(shown.stdout)['devices'] if d['name'] == kind), {})


def read(path):
    with open(path) as f: return f.read()


def write(name, text):
    path = os.path.join(into, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + '.part', 'w') as f: f.write(text)
    os.replace(path + '.part', path)
    print(f'written: {path}')


def section(about, today):
    cards = about.get('cards') or [{}]
    lines = [f'{cards[0].get("card", device)}, driver {about.get("driver", "none")}, {today}.\n']
    lines += [read(os.path.join(out, stage + '.md')) for stage in STAGES if os.path.exists(os.path.join(out, stage + '.md'))]
    return '\n'.join(lines)


def launched_in_parity():
    """The kernels that units of the stage `parity` which have passed launched, and no other unit did."""
    part = os.path.join(out, 'parity')
    names = os.listdir(part) if os.path.isdir(part) else []
    lists = [name for name in names if name.endswith('.kernels')]
    launched = lambda passed: {row.kernel for row in profiles.read(*(os.path.join(part, name) for name in lists if (name.replace('.kernels', '.passed') in names) == passed))}
    return launched(True) - launched(False)


def main():
    about, today = described(), datetime.date.today().isoformat()
    own = lambda name: os.path.join(into, name) if os.path.exists(os.path.join(into, name)) else os.path.join(root, name)
    page = read(own('docs/gpu.md'))
    before, rest = page.split(BEGIN)
    write('docs/gpu.md', before + BEGIN + section(about, today) + END + rest.split(END)[1])
    rows = [line for line in read(own('tests/cuda/verified.tsv')).splitlines() if line]
    driver, card = about.get('driver'), (about.get('cards') or [{}])[0].get('card')
    launched = launched_in_parity() if card and not os.environ.get('few') else set()
    new = {k['kernel']: '\t'.join((k['kernel'], k['ptx'], card, driver, today)) for k in about.get('kernels', []) if k['kernel'] in launched}
    rows = [row for row in rows if row.startswith('#') or row.split('\t')[0] not in new] + [new[k] for k in sorted(new)]
    write('tests/cuda/verified.tsv', '\n'.join(rows) + '\n')


main()
