#!/bin/sh
# docs/architecture.md lists the kinds of devices as ops/targets.def does. Argument: the source root.
cd "$1" || exit 1
rows=$(sed -n 's/^TARGET(\([a-z-]*\), .*, "\([^"]*\)")$/| `\1` | \2 |/p' ops/targets.def)
listed=$(sed -n '/^| device | is |/,/^$/p' docs/architecture.md | grep '^| `')
[ "$(echo "$rows" | wc -l)" -ge 2 ] || { echo "ops/targets.def has no rows"; exit 1; }
[ "$rows" = "$listed" ] || { echo "ops/targets.def:"; echo "$rows"; echo "docs/architecture.md:"; echo "$listed"; exit 1; }
