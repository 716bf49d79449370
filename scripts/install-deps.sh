#!/usr/bin/env bash
# Installs the missing packages for building and testing Reed on Debian 12. May be run again at any time; needs root (or sudo) only if a package is
# missing. With --cuda [FOLDER] it also gets from PyPI NVIDIA's compiler, unless nvcc is there, and the libraries cuDNN and cuBLASLt, unless the loader finds them,
# into FOLDER (default: build-cuda in this tree, where Meson looks for the compiler and the tests for the libraries; another folder's FOLDER/cuda/bin must be in PATH
# when Meson runs). About 300 MB for the compiler and 1.2 GB for the libraries; --cuda-compiler [FOLDER] gets the compiler alone. No root is needed for that part.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# One release of the compiler's parts: nvcc and ptxas, its headers, the code generator, the headers of the run time and of the standard library.
cuda_release='13.0.*'
cuda_packages=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl)
# The libraries of the same major version.
library_packages=("nvidia-cublas==$cuda_release" "nvidia-cudnn-cu${cuda_release%%.*}>=9.8")
# Installs packages into the folder's environment, and links the folder that holds a file of theirs: from_pypi FOLDER NAME FILE PACKAGE...
from_pypi() {
  local folder=$1 name=$2 file=$3 found
  shift 3
  [ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q --disable-pip-version-check "$@"
  found=$(find "$folder/venv/lib" -path "*/nvidia/*/$file" | head -n 1)
  [ -n "$found" ] || { echo "the packages $* hold no $file" >&2; exit 1; }
  ln -sfn "$(dirname "$(dirname "$found")")" "$folder/$name"
}
install_compiler() {
  local folder=$1
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    echo "CUDA: nvcc is installed"
    return
  fi
  if [ ! -x "$folder/cuda/bin/nvcc" ]; then
    echo "CUDA: installing nvcc $cuda_release from PyPI into $folder"
    from_pypi "$folder" cuda bin/nvcc "${cuda_packages[@]/%/==$cuda_release}"
  fi
  "$folder/cuda/bin/nvcc" --version | tail -n 2
}
install_libraries() {
  local folder=$1 blas=libcublasLt.so.${cuda_release%%.*} dnn=libcudnn.so.9 loads='import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]'
  if python3 -c "$loads" $blas $dnn 2>/dev/null; then
    echo "CUDA: cuDNN and cuBLASLt are installed"
    return
  fi
  if [ ! -e "$folder/cublas/lib/$blas" ] || [ ! -e "$folder/cudnn/lib/$dnn" ]; then
    echo "CUDA: installing cuDNN and cuBLASLt from PyPI into $folder"
    from_pypi "$folder" cublas lib/$blas "${library_packages[@]}"
    from_pypi "$folder" cudnn lib/$dnn "${library_packages[@]}"
  fi
  LD_LIBRARY_PATH=$folder/cublas/lib:$folder/cudnn/lib python3 -c "$loads" $blas $dnn
  echo "CUDA: for cuDNN and cuBLASLt: export LD_LIBRARY_PATH=$(cd "$folder" && pwd)/cublas/lib:$(cd "$folder" && pwd)/cudnn/lib"
}
install_cuda() {
  [ -z "$cuda" ] || install_compiler "$cuda"
  [ -z "$libraries" ] || install_libraries "$cuda"
}
cuda='' libraries=''
case ${1:-} in
  '') ;;
  --cuda) cuda=${2:-$root/build-cuda} libraries=yes ;;
  --cuda-compiler) cuda=${2:-$root/build-cuda} ;;
  *) echo "usage: install-deps.sh [--cuda|--cuda-compiler [FOLDER]]" >&2; exit 2 ;;
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
  install_cuda
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
install_cuda
