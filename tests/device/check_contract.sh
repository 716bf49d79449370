#!/bin/sh
# The number of the device contract follows the headers' text: a struct of the same size with two fields exchanged, an operator at another place and a header that a header includes change it;
# a comment does not. The list of read files names them. Argument: the source root.
set -e
root=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number() { # DESCRIPTION: the number of the copy of the headers
  python3 "$root/device/contract.py" "$work/out.h" "$work/out.d" "$work" device/module.h ops/op.h ops/fused.h ops/packed.h
  sed -n 's/^#define DEVICE_CONTRACT //p' "$work/out.h" | grep '^0x[0-7][0-9a-f]\{7\}$' || { echo "no number" >&2; exit 1; }
}
copy() { for folder in device include base ops bytecode; do rm -rf "${work:?}/$folder"; cp -r "$root/$folder" "$work/$folder"; done; }
change() { # FILE SED: edits the copy
  cp "$work/$1" "$work/before"
  sed -i "$2" "$work/$1"
  ! cmp -s "$work/before" "$work/$1" || { echo "the edit of $1 did nothing"; exit 1; }
}
differs() { [ "$(number)" != "$plain" ] || { echo "$1: the same number"; exit 1; }; copy; }

copy
plain=$(number)
[ "$(number)" = "$plain" ]
for read in device/module.h device/device.h include/reed/operator.h include/reed/status.h base/diag.h ops/op.def ops/packed.h; do
  grep -qF "$work/$read" "$work/out.d" || { echo "$read is not read"; exit 1; }
done
change device/module.h 's|^typedef struct device_services {|/* a comment\n of two lines */\n&   // another|'
[ "$(number)" = "$plain" ] || { echo "a comment changes the number"; exit 1; }
copy
change device/module.h '/  const char \*version;/{h;d};/  const char \*name;/G'
differs "two fields exchanged"
change ops/op.def '0,/^OP(/s/^OP(/OP(Another, /'
differs "an operator before the first"
change include/reed/status.h 's/^#endif/int more;\n&/'
differs "a header of a header"
