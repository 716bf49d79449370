#!/bin/sh
# The command as scripts use it: forms, exit statuses, JSON keys, the errors about wrong words, and that no file is ever half-written.
# Arguments: the vm, the source root, the maker of models.
vm=$(realpath "$1") root=$(realpath "$2") maker=$(realpath "$3")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  sed 's/^/    /' out
}

# expect STATUS TEXT WORDS...: runs vm WORDS, which must end with STATUS and print TEXT (on either stream; '' is anything)
expect() {
  want=$1 text=$2
  shift 2
  "$vm" "$@" >out 2>&1 </dev/null
  got=$?
  [ $got -eq "$want" ] || fail "vm $* ended with $got, not $want"
  case $(cat out) in
    *"$text"*) ;;
    *) fail "vm $* does not say '$text'" ;;
  esac
}

# has FILE KEY...: every key is in the JSON
has() {
  file=$1
  shift
  for key; do
    grep -q "\"$key\"" "$file" || { : >out; fail "$file has no \"$key\""; }
  done
}

cp "$root/tests/tools/add.rasm" . || exit 1
x='x=2x3xf32=1,2,3,4,5,6'
b='bias=3xf32=10,20,30'

# 0: done
expect 0 'vm compile' help
for command in compile run test bench plan profile info ops verify dis asm help; do expect 0 "vm $command" help $command; done
expect 0 '--device' run --help
expect 0 'vm 0' --version
expect 0 'assembled' asm add.rasm -o add.reed
expect 0 'verified' verify add.reed
expect 0 'y f32[2,3]' run add.reed -i "$x" -i "$b"
expect 0 '[11 22 33]' run add.reed -i "$x" -i "$b"
expect 0 'as expected' run add.reed -i "$x" -i "$b" --expect y=2x3xf32=11,22,33,14,25,36
expect 0 'wrote y to y.npy' run add.reed -i "$x" -i "$b" -o y.npy --stats stats.json --trace trace.json
expect 0 'as expected' run add.reed --input="$x" --input="$b" --expect y=y.npy --rtol 0 --atol y=0
expect 0 'as expected' run add.reed -i "$x" -i "$b" --expect @y.npy --device sim
has stats.json wall_us epochs copies memory memo hits misses evictions entries bytes host live_bytes reserved_bytes peak_bytes arena_bytes \
  arena_bytes_without_reuse arena_lower_bound
has trace.json traceEvents
expect 0 'x f32[n,3]' info add.reed --json info.json
expect 0 'Resize' ops --json ops.json
# the valid words and numbers of attributes: with a default, required, optional
expect 0 'approximate=none{none,tanh}' ops
expect 0 'direction{LEFT,RIGHT}!' ops
expect 0 'blocksize{1..2147483647}!' ops
expect 0 'group=1{1..} ' ops
expect 0 'strides=1,...{1..2147483647}' ops
has ops.json operators name inputs reads outputs
expect 0 'load to first result' bench add.reed -i "$x" -i "$b" --runs 4 --warmup 1 --json bench.json
expect 0 '(median of 3 processes)' bench add.reed -i "$x" -i "$b" --runs 1 --warmup 0 --fresh 3
has bench.json runs median_us min_us p90_us load_us first_us load_first_us load_first_ratio processes kernels page_faults first_page_faults peak_resident_bytes
expect 0 'us/run' profile add.reed -i "$x" -i "$b" --json profile.json
has profile.json operators nodes dropped_events
expect 0 'epochs run' plan add.reed -s x=4x3 -s bias=3 --json plan.json
has plan.json epochs
expect 0 '' dis add.reed -o again.rasm
expect 0 '' asm again.rasm -o again.reed
cmp add.reed again.reed || fail 'dis and asm do not round-trip'
expect 0 '.function' dis add.reed
"$vm" run add.reed -i "$x" -i "$b" -o - >piped.npy 2>out
cmp -s piped.npy y.npy || fail 'output to standard output'

# 1: differences, with both sides
expect 1 '1 of 6 elements differ' run add.reed -i "$x" -i "$b" --expect y=2x3xf32=11,22,33,14,25,37
expect 1 'at [1,2]  got 36  want 37' run add.reed -i "$x" -i "$b" --expect y=2x3xf32=11,22,33,14,25,37
expect 1 'got f32[2,3], want f32[3,2]' run add.reed -i "$x" -i "$b" --expect y=3x2xf32=1

# a model with a picture in and detections out
shapes=$root/examples/shapes
expect 0 'compiled' compile "$shapes/shapes.onnx" -o shapes.reed --report report.json
has report.json passes name
expect 0 'drew 6 detections into d.png, 192x192' run shapes.reed -i "@$shapes/scene1_192x192.png" --draw d.png --labels "$shapes/labels.txt" --stats s.json --device sim
expect 0 'as expected' run shapes.reed -i "image=@$shapes/scene1_image.npy" --expect labels="$shapes/scene1_labels.npy" --device sim
expect 0 'drew 0 detections' run shapes.reed -i "@$shapes/empty_224x256.png" --draw d.png -o boxes=b.npy
has s.json shape_functions kernels enter_us shape_us plan_us run_us direction bytes reason operator node input
expect 0 'reads back' plan shapes.reed -s image=3x64x64 --json plan.json
has plan.json id shape_functions kernels readbacks reason operator node input bytes arena without_reuse lower_bound variants
[ "${REED_CPU:-}" = reference ] || has plan.json variant
[ "${REED_CPU:-}" = reference ] || expect 0 "Conv: winograd" plan shapes.reed -s image=3x256x320
expect 0 'arena on host' plan shapes.reed -s image=3x64x64 --device sim
expect 0 'arena on sim' plan shapes.reed -s image=3x64x64 --device sim
expect 4 "input 'image'" run shapes.reed -i 4x64x64xf32=0

