"""Checks the rooms of docs/architecture.md: their order, and the rules for files.

usage: check_rooms.py ROOT BUILD [--write | --arrows]

tests/tools/rooms.tsv lists rooms and sub-rooms from the ground up: name, the rooms that it may use, contents. A file belongs to the row with the
longest name that is a folder of it. Checked, over all source files and their objects in BUILD:
  - an arrow from one room to another (an include, or a symbol that an object needs and another defines) is allowed by the table, and the table's own
    arrows run down only;
  - an outside library's header is included behind its door only;
  - units (a source file with its header) in circles: at most MOST_SHARE of all, none larger than MOST_CIRCLE;
  - a file, also one in tests/, has at most MOST_LINES lines;
  - a file of code, a script or a build file in any folder opens with a comment that says what lives here, and a script that names its interpreter is executable;
  - git tracks nothing else at the top level than the rooms, TOP_FILES and the folders of OUTSIDE;
  - docs/architecture.md has the table. --write puts it there; --arrows prints the arrows as they are."""
import collections, json, os, re, subprocess, sys

MOST_SHARE, MOST_CIRCLE, MOST_LINES = 0.12, 5, 600
# outside header -> a regular expression of the files that may include it
DOORS = {'uv.h': r'^(vm|device|examples)/', 'cjson/cJSON.h': r'^tools/', 'dnnl.h': r'^bench/', 'oneapi/dnnl/dnnl.h': r'^bench/',
         'onnx.pb-c.h': r'^compiler/onnx/', 'png.h': r'^tools/', 'jpeglib.h': r'^tools/', 'check.h': r'^tests/'}
TOP = ['include', 'base', 'bytecode', 'shapefuncs', 'ops', 'device', 'allocator', 'loader', 'vm', 'compiler', 'tools', 'examples', 'bench']
OUTSIDE = ['.ci', 'docs', 'scripts', 'tests']
TOP_FILES = ['.clang-format', '.gitignore', 'README.md', 'meson.build', 'meson_options.txt']
BEGIN, END = '<!-- rooms: made from tests/tools/rooms.tsv -->', '<!-- /rooms -->'

root, build = map(os.path.realpath, sys.argv[1:3])
faults = []


