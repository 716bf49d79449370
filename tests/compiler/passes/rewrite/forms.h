/* Operators on single numbers and along axes of extent 1, for the tests of the pass plain_forms, written as in
 * layout/pictures.h. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_FORMS_H_
#define TESTS_COMPILER_PASSES_REWRITE_FORMS_H_

#include "tests/compiler/passes/layout/pictures.h"

static const struct form_case {
  picture p;
  int changed; /* operators that get another form */
} form_cases[] = {
    {{"at most three of a vector", "f32[n]",
      "s=Shape x;c=Gather s,s_0;u=Unsqueeze c,i_0;k=Concat i_3,u[axis=0];m=ReduceMin k[keepdims=0];r=Reshape "
      "m,i_-1;v,w=TopK x,r;e=Shape v;z=ConstantOfShape e;o=Add v,z"},
     3},
    {{"the largest of extents", "f32[n,h]",
      "s=Shape x;a=Gather s,i_0;b=Gather s,i_-1;k=Concat a,b,i_5[axis=0];m=ReduceMax k;c=Cast m[to=1];o=Add x,c"},
     3},
    {{"the first rows, at most three", "f32[n,4]", "s=Shape x[end=1];m=Min s,i_3;v=Slice x,i_0,m,i_0;o=Exp v"}, 1},
    {{"the first rows, from the end", "f32[n,4]", "s=Shape x[end=1];m=Min s,i_3;v=Slice x,i_-4,m,i_0;o=Exp v"}, 0},
    {{"all of a vector, sorted", "f32[n]", "s=Shape x;v,w=TopK x,s;o=Exp v"}, 1},
    {{"as many of a vector as others are", "f32[n]", "c=Relu x;z=NonZero c;s=Shape z[start=1];v,w=TopK x,s;o=Exp v"},
     0},
    {{"rows of a mask", "f32[n]", "c=Relu x;z=NonZero c;t=Transpose z;g=GatherND x,t;o=Exp g"}, 2},
    {{"an axis of extent 1 that moves", "f32[n,1,4]", "t=Transpose x[perm=1,0,2];o=Exp t"}, 1},
    {{"axes that change places", "f32[n,1,4]", "t=Transpose x[perm=2,1,0];o=Exp t"}, 0},
    {{"two extents that are not known", "f32[n,1,h]", "t=Transpose x[perm=1,0,2];o=Exp t"}, 0},
    {{"the one picture of a batch", "f32[1,n,4]", "g=Gather x,s_0;o=Exp g"}, 1},
    {{"the one picture, counted from the end", "f32[n,1,4]", "g=Gather x,s_-1[axis=-2];o=Exp g"}, 1},
    {{"the one picture as a batch", "f32[1,n,4]", "g=Gather x,i_0;o=Exp g"}, 0},
    {{"the first picture of two", "f32[2,n,4]", "g=Gather x,s_0;o=Exp g"}, 0},
    {{"places in a matrix", "f32[n,h]", "c=Relu x;z=NonZero c;t=Transpose z;o=GatherND x,t"}, 0},
    {{"the least of floats", "f32[1]", "e=Exp x;k=Concat x,e[axis=0];o=ReduceMin k[keepdims=0]"}, 0},
    {{"the largest of a vector and more", "f32[n,h]",
      "s=Shape x;k=Concat i_3_4,s[axis=0];m=ReduceMax k;c=Cast m[to=1];o=Add x,c"},
     0},
    {{"an extent among some", "f32[n,h]", "s=Shape x[start=1];g=Gather s,i_0;c=Cast g[to=1];o=Add x,c"}, 0},
    {{"the first rows of a matrix", "f32[8,h]",
      "v,w=TopK x,i_3[axis=0];e=Shape v;f=Cast e[to=1];r=ReduceSum f;o=Add v,r"},
     0},
};
enum { N_FORM_CASES = sizeof form_cases / sizeof *form_cases };

#endif
