#!/usr/bin/env bash
# Proves the CUDA device on a card, in stages: build, parity, sanitizers, accuracy, speed.
#
#   scripts/gpu_check.sh [--device cuda] [--out FOLDER] [--into FOLDER] [--build FOLDER] [--packed FILE] [--models NAME,...] [--minutes N] [--budget SECONDS]
#                        [--archive FILE] [--jobs N] [--few] [STAGE...]
#   scripts/gpu_check.sh --pack FILE
#
# A stage is made of units, each one command. A unit that has passed leaves a file in FOLDER/STAGE/ and is not run again; so a run that was cut or killed (a stage has
# at most --minutes, default 10) goes on where it ended: start the script once more, on this machine or with FOLDER brought to another one. The units of the stages
# parity and sanitizers run side by side, --jobs at a time. As a stage ends it writes its part, FOLDER/STAGE.md, and the section of results in docs/gpu.md and
# tests/cuda/verified.tsv below --into (default: this tree; an emulated device needs the option).
# --budget SECONDS, for a machine that is lent for minutes: the script ends within that time, and runs the most important units of all stages first. --archive FILE
# (.tar.gz) takes FOLDER's results as each stage ends, and gives them back on a machine where FOLDER is empty.
# A machine with a card may lack the packages that a build needs: --pack builds on a machine that has them and nvcc, and writes the programs, their libraries and the
# small exports into FILE (.tar.xz), which --packed unpacks in place of a build.
# Needs no network. Stage build (not with --packed): nvcc and the packages of scripts/install-deps.sh. sanitizers: compute-sanitizer. accuracy, speed: python3 with
# PyTorch, torchvision, NumPy and onnx, for the models bert and bert_base transformers too. A unit whose tools are missing says so, and the others run.
# `--device cuda-emulated --few` runs a small part of each stage without a card, to test the script; with --models also the large models, at small sizes, beside PyTorch
# on the CPU ('cuda-emulated?values=1' takes seconds for them). Status: 0 all passed, 1 something failed or no card, 2 misuse, 75 cut, 130 ended by a signal.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
device=cuda out='' into='' build='' models='' few='' minutes=10 budget='' archive='' jobs='' pack='' packed='' stages=()
misuse() { echo "gpu_check.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in --few | --help) ;; --*) [ $# -gt 1 ] || misuse "$1 lacks its value, or is unknown (see --help)" ;; esac
  case $1 in --minutes | --budget | --jobs) [[ $2 =~ ^[0-9]+$ ]] || misuse "$1 takes a whole number from 0 up, not '$2'" ;; esac
  case $1 in --pack | --archive) [ -d "$(dirname -- "$2")" ] || misuse "$1: there is no folder '$(dirname -- "$2")'" ;; esac
  case $1 in
    --device) device=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --into) into=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --models) models=$2; shift 2 ;;
    --minutes) minutes=$2; shift 2 ;;
    --budget) budget=$2; shift 2 ;;
    --archive) archive=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    --pack) pack=$2; shift 2 ;;
    --packed) packed=$2; shift 2 ;;
    --few) few=yes; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    build | parity | sanitizers | accuracy | speed) stages+=("$1"); shift ;;
    *) misuse "unknown word '$1' (see --help)" ;;
  esac
done
[ -z "$packed" ] || [ -f "$packed" ] || [ -d "${out:-$root/build-gpu/check}/packed" ] || misuse "--packed: there is no file '$packed'"
[ ${#stages[@]} -gt 0 ] || stages=(build parity sanitizers accuracy speed)
[ -n "$few" ] || models=${models:-mask,bert_base,ssdlite,retinanet}
case $device in
  cuda*emulated*) emulated=yes; [ -n "$into$pack" ] || misuse "an emulated device proves nothing about a card: give --into FOLDER" ;;
  *) emulated='' into=${into:-$root} ;;
esac
failed=0 started=$(date +%s) python=${PYTHON:-python3} PATH=$PATH:/usr/local/cuda/bin
# (a driver's start, which is a good part of a unit's time, waits for those of other processes)
if [ -z "$jobs" ]; then jobs=$(($(nproc) / 2)); [ "$jobs" -le 8 ] || jobs=8; fi
[ "$jobs" -ge 1 ] || jobs=1

