#!/usr/bin/env bash
# scripts/gpu_check.sh without a card: its stages run on the emulated device, a stage that was cut goes on, results are written where they belong; a missing card is
# reported in one sentence. usage: test_gpu_check.sh ROOT BUILD
set -uo pipefail
root=$1 build=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() { echo "$*" >&2; cat "$out"/log* >&2; exit 1; }
check() { "$root/scripts/gpu_check.sh" --build "$build" --out "$out/check" --into "$out/tree" --few "$@"; }

check --device cuda-emulated --minutes 0 build >"$out/log1" 2>&1
[ $? = 75 ] || fail "a stage without time is not cut"
[ -e "$out/check/build/opens.passed" ] && fail "a unit ran without time"
check --device cuda-emulated build parity >"$out/log2" 2>&1 || fail "the stages build and parity fail"
check --device cuda-emulated --minutes 0 build parity >"$out/log3" 2>&1 || fail "units that have passed run again"
check --device cuda-emulated >"$out/log4" 2>&1 || fail "a stage fails"
for unit in build/device parity/test_softmax sanitizers/racecheck-test_softmax accuracy/small-subpixel speed/subpixel-graphs-on speed/subpixel-graphs-off; do
  [ -e "$out/check/$unit.passed" ] || fail "$unit has not passed"
done
for stage in build parity sanitizers accuracy speed; do
  grep -q "^### Stage $stage$" "$out/tree/docs/gpu.md" || fail "docs/gpu.md lacks the stage $stage"
done
grep -q 'subpixel-graphs-on: median' "$out/tree/docs/gpu.md" || fail "docs/gpu.md lacks a latency"
grep -v '^#' "$out/tree/tests/cuda/verified.tsv" && fail "an emulated device has verified a kernel"
# a failed unit is reported, and runs again once its cause is gone
rm "$out/check/parity/test_softmax.passed"
check --device 'cuda-emulated?fail_work=9' parity >"$out/log5" 2>&1 && fail "a failing unit passes"
[ -e "$out/check/parity/test_softmax.failed" ] || fail "a failing unit is not told"
check --device cuda-emulated parity >"$out/log6" 2>&1 || fail "a unit that had failed is not run again"
# a run that is killed in the middle of a stage leaves no unit that counts as passed, and goes on
rm "$out"/check/sanitizers/*
setsid timeout -s KILL 1 "$root/scripts/gpu_check.sh" --build "$build" --out "$out/check" --into "$out/tree" --few --device cuda-emulated sanitizers >"$out/log8" 2>&1
check --device cuda-emulated sanitizers >"$out/log9" 2>&1 || fail "a stage that was killed does not go on"
[ "$(find "$out/check/sanitizers" -name '*.passed' | wc -l)" = 4 ] || fail "a stage that was killed lacks units"
# programs that were packed elsewhere
(cd "$build" && tar -cf "$out/packed.tar" tools/vm libreed*.so* tests/ops/cpu/reduce/test_softmax) || fail "no archive"
"$root/scripts/gpu_check.sh" --packed "$out/packed.tar" --out "$out/brought" --into "$out/tree" --few --device cuda-emulated build parity >"$out/log10" 2>&1 || fail "packed programs do not run"
grep -q 'parity: 1 passed, 0 failed, 0 missing' "$out/log10" || fail "packed programs ran nothing"
# no card: one sentence, and nothing is written
if [ ! -e /dev/nvidiactl ]; then
  "$root/scripts/gpu_check.sh" --build "$build" --out "$out/no_card" --into "$out/no_tree" >"$out/log11" 2>&1
  [ $? = 1 ] || fail "no card is no failure"
  grep -q "device cuda: .*\(the NVIDIA driver is not on this machine\|no module\)" "$out/log11" || fail "no sentence about the missing card"
  [ ! -e "$out/no_tree" ] || fail "results without a card"
fi
"$root/scripts/gpu_check.sh" --device cuda-emulated >"$out/log7" 2>&1 && fail "the emulated device writes into the tree"
exit 0
