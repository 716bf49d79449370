#!/usr/bin/env bash
# Builds with ThreadSanitizer and runs the tests that use threads: programs shared, sessions, cancelling, asynchronous runs, the simulated accelerator's
# thread, the weight cache, the team of helper threads, items whose steps they share, kernels that they prepare; the CUDA module over the fake driver and its thread, with kernels whose threads are fibers of the sanitizer
# (where a C++ compiler is).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-tsan}
[ -f "$build/build.ninja" ] || meson setup "$build" --buildtype=debugoptimized -Doptimization=1 -Dwerror=false -Db_sanitize=thread -Db_lundef=false >/dev/null
tests=(vm/test_threads device/test_device ops/cpu/test_cache base/test_team base/test_team_numbers ops/cpu/test_relay vm/epoch/test_tail)
if ninja -C "$build" -t query device/cuda/simt/libsimt.a >/dev/null 2>&1; then
  tests+=(device/cuda/test_cuda_module device/cuda/test_cuda_graph whole/test_streams)
fi
ninja -C "$build" "${tests[@]/#/tests/}"
export TSAN_OPTIONS="halt_on_error=0:second_deadlock_stack=1:exitcode=66:die_after_fork=0"
export CK_FORK=no CK_TIMEOUT_MULTIPLIER=20 REED_EXAMPLES="$PWD/examples/shapes"
status=0
for test in "${tests[@]}"; do
  echo "== $test"
  "$build/tests/$test" || status=1
done
[ $status -eq 0 ] && echo "ThreadSanitizer: nothing found"
exit $status
