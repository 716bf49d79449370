/* A head that computes a map for every class and chooses one for each region, as torchvision's exporter writes it, and
 * near misses, for the tests of the chosen_class pass. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_CHOICES_H_
#define TESTS_COMPILER_PASSES_REWRITE_CHOICES_H_

#include "tests/compiler/passes/rewrite/heatmaps.h"

typedef enum choice {
  CHOICE_AS_EXPORTED,
  CHOICE_OF_LOGITS, /* the maps have no activation */
  CHOICE_WITHOUT_BIAS,
  CHOICE_OF_PLANES, /* maps have rows and columns still */
  CHOICE_SWAPPED,   /* operands of the sum and of the product are exchanged */
  CHOICE_TAKEN,
  CHOICE_OF_SHARES = CHOICE_TAKEN, /* the activation is Softmax over the classes */
  CHOICE_STEPPED,                  /* the convolution leaves out every second pixel */
  CHOICE_WIDE,                     /* the convolution has neighbours */
  CHOICE_GROUPED,                  /* half of the features for half of the classes */
  CHOICE_OTHER_COUNT,              /* regions are less than a number of classes apart */
  CHOICE_FROM_ONE,                 /* regions are counted from 1 */
  CHOICE_GIVEN,                    /* classes are an input: any integers */
  CHOICE_OUTSIDE,                  /* a class number may be one beyond the last class */
  CHOICE_COMPUTED,                 /* classes are computed from the table's elements */
  CHOICE_OF_PIXELS,                /* the choice takes a row of a map */
  N_CHOICES
} choice;

static inline onnx_build *choice_open(choice c) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,6,8]");
  build_input(b, "which", "i64[n]");
  float numbers[144];
  for (int i = 0; i < 144; i++) numbers[i] = (float)(i * 37 % 19) / 8 - 1;
  build_f32(b, "body", "4,2,3,3", numbers);
  build_f32(b, "head", c == CHOICE_WIDE ? "4,4,3,3" : c == CHOICE_GROUPED ? "4,2,1,1" : "4,4,1,1", numbers);
  build_f32(b, "bias", "4", (float[]){0.5f, -1, 0.25f, 2});
  build_i64(b, "table", "5", c == CHOICE_OUTSIDE ? (int64_t[]){1, 4, 0, 3, 2} : (int64_t[]){1, 3, 0, 3, 2});
  build_i64(b, "zero", "", (int64_t[]){0});
  build_i64(b, "one", "", (int64_t[]){1});
  build_i64(b, "two", "", (int64_t[]){2});
  build_i64(b, "planes", "3", (int64_t[]){-1, 6, 8});
  build_i64(b, "pixels", "2", (int64_t[]){-1, 8});
  build_ints(b, build_node(b, "Conv", "x,body", "f"), "pads", "1,1,1,1");
  build_node_t *conv = build_node(b, "Conv", c == CHOICE_WITHOUT_BIAS ? "f,head" : "f,head,bias", "logits");
  if (c == CHOICE_STEPPED) build_ints(b, conv, "strides", "2,2");
  if (c == CHOICE_WIDE) build_ints(b, conv, "pads", "1,1,1,1");
  if (c == CHOICE_GROUPED) build_int(b, conv, "group", 2);
  heatmaps_nodes(b, c == CHOICE_OF_LOGITS   ? "maps=Identity logits"
                    : c == CHOICE_OF_SHARES ? "maps=Softmax[axis=1] logits"
                                            : "maps=Sigmoid logits");
  heatmaps_nodes(b, "e=Shape logits;n=Gather e,zero;count=Gather e,one");
  if (c == CHOICE_FROM_ONE) heatmaps_nodes(b, "end=Add n,one;regions=Range one,end,one");
  else heatmaps_nodes(b, "regions=Range zero,n,one");
  heatmaps_nodes(b, c == CHOICE_GIVEN      ? "classes=Abs which"
                    : c == CHOICE_COMPUTED ? "some=Gather table,which;classes=Mod some,two"
                                           : "classes=Gather table,which");
  heatmaps_nodes(b, c == CHOICE_OTHER_COUNT ? "first=Mul regions,two"
                    : c == CHOICE_SWAPPED   ? "first=Mul count,regions"
                                            : "first=Mul regions,count");
  heatmaps_nodes(b, c == CHOICE_SWAPPED ? "numbers=Add first,classes" : "numbers=Add classes,first");
  heatmaps_nodes(b, c == CHOICE_OF_PLANES   ? "flat=Reshape maps,planes"
                    : c == CHOICE_OF_PIXELS ? "flat=Reshape maps,pixels"
                                            : "flat=Flatten[axis=2] maps");
  heatmaps_nodes(b, "result=Gather flat,numbers");
  build_output(b, "result", "f32");
  return b;
}

#endif
