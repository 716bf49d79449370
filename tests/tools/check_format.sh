#!/bin/sh
# All C code has the form that .clang-format gives it, 120 columns at most (clang-format 14: other versions break lines elsewhere). Argument: the source root.
cd "$1" || exit 1
format=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format is not installed"; exit 77; }
"$format" --version | grep -q 'version 14\.' || { echo "$("$format" --version): 14 is wanted"; exit 77; }
git ls-files '*.c' '*.h' >/dev/null 2>&1 && files=$(git ls-files '*.c' '*.h') || files=$(find . -name '*.[ch]' -not -path './build*')
# shellcheck disable=SC2086
"$format" --dry-run --Werror $files
