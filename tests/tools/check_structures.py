#!/usr/bin/env python3
"""Checks the ctypes structures of tests/random/structures.py against the public headers: the compiler checks every size, every offset and the number of
fields.

    check_structures.py ROOT COMPILER...
"""
import ctypes
import os
import subprocess
import sys

root, compiler = sys.argv[1], sys.argv[2:]
sys.path.insert(0, os.path.join(root, "tests", "random"))
import structures  # noqa: E402

lines, n = [], 0
for made in vars(structures).values():
    if not (isinstance(made, type) and issubclass(made, ctypes.Structure)):
        continue
    n += 1
    lines.append(f"#include <{made.header}>\n#include <stddef.h>")
    lines.append(f'_Static_assert(sizeof({made.name}) == {ctypes.sizeof(made)}, "size of {made.name}");')
    for field, _ in made._fields_:
        at = getattr(made, field)
        lines.append(f'_Static_assert(offsetof({made.name}, {field}) == {at.offset} && sizeof((({made.name} *)0)->{field}) == {at.size}, "{made.name}.{field}");')
    # one value for each field: the compiler refuses more, and with the flag below fewer
    lines.append(f"extern const {made.name} all_of_{n}; const {made.name} all_of_{n} = {{{', '.join('0' for _ in made._fields_)}}};")
text = "\n".join(lines) + "\n"
flags = ["-std=c11", "-Werror", "-Wmissing-field-initializers", f"-I{root}/include", "-x", "c", "-fsyntax-only", "-"]
status = subprocess.run(compiler + flags, input=text, text=True).returncode if n else 1
if status:
    print("tests/random/structures.py does not say what the public headers say")
sys.exit(status)
