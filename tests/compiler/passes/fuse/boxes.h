/* Arithmetic on single columns of boxes, as exporters of detectors write it, for the pass `columns`. */
#ifndef TESTS_COMPILER_PASSES_FUSE_BOXES_H_
#define TESTS_COMPILER_PASSES_FUSE_BOXES_H_

#include "tests/compiler/passes/rewrite/spelled.h"

/* x and y: f32[n,4]; w: f32[n,12]; s: f32[n]; t: f32[4,n]; g: f32[n,3,4]. `made`: the programs that are expected; 0: a
 * near miss, which stays. "|" in front of a text: its first name is an output too. */
typedef struct box_case {
  const char *what, *text;
  int made, n_left; /* FusedColumns; all operators that are left but views, -1: not asked */
} box_case;

#define X_COLUMNS "x0=Gather[1] x,i0;x1=Gather[1] x,i1;x2=Gather[1] x,i2;x3=Gather[1] x,i3;"
#define Y_SLICES "a=Slice y,from0,to1,on1;b=Slice y,from1,to2,on1;c=Slice y,from2,to3,on1;d=Slice y,from3,to4,on1;"
#define ENDS(x0, x1, x2, x3) \
  "u0=Unsqueeze " x0 ",on1;u1=Unsqueeze " x1 ",on1;u2=Unsqueeze " x2 ",on1;u3=Unsqueeze " x3 ",on1;"
#define CORNERS "h0=Mul x2,half;h1=Mul x3,half;p=Sub x0,h0;q=Sub x1,h1;r=Add x0,h0;e=Add x1,h1;"

static const box_case box_cases[] = {
    {"corners from centres, by Gathers", X_COLUMNS CORNERS ENDS("p", "q", "r", "e") "o=Concat[1] u0,u1,u2,u3", 1, 1},
    {"corners from centres, by Slices",
     Y_SLICES "h=Mul c,half;k=Mul d,half;p=Sub a,h;q=Sub b,k;r=Add a,h;e=Add b,k;o=Concat[1] p,q,r,e", 1, 1},
    {"corners from centres, by a Split", "a+b=Split[1] x;h=Mul b,half;p=Sub a,h;q=Add a,h;o=Concat[1] p,q", 1, 1},
    {"the other order of columns", "a+b=Split[1] x;o=Concat[-1] b,a", 0, -1},
    {"the same matrix, put together again",
     X_COLUMNS ENDS("x0", "x1", "x2", "x3") "m=Concat[1] u0,u1,u2,u3;o=MatMul m,square4", 0, 1},
    {"one column of a product", X_COLUMNS "a=Sub x2,x0;b=Sub x3,x1;m=Mul a,b;o=Sqrt m", 1, 1},
    {"columns of a matrix with its axes turned", "a=Gather[0] t,i0;b=Gather[0] t,i2;o=Sub b,a", 0, -1},
    {"columns behind a Transpose", "v=Transpose[1,0] t;a=Gather[1] v,i0;b=Gather[1] v,i1;m=Mul a,b;o=Add m,s", 0, -1},
    {"every fourth column of three classes",
     "a=Slice w,from0,end,on1,by4;b=Slice w,from2,end,on1,by4;m=Add a,b;k=Sub a,b;"
     "u0=Unsqueeze m,on2;u1=Unsqueeze k,on2;o=Concat[2] u0,u1",
     1, 1},
    {"boxes of classes and of all",
     "a=Slice w,from0,end,on1,by4;b=Slice w,from3,end,on1,by4;x0=Gather[1] x,i0;"
     "v=Unsqueeze x0,on1;m=Mul a,v;k=Mul b,v;u0=Unsqueeze m,on2;u1=Unsqueeze k,on2;"
     "o=Concat[2] u0,u1",
     1, 1},
    {"clipped by pairs",
     "f=Reshape x,pairs;a=Gather[2] f,i0;b=Gather[2] f,i1;p=Clip a,zero,six;q=Clip b,,three;"
     "u0=Unsqueeze p,on2;u1=Unsqueeze q,on2;c=Concat[2] u0,u1;o=Reshape c,quads",
     1, 1},
    {"decoded, then clipped in steps of two",
     X_COLUMNS CORNERS ENDS("p", "q", "r", "e") "m=Concat[1] u0,u1,u2,u3;"
                                                "k=Slice m,from0,end,on1,by2;l=Slice m,from1,end,on1,by2;"
                                                "f=Min k,six;v=Min l,three;w0=Unsqueeze f,on2;w1=Unsqueeze v,on2;"
                                                "z=Concat[2] w0,w1;o=Reshape z,quads",
     1, 1},
    {"comparisons of columns", X_COLUMNS "a=Sub x2,x0;b=Sub x3,x1;c=Greater a,zero;d=Greater b,half;l=And c,d;o=Cast l",
     1, 1},
    {"a result of whole numbers",
     X_COLUMNS "a=Sub x2,x0;b=Sub x3,x1;u0=Unsqueeze a,on1;u1=Unsqueeze b,on1;"
               "c=Concat[1] u0,u1;k=Cast[7] c;o=Cast k",
     1, 1},
    {"columns that two results use", "|" X_COLUMNS "a=Sub x2,x0;m=Mul a,x1;e=Exp a;o=Mul e,m", 1, -1},
    {"a whole matrix beside a column", "x0=Gather[1] x,i0;v=Unsqueeze x0,on1;m=Mul y,v;o=Exp m", 1, 1},
    {"a long computation that others use, too",
     "|p=Sigmoid x;a=Exp p;b=Tanh a;c=Sin b;d=Cos c;e=Neg d;x0=Gather[1] e,i0;x1=Gather[1] e,i1;o=Sub x0,x1", 1, -1},
    {"a sum of columns behind a product", "m=MatMul x,square4;a=Gather[1] m,i0;b=Gather[1] m,i3;o=Add a,b", 1, 2},
    {"an axis that is two in front", "f=Reshape g,quads;a=Gather[1] f,i0;b=Gather[1] f,i1;o=Sub a,b", 1, 1},
    {"a part of an axis that is two in front",
     "f=Reshape w,grids;e=Transpose[0,2,1,3] f;m=Reshape e,sixes;o=Slice m,from0,to3,on1", 0, 2},
    {"rows that are repeated",
     "v=Expand s,grid;f=Reshape v,line1;u0=Unsqueeze f,on1;k=Neg f;u1=Unsqueeze k,on1;o=Concat[1] u0,u1", 1, 2},
    {"points of a grid",
     "a=Unsqueeze s,on1;k=Neg s;p=Add a,k;c=Sub a,k;e=Reshape p,line1;f=Reshape c,line1;"
     "u0=Unsqueeze e,on1;u1=Unsqueeze f,on1;o=Concat[1] u0,u1",
     1, 1},
    {"negative places", "a=Gather[-1] x,last1;b=Gather[-1] x,i0;m=Max a,b;o=Exp m", 1, 1},
    {"some rows of columns", "a=Slice x,start1,end,start0;x0=Gather[1] a,i0;x1=Gather[1] a,i1;o=Sub x0,x1", 1, -1},
    {"one matrix of a batch of one",
     "u=Unsqueeze x,from0;a=Slice u,from0,to2,on2;b=Slice u,from2,to4,on2;h=Mul a,half;k=Sub b,h;c=Concat[2] k,h;"
     "o=Exp c",
     1, 1},
    {"parts of a batch of one, put side by side", "h=Mul y,half;u=Unsqueeze h,from0;c=Concat[-1] u,u;o=Cos c", 1, 1},
    {"columns backwards", "a=Slice x,last1v,begin,on1,back1;b=Slice y,from0,end,on1;o=Add a,b", 0, -1},
};

