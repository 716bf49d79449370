/* Graphs of images for the layout pass, each in one line: "c=Conv x,w8x8x3x3[pads=1,1,1,1];o=Relu c". x is the input;
 * the result is the last name. The name of a constant gives its contents: w8x4 is f32[8,4] of made up numbers, i_1_-1
 * is i64[2]{1,-1}, s_3 an i64 scalar, f_1_2 f32[2]{1,2}. */
#ifndef TESTS_COMPILER_PASSES_LAYOUT_PICTURES_H_
#define TESTS_COMPILER_PASSES_LAYOUT_PICTURES_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/onnx_build.h"

typedef struct picture {
  const char *what, *x, *text;
  int left;       /* Transposes after all passes */
  bool last;      /* some operator has channels_last */
  bool not_empty; /* the graph itself fails where symbolic extents are 0 */
} picture;

#define CONV3 "w8x8x3x3[pads=1,1,1,1]"
static const picture pictures[] = {
    {"a picture through convolutions and a pool", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Relu a;c=MaxPool b[kernel_shape=3,3 strides=2,2 pads=1,1,1,1];d=Conv c," CONV3
     ";o=Sigmoid d",
     1, true},
    {"features through three convolutions", "f32[n,8,h,w]",
     "a=Conv x," CONV3 ";b=Relu a;c=Conv b," CONV3 ";d=Tanh c;o=Conv d," CONV3, 2, true},
    {"one convolution", "f32[n,8,h,w]", "a=Conv x," CONV3 ";o=Relu a", 0, false},
    {"one convolution in Winograd's form", "f32[n,16,h,w]", "a=Conv x,w16x16x3x3[pads=1,1,1,1];o=Relu a", 2, true},
    {"a dilated one in Winograd's form", "f32[n,16,h,w]", "a=Conv x,w16x16x3x3[pads=2,2,2,2 dilations=2,2];o=Relu a", 2,
     true},
    {"slices of a volume in Winograd's form", "f32[n,16,d,h,w]",
     "a=Conv x,w16x16x1x3x3[pads=0,1,1,0,1,1 strides=2,1,1];o=Relu a", 2, true},
    {"one with stride 2", "f32[1,64,24,24]", "o=Conv x,w64x64x3x3[pads=1,1,1,1 strides=2,2]", 0, false},
    {"one with dilation", "f32[n,64,h,w]", "o=Conv x,w64x64x3x3[pads=2,2,2,2 dilations=2,2]", 2, true},
    {"one by groups of 16", "f32[n,32,h,w]", "o=Conv x,w32x16x3x3[pads=1,1,1,1 group=2]", 2, true},
    {"one with weights from a run", "f32[n,16,h,w]",
     "m=ReduceMean x[keepdims=0];k=Mul w16x16x3x3,m;o=Conv x,k[pads=1,1,1,1]", 0, false, true},
    {"one of pixels", "f32[n,64,h,w]", "o=Conv x,w64x64x1x1", 0, false},
    {"one of few pixels", "f32[n,128,7,7]", "o=Conv x,w128x128x1x1", 2, true},
    {"two of pixels, narrow between", "f32[n,64,h,w]", "a=Conv x,w16x64x1x1;b=Relu a;o=Conv b,w64x16x1x1", 0, false},
    {"two of pixels, wide between", "f32[n,32,h,w]", "a=Conv x,w256x32x1x1;b=Relu a;o=Conv b,w32x256x1x1", 2, true},
    {"two depthwise ones", "f32[n,16,h,w]",
     "a=Conv x,w16x1x3x3[group=16 pads=1,1,1,1];b=Relu a;o=Conv b,w16x1x3x3[group=16 pads=1,1,1,1]", 0, false},
    {"two depthwise ones of many taps", "f32[n,16,h,w]",
     "a=Conv x,w16x1x7x7[group=16 pads=3,3,3,3];b=Relu a;o=Conv b,w16x1x7x7[group=16 pads=3,3,3,3]", 2, true},
    {"one convolution of a picture", "f32[n,3,h,w]", "a=Conv x,w8x3x3x3[pads=1,1,1,1];o=Relu a", 0, false},
    {"a head of boxes", "f32[1,3,10,12]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a,w12x8x1x1;r=Reshape b,i_1_-1_4_10_12;t=Transpose "
     "r[perm=0,3,4,1,2];o=Reshape t,i_1_-1_4",
     0, true},
    {"a head of boxes by its own shape", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a,w12x8x1x1;s=Shape b;n1=Gather s,i_0;hw=Gather s,i_2_3;q=Concat "
     "n1,i_3_4,hw[axis=0];r=Reshape b,q;"
     "t=Transpose r[perm=0,3,4,1,2];u=Shape b[start=2];v=ReduceProd u[keepdims=1];v3=Mul v,i_3;z=Concat "
     "n1,v3,i_4[axis=0];o=Reshape t,z",
     0, true, true},
    {"regions for a matrix", "f32[1,3,10,12]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";p=RoiAlign b,w5x4,i_0_0_0_0_0[output_height=2 output_width=3 sampling_ratio=2];f=Flatten p[axis=1];"
     "o=Gemm f,w48x7,w7",
     0, true},
    {"regions for a matrix in columns, reshaped", "f32[1,3,10,12]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";p=RoiAlign b,w5x4,i_0_0_0_0_0[output_height=2 output_width=3];f=Reshape p,i_5_-1;o=Gemm f,w7x48[transB=1]",
     0, true},
    {"a matrix that somebody else reads", "f32[1,3,4,5]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";f=Flatten b[axis=1];g=Gemm f,w160x7;h=ReduceSum f,i_1[keepdims=1];o=Add g,h",
     1, true},
    {"squeeze and excite", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];g=GlobalAveragePool a;r=Conv g,w2x8x1x1;e=Relu r;k=Conv e,w8x2x1x1;i=Sigmoid "
     "k;m=Mul i,a;b=Conv m," CONV3 ";p=GlobalMaxPool b;f=Flatten p;o=Gemm f,w8x5",
     0, true},
    /* Tanh, because rounding that moves large offsets moves far more than results of products */
    {"a deformable convolution with computed offsets and masks", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];r=Conv a,w18x8x3x3[pads=1,1,1,1];p=Tanh r;q=Conv a,w9x8x3x3[pads=1,1,1,1];"
     "m=Sigmoid q;d=DeformConv a,w8x8x3x3,p,,m[pads=1,1,1,1];o=Conv d," CONV3,
     1, true},
    {"a pyramid", "f32[1,3,8,12]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=MaxPool a[kernel_shape=2,2 strides=2,2];c=Conv b," CONV3
     ";u=Resize c,,f_1_1_2_2[mode=linear];d=Add u,a;v=Resize b,,,i_1_8_8_12;"
     "e=Concat d,v,x[axis=1];o=Conv e,w4x19x3x3",
     2, true},
    {"slices, pads, splits", "f32[n,3,8,12]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];p=Pad a,i_0_0_1_2_0_1_0_3;s=Slice p,i_1_0,i_9_7,i_1_3,i_2_3;q=Slice "
     "p,i_0_0_1,i_99_4_5;y,z=Split s[axis=1];m=Mul y,z;k=Concat m,z[axis=1];"
     "c=Conv q,w4x4x1x1;g=ReduceMean c,i_2_3;o=Mul k,g",
     1, true},
    {"reductions", "f32[n,3,5,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3 ";s=Softmax b[axis=1];m=ReduceSum s,i_1[keepdims=1];n=ReduceL2 "
     "b,i_-3[keepdims=1];k=Mul s,n;l=ReduceMax k,i_2_3[keepdims=0];"
     "t,u=TopK b,i_2[axis=1];v=Add t,m;w=ReduceMean v[keepdims=0];o=Add l,w",
     0, true},
    {"a map of classes", "f32[n,3,5,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3 ";g=ArgMax b[axis=1 keepdims=0];o=Cast g[to=1]", 0, true},
    {"constants that broadcast", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Mul a,w8x1x1;c=Add w1x8x1x1,b;d=PRelu c,w8x1x1;e=Greater d,w1;f=Where "
     "e,d,w8x1x1;g=Clip f;h=Conv g," CONV3 ";o=Sub h,w1",
     1, true},
    {"depth to space", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];d=DepthToSpace a[blocksize=2 mode=CRD];e=Conv "
     "d,w8x2x3x3[pads=1,1,1,1];f=DepthToSpace e[blocksize=2];g=SpaceToDepth f[blocksize=2];h=Add g,e;"
     "o=Conv h," CONV3,
     1, true},
    {"transposed and depthwise convolutions", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=ConvTranspose a,w8x8x2x2[strides=2,2];c=Conv b,w8x1x3x3[group=8 "
     "pads=1,1,1,1];d=AveragePool c[kernel_shape=2,2 strides=2,2];"
     "o=Conv d," CONV3,
     1, true},
    {"signals", "f32[n,2,l]",
     "a=Conv x,w16x2x3[pads=1,1];b=Relu a;c=Conv b,w16x16x3[pads=1,1];d=MaxPool c[kernel_shape=2 pads=1,0];o=Conv "
     "d,w4x16x1",
     1, true},
    {"signals of few channels", "f32[n,2,l]",
     "a=Conv x,w8x2x3[pads=1,1];b=Relu a;c=Conv b,w8x8x3[pads=1,1];d=Relu c;o=Conv d,w4x8x3[pads=1,1]", 0, false},
    {"signals of few channels at the end", "f32[n,64,l]",
     "a=Conv x,w64x64x3[pads=1,1];b=Relu a;c=Conv b,w8x64x3[pads=1,1];d=Relu c;e=Conv d,w8x8x7[pads=3,3];f=Relu "
     "e;o=Conv "
     "f,w8x8x7[pads=3,3]",
     2, true},
    {"volumes", "f32[1,2,l,5,4]", "a=Conv x,w8x2x3x3x3[pads=1,1,1,1,1,1];b=Relu a;o=Conv b,w4x8x1x1x1", 1, true},
    {"rows of a picture", "f32[2,3,5,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";g=Gather b,s_1[axis=0];q=Squeeze g,;u=Unsqueeze g,i_0;k=Gather u,i_5_0_2[axis=1];e=Expand k,i_2_3_5_6;"
     "o=Conv e,w4x3x3x3",
     1, true},
    {"an expanded norm", "f32[n,3,5,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];n=ReduceL2 a,i_1[keepdims=1];s=Shape a;e=Expand n,s;d=Div a,e;m=Mul "
     "d,w8x1x1;o=Conv m," CONV3,
     1, true},
    {"maps as a sequence", "f32[n,3,5,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";r=Reshape b,i_0_8_30;t=Transpose r[perm=0,2,1];o=MatMul t,w8x5",
     0, true},
    {"a norm of groups", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];g=Reshape a,i_0_2_-1;i=InstanceNormalization g,w2,w2;s=Shape a;r=Reshape "
     "i,s;m=Mul r,w8x1x1;b=Relu m;o=Conv b," CONV3,
     1, true, true},
    {"norms before convolutions", "f32[n,3,h,w]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Relu a;c=BatchNormalization b,w8,w8,w8,f_1_2_1_2_3_1_1_2;d=Conv c," CONV3
     ";e=InstanceNormalization d,w8,w8;o=Conv e," CONV3,
     1, true, true},
    {"around an element-wise operator", "f32[n,8,h,w]",
     "t=Transpose x[perm=0,2,3,1];r=Relu t;m=Mul r,w1;o=Transpose m[perm=0,3,1,2]", 0, false},
    {"another permutation", "f32[n,4,4,4]", "t=Transpose x[perm=0,2,3,1];u=Transpose x[perm=0,1,3,2];o=Add t,u", 2,
     false},
    {"a Transpose that somebody else reads", "f32[n,4,4,5]",
     "t=Transpose x[perm=0,2,3,1];r=Relu t;u=MatMul t,w4x3;v=MatMul r,w4x3;o=Add u,v", 1, false},
    {"the indices of a pool", "f32[n,3,6,8]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3
     ";p,q=MaxPool b[kernel_shape=2,2 strides=2,2];c=Cast q[to=1];o=Add p,c",
     1, true},
    {"a Reshape across pixels and channels", "f32[1,3,4,6]",
     "a=Conv x,w8x3x3x3[pads=1,1,1,1];b=Conv a," CONV3 ";r=Reshape b,i_1_4_48;o=Relu r", 1, true},
};

