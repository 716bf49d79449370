#!/usr/bin/env bash
# Proves the CUDA device on a card, in stages: build, parity, sanitizers, accuracy, speed.
#
#   scripts/gpu_check.sh [--device cuda] [--out FOLDER] [--into FOLDER] [--build FOLDER] [--packed FILE] [--models NAME,...] [--minutes N] [--jobs N] [--few] [STAGE...]
#   scripts/gpu_check.sh --pack FILE
#
# A stage is made of units, each one command. A unit that has passed leaves a file in FOLDER/STAGE/ and is not run again; so a run that was cut (a stage has at
# most --minutes, default 10) goes on where it ended: start the script once more, on this machine or with FOLDER brought to another one. The units of the stages
# parity and sanitizers run side by side, --jobs at a time. As a stage ends it writes its part, FOLDER/STAGE.md, and the section of results in docs/gpu.md and
# tests/cuda/verified.tsv below --into (default: this tree; an emulated device needs the option). Needs no network.
# A machine with a card may lack the packages that a build needs: --pack builds on a machine that has them and nvcc, and writes the programs, their libraries and the
# small exports into FILE (.tar.xz), which --packed unpacks in place of a build.
# `--device cuda-emulated --few` runs a small part of each stage without a card, to test the script. Status: 0 all passed, 1 something failed or no card, 75 cut.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
device=cuda out='' into='' build='' models=mask,ssdlite,retinanet,bert few='' minutes=10 jobs='' pack='' packed='' stages=()
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --into) into=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --models) models=$2; shift 2 ;;
    --minutes) minutes=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --pack) pack=$2; shift 2 ;;
    --packed) packed=$2; shift 2 ;;
    --few) few=yes; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    build | parity | sanitizers | accuracy | speed) stages+=("$1"); shift ;;
    *) echo "gpu_check.sh: unknown word '$1' (see --help)" >&2; exit 2 ;;
  esac
done
[ ${#stages[@]} -gt 0 ] || stages=(build parity sanitizers accuracy speed)
case $device in
  cuda*emulated*) emulated=yes; [ -n "$into" ] || { echo "gpu_check.sh: an emulated device proves nothing about a card: give --into FOLDER" >&2; exit 2; } ;;
  *) emulated='' into=${into:-$root} ;;
esac
out=$(mkdir -p "${out:-$root/build-gpu/check}" && cd "${out:-$root/build-gpu/check}" && pwd)
[ -z "$packed" ] || { [ -d "$out/packed" ] || { mkdir -p "$out/packed.new" && tar -xf "$packed" -C "$out/packed.new" && mv "$out/packed.new" "$out/packed"; } || exit 1; build=$out/packed; }
given_build=$build build=${build:-$root/build-gpu}
failed=0
python=${PYTHON:-python3}
# (on a machine with a card few cores do more: a unit's time is mostly the start of its driver)
if [ -z "$jobs" ]; then jobs=$(($(nproc) / 2)); [ "$jobs" -le 8 ] || jobs=8; fi
[ "$jobs" -ge 1 ] || jobs=1
PATH=$PATH:/usr/local/cuda/bin
# A folder that was brought from another machine: its programs find the modules and the bundled libraries here.
[ -z "$given_build" ] || export LD_LIBRARY_PATH=$build:$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Wheels of cuDNN and cuBLASLt have their libraries in folders of their own, where PyTorch finds them and the loader does not.
wheels=$("$python" -c 'import glob, os, sysconfig; print(":".join(d for d in glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib")) if glob.glob(d + "/libcudnn.so.9") or glob.glob(d + "/libcublasLt.so.*")))' 2>/dev/null)
[ -z "$wheels" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels

# Runs a command once: unit STAGE NAME COMMAND... A unit for which no time is left, or that its end cuts, leaves the file `cut`.
unit() {
  local stage=$1 name=$2 left status
  shift 2
  [ -e "$out/$stage/$name.passed" ] && return
  left=$((stage_ends - $(date +%s)))
  if [ "$left" -le 0 ]; then : >"$out/$stage/cut"; return; fi
  timeout -k 5 "$left" bash -uc '"$@"' unit "$@" >"$out/$stage/$name.log" 2>&1 </dev/null
  status=$?
  rm -f "$out/$stage/$name.failed" "$out/$stage/$name.missing"
  case $status in
    0) mv "$out/$stage/$name.log" "$out/$stage/$name.passed" ;;
    77) mv "$out/$stage/$name.log" "$out/$stage/$name.missing"; echo "  $name: $(tail -n 1 "$out/$stage/$name.missing")" ;;
    124 | 137) : >"$out/$stage/cut" ;;
    *) mv "$out/$stage/$name.log" "$out/$stage/$name.failed"; echo "  $name failed (status $status):"; tail -n 15 "$out/$stage/$name.failed" | sed 's/^/    /' ;;
  esac
}

