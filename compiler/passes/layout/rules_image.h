/* The rules of images. */
#ifndef COMPILER_PASSES_LAYOUT_RULES_IMAGE_H_
#define COMPILER_PASSES_LAYOUT_RULES_IMAGE_H_

#include "compiler/passes/layout/rule.h"

extern const layout_rule layout_convolution, layout_image, layout_maps, layout_levels, layout_deformable;

#endif