/* Adds the constant that a name says; other names are values. */
static inline void picture_constant(onnx_build *b, const char *name) {
  int64_t ints[16], n = 1;
  char dims[64] = "";
  float *floats;
  int count = 0;
  const char *at = name + 1;
  if (strchr("wisf", name[0]) == NULL || (name[0] == 'w' ? name[1] < '0' || name[1] > '9' : name[1] != '_')) return;
  while (*at && count < 16) ints[count++] = strtoll(at + (*at == '_' || *at == 'x'), (char **)&at, 10);
  if (name[0] == 'w') {
    for (int i = 0; i < count; n *= ints[i++])
      snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i ? "," : "", (long long)ints[i]);
  } else {
    n = count;
    if (name[0] != 's') snprintf(dims, sizeof dims, "%d", count);
  }
  floats = calloc((size_t)n, sizeof *floats);
  uint32_t seed = 99;
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    floats[i] = name[0] == 'w' ? (float)(seed >> 8) / (1 << 24) - 0.4f : (float)ints[i];
  }
  if (name[0] == 'w' || name[0] == 'f') build_f32(b, name, dims, floats);
  else build_i64(b, name, dims, ints);
  free(floats);
}

/* "pads=1,1,1,1 mode=linear": whole numbers are ints where there are several or the attribute always is a list. */
static inline void picture_attributes(onnx_build *b, build_node_t *n, char *text) {
  static const char lists[] = " pads strides kernel_shape perm dilations ";
  for (char *part; (part = strsep(&text, " "));) {
    char *value = strchr(part, '='), key[32];
    *value++ = 0;
    snprintf(key, sizeof key, " %s ", part);
    if (strstr(lists, key)) build_ints(b, n, part, value);
    else if (*value >= 'A') build_string(b, n, part, value);
    else build_int(b, n, part, atoll(value));
  }
}

/* The model; its one output is "o". */
static inline onnx_build *picture_open(const picture *p) {
  onnx_build *b = build_open(18);
  char text[1024], seen[1024] = " ", *rest = text;
  snprintf(text, sizeof text, "%s", p->text);
  build_input(b, "x", p->x);
  for (char *node; (node = strsep(&rest, ";"));) {
    char *outputs = strsep(&node, "="), *op = strsep(&node, " "), *attributes = strchr(node ? node : "", '['),
         *end = node ? strchr(node, ']') : NULL;
    if (attributes) *attributes++ = 0;
    if (end) *end = 0;
    char names[256], *name = names;
    snprintf(names, sizeof names, "%s", node);
    for (char *one; (one = strsep(&name, ","));) {
      char key[64];
      snprintf(key, sizeof key, " %s ", one);
      if (*one && !strstr(seen, key)) picture_constant(b, one);
      strncat(seen, key + 1, sizeof seen - strlen(seen) - 1);
    }
    build_node_t *n = build_node(b, op, node, outputs);
    if (attributes) picture_attributes(b, n, attributes);
  }
  build_output(b, "o", "f32");
  return b;
}

#endif