# 2: misuse, with the likely meant word
expect 2 "did you mean 'bench'?" bnech
expect 2 'no command' 'frobnicate'
expect 2 'vm compile'
expect 2 "did you mean '--expect'?" run add.reed --expct y=y.npy
expect 2 "did you mean 'bias'?" run add.reed -i "$x" -i bais=3xf32=1
expect 2 "has no input 'elsewhere'. It has" run add.reed -i "$x" -i elsewhere=3xf32=1
expect 2 'a file is written @add.reed' run add.reed -i x=add.reed
expect 2 "the model has no output 'z'" run add.reed -i "$x" -i "$b" -o z=z.npy
expect 2 "input 'bias' f32[3] is missing" run add.reed -i "$x"
expect 2 'is given twice' run add.reed -i "$x" -i "$x" -i "$b"
expect 2 'does not say which input' run add.reed -i 2x3xf32=1
expect 2 'is no f32' run add.reed -i "$x" -i bias=3xf32=1,2,x
expect 2 '3 elements expected' run add.reed -i "$x" -i bias=3xf32=1,2
expect 2 'M is missing: vm run M' run
expect 2 "one word too many ('more.reed'): vm run M" run add.reed more.reed
expect 2 "did you mean 'sim'?" run add.reed --device simm
expect 2 'host, sim or cuda-emulated, not' run add.reed --device simm
expect 2 "did you mean 'sim'?" run add.reed --device sim,simm
expect 2 'needs a value' run add.reed --device
[ -e /dev/nvidiactl ] || expect 4 "device 'cuda'" run add.reed -i "$x" -i "$b" --device cuda
[ -e /dev/nvidiactl ] || expect 4 "device 'cuda'" run add.reed -i "$x" -i "$b" --device sim:1,cuda:1
expect 0 'memory that the host cannot touch, work that runs later  ready' info --devices
grep -q '^cuda-emulated .*  ready$' out || fail 'the emulated GPU is not ready'
[ -e /dev/nvidiactl ] || grep -q "^cuda  .*device 'cuda'" out || fail 'info --devices gives no reason'
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
expect 0 'host: ' info --devices --json devices.json
[ -z "$processor" ] || grep -qF "host: cpu $processor, level " out || fail 'info --devices does not name the processor'
REED_CPU=base "$vm" info --devices >out
grep -q '^host: .*level base, threads [1-9][0-9]*, memory_bytes [0-9.]* [GT]iB$' out || fail 'info --devices does not describe the host'
for card in 0 1; do
  grep -q "^cuda-emulated:$card: card emulated card, card_bytes .*, capability 9.0, multiprocessors 132, shared_bytes 227 KiB, tensor_cores f16 bf16 tf32=1$" out || fail "no emulated card of number $card"
