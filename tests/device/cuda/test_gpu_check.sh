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
"$root/scripts/gpu_check.sh" --device cuda-emulated >"$out/log7" 2>&1 && fail "the emulated device writes into the tree"
exit 0
