#!/bin/sh
# docs/architecture.md lists the kinds of devices as device/names.def does. Argument: the source root.
cd "$1" || exit 1
sed -n 's/^DEVICE(\([a-z]*\), "\(.*\)")$/| `\1` | \2 |/p' device/names.def >/dev/null || exit 1
status=0
n=0
while IFS= read -r row; do
  n=$((n + 1))
  grep -qF "$row" docs/architecture.md || { echo "docs/architecture.md lacks: $row"; status=1; }
done <<ROWS
$(sed -n 's/^DEVICE(\([a-z]*\), "\(.*\)")$/| `\1` | \2 |/p' device/names.def)
ROWS
[ "$n" -ge 2 ] || { echo "device/names.def: $n rows"; exit 1; }
[ "$n" -eq "$(sed -n '/^| device | is |/,/^$/p' docs/architecture.md | grep -c '^| `')" ] || { echo "docs/architecture.md lists others, too"; status=1; }
exit $status
