#!/bin/sh
# Results on standard output ('-'): one at most, and nothing else beside it. Arguments: the vm, the source root.
vm=$(realpath "$1") root=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  sed 's/^/    /' out err
}

# two FLAG FLAG WORDS...: the command refuses both results before it runs
two() {
  first=$1 second=$2
  shift 2
  "$vm" "$@" >out 2>err </dev/null
  got=$?
  [ $got -eq 2 ] && [ ! -s out ] || fail "vm $* ended with $got, not 2"
  grep -qF "standard output ('-') is named for two results, by $first and by $second: give one of them a file" err || fail "vm $* does not name $first and $second"
}

# alone KEY WORDS...: the command prints JSON with the key and no other line
alone() {
  key=$1
  shift
  "$vm" "$@" >out 2>err </dev/null || fail "vm $* ended with $?"
  python3 -c 'import json, sys; sys.exit(sys.argv[1] not in json.load(open("out")))' "$key" || fail "vm $* prints more than JSON with \"$key\""
}

"$vm" asm "$root/tests/tools/add.rasm" -o add.reed >out 2>err || fail 'the model is not assembled'
x='x=2x3xf32=1,2,3,4,5,6' b='bias=3xf32=10,20,30'

two --trace --stats run add.reed -i "$x" -i "$b" --stats - --trace -
two --draw --trace run add.reed -i "$x" -i "$b" --trace - --draw -
two --stats y=- run add.reed -i "$x" -i "$b" -o y=- --stats -
two y=- y=- run add.reed -i "$x" -i "$b" -o y=- -o y=-
two -o --report compile "$root/examples/shapes/shapes.onnx" -o - --report -
two --json --stats bench add.reed -i "$x" -i "$b" --stats - --json -
two --trace --json profile add.reed -i "$x" -i "$b" --json - --trace -

alone traceEvents run add.reed -i "$x" -i "$b" --trace -
alone traceEvents run add.reed -i "$x" -i "$b" --trace - --stats stats.json --expect y=2x3xf32=11,22,33,14,25,36 -o y=y.npy
grep -q '^y: as expected' err || fail 'a comparison beside a trace on standard output is not on standard error'
alone memo run add.reed -i "$x" -i "$b" --stats - --trace trace.json
alone memo bench add.reed -i "$x" -i "$b" --stats - --runs 1
alone traceEvents profile add.reed -i "$x" -i "$b" --trace - --runs 1
alone operators profile add.reed -i "$x" -i "$b" --json - --trace trace.json --runs 1
"$vm" run add.reed -i "$x" -i "$b" -o y=- --stats stats.json >out 2>err
cmp -s out y.npy || fail 'an output on standard output has other bytes than in a file'

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
