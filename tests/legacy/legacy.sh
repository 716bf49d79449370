#!/bin/bash
# Modules that commit e1fc776 compiled still load, verify and give its results. For every line of cases.txt: runs the module at the CPU level `reference` on the
# device, writes every output as .npy and compares its sha256 with "case output sha256" of expected.txt, which has these lines as e1fc776's own release build
# gave them, the same on host and sim. The level `reference` is plain C without contraction, so its bits hold for every build. Then the module runs at the machine's own level,
# whose kernels add in an order of their own, and every output must be near that of `reference`. Arguments: VM FOLDER DEVICE [--print]; --print shows the lines instead of comparing
# them.
set -euo pipefail
export LC_ALL=C
vm=$(readlink -f "$1") here=$(cd "$2" && pwd) device=$3 print=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
n=0
while read -r module arguments; do
  case $module in '' | '#'*) continue ;; esac
  n=$((n + 1))
  outputs=() expected=()
  for name in $("$vm" info "$here/$module.reed" | awk '$1 == "output" { print $2 }'); do
    outputs+=(-o "$name=$n.$module.$name.npy") expected+=(--expect "$name=$n.$module.$name.npy")
  done
  # shellcheck disable=SC2086
  if ! REED_CPU=reference "$vm" run "$here/$module.reed" $arguments "${outputs[@]}" --device "$device" --threads 1 >log 2>&1; then
    cat log
    echo "case $n ($module), level reference, $device: failed"
    exit 1
  fi
  for file in "$n.$module".*.npy; do echo "$file $(sha256sum <"$file" | cut -c1-64)"; done >>got
  # shellcheck disable=SC2086
  if ! "$vm" run "$here/$module.reed" $arguments "${expected[@]}" --rtol 1e-4 --atol 1e-5 --device "$device" >log 2>&1; then
    cat log
    echo "case $n ($module), the machine's level, $device: not near level reference"
    exit 1
  fi
done <"$here/cases.txt"
if [ "$print" = --print ]; then
  cat got
  exit
fi
[ "$n" -gt 0 ]
sort got | diff "$here/expected.txt" -
echo "$n cases, $(wc -l <got) outputs: at level reference the bits of e1fc776, near them at the machine's level"
