#!/bin/sh
# Every public header compiles alone, as C11 and as C++. Arguments: the source root, the C compiler (more than one word behind ccache).
root=$1
shift
for header in "$root"/include/reed/*.h; do
  name=reed/$(basename "$header")
  echo "#include <$name>" | "$@" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -x c -fsyntax-only - || { echo "$name is no C11 of its own"; status=1; }
  if command -v c++ >/dev/null; then
    echo "#include <$name>" | c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -x c++ -fsyntax-only - || { echo "$name is no C++ of its own"; status=1; }
  fi
done
exit "${status:-0}"