# ---- units ----

# When the process began, so that a number that the system has given again is not taken for it.
begin_of() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# Ends the commands of units that still run, also those that a killed script has left. Each is the leader of a group of processes.
kill_units() {
  local file
  for file in "$out"/running/*; do
    [ -e "$file" ] || continue
    [ "$(cat "$file")" != "$(begin_of "${file##*/}")" ] || kill -KILL -- "-${file##*/}" "${file##*/}" 2>/dev/null
    rm -f "$file"
  done
}

# One script at a time works in FOLDER.
begin_alone() {
  local pid begin
  if [ -e "$out/main" ] && read -r pid begin <"$out/main" && [ -n "$begin" ] && [ "$begin" = "$(begin_of "$pid")" ]; then
    echo "gpu_check.sh: process $pid works in $out already" >&2
    exit 1
  fi
  mkdir -p "$out/running"
  kill_units
  echo "$$ $(begin_of $$)" >"$out/main"
  trap 'stop' INT TERM HUP
}

stop() {
  local pid
  trap '' INT TERM HUP
  # first the shells of units that run beside others, which then mark nothing
  for pid in $(jobs -p); do [ -e "$out/running/$pid" ] || kill -KILL "$pid"; done
  kill_units
  echo "stopped: start the script once more, it goes on" >&2
  exit 130
}

# Runs a command once: unit STAGE NAME COMMAND... A unit for which no time is left, or that the stage's end cuts, leaves the file `cut`. A unit that has taken
# `limit` seconds has failed. With a budget a unit that has failed is repeated in the last round only.
unit() {
  local stage=$1 name=$2 left pid status began log=$out/$1/$2.log
  shift 2
  [ "$rank" -le "$round" ] && [ ! -e "$out/$stage/$name.passed" ] || return
  [ -z "$budget" ] || [ "$round" = "$last_round" ] || [ ! -e "$out/$stage/$name.failed" ] || return
  began=$(date +%s) left=$((stage_ends - $(date +%s)))
  if [ "$left" -le 0 ]; then : >"$out/$stage/cut"; return; fi
  : >"$out/$stage/changed"
  (
    begin_of "$BASHPID" >"$out/running/$BASHPID"
    exec timeout -k 5 "$((left < limit ? left : limit))" bash -uc '"$@"' unit "$@"
  ) >"$log" 2>&1 </dev/null &
  pid=$!
  wait "$pid"
  status=$?
  rm -f "$out/running/$pid"
  [ -d "/proc/$$" ] || [ "$status" = 0 ] || return # the script was killed, and another one has ended this unit
  rm -f "$out/$stage/$name.failed" "$out/$stage/$name.missing"
  echo "$(($(date +%s) - began)) $name" >>"$out/$stage/seconds"
  case $status in
    124 | 137) if [ "$left" -lt "$limit" ] && [ "$(date +%s)" -ge "$stage_ends" ]; then : >"$out/$stage/cut"; return; fi
      echo "ended by force after $((left + $(date +%s) - stage_ends)) s (a unit has at most $limit s)" >>"$log" ;;
  esac
  case $status in
    0) mv "$log" "$out/$stage/$name.passed" ;;
    77) mv "$log" "$out/$stage/$name.missing"; echo "  $name: $(tail -n 1 "$out/$stage/$name.missing")" ;;
    *) mv "$log" "$out/$stage/$name.failed"; echo "  $name failed (status $status):"; tail -n 15 "$out/$stage/$name.failed" | sed 's/^/    /' ;;
  esac
}

