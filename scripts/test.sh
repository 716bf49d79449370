#!/usr/bin/env bash
# Installs missing packages, builds (once optimised with assertions, once under AddressSanitizer and UndefinedBehaviorSanitizer) and runs every test.
# The last line is 'N passed, N failed, N skipped'; the status is 0 only when nothing failed. Needs no terminal and no input.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

passed=0 failed=0 skipped=0
onnx_cases=/usr/share/libonnx-testdata/data
log=$(mktemp)
trap 'rm -f "$log"' EXIT

title() { printf '\n== %s\n' "$*"; }

# A step that must succeed before any test can run.
must() {
  "$@" >"$log" 2>&1 && return
  tail -n 80 "$log"
  echo "failed: $*"
  failed=$((failed + 1))
  finish
}

finish() {
  echo
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}

# The number behind `key:` in Meson's summary.
summary() { awk -v key="$1:" 'index($0, key) == 1 { n = $NF } END { print n + 0 }' "$log"; }

# meson test in a build folder, counted
suite() {
  meson test -C "$1" --no-rebuild --print-errorlogs 2>&1 | tee "$log" | grep -vE '^ *[0-9]+/[0-9]+ .* (OK|SKIP) '
  local ok bad
  ok=$(($(summary 'Ok') + $(summary 'Expected Fail')))
  bad=$(($(summary 'Fail') + $(summary 'Unexpected Pass') + $(summary 'Timeout')))
  [ $((ok + bad)) -gt 0 ] || bad=1 # Meson itself has failed
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + $(summary 'Skipped')))
}

# vm test over ONNX cases, counted; unsupported cases count as skipped
cases() {
  build-test/tools/vm test "$onnx_cases" --device "$@" >"$log" 2>&1
  local status=$?
  cat "$log"
  read -r p f s < <(awk '/ passed, .* failed, .* unsupported of / { print $1, $3, $5 }' "$log")
  if [ -z "${p:-}" ] || { [ $status -ne 0 ] && [ "$f" -eq 0 ]; }; then
    echo "vm test ended with status $status"
    failed=$((failed + 1))
  fi
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
  unset p f s
}

title "dependencies"
scripts/install-deps.sh || { failed=1; finish; }

# (-g1: lines in backtraces, no variables, which takes a third off the compiler's time)
lines=(-Dc_args=-g1 -Dcpp_args=-g1)

title "build: optimised as a release (compilers' faults show nowhere else), with assertions"
[ -f build-test/build.ninja ] || must meson setup build-test --buildtype=debugoptimized -Doptimization=3 "${lines[@]}"
must ninja -C build-test

title "tests"
suite build-test

title "ONNX node cases on the host"
cases host
title "ONNX node cases on the simulated accelerator"
cases sim
# (without a C++ compiler the emulated GPU computes nothing)
if [ -f build-test/device/cuda/simt/libsimt.a ]; then
  title "ONNX node cases on the emulated GPU, with graphs and without"
  cases 'cuda-emulated?late=1&poison=1&seed=3' --runs 3
  cases cuda-emulated --graphs off
fi

# Random dynamic graphs against onnxruntime, which comes from PyPI into an environment of its own (a development dependency only).
with_oracle() {
  local python=build-test/oracle/bin/python
  if [ ! -x "$python" ] || ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
    rm -rf build-test/oracle
    if ! { python3 -m venv build-test/oracle && "$python" -m pip install -q --disable-pip-version-check onnx==1.23.2 onnxruntime==1.31.1; } >"$log" 2>&1; then
      tail -n 5 "$log"
      echo "skipped: the oracle (onnxruntime) could not be installed"
      skipped=$((skipped + 1))
      return
    fi
  fi
  "$python" "$@" --build build-test 2>&1 | tee "$log"
  local p f s
  read -r p f s < <(awk '/^[0-9]+ passed, / { print $1, $3, $5 }' "$log")
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}
random_graphs() { with_oracle tests/random/random_graphs.py --seeds "$@"; }
title "random dynamic graphs, host and sim"
random_graphs 0:300
if [ -f build-test/device/cuda/simt/libsimt.a ]; then
  title "random dynamic graphs on the emulated GPU, with graphs and without"
  random_graphs 0:40 --device 'cuda-emulated?late=1&poison=1&seed=3&order=7'
  random_graphs 40:60 --device cuda-emulated --graphs off
  title "decoders with a growing cache on the emulated GPU, with graphs and without, in place and copied"
  with_oracle tests/random/decoders.py
  title "the shapes model at five sizes on the emulated GPU, every kernel emulated, with graphs and without"
  with_oracle tests/random/emulated.py --only shapes
fi
title "random dynamic graphs on lacking accelerators, and with counts left on the device"
random_graphs 0:60 --placements 3
random_graphs 0:200 --threads 2,3,7

title "build: AddressSanitizer and UndefinedBehaviorSanitizer"
# (no -Werror here, because gcc gives false warnings about code with the sanitizers' checks; the GPU's code is that of the build above)
# Its programs fill 5 GB of disk. They would fill 11 with code for going on after a fault, with the checks of null pointers, of arithmetic on pointers and of objects' extents, whose faults AddressSanitizer finds as well,
# and without packed relocations. (C++ is the GPU's emulation, which has a way of its own to go on after a fault.)
gpu_code=
flags='-g1 -fno-sanitize-recover=undefined -fno-sanitize=null,object-size,pointer-overflow' packed=-Wl,-z,pack-relative-relocs
[ ! -f build-test/device/cuda/cuda_images.h ] || gpu_code=$PWD/build-test/device/cuda
[ -f build-sanitize/build.ninja ] || must meson setup build-sanitize --buildtype=debugoptimized -Doptimization=1 -Dwerror=false -Db_sanitize=address,undefined -Db_lundef=false \
  -Dc_args="$flags" -Dcpp_args=-g1 -Dc_link_args=$packed -Dcpp_link_args=$packed -Dgpu_code="$gpu_code"
must ninja -C build-sanitize

title "tests under the sanitizers"
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1
suite build-sanitize

finish
