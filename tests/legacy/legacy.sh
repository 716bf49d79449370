#!/bin/bash
# Modules that commit e1fc776 compiled still load, verify and give the bits that it gave. For every line of cases.txt: runs the module at each CPU level and
# on the device, writes every output as .npy and prints "level case output sha256"; expected.txt has these lines as e1fc776's own release build gave them, the
# same on host and sim. The level `reference` is plain C without contraction, so its bits hold for every build; those of `avx2` hold for builds with -O2 and
# -O3, which contract the same products and sums. Arguments: VM FOLDER DEVICE LEVELS [--print]; --print shows the lines instead of comparing them.
set -euo pipefail
vm=$(readlink -f "$1") here=$(cd "$2" && pwd) device=$3 levels=$4 print=${5:-}
grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo || levels=reference
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
n=0
while read -r module arguments; do
  case $module in '' | '#'*) continue ;; esac
  n=$((n + 1))
  outputs=()
  for name in $("$vm" info "$here/$module.reed" | awk '$1 == "output" { print $2 }'); do outputs+=(-o "$name=$n.$module.$name.npy"); done
  for level in $levels; do
    # shellcheck disable=SC2086
    if ! REED_CPU=$level "$vm" run "$here/$module.reed" $arguments "${outputs[@]}" --device "$device" --threads 1 >log 2>&1; then
      cat log
      echo "case $n ($module), $level, $device: failed"
      exit 1
    fi
    for file in "$n.$module".*.npy; do echo "$level $file $(sha256sum <"$file" | cut -c1-64)"; done >>got
    rm -f "$n.$module".*.npy
  done
done <"$here/cases.txt"
if [ "$print" = --print ]; then
  cat got
  exit
fi
[ "$n" -gt 0 ]
grep -E "^(${levels// /|}) " "$here/expected.txt" | sort >want
sort got | diff want -
echo "$n cases, $(wc -l <want) outputs, the bits of e1fc776"