# The same beside other units of the stage, for which wait_beside waits.
beside=()
unit_beside() {
  while [ "$(jobs -rp | grep -cxFf <(printf '%s\n' "${beside[@]}"))" -ge "$jobs" ]; do wait -n; done
  unit "$@" &
  beside+=($!)
}
wait_beside() {
  [ ${#beside[@]} -eq 0 ] || wait "${beside[@]}"
  beside=()
}

# Fails the unit with status 77 and one sentence unless all commands, Python packages (python:NAME) and libraries (library:NAME) are installed.
need() {
  local what missing=()
  for what; do
    case $what in
      # (an import of PyTorch takes many seconds)
      python:*) "$python" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('${what#python:}'))" 2>/dev/null || missing+=("Python's ${what#python:}") ;;
      library:*) pkg-config --exists "${what#library:}" 2>/dev/null || missing+=("${what#library:}") ;;
      *) command -v "$what" >/dev/null || missing+=("$what") ;;
    esac
  done
  [ ${#missing[@]} -eq 0 ] || { (IFS=,; echo "missing: ${missing[*]}" | sed 's/,/, /g'); return 77; }
}

# The device's name with one more option.
with_option() { case $device in *\?*) echo "$device&$1" ;; *) echo "$device?$1" ;; esac; }

# ---- build ----

meson_words() { if command -v meson >/dev/null; then echo meson; else echo "$python -m mesonbuild.mesonmain"; fi; }
ninja_path() { command -v ninja || "$python" -c 'import ninja, os; print(os.path.join(ninja.BIN_DIR, "ninja"))' 2>/dev/null; }

tools_there() {
  local words=(cc c++ pkg-config "$python" library:libuv library:libcjson library:libprotobuf-c library:check library:libpng library:libjpeg) said
  command -v meson >/dev/null || words+=(python:mesonbuild)
  [ -n "$(ninja_path)" ] || words+=(ninja)
  [ -n "$emulated" ] || words+=(nvcc)
  said=$(need "${words[@]}") || { echo "$said; scripts/install-deps.sh --cuda installs the tools of a build, and --packed FILE needs none"; return 77; }
  echo "all tools are there"
}

# (a setup that was killed has left a folder that meson takes for one that is set up)
set_up() {
  [ ! -f "$build/build.ninja" ] || return 0
  rm -rf "$build/meson-private" "$build/meson-info"
  NINJA=$(ninja_path) $(meson_words) setup "$build" "$root" --buildtype=release -Db_ndebug=if-release \
    -Dcuda="$([ -n "$emulated" ] && echo auto || echo enabled)" -Dgpu_archs="$(archs)"
}

# The default architecture, and the card's own: else its driver would compile every kernel at the first start of each process without a cache.
archs() {
  local own
  own=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
  case $own in '' | 80) echo 80 ;; [0-9]*) echo "80,$own" ;; *) echo 80 ;; esac
}

# The files that the stages run, as a pattern for names below the build folder. No other file is built.
run_files='(libreed[a-z-]*\.so(\.[0-9.]+)?|tools/vm|tests/ops/cpu/[a-z]+/test_[a-z0-9_]+|tests/whole/(test_exports|[a-z0-9_]+\.(onnx|npy)))'

build_tree() {
  set_up || return
  "$(ninja_path)" -C "$build" -t targets all | sed -n 's/: [^:]*$//p' | grep -E "^$run_files\$" >"$build/run_files" || return
  xargs "$(ninja_path)" -C "$build" <"$build/run_files"
}

# Builds for an unknown card, and writes the files and the libraries that are not the C library's into the archive. A build that was cut goes on.
write_pack() {
  local folder file
  build=$root/build-gpu-pack emulated=''
  archs() { echo 80,90; }
  tools_there && build_tree || return 1
  folder=$(mktemp -d) || return 1
  (cd "$build" && find libreed* tools tests/ops/cpu tests/whole -type f -o -type l) | grep -E "^$run_files\$" |
    while read -r file; do mkdir -p "$folder/$(dirname "$file")" && cp -P "$build/$file" "$folder/$file"; done
  find "$folder" -type f -perm -u+x -exec strip --strip-debug {} + || return 1
  mkdir -p "$folder/lib"
  find "$folder" -type f -perm -u+x -exec ldd {} + | sed -n 's/^[[:space:]]*lib\(uv\|cjson\|protobuf-c\|subunit\|png16\|jpeg\|z\)\.[^ ]* => \(\/[^ ]*\) .*/\2/p' | sort -u | while read -r file; do cp -L "$file" "$folder/lib/"; done
  tar -C "$folder" -cf - . | xz -T1 --lzma2=preset=3,dict=32MiB >"$pack.part" && mv "$pack.part" "$pack" && rm -r "$folder" && ls -lh "$pack"
}

