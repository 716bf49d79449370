#!/bin/sh
# Modules are found beside the library, in any folder: libraries and command are copied, laid out as in an installation, to a folder that no build knows.
# Arguments: the build folder, the vm, libreed, libreed-compiler, libreed-sim.
build=$(realpath "$1") vm=$(realpath "$2") library=$(realpath "$3") compiler=$(realpath "$4") sim=$(realpath "$5")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib" "$work/elsewhere" && cp "$vm" "$work/" && cp "$library" "$work/lib/$(basename "$library" | sed 's/\(\.so\.[0-9]*\).*/\1/')" &&
  cp "$compiler" "$work/lib/$(basename "$compiler" | sed 's/\(\.so\.[0-9]*\).*/\1/')" || exit 1
cd "$work" || exit 1
cat >add.rasm <<'TEXT'
.module "add" producer "test" "1" devices 2
.type x = f32[n] "x"
.type y = f32[n] "y"
.inputs x
.outputs y
.site neg = Neg (1 -> 1) "neg"
.function main (x) -> (y) registers 4 0
  assert.shape r0, x
  epoch.enter 0, plan, [r0:shape], []
  shape.like r1, r0, device
  shape neg, device, [r2], [r1:shape]
plan:
  epoch.plan 0
  copy r1, r0, input, neg, 0
  invoke neg, device, [r2], [r1]
  kill r1
  epoch.end 0
  readback r3, r2, output, neg, 0
  sync
  kill r2
  return [r3], []
TEXT
run() { LD_LIBRARY_PATH=$work/lib ./vm run add.reed -i 3xf32=1,2,3 --device "$1" >out 2>&1; }
LD_LIBRARY_PATH=$work/lib ./vm asm add.rasm -o add.reed || exit 1
run sim && { echo "a module that is not there was found:"; cat out; exit 1; }
grep -q "there is no device 'sim' here: no module '.*/lib/libreed-sim.so'" out || { cat out; exit 1; }
cp "$sim" lib/ && cp "$sim" elsewhere/other.so || exit 1
run sim || { cat out; exit 1; }
grep -q -- '-3' out || { cat out; exit 1; }
run "$work/elsewhere/other.so" || { cat out; exit 1; }
# broken modules: one sentence and status 4, no signal
refused() {
  run "$1"
  [ $? = 4 ] || { echo "$2: not refused:"; cat out; exit 1; }
  grep -q "$2" out || { echo "no word of '$2':"; cat out; exit 1; }
}
cp "$sim" lib/libreed-cuda.so && refused cuda "the module of device 'cuda' is that of 'sim'"
rm lib/libreed-cuda.so && head -c 20000 "$sim" >lib/libreed-cuda.so && refused cuda "libreed-cuda.so' cannot be loaded: the file is cut"
refused "$work/lib/libreed-cuda.so" 'the file is cut'
rm lib/libreed-cuda.so && echo text >lib/libreed-cuda.so && refused cuda "libreed-cuda.so' cannot be loaded: .*file too short"
for source in 'int x;=it has no reed_device_module' 'void *reed_device_module(void) { return 0; }=its reed_device_module gives none'; do
  rm lib/libreed-cuda.so && echo "${source%=*}" | cc -shared -fPIC -x c - -o lib/libreed-cuda.so && refused cuda "${source#*=}"
done
rm lib/libreed-cuda.so
# the same layout as `meson install` gives
[ -d "$build/meson-info" ] || exit 0
installed() { grep -o "\"[^\"]*/$1\"" "$build/meson-info/intro-installed.json" | tail -1 | tr -d '"'; }
for module in "$build"/libreed-*.so; do
  module=$(basename "$module")
  case $module in libreed-compiler.so) continue ;; esac
  [ -n "$(installed "$module")" ] || { echo "$module is not installed"; exit 1; }
  [ "$(dirname "$(installed "$module")")" = "$(dirname "$(installed "$(basename "$library")")")" ] || { echo "$module is installed apart from libreed"; exit 1; }
done
