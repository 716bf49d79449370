#!/bin/sh
# Compiles one file of kernels: compile.sh FATBIN PTX STEM NVCC ARGUMENT... The PTX is that of the newest architecture, as the fat binary holds it
# (device/cuda/proofs.py takes its hash); nvcc makes it on the way, so that the file is compiled once.
set -e
fatbin=$1 ptx=$2 stem=$3
shift 3
steps=$(mktemp -d)
trap 'rm -rf "$steps"' EXIT
"$@" --keep --keep-dir "$steps" -o "$fatbin"
# with one architecture STEM.ptx, with several STEM.compute_80.ptx, STEM.compute_90a.ptx and so on
cp "$(ls -v "$steps/$stem".ptx "$steps/$stem".compute_*.ptx 2>/dev/null | tail -n 1)" "$ptx"