/* The model of a case; seen: with its second output. */
static inline onnx_build *box_open(const box_case *c, bool seen) {
  static const struct {
    const char *name;
    int64_t number;
  } places[] = {{"i0", 0}, {"i1", 1}, {"i2", 2}, {"i3", 3}, {"last1", -1}};
  static const struct {
    const char *name;
    int64_t number;
  } vectors[] = {{"from0", 0}, {"from1", 1},  {"from2", 2},        {"from3", 3},  {"to1", 1},    {"to2", 2},
                 {"to3", 3},   {"to4", 4},    {"end", INT64_MAX},  {"on1", 1},    {"on2", 2},    {"by2", 2},
                 {"by4", 4},   {"back1", -1}, {"begin", -1000000}, {"line1", -1}, {"last1v", -1}};
  onnx_build *b = build_open(18);
  const bool has_first = *c->text == '|';
  build_input(b, "x", "f32[n,4]");
  build_input(b, "y", "f32[n,4]");
  build_input(b, "w", "f32[n,12]");
  build_input(b, "s", "f32[n]");
  build_input(b, "t", "f32[4,n]");
  build_input(b, "g", "f32[n,3,4]");
  spelled_constants(b);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) build_i64(b, places[i].name, "", &places[i].number);
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) build_i64(b, vectors[i].name, "1", &vectors[i].number);
  build_i64(b, "pairs", "3", (int64_t[]){-1, 2, 2});
  build_i64(b, "quads", "2", (int64_t[]){-1, 4});
  build_i64(b, "grids", "4", (int64_t[]){-1, 3, 2, 2});
  build_i64(b, "sixes", "3", (int64_t[]){-1, 6, 2});
  build_i64(b, "grid", "2", (int64_t[]){20, 1});
  build_f32(b, "square4", "4,4", (float[]){1, 2, 3, 4, 0, 1, -1, 2, 5, 1, 0, 0, 1, 1, 2, -3});
  build_output(b, spelled_nodes(b, c->text + has_first), "");
  if (seen && has_first) {
    char first[8] = "";
    snprintf(first, sizeof first, "%.*s", (int)strcspn(c->text + 1, "="), c->text + 1);
    build_output(b, first, "");
  }
  return b;
}

#endif