done
grep -q '^cuda-emulated: .*driver CUDA 13.0' out || fail 'no version of the driver'
has devices.json devices name summary ready reason cpu level threads memory_bytes driver cards number card card_bytes capability multiprocessors shared_bytes tensor_cores
[ -e /dev/nvidiactl ] || { grep -q '^cuda: missing .*: [a-z]' out && has devices.json missing what command; } || fail 'info --devices does not say what is missing'
# a benchmark leaves outputs on the device unless it is told to fetch them
expect 0 "" bench "$shapes/shapes.onnx" -i "image=@$shapes/scene1_image.npy" --device sim --runs 1 --warmup 1 --stats bench.json
! grep -q '"direction":"device-to-host","bytes":[0-9]*,"reason":"output"' bench.json || fail 'vm bench copies outputs to the host'
expect 0 "" bench "$shapes/shapes.onnx" -i "image=@$shapes/scene1_image.npy" --device sim --runs 1 --warmup 1 --stats bench.json --fetch-outputs
grep -q '"direction":"device-to-host","bytes":[0-9]*,"reason":"output"' bench.json || fail 'vm bench --fetch-outputs leaves outputs on the device'
if [ -e "$(dirname "$vm")/../libreed-cuda.so" ]; then
  "$vm" info --devices >out
  grep -q '^cuda: [0-9]* kernels, [0-9]* of them proven on a card; [0-9]* operators emulated only (vm ops --device cuda)$' out || fail 'info --devices does not count the kernels'
  ! grep -qx 'cuda' out || fail 'info --devices has empty lines'
  # a library of that name without functions, and a file that is no library
  : >nothing.c
  mkdir cudnn && cc -shared nothing.c -o cudnn/libcudnn.so.9 && LD_LIBRARY_PATH=$PWD/cudnn "$vm" info --devices >out
  grep -q '^cuda: library cuDNN, file libcudnn.so.9, found no, reason cuDNN has no function cudnn[A-Za-z]*, ' out || fail 'a cuDNN without functions is not reported'
  # a driver that lacks functions
  if [ ! -e /dev/nvidiactl ]; then
    cp cudnn/libcudnn.so.9 cudnn/libcuda.so.1
    LD_LIBRARY_PATH=$PWD/cudnn "$vm" info --devices >out
    grep -q "^cuda .*the NVIDIA driver has no function cuInit, which CUDA 1[0-9] has: it is too old" out && grep -q '^cuda: missing an NVIDIA driver for CUDA 1[0-9] or newer.*: apt-get install cuda-drivers$' out ||
      fail 'a driver without functions is not reported'
    # a driver whose every function says that there is no card (error 100)
    printf '#define DRIVER(name, symbol, parameters) int symbol(void) { return 100; }\n#include "device/cuda/driver/driver.def"\n' >none.c
    cc -shared -I "$root" none.c -o cudnn/libcuda.so.1
    for visible in '' 7; do
      LD_LIBRARY_PATH=$PWD/cudnn CUDA_VISIBLE_DEVICES=$visible expect 4 "device 'cuda': no NVIDIA GPU is left by the environment: CUDA_VISIBLE_DEVICES is '$visible'" run add.reed -i "$x" -i "$b" --device cuda
    done
    (unset CUDA_VISIBLE_DEVICES && LD_LIBRARY_PATH=$PWD/cudnn "$vm" info --devices >out)
    grep -q "^cuda .*device 'cuda': this machine has no NVIDIA GPU that its driver knows" out || fail 'a machine without a card is not reported'
    echo no library >cudnn/libcuda.so.1
    LD_LIBRARY_PATH=$PWD/cudnn "$vm" info --devices >out
    grep -q "^cuda .*the NVIDIA driver cannot be loaded: .*libcuda.so.1" out || fail 'a broken driver is not reported'
  fi
  echo no library >cudnn/libcudnn.so.9
  LD_LIBRARY_PATH=$PWD/cudnn "$vm" info --devices >out
  ldconfig -p 2>/dev/null | grep -q 'libcudnn.so.9 ' || grep -q '^cuda: library cuDNN, file libcudnn.so.9, found no, .*command pip install nvidia-cudnn-cu1' out || fail 'cuDNN is found'
fi
expect 2 'shows no module' info add.reed --devices
expect 2 'M is missing: vm info M' info
expect 0 'operators have kernels on cuda' ops --device cuda
expect 0 'on the host: the importer turns it into Resize' ops --device cuda
expect 0 'operators have kernels on sim' ops --device sim
expect 4 "there is no device module at './libreed-none.so'" run add.reed -i "$x" -i "$b" --device ./libreed-none.so
expect 2 "no option 'colour'" run add.reed -i "$x" -i "$b" --device 'sim?colour=1'
expect 0 '' run add.reed -i "$x" -i "$b" --device sim:2
expect 0 'here: host (default), sim' help run
expect 2 "no option 'colour'; known: fail_allocation" compile "$root/examples/shapes/shapes.onnx" -o x.reed --target 'sim?colour=1'
expect 2 "option 'late' takes a number from 0 to 1" compile "$root/examples/shapes/shapes.onnx" -o x.reed --target 'host,sim?late=2'
expect 2 "'64' is no number of a device, from 0 to 63" compile "$root/examples/shapes/shapes.onnx" -o x.reed --target sim:64
[ ! -e x.reed ] || fail 'a refused target leaves a module'
expect 2 "options are missing behind the '?'" run add.reed -i "$x" -i "$b" --device 'sim?'
expect 2 "an option is missing behind the last '&'" run add.reed -i "$x" -i "$b" --device 'sim?seed=1&'
expect 2 "not 'sim?late=1'" ops --device 'sim?late=1'
expect 2 "not 'sim:1'" ops --device sim:1
expect 2 "from 0 to 1024, not '1025'" run add.reed -i "$x" -i "$b" --threads 1025
expect 2 "from 0 to 1024, not '4k'" run add.reed -i "$x" -i "$b" --threads 4k
expect 2 "from 0 to 1024, not ''" run add.reed -i "$x" -i "$b" --threads ''
expect 2 "from 1 to 100, not '101'" run add.reed -i "$x" -i "$b" --draw-scale 101
expect 2 "with k, M or G behind it, not '1kk'" run add.reed -i "$x" -i "$b" --memory-cap 1kk
expect 2 "with k, M or G behind it, not '-1'" run add.reed -i "$x" -i "$b" --memory-cap -1
expect 2 "with k, M or G behind it, not '9999999999G'" run add.reed -i "$x" -i "$b" --memory-cap 9999999999G
expect 2 'takes a number from 0 up' run add.reed -i "$x" -i "$b" --rtol inf
expect 2 "'z' is not compared" run add.reed -i "$x" -i "$b" --expect y=2x3xf32=1 --rtol 0.1 --rtol z=1
expect 2 "'y' is not compared" run add.reed -i "$x" -i "$b" --atol y=1
expect 2 'takes a number from 0 up' run add.reed -i "$x" -i "$b" --min-score 1e999
expect 2 'takes a whole number' bench add.reed --runs many
expect 2 'takes a whole number from 1 to 1000000000' bench add.reed --runs 1000000001
expect 2 'takes a number from 0 up' run add.reed -i "$x" -i "$b" --rtol -1
expect 2 'expected extents' plan add.reed -s x=4y3 -s bias=3
expect 2 "did you mean 'fusion'?" compile "$root/examples/shapes/shapes.onnx" -o x.reed --disable fusoin
expect 2 'Give -o' compile "$root/examples/shapes/shapes.onnx"
# declared ranges of dims
expect 2 "no input of the model has a dim named 'widht'; the names are" compile "$root/examples/shapes/shapes.onnx" -o x.reed --dim widht=4
expect 0 'compiled' compile "$root/examples/shapes/shapes.onnx" -o ranges.reed --dim height=200.. --dim width=..40
expect 2 'such as -i image=3x200x40xf32=rand:1' bench ranges.reed
expect 2 "'x..4' is no range of extents for dim 'width'" compile "$root/examples/shapes/shapes.onnx" -o x.reed --dim width=x..4
expect 2 "'9..4' is no range" compile "$root/examples/shapes/shapes.onnx" -o x.reed --dim width=9..4
expect 2 "'' is no range" compile "$root/examples/shapes/shapes.onnx" -o x.reed --dim width=
expect 2 '--dim takes NAME=RANGE' compile "$root/examples/shapes/shapes.onnx" -o x.reed --dim width
[ ! -e x.reed ] || fail 'a refused --dim left a module'
expect 2 'no input is a picture' run add.reed -i "$x" -i "$b" --draw d.png
expect 2 "did you mean 'profile'?" help profle
expect 2 "one word too many ('run')" help bench run

