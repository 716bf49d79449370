"""Writes a Check test per function of include/reed/*.h: every pointer argument is NULL once, the others come from
null_fixture.h. Fails, naming the function, for an argument whose type has no fixture there.

    null_arguments.py include/reed > null_arguments.h
"""

import pathlib
import re
import sys

# An argument that these lists lack is required: NULL is ERROR_ARGUMENT where the function returns a status, else a harmless
# value (0, -1, false, NULL, "") or nothing.
MAY_BE_NULL = {
    "*": {"diagnosis", "options", "context"},
    "reed_set_allocator": {"allocator"},
    "reed_tensor_open_borrowed": {"release"},
    "reed_session_bind_output": {"memory"},
    "reed_session_shapes": {"shapes", "values"},
    "reed_operators_json": {"registry"},
    "reed_module_assemble": {"registry"},
    "reed_compile_file": {"out_report_json"},
    "reed_compile_bytes": {"out_report_json"},
    "reed_onnx_read_tensor": {"out_name"},
}
# These functions return the failure that the caller describes, even if another argument is NULL.
TELL_A_FAILURE = {"reed_shape_fail", "reed_kernel_fail", "reed_kernel_fault"}


def functions(folder):
    for header in sorted(folder.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", " ", text, flags=re.M)
        for declaration in re.findall(r"\bREED_API\b([^;]*);", text):
            declaration = re.sub(r"REED_MUST_CHECK|REED_PRINTF\s*\([^)]*\)", " ", declaration)
            declaration = re.sub(r"\s+", " ", declaration).strip()
            match = re.match(r"(.*?)(\w+) ?\((.*)\)$", declaration)
            if not match:
                sys.exit(f"{header.name}: cannot read the declaration '{declaration}'")
            yield match.group(1).strip(), match.group(2), arguments(match.group(3))


def arguments(text):
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    result = []
    for part in map(str.strip, parts):
        if part in ("", "void", "..."):
            continue
        function = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", part)
        if function:
            result.append((f"{function.group(1).strip()} (*){function.group(3)}", function.group(2)))
            continue
        name = re.search(r"(\w+)$", part).group(1)
        result.append((part[: -len(name)].strip(), name))
    return result


def is_pointer(kind):
    return "*" in kind or kind.endswith("_fn")


def fixture(function, kind, name):
    """The macro of null_fixture.h for an argument: FIXTURE_<type>, pointers as P."""
    return "FIXTURE_" + re.sub(r"\W+", "_", kind.replace("*", " P ")).strip("_")


def main():
    folder = pathlib.Path(sys.argv[1])
    print('/* Made by null_arguments.py. */\n#include "tests/include/reed/null_fixture.h"\n')
    known = set(re.findall(r"#define (FIXTURE_\w+)", (pathlib.Path(__file__).parent / "null_fixture.h").read_text()))
    tests, missing = [], []
    for result, function, wanted in functions(folder):
        values = [fixture(function, kind, name) for kind, name in wanted]
        for value, (kind, name) in zip(values, wanted):
            if value not in known:
                missing.append(f"{function}: argument '{name}' of type '{kind}' needs {value} in null_fixture.h")
        pointers = [i for i, (kind, _) in enumerate(wanted) if is_pointer(kind)]
        for i in pointers or [None]:
            plain = function.startswith("reed_dim_")  # functions on numbers that may be called without a shape call
            may = i is None or plain or wanted[i][1] in MAY_BE_NULL["*"] | MAY_BE_NULL.get(function, set())
            given = ", ".join("NULL" if k == i else value for k, value in enumerate(values))
            name = f"{function}_without_{wanted[i][1]}" if i is not None else f"{function}_returns"
            check = "MAY" if may else "FAILS" if function in TELL_A_FAILURE else "REFUSES"
            what = "STATUS" if result == "reed_status" else "NOTHING" if result == "void" else "TEXT" if result == "const char *" \
                else "POINTER" if "*" in result else "NUMBER"
            print(f"START_TEST({name}) {{ {check}_{what}({function}({given})); }}\nEND_TEST\n")
            tests.append(name)
    if missing:
        sys.exit("\n".join(missing))
    print("int main(void) {\n  TCase *cases = tcase_create(\"NULL arguments\");")
    print("  tcase_add_checked_fixture(cases, open_fixtures, close_fixtures);")
    for name in tests:
        print(f"  tcase_add_test(cases, {name});")
    print("  return run_fixtures(cases);\n}")


main()