stage_build() {
  limit=100000
  [ -n "$given_build" ] || unit build tools tools_there
  [ -n "$given_build" ] || [ ! -e "$out/build/tools.passed" ] || unit build tree build_tree
  limit=$usual_limit
  [ ! -x "$build/tools/vm" ] || unit build opens "$build/tools/vm" info --devices
  [ ! -x "$build/tools/vm" ] || unit build device opens_device
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

# The programs of kernel cases: one line each, PATH below the build folder; those that take longest first. A program without the variable's name has no cases for a device.
case_programs() {
  local longest='topk|reduce|linear|attention|recurrent|vision|elementwise'
  if [ -n "$few" ]; then echo tests/ops/cpu/reduce/test_softmax; return; fi
  (cd "$build" && find tests/ops/cpu -mindepth 2 -maxdepth 2 -type f -perm -u+x -name 'test_*' -exec grep -lF REED_CASE_DEVICE {} + | sort) |
    awk -v longest="/test_($longest)\$" '$0 ~ longest { print; next } { rest = rest $0 "\n" } END { printf "%s", rest }'
}

# kernel_cases DEVICE PROGRAM ELEMENTS: cases of at most so many elements; '': all.
kernel_cases() { REED_CASE_DEVICE=$1 ${3:+env REED_CASE_ELEMENTS=$3} "$build/$2"; }

# The same with a list of the kernels that ran: only these are proven. All cases run in one process, because each process starts the driver; if one fails, each test
# runs in a process of its own, so that no failure hides another one.
listed_cases() {
  local list=$out/parity/$1.kernels forks
  for forks in no yes; do
    rm -f "$list"
    CK_FORK=$forks kernel_cases "$(with_option "${4:+$4&}profile=$list")" "$2" "$3" && return
    [ $forks = yes ] || echo "once more, each test in a process of its own:"
  done
  return 1
}

# Programs with products, convolutions or attention run a second time in TF32. Meanwhile the models of the stages after this one are made.
stage_parity() {
  local program name
  start_exports
  for program in $(case_programs); do
    name=$(basename "$program")
    unit_beside parity "$name" listed_cases "$name" "$program" "${few:+20}"
    case $program in
      */product/* | */test_attention) unit_beside parity "tf32-$name" listed_cases "tf32-$name" "$program" "${few:+20}" tf32=1 ;;
    esac
  done
  wait_beside
}

# ---- sanitizers ----

# compute-sanitizer over the cases of at most 2,000 elements; on the emulated device the emulation's own checks run instead, in another order of
# threads each time.
sanitized() {
  local tool=$1 program=$2
  if [ -n "$emulated" ]; then
    case $tool in memcheck) set -- 0 ;; racecheck) set -- 1 ;; initcheck) set -- 7 ;; *) set -- 11 ;; esac
    kernel_cases "$(with_option "order=$1")" "$program" "${few:+20}"
    return
  fi
  need compute-sanitizer || return
  REED_CASE_DEVICE=$device REED_CASE_ELEMENTS=2000 CK_FORK=no compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 --print-limit 20 "$build/$program"
}

stage_sanitizers() {
  local tool program
  for tool in memcheck racecheck initcheck synccheck; do
    case $tool in memcheck | racecheck) rank=2 ;; *) rank=3 ;; esac
    for program in $(case_programs); do unit_beside sanitizers "$tool-$(basename "$program")" sanitized $tool "$program"; done
  done
  wait_beside
}

# ---- accuracy ----

small_export() { REED_EXPORTS=$build/tests/whole REED_EXPORT_DEVICE=$device REED_EXPORT=$1 "$build/tests/whole/test_exports"; }

