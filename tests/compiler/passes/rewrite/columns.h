/* Gathers of one element of an axis each, for the tests of the pass gathered_columns, written as in layout/pictures.h.
 */
#ifndef TESTS_COMPILER_PASSES_REWRITE_COLUMNS_H_
#define TESTS_COMPILER_PASSES_REWRITE_COLUMNS_H_

#include "tests/compiler/passes/layout/pictures.h"

static const struct column_case {
  picture p;
  int turned; /* number of Gathers that read a Transpose after the pass */
} column_cases[] = {
    {{"scores of classes", "f32[n,16]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=-1];c=Gather x,s_-1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     4},
    {{"and what else reads them", "f32[n,16]",
      "e=Exp x;a=Gather e,s_0[axis=1];b=Gather e,s_1[axis=1];c=Gather e,s_2[axis=1];d=Gather e,s_3[axis=1];f=ReduceSum "
      "e,i_1[keepdims=0];o=Sum a,b,c,d,f"},
     4},
    {{"columns in the middle", "f32[n,6,3]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=1];c=Gather x,s_1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     4},
    {{"two matrices", "f32[n,16]",
      "y=Exp x;a=Gather x,s_0[axis=1];b=Gather x,s_1[axis=1];c=Gather x,s_2[axis=1];d=Gather y,s_0[axis=1];e=Gather "
      "y,s_1[axis=1];f=Gather y,s_2[axis=1];o=Sum a,b,c,d,e,f"},
     0},
    {{"three columns", "f32[n,16]", "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=1];c=Gather x,s_1[axis=1];o=Sum a,b,c"},
     0},
    {{"rows", "f32[16,n]",
      "a=Gather x,s_0[axis=0];b=Gather x,s_5[axis=0];c=Gather x,s_1[axis=0];d=Gather x,s_2[axis=0];o=Sum a,b,c,d"},
     0},
    {{"of one row", "f32[1,16]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=1];c=Gather x,s_1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     0},
    {{"wide columns", "f32[n,16,17]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=1];c=Gather x,s_1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     0},
    {{"columns of who knows what width", "f32[n,16,h]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_5[axis=1];c=Gather x,s_1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     0},
    {{"coordinates", "f32[n,4]",
      "a=Gather x,s_0[axis=1];b=Gather x,s_3[axis=1];c=Gather x,s_1[axis=1];d=Gather x,s_2[axis=1];o=Sum a,b,c,d"},
     0},
    {{"lists of one column", "f32[n,16]",
      "a=Gather x,i_0[axis=1];b=Gather x,i_5[axis=1];c=Gather x,i_1[axis=1];d=Gather x,i_2[axis=1];o=Sum a,b,c,d"},
     0},
};
enum { N_COLUMN_CASES = sizeof column_cases / sizeof *column_cases };

#endif
