"""README.md and docs/*.md name only things that exist.

usage: check_docs.py ROOT VM

Checked:
  - links lead to files of the tree, and to headings in them;
  - a path in backquotes (a folder of the tree before its first slash, or the name of a file) exists; words in capitals and * stand for anything, {a,b} for both;
  - a file of docs/ is reached by links from README.md, and each page says after its title what the reader will know;
  - `vm NAME --flag`, in backquotes or on an indented line: the command is there and takes the flag; a flag alone in backquotes is one of some command or script;
  - a word in backquotes that has the form of one of Reed's functions, types or constants is in the sources;
  - architecture.md's list of rewrites has every pass of compiler/passes/rewrite/ and no other name than a pass's;
  - figures.md lists the members of the JSON documents that the files in WRITERS and `vm bench` write, and no others;
  - README.md's `vm plan` prints the lines that README.md shows, at a CPU level that every machine has and with a given number of threads; CK_RUN_CASE names cases of its
    program;
  - headings are noun phrases, and no sentence tells of former states: no "formerly", "no longer", "used to be"."""
import glob, os, re, subprocess, sys, tempfile

WRITERS = ['vm/report/figures.c', 'device/describe.c', 'device/cuda/describe.c', 'device/cuda/driver/libraries.c']
root, vm = map(os.path.realpath, sys.argv[1:3])
os.chdir(root)
faults = []
pages = ['README.md', *sorted(glob.glob('docs/*.md'))]
text = {page: open(page, encoding='utf-8').read() for page in pages}
sources = sorted(f for pattern in ('*/**/*.[ch]', '*/**/*.def', '*/**/*.py', '*/**/*.sh', '*/**/*.rasm', '*/**/meson.build') for f in glob.glob(pattern, recursive=True)
                 if not f.startswith('build'))
words = set(re.findall(r'\w+', '\n'.join(open(f, encoding='utf-8', errors='replace').read() for f in sources)))
folders = {entry for entry in os.listdir('.') if os.path.isdir(entry) and not entry.startswith(('.', 'build', 'out'))}
names = {os.path.basename(f) for f in sources}
scripts = '\n'.join(open(f, encoding='utf-8').read() for f in sources if f.endswith(('.py', '.sh')))
history = re.compile(r'\b(formerly|no longer|used to be|in the past|previously|from now on)\b', re.I)


def prose(page):
    """The page without its indented and fenced code."""
    return '\n'.join(line for line in text[page].splitlines() if not line.startswith('    ') or line.lstrip().startswith(('-', '*', '|')))


def quoted(page):
    return re.findall(r'`([^`\n]+)`', text[page])


def anchor(heading):
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')


def check_links():
    reached, work = {'README.md'}, ['README.md']
    while work:
        page = work.pop()
        for target in re.findall(r'\]\(([^)\s]+)\)', text[page]):
            if '://' in target: continue
            path, _, part = target.partition('#')
            path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(path): faults.append(f'{page}: there is no {target}')
            elif part and part not in map(anchor, re.findall(r'^#+ (.*)$', open(path, encoding='utf-8').read(), re.M)): faults.append(f'{page}: no heading for {target}')
            if path in text and path not in reached:
                reached.add(path)
                work.append(path)
    for page in set(pages) - reached: faults.append(f'{page}: no page leads here')


def exists(path):
    pattern = re.sub(r'\{([^}]*)\}', '*', path)
    pattern = re.sub(r'\b[A-Z]+\b', '*', pattern)
    return bool(glob.glob(pattern.rstrip('/')))


def check_paths():
    for page in pages:
        for word in quoted(page):
            word = re.split(r'[: ]', word)[0]
            first = word.split('/')[0]
            if '/' in word and first in folders:
                if not exists(word): faults.append(f'{page}: there is no {word}')
            elif re.fullmatch(r'[\w.]+\.(c|h|def|py|sh|rasm)', word) and word not in names and word not in ('embed.c',): faults.append(f'{page}: no file is called {word}')


def flags_of_commands():
    overview = subprocess.run([vm, 'help'], capture_output=True, text=True, check=True).stdout
    table = {}
    for command in re.findall(r'^  vm (\w+)', overview, re.M):
        shown = subprocess.run([vm, 'help', command], capture_output=True, text=True, check=True).stdout
        table[command] = set(re.findall(r'(?<![\w-])--?[a-z][a-z-]*', shown)) | {'--help', '-h'}
    return table


