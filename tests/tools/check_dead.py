"""Dead code, from the objects of a full build: no function or variable of the project has external linkage without need.

A symbol that an object of the project defines must be declared in a public header or referred to by another object.
A symbol that only tests refer to must stand in FOR_TESTS with its reason; entry points that are found by name stand in
BY_NAME. A row that is no longer true fails too.

    check_dead.py ROOT BUILD"""
import collections, json, os, re, subprocess, sys

BY_NAME = {  # symbol: the code that finds it by name
    'main': 'the C library',
    'reed_device_module': 'device/module.c, by its name',
    'reed_fake_cudnn_counts': 'tests/whole/test_cudnn.c, by its name',
    'reed_fake_cublas_runs': 'tests/whole/test_cublas.c, by its name',
    'reed_fake_driver': 'tests/whole/test_streams.c, by its name',
    'reed_fake_floors': 'bench/gpu_floors.py and tests/whole/test_floors.c, by its name',
}
FOR_TESTS = {  # symbol: the reason to keep it for tests alone; the file that defines it may use it, too
    'cpu_level_best': 'kernel cases run at every level',
    'cpu_level_use': 'kernel cases run at every level',
    'cpu_units_name': 'choices are tested for every kind of units',
    'cpu_units_use': 'choices are tested for every kind of units',
    'dims_text': 'messages of tests',
    'ir_print': 'tests compare graphs as text',
    'integer_values_has_rule': 'the test that lists the operators without a rule',
    'nonnegative_has_rule': 'the test that lists the operators without a rule',
    'processors_of_groups': 'tests read control groups from files of their own',
    'symbols_evaluate': 'tests evaluate symbols with numbers for the names',
    'symbols_named': 'tests make symbols without a model',
    'team_assume_processors': 'tests of several callers need machines of more CPUs',
    'value_parse_type': 'the fuzzer asks how large a value would be',
}
IN_ASSERTIONS = {  # symbol: its caller in builds with assertions; without assertions only tests refer to it
    'plan_check': 'every new layout is checked',
}


def symbols(source_of):
    """(source, symbol, whether the object defines it), for all objects at once, because a process an object is slow."""
    listing = subprocess.run(['nm', '-P', '-g', '-A', *source_of], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        object_file, rest = line.split(': ', 1)
        name, kind = rest.split()[:2]
        yield source_of[object_file], name, kind not in 'Uvw'


def public_names(root):
    """The words of the public headers."""
    names = set()
    for folder, _, files in os.walk(os.path.join(root, 'include')):
        for file in files:
            names |= set(re.findall(r'\w+', open(os.path.join(folder, file), encoding='utf-8').read()))
    return names


def main():
    root, build = map(os.path.realpath, sys.argv[1:3])
    definers, users = collections.defaultdict(set), collections.defaultdict(set)
    source_of = {}
    for command in json.load(open(os.path.join(build, 'compile_commands.json'))):
        source = os.path.relpath(os.path.realpath(os.path.join(command['directory'], command['file'])), root)
        object_file = os.path.join(command['directory'], command['output'])
        if os.path.exists(object_file):
            source_of[object_file] = source
    for source, name, defines in symbols(source_of):
        (definers if defines else users)[name].add(source)
    outside = ('tests/', 'examples/', 'bench/', os.path.relpath(build, root), '..')
    public = public_names(root)
    faults = []
    for name, sources in sorted(definers.items()):
        sources = {s for s in sources if not s.startswith(outside) and s.endswith('.c')}
        if not sources or name in public or name.startswith('_') or name in BY_NAME or name in IN_ASSERTIONS:
            continue
        if any(not u.startswith(outside) for u in users[name] - sources):
            if name in FOR_TESTS:
                faults.append(f'{name}: the project itself refers to it; drop its row of FOR_TESTS')
        elif not users[name] - sources:
            faults.append(f'{", ".join(sorted(sources))}: no other object refers to {name}: make it static, or delete it')
        elif name not in FOR_TESTS:
            faults.append(f'{", ".join(sorted(sources))}: only tests refer to {name}: delete it, or give a reason in FOR_TESTS')
    for name in sorted({*BY_NAME, *FOR_TESTS, *IN_ASSERTIONS}):
        if name not in definers:
            faults.append(f'{name}: nothing defines it; drop its row')
    print('\n'.join(faults) if faults else f'{len(definers)} symbols of {len(source_of)} objects')
    return 1 if faults else 0


sys.exit(main())
