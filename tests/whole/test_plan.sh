#!/usr/bin/env bash
# vm plan without a card: the host's kernels compute the values, and the plan equals that of emulated kernels, also by the module of a build that emulates no
# threads. usage: test_plan.sh VM FOLDER MODULE
set -uo pipefail
vm=$1 folder=$2 unthreaded=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() { echo "$*" >&2; cat "$out"/* >&2; exit 1; }
plan() { timeout "$1" "$vm" plan "$folder/$2.onnx" "${@:4}" --device "cuda-emulated?card=$3" 2>&1; }

for model in "bert -s tokens=1x9xi64 -s mask=1x9xi64" "lstm -s x=2x6x12 -s lengths=2xi64"; do
  read -r name shapes <<<"$model"
  plan 100 "$name" H100 $shapes >"$out/host" || fail "$name: no plan with the host's values"
  plan 300 "$name" "H100&values=0" $shapes >"$out/emulated" || fail "$name: no plan with emulated kernels"
  grep -q 'arena on cuda-emulated' "$out/host" || fail "$name: no arena of the card"
  cmp "$out/host" "$out/emulated" || fail "$name: the plans differ"
done
# a detector, whose counts come from results
plan 100 ssd300 H100 -s image=3x300x300 >"$out/ssd" || fail "ssd300: no plan in time"
# cards whose blocks have the least shared memory of their capability
for card in L4 T4; do
  plan 100 bert "$card" -s tokens=2x40xi64 -s mask=2x40xi64 >"$out/$card" || fail "bert: no plan for $card"
  plan 100 ssd300 "$card" -s image=3x300x300 >"$out/$card" || fail "ssd300: no plan for $card"
done
"$vm" compile "$folder/lstm.onnx" -o "$out/lstm.reed" || fail "lstm: not compiled"
"$vm" run "$out/lstm.reed" -i x=2x6x12xf32=rand:1 -i lengths=2xi64=6 --device 'cuda-emulated?values=2x' >"$out/run" 2>&1
[ $? = 2 ] && grep -q "option 'values' takes a number" "$out/run" || fail "an option that is no number is taken"

# another installation: at first without the module that describes cards, then with one that emulates no threads
mkdir -p "$out/other/tools"
for library in "$(dirname "$vm")"/../libreed*.so*; do
  case $library in *cuda*|*.p) ;; *) cp -a "$library" "$out/other" ;; esac
done
cp "$vm" "$out/other/tools/vm"
other() { LD_LIBRARY_PATH=$out/other timeout 100 "$out/other/tools/vm" "$@"; }
lstm="$folder/lstm.onnx -s x=2x6x12 -s lengths=2xi64"
for device in "--device cuda" "--card A100"; do
  [ -e /dev/nvidiactl ] && [ "$device" = "--device cuda" ] && continue
  other plan $lstm $device >"$out/none" 2>&1
  [ $? = 4 ] && grep -q "a plan by a card's description needs libreed-cuda-emulated.so beside libreed" "$out/none" || fail "no sentence without the module: $device"
done
cp "$unthreaded" "$out/other/libreed-cuda-emulated.so"
plan 100 lstm H100 -s x=2x6x12 -s lengths=2xi64 >"$out/host"
other plan $lstm --card H100 >"$out/unthreaded" 2>&1 || fail "no plan without emulated threads"
cmp "$out/host" "$out/unthreaded" || fail "the plan without emulated threads differs"
other run "$out/lstm.reed" -i x=2x6x12xf32=rand:1 -i lengths=2xi64=6 --device cuda-emulated >"$out/run" 2>&1
[ $? = 4 ] && grep -q "device 'cuda-emulated': this build emulates no threads, because it had no C++ compiler; with values=1 the host computes" "$out/run" || fail "threads are emulated without an emulation"
exit 0