def check_commands():
    table = flags_of_commands()
    known = set().union(*table.values())
    for page in pages:
        lines = [line for line in text[page].splitlines() if line.startswith('    ')] + quoted(page)
        command = None
        for line in lines:
            found = re.match(r'(?:\s*\$\s*)?\s*(?:build/tools/)?vm ((?:\w+, vm )*\w+)\b(.*)', line)
            if not found and not (line.startswith('     ') and command):
                command = None
                continue
            if found:
                command = found[1].split(', vm ')[0]
                for each in found[1].split(', vm '):
                    if each not in table: faults.append(f'{page}: there is no command vm {each}')
            for flag in re.findall(r'(?<![\w-])--?[a-z][a-z-]*', (found[2] if found else line).split('  ')[0] if found else line.strip().split('  ')[0]):
                if command in table and flag not in table[command]: faults.append(f'{page}: vm {command} takes no {flag}')
        for word in quoted(page):
            flag = re.match(r'(--[a-z][a-z-]*)', word)
            if flag and flag[1] not in known and flag[1] not in scripts: faults.append(f'{page}: no command or script takes {flag[1]}')


def check_names():
    for page in pages:
        for word in quoted(page):
            for name in re.findall(r'\b(?:[a-z][a-z0-9]*_[a-z0-9_]+|REED_[A-Z_]+)\b', word):
                if '/' in word or re.search(r'\.(c|h|md|py|npy|sh)\b', word): continue
                if name not in words and not re.search(r'<\w+>|_$', word) and not generated(name): faults.append(f'{page}: the sources have no {name}')


def generated(name):
    """True for a name that a macro of a table pastes together: its parts are in the sources."""
    head, _, tail = name.partition('_')
    return any(name.startswith(prefix) and name[len(prefix):] in words for prefix in ('cpu_prepare_', 'reference_prepare_', 'shapefn_', 'pass_', 'insn_'))


def check_rewrites():
    page = 'docs/architecture.md'
    table = text[page].split('## Rewrites')[1].split('\n## ')[0]
    listed = set(re.findall(r'^\| `(\w+)` \|', table, re.M))
    passes = set(re.findall(r'^PASS\((\w+),', open('compiler/passes/passes.def').read(), re.M))
    rewrites = {os.path.basename(f)[:-2] for f in glob.glob('compiler/passes/rewrite/*.c')} & passes
    for name in sorted(rewrites - listed): faults.append(f'{page}: the list of rewrites lacks {name}')
    for name in sorted(listed - passes): faults.append(f'{page}: {name} is no pass')


def check_plan():
    said = re.search(r'    \$ REED_CPU=base vm plan out/shapes\.reed (.* --threads \d+)\n((?:    .*\n)+)', text['README.md'])
    if not said: return faults.append('README.md shows no plan of REED_CPU=base with --threads')
    with tempfile.TemporaryDirectory() as folder:
        module = os.path.join(folder, 'shapes.reed')
        subprocess.run([vm, 'compile', 'examples/shapes/shapes.onnx', '-o', module], check=True, stdout=subprocess.DEVNULL)
        shown = subprocess.run([vm, 'plan', module, *said[1].split()], capture_output=True, text=True, check=True, env=os.environ | {'REED_CPU': 'base'}).stdout
    lines = [line[4:] for line in said[2].splitlines() if line.strip() != '...']
    if shown.splitlines()[:len(lines)] != lines: faults.append(f'README.md: vm plan prints\n{shown}')


def check_figures():
    """The members of the JSON documents of figures.md are those that the sources write."""
    page = 'docs/figures.md'
    listed = {word for row in re.findall(r'^\| (`.*?) \|', text[page], re.M) for word in re.findall(r'`(\w+)`', row)}
    bench = open('tools/cmd_bench.c').read()
    written = {word for f in WRITERS for word in re.findall(r'json_\w+\(json, "(\w+)"', open(f).read())} | set(re.findall(r'\{"(\w+)", ', bench[bench.index('members[] ='):]))
    for name in sorted(written - listed): faults.append(f'{page}: no list has the member {name}')
    for name in sorted(listed - written): faults.append(f'{page}: no document has the member {name}')


def check_cases():
    for page in pages:
        for case, program in re.findall(r"CK_RUN_CASE='?([\w ]+?)'? build/(\S+)", text[page]):
            if not os.path.exists(program + '.c') or f'tcase_create("{case}")' not in open(program + '.c').read(): faults.append(f'{page}: {program} has no cases "{case}"')


def check_words():
    for page in pages:
        for found in history.finditer(prose(page)): faults.append(f'{page}: "{found[0]}" tells history')
        for heading in re.findall(r'^#+ (.*)$', text[page], re.M):
            if re.match(r'(what|how|where|why|when|before|after)\b', heading, re.I): faults.append(f'{page}: the heading "{heading}" is no noun phrase')
        if not re.match(r'# .+\n\n\S', text[page]): faults.append(f'{page}: opens without a title and a sentence')


check_links()
check_paths()
check_commands()
check_names()
check_rewrites()
check_plan()
check_figures()
check_cases()
check_words()
for fault in faults: print(fault)
print(f'{len(pages)} pages, {len(faults)} faults')
sys.exit(bool(faults))