# The same beside other units of the stage.
unit_beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  unit "$@" &
}

# Fails the unit with status 77 unless all commands and Python packages are installed.
need() {
  local what missing=()
  for what; do
    case $what in
      python:*) "$python" -c "import ${what#python:}" 2>/dev/null || missing+=("Python's ${what#python:}") ;;
      *) command -v "$what" >/dev/null || missing+=("$what") ;;
    esac
  done
  [ ${#missing[@]} -eq 0 ] || { echo "missing: ${missing[*]}"; return 77; }
}

# ---- build ----

meson_words() { if command -v meson >/dev/null; then echo meson; else echo "$python -m mesonbuild.mesonmain"; fi; }
ninja_path() { command -v ninja || "$python" -c 'import ninja, os; print(os.path.join(ninja.BIN_DIR, "ninja"))' 2>/dev/null; }

tools_there() {
  local status=0 library
  need cc c++ pkg-config "$python" || status=77
  { command -v meson >/dev/null || "$python" -c 'import mesonbuild' 2>/dev/null; } || { echo "missing: meson (the wheel meson has it)"; status=77; }
  [ -n "$(ninja_path)" ] || { echo "missing: ninja (the wheel ninja has it)"; status=77; }
  [ -n "$emulated" ] || command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || { echo "missing: nvcc (scripts/install-deps.sh --cuda gets it)"; status=77; }
  for library in libuv libcjson libprotobuf-c check libpng libjpeg; do
    pkg-config --exists $library || { echo "missing: $library (scripts/install-deps.sh installs it)"; status=77; }
  done
  [ $status = 0 ] && echo "all tools are there"
  return $status
}

set_up() {
  [ -f "$build/build.ninja" ] || NINJA=$(ninja_path) $(meson_words) setup "$build" "$root" --buildtype=release -Db_ndebug=if-release \
    -Dcuda="$([ -n "$emulated" ] && echo auto || echo enabled)" -Dgpu_archs="$(archs)"
}

build_tree() { set_up && "$(ninja_path)" -C "$build"; }

# The default architecture, and the card's own: else its driver would compile every kernel at the first start of each process without a cache.
archs() {
  local own
  own=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
  case $own in '' | 80) echo 80 ;; [0-9]*) echo "80,$own" ;; *) echo 80 ;; esac
}

# The files that an archive holds, as a pattern for names below the build folder. --pack builds no other file.
packed_files='(libreed[a-z-]*\.so(\.[0-9.]+)?|tools/vm|tests/ops/cpu/[a-z]+/test_[a-z0-9_]+|tests/whole/(test_exports|[a-z0-9_]+\.(onnx|npy)))'

# Builds for an unknown card, and writes the files and the libraries that are not the C library's into the archive. A build that was cut goes on.
write_pack() {
  local folder file
  build=$root/build-gpu-pack emulated=''
  archs() { echo 80,90; }
  tools_there && set_up || return 1
  "$(ninja_path)" -C "$build" -t targets all | sed -n 's/: [^:]*$//p' | grep -E "^$packed_files\$" >"$build/packed_files" || return 1
  xargs "$(ninja_path)" -C "$build" <"$build/packed_files" || return 1
  folder=$(mktemp -d) || return 1
  (cd "$build" && find libreed* tools tests/ops/cpu tests/whole -type f -o -type l) | grep -E "^$packed_files\$" |
    while read -r file; do mkdir -p "$folder/$(dirname "$file")" && cp -P "$build/$file" "$folder/$file"; done
  find "$folder" -type f -perm -u+x -exec strip --strip-debug {} + || return 1
  mkdir -p "$folder/lib"
  find "$folder" -type f -perm -u+x -exec ldd {} + | sed -n 's/^[[:space:]]*lib\(uv\|cjson\|protobuf-c\|subunit\|png16\|jpeg\|z\)\.[^ ]* => \(\/[^ ]*\) .*/\2/p' | sort -u | while read -r file; do cp -L "$file" "$folder/lib/"; done
  tar -C "$folder" -cf - . | xz -T1 --lzma2=preset=3,dict=32MiB >"$pack.part" && mv "$pack.part" "$pack" && rm -r "$folder" && ls -lh "$pack"
}

stage_build() {
  [ -n "$given_build" ] || unit build tools tools_there
  [ -n "$given_build" ] || unit build tree build_tree
  unit build opens "$build/tools/vm" info --devices
  unit build device opens_device
}

