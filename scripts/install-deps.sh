#!/usr/bin/env bash
# Installs the missing packages for building and testing Reed on Debian 12. May be run again at any time; needs root (or sudo) only if a package is
# missing.
set -euo pipefail

packages=(gcc g++ libc6-dev meson ninja-build pkg-config
  libcjson-dev libuv1-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev libpng-dev libjpeg-dev
  check libonnx-testdata python3-venv clang-format-14)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "dependencies: all installed"
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
