#!/bin/sh
# The examples run and give the expected results. Arguments: vm, embed, custom_op, its plugin, the source root,
# decode, make_models.
set -eu
vm=$(realpath "$1") embed=$(realpath "$2") custom_op=$(realpath "$3") plugin=$(realpath "$4") root=$5
decode=$(realpath "$6") make_models=$(realpath "$7")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# recursion over an ADT; the references were computed by NumPy from the constants in the file
"$vm" asm "$root/examples/tree.rasm" -o tree.reed
words=words=3x2xf32=0.5,-0.2,0.1,0.9,-0.7,0.3
"$vm" run tree.reed -i $words -i structure=5xi64=1,0,1,0,0 --expect root=2xf32=0.5668792,0.19976975
"$vm" run tree.reed -i $words -i structure=5xi64=1,1,0,0,0 --expect root=2xf32=0.5191358,0.18041898
"$vm" run tree.reed -i words=1x2xf32=0.5,-0.2 -i structure=1xi64=0 --expect root=2xf32=0.07020126,0.05389859
"$vm" run tree.reed -i $words -i structure=3xi64=1,0,1 && exit 1 # the tree goes on where the structure ends: no crash
"$embed" tree.reed | tee out
grep -q '^root f32\[2\] first element ' out

"$custom_op" | tee out
[ "$(cat out)" = '1 2 3 1 2 3 1 2 3 ' ]
cat >repeat.rasm <<'TEXT'
.module "repeat"
.type x = f32[?] "x"
.type n = i64[] "n"
.type y = f32[?] "y"
.site repeat = Repeat in "example" (2 -> 1) "again"
.function main (x, n) -> (y)
  shape repeat, host, [r2], [r0:shape, r1:value]
  alloc r2
  invoke repeat, host, [r2], [r0, r1]
  return [r2], []
TEXT
"$vm" asm repeat.rasm -o repeat.reed && exit 1 # without the plugin nobody knows the operator
"$vm" asm repeat.rasm -o repeat.reed --plugin "$plugin"
"$vm" run repeat.reed --plugin "$plugin" -i x=2xf32=1,2 -i n=i64=2 --expect y=4xf32=1,2,1,2
"$vm" ops --plugin "$plugin" | grep '^example.Repeat.*count:value'

# the trained detector, through the embedding example: 64 x 64 pixels of nothing
"$vm" compile "$root/examples/shapes/shapes.onnx" -o shapes.reed
"$embed" shapes.reed | tee out
grep -q '^boxes f32\[' out

# 200 tokens of a decoder whose caches grow in place, equal to onnxruntime's (tests/tools/decode_onnxruntime.py)
mkdir models
"$make_models" models
for model in decoder masked; do
  "$vm" compile models/$model.onnx -o $model.reed
  "$decode" $model.reed 200 3 14 15 9 2 6 | tee out
  sed -n 1p out | cmp - "$root/tests/tools/decoder_tokens.txt"
  grep -q '"in_place": *4,' out
  grep -q '"copied": *0,' out
done
