#!/bin/sh
# Writes a C file that embeds the image of the kernels as the bytes `cuda_image`. Arguments: the image, the C file.
cat >"$2" <<END
__asm__(".section .rodata\\n.balign 64\\n.global cuda_image\\ncuda_image:\\n.incbin \\"$(realpath "$1")\\"\\n.previous\\n");
END