# 3: bad files
expect 3 'No such file' run nothing.reed
expect 3 'No such file' compile nothing.onnx -o x.reed
expect 3 'cannot open' run add.reed -i x=@nothing.npy -i "$b"
head -c 100 add.reed >cut.reed
expect 3 'cut.reed' run cut.reed
expect 3 'cut.reed' verify cut.reed
cp "$root/README.md" model
expect 3 'only files whose names end with .onnx or .pb are opened as ONNX models' run model
echo 'not a model' >bad.onnx
expect 3 'bad.onnx' compile bad.onnx -o x.reed
expect 3 'bad.onnx' run bad.onnx
printf '\223NUMPY\1\0' >bad.npy
expect 3 'bad.npy' run add.reed -i x=@bad.npy -i "$b"
echo '.function main ( -> ()' >bad.rasm
expect 3 'line 1' asm bad.rasm -o x.reed
expect 3 'cannot write' run add.reed -i "$x" -i "$b" -o y=no/such/folder/y.npy
expect 3 'cannot read folder' test nowhere
mkdir empty
expect 3 'no model.onnx' test empty
[ ! -e x.reed ] || fail 'a failed command wrote its output'

# 4: failed runs
expect 4 'the run failed' run add.reed -i x=2x4xf32=1 -i "$b"
expect 4 "'bias'" run add.reed -i "$x" -i bias=4xf32=1
expect 4 '' run add.reed -i x=100000x3xf32=1 -i "$b" --memory-cap 1k

# Files are replaced in one step or not at all.
echo old >kept.npy
expect 4 '' run add.reed -i x=2x4xf32=1 -i "$b" -o kept.npy
[ "$(cat kept.npy)" = old ] || fail 'a failed run touched its output file'
expect 0 '' run add.reed -i "$x" -i "$b" -o kept.npy
cmp -s kept.npy y.npy || fail 'the output file was not replaced'
expect 0 '' run add.reed -i "$x" -i "$b" -o /dev/null
[ -c /dev/null ] || fail '/dev/null was replaced by a file'
[ ! -e /dev/full ] || expect 3 'cannot write' run add.reed -i "$x" -i "$b" -o /dev/full
ls ./*.tmp* >out 2>/dev/null && fail 'temporary files were left'

# Help is true: every flag in it is parsed, and its list of passes is the table's passes that may be left out.
for command in compile run test bench plan profile info ops verify dis asm; do
  "$vm" help $command | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+' >shown
  for flag in $(cat shown); do
    "$vm" $command "$flag" >out 2>&1 </dev/null
    grep -q 'no flag' out && fail "vm help $command shows $flag, which vm $command does not take"
  done
done
"$vm" help compile | sed '1,/^PASS is one of/d' >out
sed -n 's/^PASS([a-z_]*, [A-Z]*, false, "\(.*\)")/\1/p' "$root/compiler/passes/passes.def" | while read -r summary; do
  grep -qF "$summary" out || echo "$summary"
done >missing
[ ! -s missing ] || { cat missing >>out; fail 'help compile lacks passes'; }
passes=$(awk '{ print $1 }' out)
[ "$(echo "$passes" | wc -l)" -eq "$(grep -c '^PASS(.*, false, ' "$root/compiler/passes/passes.def")" ] || fail 'help compile lists other passes than passes.def'
expect 2 "no pass 'infer' can be left out" compile "$root/examples/shapes/shapes.onnx" -o x.reed --disable infer

"$vm" help compile >out
grep -q 'f32 (default), bf16, f16' out || fail 'help lacks the precisions'
"$vm" help run >out
[ -e /dev/nvidiactl ] || ! grep -q 'here:.* cuda[ ,;)]' out || fail 'help offers a device that is refused'
"$maker" . || fail 'no models'

# A plan without a card: a count that comes from a kernel, both arenas, the described cards.
for card in $(sed -n 's/^CARD(\([A-Za-z0-9]*\),.*/\1/p' "$root/device/cuda/fake/cards.def"); do
  expect 0 'arena on cuda-emulated: ' plan counted.onnx -s x=4x8 --device "cuda-emulated?card=$card"
  grep -q 'arena on host: ' out || fail 'the plan lacks the arena of the host'
  grep -q 'reads back .* of ' out || fail 'the plan lacks the count'
  "$vm" help plan >out
  grep -q "[=( ]$card\b" out || fail "the help of plan does not name $card"
