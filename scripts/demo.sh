#!/usr/bin/env bash
# From a clean checkout on a bare Debian 12 to a picture with detections: installs missing packages, builds, compiles the example model (a Mask R-CNN
# that takes pictures of any size), runs it on a scene and draws its detections into out/scene0.png.
set -euo pipefail
cd "$(dirname "$0")/.."

times=()
part() { # part NAME COMMAND...
  local name=$1 begin=$EPOCHREALTIME
  shift
  echo "== $name"
  "$@"
  times+=("$(awk -v n="$name" -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%-8s %8.2f s", n, b - a }')")
}

build() {
  [ -f build/build.ninja ] || meson setup build --buildtype=release >build.log 2>&1 || { cat build.log >&2; return 1; }
  ninja -C build tools/vm >build.log 2>&1 || { tail -n 50 build.log >&2; return 1; }
  rm -f build.log
  echo "built build/tools/vm"
}

compile() { build/tools/vm compile examples/shapes/shapes.onnx -o out/shapes.reed --report out/shapes.report.json; }

run() {
  build/tools/vm run out/shapes.reed -i image=@examples/shapes/scene0_256x320.png \
    -o boxes=out/scene0_boxes.npy -o labels=out/scene0_labels.npy -o scores=out/scene0_scores.npy -o masks=out/scene0_masks.npy \
    --draw out/scene0.png --draw-scale 3 --labels examples/shapes/labels.txt --stats out/scene0.stats.json
}

mkdir -p out
part install scripts/install-deps.sh
part build build
part compile compile
part run run

echo
echo "time of each part:"
printf '  %s\n' "${times[@]}"
echo "the module is out/shapes.reed, the picture with boxes, labels, scores and masks is out/scene0.png"
