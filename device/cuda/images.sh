#!/bin/sh
# Writes the header that embeds images of kernels, and lists them in `cuda_images` with NULL at the end. Arguments: the header, the images.
out=$1
shift
{
  i=0
  for image; do
    cat <<END
__asm__(".section .rodata\n.balign 64\ncuda_image_$i:\n.incbin \"$(realpath "$image")\"\n.previous\n");
extern const char cuda_image_$i[] __attribute__((visibility("hidden")));
END
    i=$((i + 1))
  done
  echo 'const void *const cuda_images[] = {'
  n=$i i=0
  while [ $i -lt $n ]; do
    echo "  cuda_image_$i,"
    i=$((i + 1))
  done
  echo '  0};'
} >"$out"