done
expect 2 "no description of a card 'B300'; known: H100, A100, L4, A10, T4" plan counted.onnx -s x=4x8 --device 'cuda-emulated?card=B300'
expect 4 "out of memory on device 'cuda-emulated': " plan counted.onnx -s x=4096x8 --device 'cuda-emulated?card=T4&memory=4096'
grep -q "the session's tensors have .* live, .* reserved, cap none; device 'cuda-emulated': no memory for .* of the card's 4096, " out || fail "whose memory is full is not told"
grep -q "of the card's 4096, .*; on 'cuda-emulated' the session's tensors hold [0-9]* bytes, its outputs [0-9]*, the program's constants [0-9]*$" out || fail "the holders of a full card are not told"
expect 0 'arena on cuda-emulated: ' plan counted.onnx -s x=4x8 --card T4
expect 0 "for an output of the model (8 bytes)" plan counted.onnx -s x=4x8 --card T4 --counts device
expect 0 "all counts are fetched (compiled with --counts host)" plan counted.onnx -s x=4x8 --card T4 --counts host
# without --counts they stay on a device that keeps them, unless the module runs on the host, too
expect 0 "for an output of the model (8 bytes)" plan counted.onnx -s x=4x8 --card T4
expect 0 "for an output of the model (8 bytes)" plan counted.onnx -s x=4x8 --device sim
expect 0 "all counts are fetched, because the host is among the targets" plan counted.onnx -s x=4x8 --device host,sim
expect 2 "--counts is for ONNX models, 'add.reed' is compiled already" plan add.reed -s x=2xf32 --counts device
# a run that fails leaves its spans
expect 4 'was told to fail' run counted.onnx -i x=4x8xf32=rand:1 --device 'cuda-emulated?fail_work=3' --trace failed.json
has failed.json traceEvents displayTimeUnit
expect 2 "vm plan: --device with --card: device 'cuda-emulated': there is no description of a card 'B300'; known: H100, A100, L4, A10, T4" plan counted.onnx -s x=4x8 --device 'host,cuda?tf32=1' --card B300
expect 2 "vm plan: --card: device 'cuda-emulated': there is no description of a card 'B300'" plan counted.onnx -s x=4x8 --card B300
expect 4 "tf32=1 needs a card of compute capability 8.0" plan counted.onnx -s x=4x8 --device 'cuda?tf32=1' --card T4
expect 2 "--card describes a device 'cuda', and --device names none" plan counted.onnx -s x=4x8 --device sim --card T4
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
  for name in cuda cuda:1 'cuda?tf32=1' 'cuda:1?tf32=1'; do
    expect 0 'arena on cuda-emulated' plan counted.onnx -s x=4x8 --device "$name"
    grep -q 'planned for an H100 from its data sheet' out || fail "$name: no word of the card that was described"
  done
  expect 4 "has 2 GPUs, numbered from 0" plan counted.onnx -s x=4x8 --device cuda:2
  expect 4 "device 'cuda'" run counted.onnx -i x=4x8xf32=1 --device cuda
