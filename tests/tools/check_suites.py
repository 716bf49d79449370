"""Every test has its suites, every room its tests, and docs/testing.md lists the suites.

usage: check_suites.py ROOT BUILD [--write]

Checked, over the tests that Meson knows (meson-info/intro-tests.json, as `meson introspect --tests` prints it):
  - a test has a suite, and each of its suites is a folder of sources or a row of suites.tsv;
  - a test whose program lies in BUILD/tests/FOLDER has FOLDER and all folders around it as suites, and FOLDER/ before its name;
  - a folder in tests/ with a meson.build is a folder of sources or a row of suites.tsv;
  - a folder of sources has a test of its own or a row with a reason in untested.tsv, not both;
  - docs/testing.md has the list of suites. --write puts it there."""
import json, os, re, sys

BEGIN, END = '<!-- suites: made by tests/tools/check_suites.py -->', '<!-- /suites -->'
TOP = ['include/reed', 'base', 'bytecode', 'shapefuncs', 'ops', 'device', 'allocator', 'loader', 'vm', 'compiler', 'tools', 'examples', 'bench']
root, build = map(os.path.realpath, sys.argv[1:3])
faults = []


def read(path):
    with open(os.path.join(root, path), encoding='utf-8') as f: return f.read()


def table(name, columns):
    rows = (line.split('\t') for line in read(f'tests/tools/{name}').splitlines() if line and not line.startswith('#'))
    return {row[0]: row[columns - 1] for row in rows}


rooms, extra, untested = table('rooms.tsv', 3), table('suites.tsv', 2), table('untested.tsv', 2)
sources = {os.path.relpath(d, root) for top in TOP for d, _, files in os.walk(os.path.join(root, top)) if any(f.endswith(('.c', '.h')) for f in files)}
tests = json.load(open(os.path.join(build, 'meson-info', 'intro-tests.json')))
of = {}  # suite -> names of its tests


def around(folder):
    parts = folder.split('/')
    return ['/'.join(parts[:i + 1]) for i in range(len(parts))]


for test in tests:
    name, suites = test['name'], [s.split(':', 1)[1] if ':' in s else '' for s in test['suite']]
    if not any(suites): faults.append(f'test {name} has no suite')
    for suite in filter(None, suites):
        of.setdefault(suite, []).append(name)
        if suite not in sources and suite not in extra: faults.append(f'test {name}: suite {suite} is no folder of sources and no row of suites.tsv')
    folder = os.path.relpath(os.path.dirname(test['cmd'][0]), os.path.join(build, 'tests'))
    if folder.startswith('..'): continue  # a script, or a program of another folder
    for wanted in around(folder):
        if wanted not in suites: faults.append(f'test {name} of tests/{folder} is not in suite {wanted}')
    if not name.startswith(folder + '/'): faults.append(f'test {name} of tests/{folder} is not named {folder}/...')

for d, _, files in os.walk(os.path.join(root, 'tests')):
    folder = os.path.relpath(d, os.path.join(root, 'tests'))
    if 'meson.build' in files and folder != '.' and folder not in sources and folder not in extra: faults.append(f'tests/{folder} is no folder of sources and no row of suites.tsv')

for folder in sorted(sources):
    own = any(os.path.dirname(name) == folder for name in of.get(folder, []))
    if not own and folder not in untested: faults.append(f'{folder} has no test of its own and no row in untested.tsv')
    if own and folder in untested: faults.append(f'untested.tsv: {folder} has tests: {" ".join(of[folder])}')
for folder in sorted(set(untested) - sources): faults.append(f'untested.tsv: there is no folder {folder}')
for suite in sorted(set(extra) - set(of)): faults.append(f'suites.tsv: no test is in suite {suite}')

about = {suite: extra.get(suite) or rooms.get(suite) for suite in of}
for suite in sorted(s for s in of if not about[s]): faults.append(f'no table says what suite {suite} holds')
listing = '\n'.join([BEGIN, '| suite | tests of |', '|---|---|'] + [f'| `{s}` | {about[s]} |' for s in sorted(of)] + [END])
text = read('docs/testing.md')
head, tail = text.split(BEGIN)[0], text.split(END, 1)[1]
if '--write' in sys.argv: open(os.path.join(root, 'docs/testing.md'), 'w').write(head + listing + tail)
elif head + listing + tail != text: faults.append('docs/testing.md: the list of suites is not that of the tests (check_suites.py --write)')
for suite in re.findall(r'--suite (\S+)', head + tail + read('README.md')):
    if suite.strip('`') not in of: faults.append(f'docs/testing.md or README.md name suite {suite}, which no test is in')

for fault in faults: print(fault)
print(f'{len(tests)} tests in {len(of)} suites, {len(sources) - len(untested)} of {len(sources)} folders with tests of their own')
sys.exit(bool(faults))