opens_device() {
  "$build/tools/vm" info --devices --json - | "$python" -c '
import json, sys
kind = sys.argv[1].split(":")[0].split("?")[0]
row = next(d for d in json.load(sys.stdin)["devices"] if d["name"] == kind)
cards = row.get("cards", [])
print("%s, driver %s" % (cards[0]["card"] if cards else kind, row.get("driver", "none")) if row["ready"] else "device %s: %s" % (kind, row["reason"]))
sys.exit(not row["ready"])' "$device"
}

# ---- parity ----

# The programs of kernel cases: one line each, PATH below the build folder.
case_programs() {
  if [ -n "$few" ]; then echo tests/ops/cpu/reduce/test_softmax; return; fi
  (cd "$build" && find tests/ops/cpu -mindepth 2 -maxdepth 2 -type f -perm -u+x -name 'test_*' | sort)
}

kernel_cases() { REED_CASE_DEVICE=$1 ${3:+env REED_CASE_ELEMENTS=$3} "$build/$2"; }

stage_parity() {
  local program
  for program in $(case_programs); do unit_beside parity "$(basename "$program")" kernel_cases "$device" "$program" ${few:+20}; done
  wait
}

# ---- sanitizers ----

# compute-sanitizer over the cases of at most 2,000 elements; on the emulated device the emulation's own checks run instead, in another order of
# threads each time.
sanitized() {
  local tool=$1 program=$2
  if [ -n "$emulated" ]; then
    case $tool in memcheck) set -- 0 ;; racecheck) set -- 1 ;; initcheck) set -- 7 ;; *) set -- 11 ;; esac
    kernel_cases "$device?order=$1" "$program" ${few:+20}
    return
  fi
  need compute-sanitizer || return
  REED_CASE_DEVICE=$device REED_CASE_ELEMENTS=2000 CK_FORK=no compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 --print-limit 20 "$build/$program"
}

stage_sanitizers() {
  local tool program
  for tool in memcheck racecheck initcheck synccheck; do
    for program in $(case_programs); do unit_beside sanitizers "$tool-$(basename "$program")" sanitized $tool "$program"; done
  done
  wait
}

# ---- accuracy ----

small_export() { REED_EXPORTS=$build/tests/whole REED_EXPORT_DEVICE=$device REED_EXPORT=$1 "$build/tests/whole/test_exports"; }

make_models() {
  need python:torch python:torchvision || return
  "$python" "$root/bench/export_torchvision.py" --out "$out/models" --models "$1"
}

large_export() {
  need python:torch python:torchvision || return
  local sizes=480x640,375x501,quiet
  [ "$1" != bert ] || sizes=1x128,8x77
  "$python" "$root/bench/check_torchvision.py" --folder "$out/models" --build "$build" --models "$1" --sizes $sizes --devices "$device" --threads "$(nproc)"
}

