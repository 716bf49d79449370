#!/bin/sh
# Every header compiles alone: a public one as C11 and as C++, a header of a room as the project's C (one translation unit that includes it first, the
# files of tests/ too). Arguments: the source root, the build folder, the C compiler (more than one word behind ccache).
root=$1 build=$2
shift 2
for header in "$root"/include/reed/*.h; do
  name=reed/$(basename "$header")
  echo "#include <$name>" | "$@" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -x c -fsyntax-only - || { echo "$name is no C11 of its own"; status=1; }
  if command -v c++ >/dev/null; then
    echo "#include <$name>" | c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -x c++ -fsyntax-only - || { echo "$name is no C++ of its own"; status=1; }
  fi
done

# Headers that are no unit of their own: bodies of loops that another file includes once for each level or type, and the fixtures of generated tests.
parts='_template\.h$|ops/cpu/formulas/formula\.h$|tests/include/reed/null_fixture\.h$'
cd "$root" || exit 2
find base bytecode ops shapefuncs device allocator loader vm compiler tools bench tests -name '*.h' | grep -Ev "$parts" | sort >"$build/headers.list"
check='h=$1; shift; echo "#include \"$h\"" | "$@" -std=gnu11 -D_GNU_SOURCE -Wall -Werror -Wno-unused -DCPU_LEVEL_SUFFIX=_alone -I. -Iinclude -I"$BUILD" -I"$BUILD/compiler" -I"$BUILD/compiler/onnx" -I"$BUILD/tools" -x c -fsyntax-only - || { echo "$h does not compile alone"; exit 1; }'
BUILD=$build xargs -P "$(nproc)" -I {} sh -c "$check" sh {} "$@" <"$build/headers.list" || status=1
exit "${status:-0}"
