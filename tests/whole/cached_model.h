/* Attention of queries over a cache of keys and values, as exporters write it, in several spellings. */
#ifndef TESTS_WHOLE_CACHED_MODEL_H_
#define TESTS_WHOLE_CACHED_MODEL_H_

#include <stdio.h>

#include "tests/whole/model.h"

enum { D = 4 };

typedef enum spelling {
  JOINED,       /* K and V are [batch, heads, length, D], joined along axis 2; K is transposed for the product */
  NEGATIVE,     /* the same, with axis -2 */
  TRANSPOSED,   /* K is [batch, heads, D, length], joined along axis 3 */
  LENGTH_FIRST, /* K and V are [batch, length, heads, D], joined along axis 1 and transposed afterwards */
  FLAT,         /* K and V are viewed as [batch * heads, length, D] */
  OPERATOR,     /* ONNX's Attention of opset 23 joins the rows itself */
  N_SPELLINGS
} spelling;

static inline const char *keys_type(spelling s, const char *length, char *out) {
  const char *form = s == TRANSPOSED ? "f32[b,h,%d,%s]" : s == LENGTH_FIRST ? "f32[b,%s,h,%d]" : "f32[b,h,%s,%d]";
  if (s == TRANSPOSED) sprintf(out, form, D, length);
  else sprintf(out, form, length, D);
  return out;
}

static inline int32_t axis_of(spelling s) { return s == TRANSPOSED ? 3 : s == LENGTH_FIRST ? 1 : 2; }

static inline onnx_build *cached(spelling s) {
  char type[64];
  onnx_build *b = build_open(s == OPERATOR ? 23 : 17);
  int64_t axis = s == NEGATIVE ? -2 : axis_of(s);
  build_input(b, "q", "f32[b,h,t,4]");
  build_input(b, "pk", keys_type(s, "p", type));
  build_input(b, "pv", keys_type(s == TRANSPOSED ? JOINED : s, "p", type));
  build_input(b, "nk", keys_type(s, "t", type));
  build_input(b, "nv", keys_type(s == TRANSPOSED ? JOINED : s, "t", type));
  if (s == OPERATOR) {
    build_node(b, "Attention", "q,nk,nv,,pk,pv", "y,k,v");
    build_output(b, "y", "f32[b,h,t,4]");
    build_output(b, "k", "f32[b,h,n,4]");
    build_output(b, "v", "f32[b,h,n,4]");
    return b;
  }
  build_int(b, build_node(b, "Concat", "pk,nk", "k"), "axis", axis);
  build_int(b, build_node(b, "Concat", "pv,nv", "v"), "axis", s == TRANSPOSED ? 2 : axis);
  const char *q = "q", *k = "k", *v = "v";
  if (s == LENGTH_FIRST) {
    build_ints(b, build_node(b, "Transpose", "k", "k1"), "perm", "0,2,1,3");
    build_ints(b, build_node(b, "Transpose", "v", "v1"), "perm", "0,2,1,3");
    k = "k1", v = "v1";
  }
  if (s == FLAT) {
    build_i64(b, "flat", "3", (int64_t[]){6, -1, D});
    build_node(b, "Reshape", "q,flat", "q1");
    build_node(b, "Reshape", "k,flat", "k1");
    build_node(b, "Reshape", "v,flat", "v1");
    q = "q1", k = "k1", v = "v1";
  }
  if (s != TRANSPOSED) {
    build_ints(b, build_node(b, "Transpose", k, "kt"), "perm", s == FLAT ? "0,2,1" : "0,1,3,2");
    k = "kt";
  }
  char operands[32];
  sprintf(operands, "%s,%s", q, k);
  build_node(b, "MatMul", operands, "scores");
  build_node(b, "Softmax", "scores", "weights");
  sprintf(operands, "weights,%s", v);
  build_node(b, "MatMul", operands, "y");
  build_output(b, "y", s == FLAT ? "f32[6,t,4]" : "f32[b,h,t,4]");
  build_output(b, "k", keys_type(s, "n", type));
  build_output(b, "v", keys_type(s == TRANSPOSED ? JOINED : s, "n", type));
  return b;
}

#endif
