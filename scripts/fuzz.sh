#!/usr/bin/env bash
# scripts/fuzz.sh TARGET [SECONDS] [BUILD]: fuzzes one target of tests/fuzz (calls, module, npy, onnx, picture, text, value) for that long (default 600), under
# AddressSanitizer and UndefinedBehaviorSanitizer: with clang's libFuzzer if clang is installed, else with the project's own driver. The corpus grows in
# BUILD/corpus/TARGET. Inputs that cause faults are left in BUILD/faults; after the repair such an input belongs into tests/regression/TARGET. Ends with 1 if there were faults.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?scripts/fuzz.sh TARGET [SECONDS] [BUILD]} seconds=${2:-600} build=${3:-build-fuzz}
[ -f "tests/fuzz/fuzz_$target.c" ] || { echo "there is no target '$target':" tests/fuzz/fuzz_*.c; exit 2; }
export REED_SOURCE=$PWD REED_ONNX_CASES=/usr/share/libonnx-testdata/data/node
flags=(--buildtype=debugoptimized -Doptimization=1 -Dwerror=false -Db_sanitize=address,undefined -Db_lundef=false)
libfuzzer=no
clang=$(command -v clang || true)
if [ -n "$clang" ] && echo 'int LLVMFuzzerTestOneInput(const unsigned char *x, unsigned long n) { return x && n > 99; }' |
    "$clang" -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then
  libfuzzer=yes
fi
if [ ! -f "$build/build.ninja" ]; then
  if [ $libfuzzer = yes ]; then
    # Clang's additional warnings are ignored. NULL + 0, which empty tensors give, is no fault (C2y, N3322).
    CC=clang meson setup "$build" "${flags[@]}" "-Dc_args=['-fsanitize=fuzzer-no-link', '-fno-sanitize=pointer-overflow', '-w']"
  else
    meson setup "$build" "${flags[@]}"
  fi
fi
mkdir -p "$build/faults" "$build/corpus/$target" "$build/seeds/$target"
if [ $libfuzzer = no ]; then
  ninja -C "$build" "tests/fuzz/fuzz_$target"
  exec "$build/tests/fuzz/fuzz_$target" --seconds "$seconds" --seed "$RANDOM" --crashes "$build/faults"
fi
ninja -C "$build" "tests/fuzz/fuzz_$target" "tests/fuzz/libfuzzer_$target"
"$build/tests/fuzz/fuzz_$target" --write-seeds "$build/seeds/$target"
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
exec "$build/tests/fuzz/libfuzzer_$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -malloc_limit_mb=2048 \
  -artifact_prefix="$build/faults/$target-" -print_final_stats=1 "$build/corpus/$target" "$build/seeds/$target"