def read(path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f: return f.read()


def rows():
    table = {}
    for line in read('tests/tools/rooms.tsv').splitlines():
        if line and not line.startswith('#'):
            name, uses, about = line.split('\t')
            table[name] = (uses.split(), about)
    return table


rooms = rows()
order = list(rooms)


def room_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in rooms: folder = os.path.dirname(folder)
    return folder


def covers(names, room):
    return any(room == n or room.startswith(n + '/') for n in names)


def check_table():
    for i, name in enumerate(order):
        for used in rooms[name][0]:
            if used != name and used not in order[:i]: faults.append(f'rooms.tsv: {name} may use {used}, which does not stand below it')


files = sorted(os.path.relpath(os.path.join(d, f), root) for top in TOP for d, _, fs in os.walk(os.path.join(root, top)) for f in fs if f.endswith(('.c', '.h', '.def')))
known = set(files)


def includes(path):
    for quote, header in re.findall(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', read(path), re.M):
        yield header, next((t for t in (os.path.normpath(os.path.join(os.path.dirname(path), header)), header, 'include/' + header) if quote == '"' and t in known), None)


def unit(path):
    return path[:-2] if path.endswith('.c') or path[:-2] + '.c' in known else path


edges = collections.defaultdict(dict)  # unit -> unit -> why


def add(a, b, why):
    if a != b: edges[a].setdefault(b, why)


def read_includes():
    for path in files:
        for header, target in includes(path):
            if header in DOORS and not re.match(DOORS[header], path): faults.append(f'{path}: only {DOORS[header]} may include {header}')
            if target: add(unit(path), unit(target), f'includes {target}')


def read_objects():
    defined, needed = {}, collections.defaultdict(set)
    objects = {}
    for command in json.load(open(os.path.join(build, 'compile_commands.json'))):
        path = os.path.relpath(os.path.realpath(os.path.join(command['directory'], command['file'])), root)
        if path in known: objects.setdefault(os.path.join(command['directory'], command['output']), path)
    present = [o for o in objects if os.path.exists(o)]
    if not present: return faults.append('no objects in the build folder')
    for at in range(0, len(present), 100):
        listing = subprocess.run(['nm', '-A', '-P', *present[at:at + 100]], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            name, rest = line.split(': ', 1)
            words = rest.split()
            if words[1] == 'U': needed[objects[name]].add(words[0])
            elif words[1] in 'TDBRVWC' and not objects[name].startswith(('tools/main', 'examples/', 'bench/')): defined.setdefault(words[0], objects[name])
    for path, symbols in needed.items():
        for symbol in symbols:
            public = symbol.startswith('reed_') and path.startswith(('compiler/', 'tools/', 'examples/', 'bench/'))  # through libreed
            if symbol in defined and not public: add(unit(path), unit(defined[symbol]), f'needs {symbol}')


def circles():
    """Strongly connected components of more than one unit (Tarjan, 1972)."""
    index, low, stack, inside, found = {}, {}, [], set(), []
    def visit(start):
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index); stack.append(start); inside.add(start)
        while work:
            v, rest = work[-1]
            for w in rest:
                if w not in index:
                    index[w] = low[w] = len(index); stack.append(w); inside.add(w); work.append((w, iter(edges[w])))
                    break
                if w in inside: low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work: low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    members = []
                    while not members or members[-1] != v: members.append(stack.pop()); inside.discard(members[-1])
                    if len(members) > 1: found.append(sorted(members))
    for u in sorted(set(map(unit, files))):
        if u not in index: visit(u)
    return sorted(found, key=len, reverse=True)


def check_arrows():
    seen = collections.defaultdict(dict)
    for a in sorted(edges):
        for b, why in sorted(edges[a].items()):
            x, y = room_of(a + '.c' if a + '.c' in known else a), room_of(b + '.c' if b + '.c' in known else b)
            if not x or not y: faults.append(f'{a} or {b} lies in no room')
            elif x != y:
                seen[x].setdefault(y, f'{a} {why}')
                generator = os.path.basename(a).startswith('gen_')  # generators of the docs expand the tables
                if not generator and not covers(rooms[x][0], y): faults.append(f'{a}: {x} may not use {y}: it {why}')
    return seen


def check_circles():
    found = circles()
    n = len(set(map(unit, files)))
    share = sum(map(len, found)) / n
    for c in found:
        if len(c) > MOST_CIRCLE: faults.append(f'{len(c)} units in a circle: {" ".join(c)}')
    if share > MOST_SHARE: faults.append(f'{share:.1%} of the units are in circles')
    return f'{len(order)} rooms, {n} units, {share:.1%} of them in {len(found)} circles, the largest of {len(found[0]) if found else 0}'


def check_files():
    outside = ['meson.build'] + [os.path.relpath(os.path.join(d, f), root) for top in TOP + ['tests', 'scripts'] for d, _, fs in os.walk(os.path.join(root, top)) for f in fs
                                 if f.endswith(('.c', '.h', '.def', '.cu', '.py', '.sh')) or f == 'meson.build']
    for path in sorted(known.union(outside)):
        text = read(path)
        code = path in known or path.startswith('tests/') and path.endswith(('.c', '.h', '.py', '.sh'))
        if code and text.count('\n') > MOST_LINES: faults.append(f'{path}: {text.count(chr(10))} lines, more than {MOST_LINES}')
        if text.startswith('#!') and not os.access(os.path.join(root, path), os.X_OK): faults.append(f'{path}: names its interpreter and is not executable')
        head = text.split('\n', 1)[-1] if text.startswith('#!') else text
        if not head.startswith(('/*', '"""', '# ')): faults.append(f'{path}: opens without a comment that says what lives here')


def check_top():
    listing = subprocess.run(['git', '-C', root, 'ls-files'], capture_output=True, text=True)
    tracked = {name.split('/')[0] for name in listing.stdout.splitlines()}  # none where the tree is no clone
    for name in sorted(tracked.difference(TOP, OUTSIDE, TOP_FILES)): faults.append(f'{name}: stands at the top level, which is for the rooms')


def check_document(write):
    names = lambda words: ', '.join(f'`{w}/`' for w in words) or 'nothing'
    table = '\n'.join([BEGIN, '| room | what lives there | may use |', '|---|---|---|'] + [f'| `{n}/` | {rooms[n][1]} | {names(rooms[n][0])} |' for n in order] + [END])
    text = read('docs/architecture.md')
    if BEGIN not in text: return faults.append('docs/architecture.md has no place for the table of rooms')
    head, tail = text.split(BEGIN)[0], text.split(END, 1)[1]
    if write: open(os.path.join(root, 'docs/architecture.md'), 'w').write(head + table + tail)
    elif head + table + tail != text: faults.append('docs/architecture.md: the table of rooms is not that of rooms.tsv (check_rooms.py --write)')


check_table()
read_includes()
read_objects()
arrows = check_arrows()
summary = check_circles()
check_files()
check_top()
check_document('--write' in sys.argv)
if '--arrows' in sys.argv:
    for x in order: print(x, '->', ' '.join(y for y in order if y in arrows[x]))
for fault in faults: print(fault)
print(summary)
sys.exit(bool(faults))