stage_accuracy() {
  local name names=subpixel
  [ -n "$few" ] || names=$(cd "$root/tests/whole/exports" && ls -- *.onnx.xz | sed 's/\.onnx\.xz//')
  for name in $names; do unit accuracy "small-$name" small_export "$name"; done
  [ -z "$emulated" ] || return
  for name in ${models//,/ }; do
    export_once "$name"
    unit accuracy "large-$name" large_export "$name"
  done
}

# The model for this and the next stage. The folder of results may have come here without its models.
export_once() {
  mkdir -p "$out/accuracy"
  [ -e "$out/models/$1.onnx" ] || rm -f "$out/accuracy/export-$1.passed"
  unit accuracy "export-$1" make_models "$1"
}

# ---- speed ----

# Latency, first run, load, with graphs on or off, by the command alone.
bench() {
  local model=$1 input=$2 graphs=$3 runs=$4 warmup=3
  [ -z "$few" ] || warmup=1
  "$build/tools/vm" bench "$model" $(input_flags "$input") --device "$device" --graphs "$graphs" --runs "$runs" --warmup "$warmup" --json -
}

# "-i INPUT" for each of the inputs with commas between them.
input_flags() { local one; for one in ${1//,/ }; do echo "-i $one"; done; }

sizes() {
  need python:numpy || return
  "$python" "$root/bench/gpu_speed.py" "$@" --build "$build" --device "$device"
}

stage_speed() {
  local name graphs
  if [ -n "$emulated" ]; then
    for graphs in on off; do unit speed "subpixel-graphs-$graphs" bench "$build/tests/whole/subpixel.onnx" 1x3x2x3xf32=rand:1 $graphs 1; done
    unit speed subpixel-sizes sizes "$build/tests/whole/subpixel.onnx" --sizes 2x4 --batched --random 1 --runs 1 --json "$out/speed/subpixel.json"
    return
  fi
  for name in ${models//,/ }; do
    export_once "$name"
    for graphs in on off; do unit speed "$name-graphs-$graphs" bench_input "$name" bench $graphs 50; done
    for engine in reed reed-tf32 reed-libraries reed-tf32-libraries reed-f16 eager eager-tf32 eager-f16 reed-queues reed-host reed-counts; do engine_sizes "$name" $engine 100; done
    unit speed "$name-profile" bench_input "$name" profile_of
  done
  # the compiler of PyTorch comes last, because it may take minutes for a model
  for name in ${models//,/ }; do
    for engine in compile compile-tf32 compile-f16; do engine_sizes "$name" $engine 240; done
  done
}

# The random sizes of one engine; every engine is a unit, so that a slow one holds back no other.
engine_sizes() {
  local name=$1 engine=$2 seconds=$3 shown=(--sizes 480x640)
  [ "$name" != bert ] || shown=(--sizes 8x384)
  unit speed "$name-sizes-$engine" sizes "$out/models/$name.onnx" "${shown[@]}" --name "$name" --folder "$out/models" --engines "$engine" --seconds "$seconds" --json "$out/speed/$name.json"
}

# COMMAND MODEL INPUT... with the model's input.
bench_input() {
  local name=$1 command=$2
  shift 2
  case $name in
    bert) "$command" "$out/models/bert.onnx" tokens=1x128xi64=7,mask=1x128xi64=1 "$@" ;;
    *) "$command" "$out/models/$name.onnx" 3x480x640xf32=rand:1 "$@" ;;
  esac
}

profile_of() { "$build/tools/vm" profile "$1" $(input_flags "$2") --device "$device"; }

# ---- results ----

# Writes STAGE.md: the units that passed, failed or are missing.
write_part() {
  local stage=$1 file n_passed n_failed n_missing
  n_passed=$(find "$out/$stage" -name '*.passed' | wc -l) n_failed=$(find "$out/$stage" -name '*.failed' | wc -l) n_missing=$(find "$out/$stage" -name '*.missing' | wc -l)
  {
    echo "### Stage ${stage}"
    echo
    echo "$n_passed passed, $n_failed failed, $n_missing not run for want of a tool$([ -e "$out/$stage/cut" ] && echo '; cut')."
    for file in "$out/$stage"/*.failed "$out/$stage"/*.missing; do
      [ -e "$file" ] && echo "- $(basename "$file"): $(tail -n 1 "$file")"
    done
    if [ "$stage" = speed ]; then
      for file in "$out"/speed/*-graphs-*.passed; do
        [ -e "$file" ] && echo "- $(basename "$file" .passed): $("$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print("median %.3g ms, least %.3g, first run %.3g" % (d["median_us"] / 1e3, d["min_us"] / 1e3, d["first_us"] / 1e3))' "$file")"
      done
      for file in "$out"/speed/*.json; do [ -e "$file" ] && { echo; "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["table"])' "$file"; }; done
      for file in "$out"/speed/*-profile.passed; do [ -e "$file" ] && { echo; echo "Slowest operators of $(basename "$file" -profile.passed), with the profiler on:"; echo; sed -n '1,9s/^/    /p' "$file"; }; done
    fi
    if [ "$stage" = accuracy ]; then
      for file in "$out"/accuracy/large-*.passed; do [ -e "$file" ] && { echo; cat "$file"; }; done
    fi
  } >"$out/$stage.md.new"
  mv "$out/$stage.md.new" "$out/$stage.md"
  echo "$stage: $n_passed passed, $n_failed failed, $n_missing missing"
  failed=$((failed + n_failed))
  [ -n "$emulated" ] || failed=$((failed + n_missing))
}

write_results() { "$python" "$root/scripts/gpu_results.py" "$out" "$into" "$build" "$device" "$root" >"$out/results.log" 2>&1 || { cat "$out/results.log" >&2; failed=$((failed + 1)); }; }

if [ -n "$pack" ]; then write_pack; exit; fi
export root device out build few emulated python
export -f need meson_words ninja_path tools_there archs set_up build_tree opens_device kernel_cases sanitized small_export make_models large_export bench bench_input profile_of input_flags sizes
for stage in "${stages[@]}"; do
  mkdir -p "$out/$stage"
  rm -f "$out/$stage/cut"
  stage_ends=$(($(date +%s) + minutes * 60))
  "stage_$stage"
  write_part "$stage"
  [ "$stage" != build ] || [ -e "$out/build/device.passed" ] || { echo "the device cannot be opened: the other stages do not run"; break; }
  write_results
done
cat "$out/results.log" 2>/dev/null
for stage in "${stages[@]}"; do [ ! -e "$out/$stage/cut" ] || { echo "cut: start the script once more, it goes on"; exit 75; }; done
[ "$failed" = 0 ]