# need_model NAME: the packages that make a model.
need_model() {
  local transformers=''
  case $1 in bert*) transformers=python:transformers ;; esac
  need python:torch python:torchvision python:numpy $transformers
}

make_model() {
  need_model "$1" && need python:onnx && "$python" "$root/bench/export_torchvision.py" --out "$out/models" --models "$1" --inputs
}

large_export() {
  local sizes=480x640,375x501,quiet
  need_model "$1" || return
  case $1 in bert*) sizes=1x128,8x77 ;; subpixel*) sizes=120x160,37x51 ;; esac
  [ -z "$few" ] || case $1 in bert*) sizes=1x5,2x9 ;; *) sizes=48x64,37x51 ;; esac
  "$python" "$root/bench/check_torchvision.py" --folder "$out/models" --build "$build" --models "$1" --sizes $sizes --devices "$device" --threads "$(nproc)"
}

stage_accuracy() {
  local name names=subpixel
  [ -n "$few" ] || names=$(cd "$root/tests/whole/exports" && ls -- *.onnx.xz | sed 's/\.onnx\.xz//')
  for name in $names; do unit accuracy "small-$name" small_export "$name"; done
  rank=2
  for name in ${models//,/ }; do
    [ "$rank" -gt "$round" ] || export_once "$name"
    unit accuracy "large-$name" large_export "$name"
  done
}

# The model for this and the next stage. The folder of results may have come here without its models. A model that is being made is waited for.
declare -A exporting=()
export_once() {
  mkdir -p "$out/accuracy"
  while [ -n "${exporting[$1]-}" ] && [ -d "/proc/${exporting[$1]}" ] && [ "$(date +%s)" -lt "$stage_ends" ]; do sleep 0.2; done
  [ -n "${exporting[$1]-}" ] && [ -d "/proc/${exporting[$1]}" ] && return
  exporting[$1]=''
  [ -e "$out/models/$1.onnx" ] || rm -f "$out/accuracy/export-$1.passed"
  unit accuracy "export-$1" make_model "$1"
}

# Begins to make the models of this round's measurements, beside everything else.
start_exports() {
  local name list=measurements needed stage_ends=$((started + ${budget:-$((minutes * 60))})) limit=600
  [[ " ${stages[*]} " == *' speed '* ]] || return
  [ -z "$few" ] || list=few_measurements
  needed=$($list | awk -v round="$round" '$1 <= round { print $2 }')
  for name in ${models//,/ }; do
    [[ " "${needed//$'\n'/ }" " == *" $name "* ]] && [ -z "${exporting[$name]-}" ] && [ ! -e "$out/models/$name.onnx" ] || continue
    export_once "$name" &
    exporting[$name]=$!
  done
}

# ---- speed ----

# Latency, first run, load, with graphs on or off, by the command alone.
bench() { "$build/tools/vm" bench "$1" -i "$2" --device "$device" --graphs "$3" --runs 1 --warmup 1 --json -; }

measure() { need python:numpy && "$python" "$root/bench/gpu_speed.py" "$@" --build "$build" --device "$device"; }

measure_model() {
  local name=$1
  shift
  need_model "$name" && measure "$out/models/$name.onnx" --name "$name" --folder "$out/models" "$@" ${emulated:+--torch-device cpu}
}

measure_nms() {
  need python:numpy && "$python" "$root/bench/gpu_nms.py" --build "$build" --device "$device" --kernels "$out/speed/nms.kernels" ${few:+--boxes 40 --runs 1} ${emulated:+--torch-device cpu} --json "$out/speed/nms.json"
}

# The time of a run by operator and by node, for the input that the export wrote; NAME.profile has it as JSON.
profile_of() {
  local file inputs=()
  for file in "$out/models/$1".*.npy; do inputs+=(-i "$(basename "$file" .npy | sed 's/.*\.//')=@$file"); done
  "$build/tools/vm" profile "$out/models/$1.onnx" "${inputs[@]}" --device "$device" ${few:+--runs 1} --json "$out/speed/$1.profile"
}

# The measurements in order. Rank, model, size, number of random sizes, engines of bench/gpu_speed.py, which run in one process, because the start of PyTorch takes up to 20
# seconds. torch.compile takes up to a minute for a size.
measurements() {
  cat <<'END'
1 mask 480x640 50 reed-tf32 reed-kernels-tf32 reed-tf32-libraries eager-tf32
1 bert_base 8x384 50 reed-f16 reed-kernels-f16 compile-f16 reed-f16-libraries
1 bert_base 1x128 0 reed-f16 compile-f16 reed-f16-libraries
1 mask 480x640 50 reed eager
1 bert_base 8x384 50 eager-f16
1 bert_base 1x128 0 eager-f16
2 mask 480x640 50 reed-queues reed-host eager-host reed-fetched reed-kernels
2 bert_base 1x128 0 reed-kernels-f16 compile-graphs-f16
2 mask 480x640 50 compile-tf32
3 mask 480x640 50 reed-libraries eager-f16
3 bert_base 8x384 50 reed reed-tf32 reed-tf32-libraries reed-queues reed-host eager eager-tf32 eager-host compile-graphs-f16
3 bert_base 1x128 0 reed reed-tf32 eager eager-tf32
3 ssdlite 480x640 50 reed reed-tf32 reed-queues reed-host reed-fetched reed-kernels eager eager-tf32 eager-host eager-f16
3 retinanet 480x640 50 reed reed-tf32 reed-queues reed-host reed-fetched reed-kernels eager eager-tf32 eager-host eager-f16
3 bert_base 8x384 50 compile compile-tf32
3 bert_base 1x128 0 compile compile-tf32
3 mask 480x640 50 compile compile-f16
3 ssdlite 480x640 50 compile compile-tf32 compile-f16
3 retinanet 480x640 50 compile compile-tf32 compile-f16
END
}

# With --few: every engine of that list for each model, at a small size.
few_measurements() {
  local name size
  for name in ${models//,/ }; do
    size=8x12
    [[ $name != bert* ]] || size=1x5
    echo "1 $name $size 1 $(measurements | cut -d' ' -f5- | tr ' ' '\n' | sort -ur | xargs)"
  done
}

stage_speed() {
  local list=measurements graphs order name size n engines engine first
  [ -z "$few" ] || list=few_measurements
  if [ -z "$models" ]; then
    for graphs in on off; do unit speed "subpixel-graphs-$graphs" bench "$build/tests/whole/subpixel.onnx" 1x3x2x3xf32=rand:1 $graphs; done
    unit speed subpixel-sizes measure "$build/tests/whole/subpixel.onnx" --sizes 2x4 --batched --random 1 --runs 1 --json "$out/speed/subpixel.json"
    unit speed nms measure_nms
    return
  fi
  while read -r -u 3 order name size n engines; do
    [[ ,$models, = *,$name,* ]] || continue
    rank=$order
    [ "$rank" -gt "$round" ] || export_once "$name"
    limit=$((usual_limit / 5)) first=${engines%% *}
    for engine in $engines; do
      limit=$((limit + 100))
      [[ $engine != compile* ]] || limit=$((limit + 140))
    done
    unit speed "$name-$size-$first" measure_model "$name" --sizes "$size" --random "$n" --engines "${engines// /,}" --missing --seconds 50 ${few:+--runs 1} --json "$out/speed/$name-$size.json"
  done 3< <("$list")
  rank=1 limit=$usual_limit
  unit speed nms measure_nms
  rank=3
  for name in ${models//,/ }; do unit speed "$name-profile" profile_of "$name"; done
}

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
}

write_results() { "$python" "$root/scripts/gpu_results.py" "$out" "$into" "$build" "$device" "$root" >"$out/results.log" 2>&1 || { cat "$out/results.log" >&2; failed=1; }; }

write_archive() { [ -z "$archive" ] || { tar -C "$out" --exclude ./packed --exclude ./packed.new --exclude ./models --exclude ./running --exclude ./main -czf "$archive.part" . && mv "$archive.part" "$archive"; }; }

# Runs one stage and writes its part, results and archive if a unit ran.
run_stage() {
  local stage=$1 ends=$2
  mkdir -p "$out/$stage"
  rm -f "$out/$stage/cut"
  rank=1 limit=$usual_limit stage_ends=$(($(date +%s) + minutes * 60))
  [ -z "$ends" ] || [ "$stage_ends" -le "$ends" ] || stage_ends=$ends
  "stage_$stage"
  [ -n "$budget" ] && [ ! -e "$out/$stage/changed" ] && return
  write_part "$stage"
  rm -f "$out/$stage/changed"
  if [ -e "$out/build/device.passed" ]; then write_results; fi
  write_archive
}

# When a stage ends at the latest, with a budget: at 6/10 of the time that is left, so that the stages after it have a part; the last one at its end.
end_of() {
  local now left
  [ -n "$budget" ] || return
  now=$(date +%s)
  left=$((started + budget - now))
  [ "$1" = "${stages[-1]}" ] || left=$((left * 6 / 10))
  echo $((now + left))
}

if [ -n "$pack" ]; then write_pack; exit; fi
out=$(mkdir -p "${out:-$root/build-gpu/check}" && cd "${out:-$root/build-gpu/check}" && pwd)
begin_alone
[ -z "$archive" ] || [ ! -e "$archive" ] || [ -d "$out/build" ] || tar -C "$out" -xzf "$archive" || exit 1
if [ -n "$packed" ]; then
  [ -d "$out/packed" ] || { rm -rf "$out/packed.new" && mkdir "$out/packed.new" && tar -xf "$packed" -C "$out/packed.new" && mv "$out/packed.new" "$out/packed"; } || exit 1
  build=$out/packed
fi
given_build=$build build=${build:-$root/build-gpu}
# A folder that was brought from another machine: its programs find the modules and the bundled libraries here.
[ -z "$given_build" ] || export LD_LIBRARY_PATH=$build:$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Wheels of cuDNN and cuBLASLt have their libraries in folders of their own, where PyTorch finds them and the loader does not.
wheels=$("$python" -c 'import glob, os, sysconfig; print(":".join(d for d in glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib")) if glob.glob(d + "/libcudnn.so.9") or glob.glob(d + "/libcublasLt.so.*")))' 2>/dev/null)
[ -z "$wheels" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels
export root device out build few emulated python run_files
export -f need with_option meson_words ninja_path tools_there archs set_up build_tree opens_device kernel_cases listed_cases sanitized small_export need_model make_model large_export
export -f bench measure measure_model measure_nms profile_of
# Without a card no unit can pass: the stage build says so, and this without that stage.
if [ -z "$emulated" ] && [[ " ${stages[*]} " != *' build '* ]]; then
  said=$([ -x "$build/tools/vm" ] || echo "$build has no program tools/vm: the stage build, --build or --packed brings it"; opens_device 2>/dev/null) ||
    { echo "$said" >&2; echo "the device cannot be opened: no stage runs" >&2; rm -f "$out/main"; exit 1; }
fi
# (an emulated device takes as long as it takes)
last_round=3 usual_limit=300
[ -z "$emulated" ] || usual_limit=3000
for round in $([ -z "$budget" ] || echo 1 2) $last_round; do
  for stage in "${stages[@]}"; do
    run_stage "$stage" "$(end_of "$stage")"
    [ "$stage" != build ] || [ -e "$out/build/device.passed" ] || { echo "the device cannot be opened: the other stages do not run"; failed=1; break 2; }
  done
done
wait
rm -f "$out/main"
cat "$out/results.log" 2>/dev/null
for stage in "${stages[@]}"; do [ ! -e "$out/$stage/cut" ] || { echo "cut: start the script once more, it goes on"; exit 75; }; done
words=(-name '*.failed')
[ -n "$emulated" ] || words+=(-o -name '*.missing')
for stage in "${stages[@]}"; do [ ! -d "$out/$stage" ] || [ -z "$(find "$out/$stage" "${words[@]}" -print)" ] || failed=1; done
[ "$failed" = 0 ]
