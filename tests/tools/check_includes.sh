#!/bin/sh
# The include edges of docs/architecture.md: which room may know which, and one door per outside dependency. Argument: the source root.
cd "$1" || exit 1
for file in $(find base bytecode shapefuncs ops device allocator loader vm compiler tools examples bench include -name '*.[ch]' -o -name '*.def' | sort); do
  awk -v file="$file" '
    BEGIN {
      # room -> rooms whose headers it may include, besides its own and include/reed
      may["base"] = ""
      may["bytecode"] = "base"
      may["shapefuncs"] = "base ops"
      may["ops"] = "base"
      may["ops/cpu"] = "base ops"
      may["ops/cuda"] = "base ops device"
      may["device"] = "base ops"
      may["allocator"] = "base device"
      may["loader"] = "base bytecode shapefuncs ops"
      may["vm"] = "base bytecode shapefuncs ops device allocator loader"
      may["compiler"] = "base bytecode shapefuncs ops"
      may["tools"] = "base"
      may["examples"] = ""
      may["bench"] = "base ops ops/cpu"
      may["include"] = ""
      # outside header -> where its door is (a regular expression on file names)
      door["uv.h"] = "^(vm|device|examples)/"
      door["cjson/cJSON.h"] = "^tools/"
      door["dnnl.h"] = "^ops/cpu/onednn/"
      door["oneapi/dnnl/dnnl.h"] = "^ops/cpu/onednn/"
      door["onnx.pb-c.h"] = "^compiler/onnx"
      door["png.h"] = "^tools/image"
      door["jpeglib.h"] = "^tools/image"
      door["check.h"] = "^tests/"
      room = file
      sub("/.*", "", room)
      if (file ~ "^ops/(cpu|cuda)/") { split(file, part, "/"); room = "ops/" part[2] }
      # generators of the docs expand the tables
      if (file ~ "^tools/gen") may["tools"] = "base bytecode ops shapefuncs loader"
    }
    /^ *# *include *[<"]/ {
      header = $0
      gsub(/^[^<"]*[<"]|[>"].*$/, "", header)
      if (header in door) {
        if (file !~ door[header]) { print file ": only " door[header] " may include " header; bad = 1 }
        next
      }
      target = header
      if (!sub("/[^/]*$", "", target)) next
      if (target ~ "^ops/(cpu|cuda)") { split(header, part, "/"); target = "ops/" part[2] } else sub("/.*", "", target)
      if (!(target in may) || target == room || target == "reed") next
      n = split(may[room], allowed, " ")
      ok = 0
      for (i = 1; i <= n; i++) if (allowed[i] == target) ok = 1
      if (!ok) { print file ": " room " may not include " header; bad = 1 }
    }
    END { exit bad }' "$file" || status=1
done
exit "${status:-0}"
