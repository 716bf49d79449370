#!/usr/bin/env bash
# Installs the missing packages for building and testing Reed on Debian 12. May be run again at any time; needs root (or sudo) only if a package is
# missing. With --cuda [FOLDER] it also gets NVIDIA's compiler from PyPI, unless nvcc is there, into FOLDER (default: build-cuda in this tree, where Meson looks
# for it; another folder's FOLDER/cuda/bin must be in PATH when Meson runs). About 300 MB; no root is needed for that part.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# One release of the compiler's parts: nvcc and ptxas, its headers, the code generator, the headers of the run time and of the standard library.
cuda_release='13.0.*'
cuda_packages=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl)
install_cuda() {
  local folder=$1 package wanted=() found
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    echo "CUDA: nvcc is installed"
    return
  fi
  if [ ! -x "$folder/cuda/bin/nvcc" ]; then
    echo "CUDA: installing nvcc $cuda_release from PyPI into $folder"
    for package in "${cuda_packages[@]}"; do wanted+=("$package==$cuda_release"); done
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q --disable-pip-version-check "${wanted[@]}"
    found=$(find "$folder/venv/lib" -path '*/nvidia/*/bin/nvcc' | head -n 1)
    [ -n "$found" ] || { echo "the packages ${cuda_packages[*]} hold no nvcc" >&2; exit 1; }
    ln -sfn "$(dirname "$(dirname "$found")")" "$folder/cuda"
  fi
  "$folder/cuda/bin/nvcc" --version | tail -n 2
}
cuda=''
case ${1:-} in
  '') ;;
  --cuda) cuda=${2:-$root/build-cuda} ;;
  *) echo "usage: install-deps.sh [--cuda [FOLDER]]" >&2; exit 2 ;;
esac

packages=(gcc g++ libc6-dev meson ninja-build pkg-config
  libcjson-dev libuv1-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev libpng-dev libjpeg-dev
  check libonnx-testdata python3-venv clang-format-14)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "dependencies: all installed"
  [ -z "$cuda" ] || install_cuda "$cuda"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "these packages are missing and only root can install them: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "dependencies: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -y -q --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# the package lists may be absent (a fresh system) or old: they are fetched if the first try fails
if ! install; then
  "${as_root[@]}" apt-get -o Acquire::Retries=3 update -q </dev/null >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  install || { cat "$log" >&2; exit 1; }
fi
[ -z "$cuda" ] || install_cuda "$cuda"