fi
# a malformed name of a device: one sentence, about what was written, from every command and for both kinds of files
for device in 'sim?seed=1x' 'sim?seed' 'sim?colour=1' 'sim:1x' 'cuda-emulated?values=2x' 'cuda-emulated?late' 'cuda-emulated?colour=1' \
  'cuda-emulated?card=B300' 'cuda-emulated?cudnn=3' 'cuda-emulated:' 'cuda-emulated:1x' 'host?x=1'; do
  option=${device#*[?:]}
  for call in 'run counted.onnx -i x=4x8xf32=1' "run add.reed -i $x -i $b" 'plan counted.onnx -s x=4x8' 'plan add.reed -s x=2x3' \
    "profile add.reed --runs 1 -i $x -i $b" 'bench counted.onnx --runs 1 -i x=4x8xf32=1'; do
    expect 2 "" $call --device "$device"
    [ "$(wc -l <out)" -eq 1 ] && grep -qF -e "'${option%%=*}" -e "'$option'" -e "'${option#*=}'" -e "'$device'" out || fail "$device: not one sentence about it"
  done
done
for pass in $passes; do expect 0 compiled compile beside.onnx -o left_out.reed --disable "$pass"; done
expect 2 "--precision takes f32, bf16 or f16, not 'f33'" compile beside.onnx -o x.reed --precision f33
expect 3 "need the pass 'pack'" compile beside.onnx -o x.reed --precision bf16 --disable pack
[ ! -e x.reed ] || fail 'a refused precision wrote a module'
expect 0 "note: no product of the model takes f16 on the targets 'host'" compile beside.onnx -o x.reed --precision f16
rm -f x.reed

# A path that is no regular file is not read, and not waited for.
mkfifo pipe.onnx pipe.reed pipe.npy
expect 3 'it is not a file' run pipe.onnx
expect 3 'it is not a file' compile pipe.onnx -o x.reed
expect 3 'not a regular file' run pipe.reed
expect 3 'is no regular file' verify pipe.reed
expect 3 'is no regular file' asm pipe.reed -o x.reed
expect 3 'is no regular file' asm /dev/zero -o x.reed
ln -s /dev/zero zero.npy
ln -s /dev/zero zero.png
ln -s /dev/zero zero.txt
expect 3 'is no regular file' run add.reed -i x=@zero.npy -i "$b"
expect 3 'is no regular file' run add.reed -i x=@pipe.npy -i "$b"
expect 3 'is no regular file' run add.reed -i "$x" -i "$b" --expect y=@zero.npy
expect 3 'is no regular file' run shapes.reed -i @zero.png
expect 3 'is no regular file' run shapes.reed -i "@$shapes/scene1_192x192.png" --draw d.png --labels zero.txt
expect 2 "needs --draw FILE.png" run shapes.reed -i "@$shapes/scene1_192x192.png" --labels "$shapes/labels.txt"
mkfifo pipe.so
mkdir folder.so
cp add.rasm here.so
expect 3 "write './here.so'" run add.reed -i "$x" -i "$b" --plugin here.so
for file in pipe.so folder.so; do
  expect 3 'not a regular file' run add.reed -i "$x" -i "$b" --plugin ./$file
  expect 4 'not a regular file' run add.reed -i "$x" -i "$b" --device ./$file
done
truncate -s 1P huge.npy 2>/dev/null && expect 3 'more than this machine has memory' run add.reed -i x=@huge.npy -i "$b"
rm -f huge.npy
head -c 1200000000 /dev/zero | "$vm" asm - -o x.reed >out 2>&1
grep -q 'standard input has more than' out || fail 'standard input without end was read'

# A wrong word in a list of operators is the caller's mistake, and the flag is named.
expect 2 "--target: target 'sim?lacks=Covn': there is no operator 'Covn'" compile beside.onnx -o x.reed --target 'sim?lacks=Covn'
expect 2 "--target: there is no target 'sin'" compile beside.onnx -o x.reed --target sin
expect 2 "--target: target 'sim?lacks=If': If is control flow" compile beside.onnx -o x.reed --target 'sim?lacks=If'
expect 2 "--device: target 'sim?lacks=Loop': Loop is control flow" run beside.onnx --device 'sim?lacks=Loop'
expect 2 "--device: target 'sim?lacks=Covn'" run beside.onnx --device 'sim?lacks=Covn'

# A model is not replaced by the module made of it, under any of the model's names; nor are the model's external files.
cp beside.onnx kept.onnx
cp beside.bin kept.bin
ln -s beside.onnx name.onnx
ln beside.onnx other.onnx
ln beside.bin other.bin
for target in beside.onnx name.onnx other.onnx ./beside.onnx beside.bin other.bin; do
  expect 2 'would be replaced by what is made of it' compile beside.onnx -o $target
done
expect 2 'would be replaced by what is made of it' run beside.onnx -o y=beside.bin
expect 2 'would be replaced by what is made of it' asm add.rasm -o add.rasm
expect 0 '' run add.reed -i "$x" -i "$b" -o given.npy
cp given.npy kept.npy
ln -s given.npy given-link.npy
ln given.npy given-other.npy
for target in given.npy ./sub/../given.npy "$PWD/given.npy" given-link.npy given-other.npy; do
  [ -d sub ] || mkdir sub
  expect 2 'would be replaced by what is made of it' run add.reed -i x=@given.npy -i "$b" -o $target
  expect 2 'would be replaced by what is made of it' run add.reed -i x=@given.npy -i "$b" --stats $target
  expect 2 'would be replaced by what is made of it' run add.reed -i "$x" -i "$b" --expect @given.npy -o $target
  expect 2 'would be replaced by what is made of it' bench add.reed -i x=@given-link.npy -i "$b" --runs 1 --json $target
done
rmdir sub
expect 2 'would be replaced by what is made of it' run shapes.reed -i "@$shapes/scene1_192x192.png" --draw "$shapes/scene1_192x192.png"
cp "$shapes/labels.txt" labels.txt
expect 2 'would be replaced by what is made of it' run shapes.reed -i "@$shapes/scene1_192x192.png" --labels labels.txt --draw labels.txt
cmp given.npy kept.npy && cmp labels.txt "$shapes/labels.txt" || fail 'an input was replaced'
expect 2 'would be replaced by what is made of it' dis add.reed -o add.reed
cmp beside.onnx kept.onnx && cmp beside.bin kept.bin || fail 'a source was replaced'
expect 0 'compiled' compile beside.onnx -o beside.reed

# External data lie in the model's folder, links followed.
mkdir sub
cp linked.onnx above.onnx beside.onnx beside.bin sub
cp beside.bin outside.bin
ln -s ../outside.bin sub/link.bin
expect 3 "is not below the model's folder" compile sub/linked.onnx -o x.reed
expect 3 "is not below the model's folder" compile sub/above.onnx -o x.reed
expect 3 '--external-anywhere' run sub/linked.onnx
expect 0 '[-1 -2 -3]' run sub/linked.onnx --external-anywhere
expect 0 'compiled' compile sub/above.onnx -o x.reed --external-anywhere
rm x.reed
mkdir cache
cp linked.onnx cache/1
cp beside.bin cache/2
mkdir snapshot
ln -s ../cache/1 snapshot/linked.onnx
ln -s ../cache/2 snapshot/link.bin
expect 0 '[-1 -2 -3]' run snapshot/linked.onnx

# Names are printed without characters that a terminal would obey; files have the names as they are.
e=$(printf '\033') bell=$(printf '\302\233') turned=$(printf '\342\200\256') del=$(printf '\177')
name=$(printf 'x\033[31m\nvm: all is well\342\200\256')
shown='x\u001b[31m\nvm: all is well\u202e'
quiet() {
  "$vm" "$@" >out 2>&1 </dev/null
  for byte in "$e" "$bell" "$turned" "$del"; do
    grep -qF "$byte" out && fail "vm $1 $2 shows what a terminal obeys"
  done
  grep -q '^vm: all is well' out && fail "vm $1 $2 shows a name as a line of its own"
  grep -qF "$shown" out || [ "$1" != info ] || fail "vm $1 does not show the name"
}
given="$name=2x3xf32=1"
quiet info escapes.onnx
quiet run escapes.onnx
quiet run escapes.onnx -i "$given"
quiet run escapes.onnx -i "$name=2x4xf32=1"
quiet run escapes.onnx -i "$given" -o z=z.npy
quiet run escapes.onnx -i "$given" --expect 2x1xf32=5
quiet run escapes.onnx -i "$given" --expect 2x1xf32=6
quiet plan escapes.onnx -i "$given"
quiet profile escapes.onnx -i "$given" --runs 1
quiet bench escapes.onnx -i "$given" --runs 1
quiet run unsupported.onnx
expect 3 'y\nvm: all is well' run unsupported.onnx
expect 0 '' compile escapes.onnx -o escapes.reed
quiet info escapes.reed
quiet run escapes.reed
expect 0 '' info escapes.reed --json info.json
expect 0 '' dis escapes.reed -o escapes.rasm
expect 0 '' asm escapes.rasm -o again.reed
cmp escapes.reed again.reed || fail 'names with control characters do not go through assembly'
python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' sh -c '"$0" dis escapes.reed 2>errors' "$vm" >shown.rasm </dev/null
grep -qF "$turned" shown.rasm && fail 'vm dis shows what a terminal obeys'
grep -qF '\u202e' shown.rasm || fail 'vm dis does not show the name on a terminal'
expect 0 '' asm shown.rasm -o again.reed
cmp escapes.reed again.reed || fail 'text that a terminal shows does not go through assembly'
cp escapes.onnx "$e[31m.onnx" # names of files too
quiet compile "$e[31m.onnx" -o "$e[31m.reed"
quiet asm escapes.rasm -o "$e[31m.reed"
quiet run "$e[31m.reed" -i "$given" -o "z=$e.npy" --stats "$e.json" --trace "$e.trace"
quiet run "$e[31m.reed" -i "$given" --expect "@$e[31m.npy"
rm -f "$e"*

# A signal ends the command with 130, in a run and outside of one; neither a signal nor a full disk leaves a
# half-written file, and after a signal no result is put in its place.
default_signals='env --default-signal=INT,HUP' int=INT hup=HUP # background jobs ignore SIGINT, and below nohup SIGHUP
$default_signals true 2>/dev/null || default_signals='' int=TERM hup=TERM
catches() { # waits until process $1 catches SIGTERM
  while [ -r "/proc/$1/status" ] && ! grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$1/status"; do sleep 0.01; done
}
ended() { # SIGNAL PAUSE WORDS...: made.* is what the command would write
  signal=$1 pause=$2
  shift 2
  $default_signals "$vm" "$@" >out 2>&1 </dev/null &
  catches $!
  sleep "$pause"
  kill "-$signal" $! || fail "vm $* ended before the signal"
  wait $!
  got=$?
  [ $got -eq 130 ] || fail "vm $* ended with $got after a signal, not 130"
  grep -q 'interrupted' out || fail "vm $* does not say that it was interrupted"
  [ -z "$(find . -name 'made.*')" ] || fail "vm $* left $(find . -name 'made.*')"
}
expect 0 'compiled' compile endless.onnx -o endless.reed
x64=64x64xf32=0.1
ended TERM 1 run endless.onnx -i $x64 -o y=made.npy
ended $int 1 run endless.reed -i $x64 -o y=made.npy --stats made.json --threads 1
ended $int 1 run endless.reed -i $x64 --trace made.json --device sim
ended $hup 1 bench endless.onnx -i $x64 --json made.json
ended TERM 1 bench endless.reed -i $x64 --fresh 3
ended $int 1 profile endless.onnx -i $x64 --json made.json
ended TERM 1 plan endless.reed -i $x64 --json made.json
ended TERM 1 test endless --json made.json
grep -q '0 passed, 0 failed, 0 unsupported of 1 cases' out || fail 'a cancelled case has a result'
ended $int 0 run endless.reed -i $x64 -o y=made.npy
# Standard input that does not end: the command waits in a read, and no run is in flight.
mkfifo silent
exec 9<>silent
ended_reading() {
  "$vm" "$@" >out 2>&1 <silent &
  catches $!
  kill -TERM $!
  wait $!
  got=$?
  [ $got -eq 130 ] || fail "vm $* ended with $got after a signal, not 130"
  [ -z "$(find . -name 'made.*')" ] || fail "vm $* left $(find . -name 'made.*')"
}
ended_reading asm - -o made.reed
exec 9>&-
# A command that ends soon: 130 and no file, or 0 and the whole file, also when the signal comes just after the file.
for signal in TERM $int; do
  for pause in 0 0.01 0.02 0.04 0.08 placed placed placed; do
    $default_signals "$vm" compile "$shapes/shapes.onnx" -o signal.reed >out 2>&1 &
    catches $!
    if [ $pause = placed ]; then until [ -e signal.reed ]; do :; done
    else sleep $pause; fi
    kill -$signal $! 2>/dev/null
    wait $!
    got=$?
    [ $got -eq 0 ] || [ $got -eq 130 ] || fail "a compilation ended with $got after a signal"
    if [ -e signal.reed ]; then
      cmp -s signal.reed shapes.reed || fail 'a signal left a part of a module'
      [ $got -eq 0 ] || fail "a compilation ended with $got after its file was in its place"
    else [ $got -eq 130 ] || fail 'a compilation wrote nothing'; fi
    rm -f signal.reed
  done
done
# Signals without a handler end the command as they end any process, and leave no file either.
for signal in QUIT XCPU USR1 ABRT; do
  for pause in 0 0.02 0.05; do
    (ulimit -c 0; exec ${default_signals:+$default_signals --default-signal=QUIT} "$vm" compile "$shapes/shapes.onnx" -o signal.reed >out 2>&1) &
    catches $!
    sleep $pause
    kill -$signal $! 2>/dev/null
    wait $! 2>/dev/null
    got=$?
    [ $got -eq 0 ] || [ "$(kill -l $got)" = $signal ] || fail "a compilation ended with $got after SIG$signal"
    left=$(ls signal.reed.tmp* 2>/dev/null) && fail "SIG$signal left $left"
    rm -f signal.reed
  done
done
# Two results in one file, under one name or two; a place where nothing can be written: said before the model is run
echo >both.npy
ln -s both.npy both-link.npy
for stats in both.npy ./both.npy both-link.npy "$PWD/both.npy"; do
  expect 2 'is named for two results' run add.reed -i "$x" -i "$b" -o y=both.npy --stats "$stats"
done
rm both.npy
expect 2 'holds another result' run add.reed -i "$x" -i "$b" -o y=both.npy --stats both-link.npy
expect 2 'is named for two results' run add.reed -i "$x" -i "$b" -o y=none.npy -o y=none.npy
expect 2 'is named for two results' run add.reed -i "$x" -i "$b" --trace both.json --stats "$PWD/both.json"
expect 2 'is named for two results' compile "$shapes/shapes.onnx" -o both.reed --report ./both.reed
expect 3 "cannot write 'no-folder/y.npy': No such file or directory" run add.reed -i "$x" -i "$b" -o y=no-folder/y.npy
expect 3 "cannot write 'no-folder/y.json': No such file or directory" bench add.reed -i "$x" -i "$b" --json no-folder/y.json --runs 1000000000
expect 3 "cannot write '.': it is a folder" run add.reed -i "$x" -i "$b" --stats .
expect 0 '' run add.reed -i "$x" -i "$b" --trace /dev/null --stats /dev/null
(ulimit -f 8; "$vm" compile "$shapes/shapes.onnx" -o limit.reed >out 2>&1)
grep -q "cannot write 'limit.reed'" out || fail 'a file that outgrows its limit is not said'
[ ! -e limit.reed ] || fail 'a file that outgrew its limit was left'
[ ! -e /dev/full ] || expect 3 'cannot write' compile "$shapes/shapes.onnx" -o /dev/full
# standard output that was lost line by line leaves nothing to flush at the end (a sanitizer allows no library before its own)
if [ -e /dev/full ] && stdbuf -oL "$vm" help >/dev/null 2>&1; then
  stdbuf -oL "$vm" help run >/dev/full 2>out
  [ $? -eq 3 ] && grep -q 'cannot write to standard output' out || fail 'a full standard output is not said'
fi
ls ./*.tmp* >out 2>/dev/null && fail 'temporary files were left'

# ONNX cases: passed, and the forms of the report
cases=/usr/share/libonnx-testdata/data/node
if [ -d $cases ]; then
  expect 0 '2 passed, 0 failed, 0 unsupported' test $cases/test_add $cases/test_relu --json test.json
  expect 0 '1 passed, 0 failed, 0 unsupported' test $cases/test_add --device sim:1 --runs 3 --graphs off
  has test.json passed failed unsupported cases name result detail
  expect 0 'as expected' run $cases/test_add/model.onnx -i x=3x4x5xf32=1 -i y=3x4x5xf32=2 --expect 3x4x5xf32=3
  expect 4 'launch 1 was told to fail' run $cases/test_add/model.onnx -i x=3x4x5xf32=1 -i y=3x4x5xf32=2 --device 'sim?fail_launch=1'
  expect 4 'copy 1 was told to fail' run $cases/test_add/model.onnx -i x=3x4x5xf32=1 -i y=3x4x5xf32=2 --device 'sim?fail_copy=1'
fi

echo "$failures failures"
[ $failures -eq 0 ]
