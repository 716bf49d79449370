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
cmp "$root/tests/cuda/verified.tsv" "$out/tree/tests/cuda/verified.tsv" || fail "an emulated device has verified a kernel"
# a failed unit is reported, and runs again once its cause is gone
rm "$out/check/parity/test_softmax.passed"
check --device 'cuda-emulated?fail_work=9' parity >"$out/log5" 2>&1 && fail "a failing unit passes"
[ -e "$out/check/parity/test_softmax.failed" ] || fail "a failing unit is not told"
check --device cuda-emulated parity >"$out/log6" 2>&1 || fail "a unit that had failed is not run again"
# programs that wait for ever, or fail
for program in tools/vm tests/ops/cpu/reduce/test_softmax tests/whole/test_exports; do
  mkdir -p "$out/slow/$(dirname $program)"
  printf '#!/bin/sh\n[ "$REED_CHECK_WAITS" != fail ] || exit 1\necho $$ >"$REED_CHECK_WAITS"\nexec sleep 1000\n' >"$out/slow/$program"
  chmod +x "$out/slow/$program"
done
# Waits until a process has ended; a process that nobody has waited for counts as ended.
ended() {
  local tries=600
  while grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
  [ "$tries" -gt 0 ]
}
# a run that is killed or stopped in the middle of a stage, with a unit that still runs, leaves nothing half-written, and goes on
units_of() { (cd "$out/check/$1" && ls -- *.passed *.missing 2>/dev/null); }
left_over() { find "$out/check" -name '*.log' ! -name results.log -o -name '*.part' -o -name '*.new' -o -path '*/running/*' -o -name main -o -name cut; }
for stage in build parity sanitizers accuracy speed; do
  units=$(units_of $stage)
  rm "$out/check/$stage"/*
  for signal in INT KILL TERM; do
    mkfifo "$out/wait"
    REED_CHECK_WAITS=$out/wait env --default-signal=INT "$root/scripts/gpu_check.sh" --build "$out/slow" --out "$out/check" --into "$out/tree" --few --device cuda-emulated $stage >"$out/log8" 2>&1 &
    script=$!
    # the command of a unit opens the fifo
    read -r leader <"$out/wait"
    kill -$signal $script
    wait $script
    status=$?
    case $signal in KILL) expected=137 killed=$leader ;; *) expected=130 ;; esac
    [ $status = $expected ] || fail "stage $stage: status $status after the signal $signal"
    [ $signal = KILL ] || ended "$leader" || fail "stage $stage: a command still runs after the signal $signal"
    rm "$out/wait"
  done
  ended "$killed" || fail "stage $stage: a command of the killed script still runs"
  # a failure in the middle of the stage
  REED_CHECK_WAITS=fail "$root/scripts/gpu_check.sh" --build "$out/slow" --out "$out/check" --into "$out/tree" --few --device cuda-emulated $stage >"$out/log8" 2>&1 && fail "stage $stage passes with a failing unit"
  grep -q ' [1-9][0-9]* failed' "$out/check/$stage.md" || fail "stage $stage: the part has no failure"
  check --device cuda-emulated $stage >"$out/log9" 2>&1 || fail "stage $stage does not go on"
  [ "$(units_of $stage)" = "$units" ] || fail "stage $stage: other units than without an end: $(units_of $stage)"
  grep -q ' passed, 0 failed' "$out/check/$stage.md" || fail "stage $stage: no part of the run that goes on"
  [ -z "$(left_over)" ] || fail "stage $stage: left over: $(left_over)"
done
# a second script in the same folder is refused while the first works
mkfifo "$out/wait"
rm "$out/check/parity"/*
REED_CHECK_WAITS=$out/wait "$root/scripts/gpu_check.sh" --build "$out/slow" --out "$out/check" --into "$out/tree" --few --device cuda-emulated parity >"$out/log8" 2>&1 &
script=$!
read -r leader <"$out/wait"
check --device cuda-emulated parity >"$out/log9" 2>&1 && fail "two scripts work in one folder"
grep -q "works in .* already" "$out/log9" || fail "no sentence about a second script"
kill -TERM $script
wait $script
rm "$out/wait"
# with a budget the results of one machine go on in an empty folder of another one
"$root/scripts/gpu_check.sh" --build "$build" --out "$out/first" --into "$out/tree" --few --device cuda-emulated --budget 1000 --archive "$out/archive.tar.gz" build parity >"$out/log12" 2>&1 || fail "stages with a budget fail"
"$root/scripts/gpu_check.sh" --build "$build" --out "$out/second" --into "$out/tree" --few --device cuda-emulated --budget 0 --archive "$out/archive.tar.gz" build parity >"$out/log13" 2>&1 || fail "an archive does not bring the units that have passed"
"$root/scripts/gpu_check.sh" --build "$build" --out "$out/third" --into "$out/tree" --few --device cuda-emulated --budget 0 build >"$out/log14" 2>&1
[ $? = 75 ] || fail "a run whose budget is spent is not cut"
# tools that are missing are named in one sentence
mkdir "$out/bin"
for tool in bash basename cat cut date dirname env find grep ls mkdir mv nproc python3 rm sed tail tar timeout wc xargs; do ln -s "$(command -v $tool)" "$out/bin/$tool"; done
PATH=$out/bin "$root/scripts/gpu_check.sh" --out "$out/bare" --into "$out/no_tree" --device cuda-emulated build >"$out/log15" 2>&1 && fail "a build without a compiler passes"
grep -q '^  tools: missing: cc, c++, pkg-config, .*libuv, .*; scripts/install-deps.sh --cuda installs the tools of a build, and --packed FILE needs none$' "$out/log15" || fail "no sentence about missing tools"
# programs that were packed elsewhere
(cd "$build" && tar -cf "$out/packed.tar" tools/vm libreed*.so* tests/ops/cpu/reduce/test_softmax) || fail "no archive"
"$root/scripts/gpu_check.sh" --packed "$out/packed.tar" --out "$out/brought" --into "$out/tree" --few --device cuda-emulated build parity >"$out/log10" 2>&1 || fail "packed programs do not run"
grep -q 'parity: 1 passed, 0 failed, 0 missing' "$out/log10" || fail "packed programs ran nothing"
# models are made beside the kernel cases, once each, and a measurement waits for its model; its engines run in one process (a stand-in for Python writes both; the kernel
# cases wait until a model is being made)
mkdir -p "$out/python" "$out/waiting/tests/ops/cpu/reduce"
ln -s "$build"/libreed*.so* "$build/tools" "$out/waiting"
ln -s "$build/tests/whole" "$out/waiting/tests"
cat >"$out/waiting/tests/ops/cpu/reduce/test_softmax" <<END
#!/bin/sh
tries=600
while [ ! -e "$out/said" ] && [ \$((tries -= 1)) -gt 0 ]; do sleep 0.1; done
[ -e "$out/said" ] && exec "$build/tests/ops/cpu/reduce/test_softmax"
END
chmod +x "$out/waiting/tests/ops/cpu/reduce/test_softmax"
cat >"$out/python/python3" <<END
#!/bin/bash
case "\$*" in
  *find_spec*) exit 0 ;;
  *export_torchvision.py*) echo export >>"$out/said"; sleep 2; mkdir -p "$out/modelled/models"; cp "$build/tests/whole/subpixel.onnx" "$out/modelled/models/subpixel.onnx.part"; mv "$out/modelled/models/subpixel.onnx.part" "$out/modelled/models/subpixel.onnx" ;;
  *gpu_speed.py*) [ -e "$out/modelled/models/subpixel.onnx" ] && echo "\$*" >>"$out/said" ;;
  *gpu_nms.py* | *check_torchvision.py*) ;;
  *) exec python3 "\$@" ;;
esac
END
chmod +x "$out/python/python3"
PYTHON=$out/python/python3 "$root/scripts/gpu_check.sh" --build "$out/waiting" --out "$out/modelled" --into "$out/tree" --few --models subpixel --device cuda-emulated --budget 1000 build parity speed >"$out/log16" 2>&1
for unit in accuracy/export-subpixel parity/test_softmax speed/nms; do [ -e "$out/modelled/$unit.passed" ] || fail "$unit has not passed"; done
grep -q 'test_softmax failed' "$out/log16" && fail "no model is made beside the kernel cases"
[ "$(grep -c '^export' "$out/said")" = 1 ] || fail "a model is made more than once"
grep -q 'gpu_speed.py .*--engines reed[a-z0-9-]*,.*,compile' "$out/said" || fail "engines do not share a process"
# no card: one sentence, and nothing is written
if [ ! -e /dev/nvidiactl ]; then
  "$root/scripts/gpu_check.sh" --build "$build" --out "$out/no_card" --into "$out/no_tree" >"$out/log11" 2>&1
  [ $? = 1 ] || fail "no card is no failure"
  grep -q "device cuda: .*\(the NVIDIA driver is not on this machine\|no module\)" "$out/log11" || fail "no sentence about the missing card"
  [ ! -e "$out/no_tree" ] || fail "results without a card"
  "$root/scripts/gpu_check.sh" --build "$build" --out "$out/no_card" --into "$out/no_tree" parity >"$out/log11" 2>&1
  [ $? = 1 ] || fail "a stage without a card is no failure"
  grep -q "device cuda: .*\(the NVIDIA driver is not on this machine\|no module\)" "$out/log11" || fail "no sentence about the missing card of a stage"
  [ ! -e "$out/no_card/parity" ] || fail "units run without a card"
fi
# misuse: one sentence, before any work
while read -r words; do
  "$root/scripts/gpu_check.sh" --build "$build" --out "$out/misused" --into "$out/no_tree" $words >"$out/log17" 2>&1
  [ $? = 2 ] && [ "$(wc -l <"$out/log17")" = 1 ] && grep -q '^gpu_check.sh: ' "$out/log17" || fail "$words: no sentence of misuse"
  [ ! -e "$out/misused" ] || fail "$words: a stage has run"
done <<END
nonsense
--colour
--device
--minutes ten
--minutes -1 build
--budget x
--jobs
--pack $out/nowhere/pack.tar.xz
--packed $out/nowhere/pack.tar.xz
--archive $out/nowhere/archive.tar.gz parity
END
"$root/scripts/gpu_check.sh" --device cuda-emulated >"$out/log7" 2>&1 && fail "the emulated device writes into the tree"
exit 0
