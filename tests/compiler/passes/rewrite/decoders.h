/* Parts of decoders as exporters write them, in the language of spelled.h: masks made from places, heads of keys and
 * values that are repeated, rotary embeddings; each with near misses. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_DECODERS_H_
#define TESTS_COMPILER_PASSES_REWRITE_DECODERS_H_

#include "tests/compiler/passes/rewrite/spelled.h"

/* ---- masks ---- */

typedef struct spelled_mask {
  const char *what, *text; /* from the scores s to the masked scores m */
  bool folded, rest;       /* rest: a mask stays */
  bool causal, to_last_key;
  int64_t left; /* -1: no window */
} spelled_mask;

/* The scores of queries q at the places row [t,1], keys k at the places c [n], n = p + t. pad: bool[b,1,1,n]. */
#define DECODER_HEAD \
  "k=Concat[2] pk,kn;v=Concat[2] pv,vn;kt=Transpose[0,1,3,2] k;s=MatMul q,kt;kns=Shape kn;t=Gather kns,i2;pks=Shape " \
  "pk;p=Gather pks,i2;n=Add t,p;r=Range i0,t,i1;rp=Add r,p;row=Unsqueeze rp,ax1;c=Range i0,n,i1;avg=ReduceMean " \
  "k,ax13;turn=Transpose[0,1,3,2] avg;pad=Less turn,zero;n1=Unsqueeze n,ax0;p1=Unsqueeze p,ax0;t1=Unsqueeze t,ax0;" \
  "tn=Concat[0] t1,n1;nn=Concat[0] n1,n1;"
#define DECODER_TAIL ";w=Softmax m;o=MatMul w,v"
#define CAUSAL "a=LessOrEqual c,row;"
#define PADDED "all=Less turn,mbig;"                                      /* no key is shown */
#define TABLE "qs=Shape q;tq=Gather qs,i2;e=Add p,tq;e1=Unsqueeze e,ax0;" /* the rows end at place e1 */

static const spelled_mask spelled_masks[] = {
    {"places compared", CAUSAL "m=Where a,s,minf", true, false, true, true, -1},
    {"places compared the other way round", "a=GreaterOrEqual row,c;m=Where a,s,lowest", true, false, true, true, -1},
    {"later keys hidden", "a=Greater c,row;m=Where a,lowest,s", true, false, true, true, -1},
    {"a next place", "x=Add row,i1;a=Less c,x;m=Where a,s,minf", true, false, true, true, -1},
    {"a difference", "d=Sub c,row;a=LessOrEqual d,i0;m=Where a,s,minf", true, false, true, true, -1},
    {"four axes", "x=Unsqueeze row,ax01;y=Unsqueeze c,ax012;a=LessOrEqual y,x;m=Where a,s,minf", true, false, true,
     true, -1},
    {"expanded by its own extents", CAUSAL "x=Expand a,tn;y=Where x,zero,minf;m=Add s,y", true, false, true, true, -1},
    {"ones below the diagonal, the last rows",
     "e=Expand one,nn;l=Trilu[0] e;x=Slice l,p1,n1,ax0;z=Equal x,zero;m=Where z,mbig,s", true, false, true, true, -1},
    {"low numbers above the diagonal", "e=Expand lowest,tn;k1=Add p,i1;u=Trilu[1] e,k1;m=Add s,u", true, false, true,
     true, -1},
    {"torch's product of two", "e=Expand lowest,tn;u=Trilu[1] e,i1;g=Greater c,row;f=Cast g;y=Mul u,f;m=Add s,y", true,
     false, true, true, -1},
    {"a running sum", "x=Expand i1,n1;y=CumSum x,i0;z=Add row,i1;a=LessOrEqual y,z;m=Where a,s,minf", true, false, true,
     true, -1},
    {"rows gathered by place", "e=Expand one,nn;l=Trilu[0] e;x=Gather[0] l,rp;z=Equal x,one;m=Where z,s,minf", true,
     false, true, true, -1},
    {"not hidden", "a=Greater c,row;b=Not a;m=Where b,s,minf", true, false, true, true, -1},
    {"a window", CAUSAL "x=Sub row,i3;g=Greater c,x;b=And a,g;m=Where b,s,minf", true, false, true, true, 2},
    {"a window without a causal mask", "x=Sub row,i3;g=GreaterOrEqual c,x;m=Where g,s,minf", true, false, false, true,
     3},
    {"a window hidden by numbers", CAUSAL "x=Sub row,i3;g=Greater c,x;b=And a,g;y=Where b,zero,lowest;m=Add s,y", true,
     false, true, true, 2},
    {"one query", "x=Add only,p;a=LessOrEqual c,x;m=Where a,s,minf", true, false, true, true, -1},
    {"one query, a window",
     "x=Add only,p;a=LessOrEqual c,x;y=Sub x,i3;g=Less y,c;b=And a,g;e=Unsqueeze b,ax01;"
     "f=Where e,zero,lowest;m=Add s,f",
     true, false, true, true, 2},
    {"places without those before", "x=Unsqueeze r,ax1;a=LessOrEqual c,x;m=Where a,s,minf", true, false, true, false,
     -1},
    {"ones below the diagonal, the first rows",
     "e=Expand one,nn;l=Trilu[0] e;x=Slice l,i0v,t1,ax0;z=Equal x,zero;m=Where z,minf,s", true, false, true, false, -1},
    {"rows of a table", TABLE "x=Slice tab,p1,e1,ax0;y=Slice x,i0v,n1,ax1;z=Equal y,one;m=Where z,s,minf", true, false,
     true, true, -1},
    {"rows of a table, and places compared",
     TABLE CAUSAL "x=Slice tab,p1,e1,ax0;y=Slice x,i0v,n1,ax1;z=Equal y,one;f=Where z,s,lowest;g=Where "
                  "a,zero,lowest;m=Add f,g",
     true, false, true, true, -1},
    {"hidden by either, or padding", "a=Greater c,row;x=Not pad;b=Or a,x;m=Where b,minf,s", true, true, true, true, -1},
    {"hidden by either, added", "a=Greater c,row;x=Not pad;b=Or x,a;y=Where b,lowest,zero;m=Add s,y", true, true, true,
     true, -1},
    {"a truth of numbers", CAUSAL "y=Where a,zero,lowest;x=Cast[9] y;m=Where x,lowest,s", true, false, true, true, -1},
    {"and a truth that holds everywhere", CAUSAL "e=Expand one,tn;f=Cast[9] e;b=And a,f;m=Where b,s,minf", true, false,
     true, true, -1},
    {"and a truth that holds everywhere, gathered",
     CAUSAL "e=Expand one,n1;f=Cast[9] e;g=Gather[0] f,c;b=And a,g;m=Where b,s,minf", true, false, true, true, -1},
    {"and zeros", CAUSAL "e=Expand zero,tn;x=Where a,zero,minf;y=Add x,e;m=Add s,y", true, false, true, true, -1},
    {"and padding by low numbers", CAUSAL "x=Where a,zero,minf;y=Where pad,zero,lowest;z=Add y,x;m=Add s,z", true, true,
     true, true, -1},
    {"and padding", CAUSAL "b=And a,pad;m=Where b,s,minf", true, true, true, true, -1},
    {"and padding, added", CAUSAL "x=Where a,zero,minf;y=Where pad,zero,minf;z=Add x,y;m=Add s,z", true, true, true,
     true, -1},
    {"and padding, hidden twice", CAUSAL "x=Where a,s,minf;y=Where pad,zero,minf;m=Add x,y", true, true, true, true,
     -1},
    {"and padding, one choice", CAUSAL "b=And pad,a;x=Where b,zero,minf;m=Add s,x", true, true, true, true, -1},
    {"and padding, low numbers", CAUSAL "b=And a,pad;m=Where b,s,lowest", true, true, true, true, -1},
    {"and padding, low numbers added", CAUSAL "b=And a,pad;x=Where b,zero,lowest;m=Add s,x", true, true, true, true,
     -1},
    {"and padding, a window, low numbers",
     CAUSAL "x=Sub row,i2;g=Greater c,x;b=And a,g;d=And b,pad;y=Where d,zero,lowest;m=Add s,y", true, true, true, true,
     1},
    {"and a bias", CAUSAL "y=Where a,zero,lowest;z=Add y,three;m=Add s,z", true, true, true, true, -1},
    {"and a bias, by one choice", CAUSAL "b=And a,pad;y=Where b,three,lowest;m=Add s,y", true, true, true, true, -1},
    {"and a bias by place", CAUSAL "l=Mul cf,half;x=Add s,l;y=Where a,zero,lowest;m=Add x,y", true, true, true, true,
     -1},
    {"and a bias by place, where a mask of numbers is low",
     CAUSAL "b=And a,pad;y=Where b,zero,lowest;x=Less y,mbig;l=Div cf,half;z=Where x,lowest,l;m=Add s,z", true, true,
     true, true, -1},
    {"and padding, numbers as truths", CAUSAL "b=And a,pad;y=Where b,zero,lowest;x=Cast[9] y;m=Where x,lowest,s", true,
     true, true, true, -1},
    {"padding and places, and places by a number of their own",
     CAUSAL "x=Where a,s,lowest;b=And a,pad;y=Where b,zero,lowest;m=Add x,y", true, true, true, true, -1},
    {"rows of a table, and padding and places by a number of their own",
     TABLE CAUSAL "x=Slice tab,p1,e1,ax0;y=Slice x,i0v,n1,ax1;z=Equal y,one;f=Where z,s,lowest;b=And pad,a;g=Where "
                  "b,zero,lowest;m=Add f,g",
     true, true, true, true, -1},
    {"a window, and padding and places by a number of their own",
     CAUSAL "x=Sub row,i2;g=Greater c,x;d=And a,g;e=Where d,s,lowest;b=And a,pad;y=Where b,zero,lowest;m=Add e,y", true,
     true, true, true, -1},
    {"a window, and padding and places after the other past, by a number of their own",
     CAUSAL "pvs=Shape pv;p2=Gather pvs,i2;re=Add r,p2;rowe=Unsqueeze re,ax1;ac=LessOrEqual c,rowe;x=Sub row,i2;"
            "g=Greater c,x;d=And a,g;e=Where d,s,lowest;b=And ac,pad;y=Where b,zero,lowest;m=Add e,y",
     true, true, true, true, -1},
    {"a window with padding, and places by a number of their own",
     CAUSAL "x=Sub row,i2;g=Greater c,x;d=And a,g;e=And d,pad;f=Where e,zero,lowest;y=Where a,zero,lowest;z=Add f,y;"
            "m=Add s,z",
     true, true, true, true, -1},
    {"padding by a number, places hidden altogether", CAUSAL "x=Where pad,s,lowest;y=Where a,zero,minf;m=Add x,y", true,
     true, true, true, -1},
    {"padding alone by a number, places hidden altogether",
     CAUSAL PADDED "x=Where all,s,lowest;y=Where a,zero,minf;m=Add x,y", true, true, true, true, -1},
    {"padding alone and places, and places by a number of their own",
     CAUSAL PADDED "x=Where a,s,lowest;b=And a,all;y=Where b,zero,lowest;m=Add x,y", true, true, true, true, -1},
    {"padding alone and a window, and places by a number of their own",
     CAUSAL PADDED "x=Sub row,i2;g=Greater c,x;d=And a,g;e=And d,all;f=Where e,zero,lowest;y=Where a,zero,lowest;"
                   "z=Add f,y;m=Add s,z",
     true, true, true, true, -1},
    {"a low number that shows", CAUSAL "y=Where a,lowest,zero;x=Less y,mbig;m=Where x,s,minf", true, false, true, true,
     -1},
    {"places that hide nothing, and padding",
     "x=Unsqueeze r,ax1;g=GreaterOrEqual x,i0;b=And g,pad;y=Where b,zero,lowest;m=Add s,y", true, true, false, false,
     -1},
    {"and padding, scores of at least the lowest number",
     CAUSAL "b=And a,pad;x=Where b,zero,lowest;y=Add s,x;m=Max y,lowest", true, true, true, true, -1},
    {"scores of at least the lowest number, hidden by less", CAUSAL "x=Where a,zero,minf;y=Add s,x;m=Max lowest,y",
     true, false, true, true, -1},
    {"scores of at least the lowest number, chosen", CAUSAL "y=Where a,s,minf;m=Max y,lowest", true, false, true, true,
     -1},
    /* near misses */
    {"padding and places hidden by a number each, scores of at least the lowest number",
     CAUSAL "x=Where a,zero,lowest;y=Where pad,zero,lowest;z=Add x,y;f=Add s,z;m=Max f,lowest"},
    {"one place for several queries", "x=Reshape p,sq;a=LessOrEqual c,x;m=Where a,s,minf"},
    {"earlier keys hidden", "a=Less row,c;m=Where a,s,minf"},
    {"its own key hidden", "a=Less c,row;m=Where a,s,minf"},
    {"every second place", "x=Mul c,i2;a=LessOrEqual x,row;m=Where a,s,minf"},
    {"places that run backwards", "x=Sub i0,c;a=LessOrEqual x,row;m=Where a,s,minf"},
    {"a number that is not low", CAUSAL "m=Where a,s,three"},
    {"padding and numbers that are not the lowest", CAUSAL "b=And a,pad;m=Where b,s,mbig"},
    {"padding and places hidden by a number each",
     CAUSAL "x=Where a,zero,lowest;y=Where pad,zero,lowest;z=Add x,y;m=Add s,z"},
    {"padding twice, and places by two numbers",
     CAUSAL "b=And a,pad;x=Where b,s,lowest;y=Where b,zero,lowest;m=Add x,y"},
    {"padding, and places by two different numbers",
     CAUSAL "b=And a,pad;x=Where b,zero,lowest;y=Where a,zero,mbig;z=Add x,y;m=Add s,z"},
    {"padding and a window to the left and one to the right, each by a number",
     CAUSAL "x=Sub row,i2;g=Greater c,x;b=And a,pad;f=Where b,zero,lowest;y=Where g,zero,lowest;z=Add f,y;m=Add s,z"},
    {"and a bias by place that may hide, too", CAUSAL "l=Mul cf,mbig;x=Add s,l;y=Where a,zero,lowest;m=Add x,y"},
    {"a mask of numbers that are all low", CAUSAL "y=Where a,zero,lowest;x=Less y,three;m=Where x,lowest,s"},
    {"either of two", CAUSAL "b=Or a,pad;m=Where b,s,minf"},
    {"padding alone", "m=Where pad,s,minf"},
    {"rows of a table of fewer rows",
     TABLE "x=Slice low,p1,e1,ax0;y=Slice x,i0v,n1,ax1;z=Equal y,one;m=Where z,s,minf"},
    {"a number that is not zero everywhere", "e=Expand one,tn;x=Where pad,zero,minf;y=Add x,e;m=Add s,y"},
    {"places by data", "x=ReduceMax q,ax013;a=LessOrEqual cf,x;m=Where a,s,minf"},
};

/* Batch and heads in one axis, as in BLOOM; a bias for each head has them joined, too. */
#define JOINED_HEADS(bias, columns) \
  "qs=Shape q;bb=Slice qs,i0v,ax1;b3=Mul bb,i3;to_q=Concat[0] b3,t1,eight;to_k=Concat[0] b3,n1,eight;a=Reshape " \
  "q,to_q;e=Reshape k,to_k;f=Reshape v,to_k;g=Transpose[0,2,1] e;h=MatMul a,g;" bias ";x=Add h,l;apart=Concat[0] " \
  "bb,heads3,t1," columns ";y=Reshape x,apart;w=Softmax y;both=Concat[0] b3,t1," columns \
  ";wj=Reshape w,both;z=MatMul " \
  "wj,f;back4=Concat[0] bb,heads3,t1,eight;o=Reshape z,back4"
static const char joined_heads[] = JOINED_HEADS("reps=Concat[0] bb,ax1,n1;l=Tile slopes,reps", "n1");

/* A bias with a column for each key, as one made from a mask of the model's input: nothing proves that its columns are
 * as many as the keys. */
static const char *const unproven_biases[] = {
    JOINED_HEADS("l=Concat[2] bm,bm", "last"),
    "qs=Shape q;bb=Slice qs,i0v,ax1;h=MatMul q,kt;l=Concat[2] bm,bm;x=Add h,l;w=Softmax x;wide=Concat[0] "
    "bb,heads3,t1,n1;wr=Reshape w,wide;o=MatMul wr,v",
    /* the bias is added with batch and heads apart, as in XGLM */
    "qs=Shape q;bb=Slice qs,i0v,ax1;b3=Mul bb,i3;to_q=Concat[0] b3,t1,eight;to_k=Concat[0] b3,n1,eight;a=Reshape "
    "q,to_q;e=Reshape k,to_k;f=Reshape v,to_k;g=Transpose[0,2,1] e;h=MatMul a,g;apart=Concat[0] bb,heads3,t1,n1;"
    "y=Reshape h,apart;l=Concat[2] bm,bm;x=Add y,l;both=Concat[0] b3,t1,n1;xj=Reshape x,both;w=Softmax xj;z=MatMul w,f;"
    "back4=Concat[0] bb,heads3,t1,eight;o=Reshape z,back4"};

/* Two attentions in turn, each with rows of a table of 40 for its mask. The first mask demands that the table has all
 * rows; the second layer has as many queries as the first mask has rows, which exporters write as extents of a part of
 * the table. */
#define FIRST_LAYER \
  "qs=Shape q;x=Slice tab,p1,n1,ax0;y=Slice x,i0v,n1,ax1;u=Equal y,one;m=Where u,s,minf;w=Softmax m;o=MatMul w,v;"
#define SECOND_LAYER \
  "nr1=Unsqueeze nr,ax0;bb=Slice qs,i0v,ax1;to=Concat[0] bb,heads3,nr1,eight;q2=Reshape o,to;s2=MatMul " \
  "q2,kt;x2=Slice " \
  "tab,p1,z1,ax0;y2=Slice x2,i0v,z1,ax1;z2=Equal y2,one;m2=Where z2,s2,minf;w2=Softmax m2;r2=MatMul w2,v"
#define FIRST_CAUSAL FIRST_LAYER CAUSAL
static const char *const layers_of_tables[] = {
    FIRST_LAYER "c1=Min n,forty;c2=Sub c1,p;nr=Max c2,i0;z0=Add p,nr;z1=Unsqueeze z0,ax0;" SECOND_LAYER,
    FIRST_LAYER "c1=Min forty,n;c2=Neg p;c3=Add c1,c2;nr=Max i0,c3;c4=Add nr,p;z0=Min c4,forty;z1=Unsqueeze "
                "z0,ax0;" SECOND_LAYER,
    FIRST_LAYER "c1=Sub forty,p;c2=Min t,c1;nr=Max c2,i0;z0=Add nr,p;z1=Unsqueeze z0,ax0;" SECOND_LAYER,
    FIRST_LAYER "h=Shape y;nr=Gather h,i0;z0=Gather h,i1;z1=Unsqueeze z0,ax0;" SECOND_LAYER,
    FIRST_CAUSAL "h=Shape x;nr=Gather h,i0;g=Where a,zero,lowest;z0=Add p,nr;z1=Unsqueeze "
                 "z0,ax0;nr1=Unsqueeze "
                 "nr,ax0;bb=Slice qs,i0v,ax1;to=Concat[0] bb,heads3,nr1,eight;q2=Reshape o,to;s2=MatMul "
                 "q2,kt;m2=Add s2,g;w2=Softmax m2;r2=MatMul w2,v",
    /* as many tokens as two inputs broadcast to: ids and positions in exports whose dims have names of their own */
    "kb=Add kn,tokens;ke=Concat[2] pk,kb;ve=Concat[2] pv,kb;kz=Transpose[0,1,3,2] ke;qs=Shape kb;tq=Gather qs,i2;"
    "e=Add p,tq;e1=Unsqueeze e,ax0;x=Slice tab,p1,e1,ax0;y=Slice x,i0v,e1,ax1;u=Equal y,one;s1=MatMul kb,kz;m=Where "
    "u,s1,minf;w=Softmax m;o=MatMul w,ve;s2=MatMul o,kz;m2=Where u,s2,minf;w2=Softmax m2;r2=MatMul w2,ve",
    /* places that follow from the past of the values: the second attention is one only when the first one is known */
    "qs=Shape q;tq=Gather qs,i2;pvs=Shape pv;p2=Gather pvs,i2;p3=Unsqueeze p2,ax0;e=Add tq,p2;e1=Unsqueeze e,ax0;"
    "ce=Range i0,e,i1;rq=Range i0,tq,i1;re=Add rq,p2;rowe=Unsqueeze re,ax1;a=LessOrEqual ce,rowe;g=Where "
    "a,zero,lowest;x=Slice tab,p3,e1,ax0;y=Slice x,i0v,e1,ax1;u=Equal y,one;m1=Where u,s,minf;m=Add m1,g;w=Softmax m;"
    "o=MatMul w,v;c1=Min e,forty;c2=Sub c1,p2;nr=Max c2,i0;z0=Add p2,nr;z1=Unsqueeze z0,ax0;nr1=Unsqueeze nr,ax0;"
    "bb=Slice qs,i0v,ax1;to=Concat[0] bb,heads3,nr1,eight;q2=Reshape o,to;s2=MatMul q2,kt;x2=Slice tab,p3,z1,ax0;"
    "y2=Slice x2,i0v,z1,ax1;z2=Equal y2,one;m2=Where z2,s2,minf;m3=Add m2,g;w2=Softmax m3;r2=MatMul w2,v",
};

/* The model of the queries, keys and values of DECODER_HEAD, and of the text. */
static inline onnx_build *decoder_open(const char *from) {
  char text[2048];
  bool by_data = strstr(from, "cf") != NULL;
  onnx_build *b = build_open(18);
  const char *tokens = strstr(from, "only") ? "f32[b,3,1,8]" : "f32[b,3,t,8]";
  build_input(b, "q", tokens);
  build_input(b, "kn", tokens);
  build_input(b, "pk", "f32[b,3,p,8]");
  build_input(b, "vn", tokens);
  build_input(b, "pv", "f32[b,3,p,8]");
  if (strstr(from, "bm")) build_input(b, "bm", "f32[1,1,m]");
  if (strstr(from, "tokens")) build_input(b, "tokens", "f32[1,1,m,8]");
  spelled_constants(b);
  float big = -1e9f;
  build_f32(b, "mbig", "", &big);
  for (int64_t i = 0; i < 4; i++) {
    char name[] = {'i', (char)('0' + i), 0};
    build_i64(b, name, "", &i);
  }
  float table[40 * 40];
  for (int i = 0; i < 40 * 40; i++) table[i] = i % 40 <= i / 40;
  build_f32(b, "tab", "40,40", table);
  build_f32(b, "low", "39,40", table);
  build_i64(b, "forty", "", (int64_t[]){40});
  build_i64(b, "only", "1,1", (int64_t[]){0});
  build_i64(b, "sq", "2", (int64_t[]){1, 1});
  build_f32(b, "slopes", "3,1,1", (float[]){0.5f, 1, -2});
  build_i64(b, "eight", "1", (int64_t[]){8});
  build_i64(b, "heads3", "1", (int64_t[]){3});
  build_i64(b, "i0v", "1", (int64_t[]){0});
  build_i64(b, "ax0", "1", (int64_t[]){0});
  build_i64(b, "ax1", "1", (int64_t[]){1});
  build_i64(b, "ax01", "2", (int64_t[]){0, 1});
  build_i64(b, "ax13", "2", (int64_t[]){1, 3});
  build_i64(b, "ax013", "3", (int64_t[]){0, 1, 3});
  build_i64(b, "ax012", "3", (int64_t[]){0, 1, 2});
  snprintf(text, sizeof text, DECODER_HEAD "%s%s", by_data ? "cf=Cast c;" : "", from);
  build_output(b, spelled_nodes(b, text), "f32");
  return b;
}

static inline onnx_build *spelled_mask_open(const spelled_mask *s) {
  char text[1024];
  snprintf(text, sizeof text, "%s" DECODER_TAIL, s->text);
  return decoder_open(text);
}

/* ---- repeated heads ---- */

#define HEADS_HEAD \
  "sh=Shape k;b1=Slice sh,v0,v1;s1=Slice sh,v2,v3;to=Concat[0] b1,v6,s1,v8;wide=Concat[0] " \
  "b1,v2,v3,s1,v8;other=Concat[0] " \
  "b1,v3,v2,s1,v8;"
#define HEADS_TAIL ";t=Transpose[0,1,3,2] kr;s=MatMul q,t;p=Softmax s;o=MatMul p,vr"
#define EXPANDED(x) x "u=Unsqueeze " x ",v2;" x "e=Expand " x "u,wide;" x "r=Reshape " x "e,to;"

static const spelled spelled_heads[] = {
    {"heads expanded", EXPANDED("k") EXPANDED("v"), "Attention"},
    {"heads tiled", "ku=Unsqueeze k,v2;ke=Tile ku,reps;kr=Reshape ke,to;" EXPANDED("v"), "Attention"},
    {"heads gathered", "kr=Gather[1] k,thrice;vr=Gather[1] v,thrice", "Attention"},
    {"heads in turn", "ku=Unsqueeze k,v1;ke=Expand ku,other;kr=Reshape ke,to;vu=Unsqueeze v,v1;ve=Expand "
                      "vu,other;vr=Reshape ve,to"},
    {"heads gathered in turn", "kr=Gather[1] k,turns;vr=Gather[1] v,turns"},
    {"keys in turn", "kr=Gather[1] k,turns;vr=Gather[1] v,thrice"},
};

static inline onnx_build *spelled_heads_open(const spelled *s) {
  char text[2048];
  onnx_build *b = build_open(18);
  build_input(b, "q", "f32[b,6,t,8]");
  build_input(b, "k", "f32[b,2,s,8]");
  build_input(b, "v", "f32[b,2,s,8]");
  for (int64_t i = 0; i < 9; i++) {
    char name[] = {'v', (char)('0' + i), 0};
    build_i64(b, name, "1", &i);
  }
  build_i64(b, "reps", "5", (int64_t[]){1, 1, 3, 1, 1});
  build_i64(b, "thrice", "6", (int64_t[]){0, 0, 0, 1, 1, 1});
  build_i64(b, "turns", "6", (int64_t[]){0, 1, 0, 1, 0, 1});
  size_t n = strlen(s->text);
  snprintf(text, sizeof text, HEADS_HEAD "%.*s" HEADS_TAIL, (int)(s->text[n - 1] == ';' ? n - 1 : n), s->text);
  build_output(b, spelled_nodes(b, text), "f32");
  return b;
}

/* ---- rotary embeddings ---- */

/* x, y: f32[b,4,t,16]; cs, sn: f32[1,1,t,16]; ch, sh: f32[b,1,t,8]; u: f32[b,t,4,16], with cu, su: f32[b,t,1,16];
 * cx: f32[1,4,t,16]; ca, sa: f32[t,6]; fr: f32[1,t,8]. */
#define HALVES(x) "f=Slice " x ",v0,v8,v3;g=Slice " x ",v8,far,v3;"
#define NEIGHBOURS(x) "f=Slice " x ",v0,far,v3,v2;g=Slice " x ",v1,far,v3,v2;"
#define TURNED "m=Neg g;r=Concat[3] m,f;"
#define SUM(x, c, s) "p=Mul " x "," c ";q=Mul r," s ";o=Add p,q"

static const spelled spelled_rotaries[] = {
    {"Llama's", HALVES("x") TURNED SUM("x", "cs", "sn"), "RotaryEmbedding"},
    {"Llama's, with the cosines of places for all rows of a batch",
     "h=Mul fr,half;e=Concat[-1] h,h;c=Cos e;s=Sin e;c4=Unsqueeze c,v1;s4=Unsqueeze s,v1;" HALVES("x")
         TURNED SUM("x", "c4", "s4"),
     "RotaryEmbedding"},
    {"halves by Split", "f+g=Split[3] x;" TURNED SUM("x", "cs", "sn"), "RotaryEmbedding"},
    {"the other way round", HALVES("x") TURNED "p=Mul cs,x;q=Mul sn,r;o=Add q,p", "RotaryEmbedding"},
    {"joined halves", HALVES("x") "a=Mul f,ch;b=Mul g,sh;c=Sub a,b;d=Mul g,ch;e=Mul sh,f;h=Add d,e;o=Concat[3] c,h",
     "RotaryEmbedding"},
    {"joined halves, the sum turned",
     HALVES("x") "a=Mul ch,f;b=Mul sh,g;c=Sub a,b;d=Mul f,sh;e=Mul g,ch;h=Add d,e;"
                 "o=Concat[3] c,h",
     "RotaryEmbedding"},
    {"joined neighbours",
     NEIGHBOURS("x") "a=Mul f,ch;b=Mul g,sh;c=Sub a,b;d=Mul g,ch;e=Mul f,sh;h=Add d,e;i=Unsqueeze "
                     "c,v4;j=Unsqueeze h,v4;k=Concat[4] i,j;o=Reshape k,flat",
     "RotaryEmbedding"},
    {"GPT-J's",
     NEIGHBOURS("x") "m=Neg g;i=Unsqueeze m,v4;j=Unsqueeze f,v4;k=Concat[4] i,j;r=Reshape k,flat;" SUM("x", "cs", "sn"),
     "RotaryEmbedding"},
    {"complex numbers",
     "z=Reshape x,pairs;f=Gather[4] z,i0;g=Gather[4] z,i1;a=Mul f,ch;b=Mul g,sh;c=Sub a,b;d=Mul "
     "f,sh;e=Mul g,ch;h=Add d,e;i=Unsqueeze c,v4;j=Unsqueeze h,v4;k=Concat[4] i,j;o=Reshape k,flat",
     "RotaryEmbedding"},
    {"heads after places", HALVES("u") TURNED SUM("u", "cu", "su"), "RotaryEmbedding"},
    {"a part of each head",
     "w=Slice x,v0,v12,v3;rest=Slice x,v12,far,v3;f=Slice w,v0,v6,v3;g=Slice "
     "w,v6,far,v3;" TURNED "p=Mul w,ca;q=Mul r,sa;y0=Add p,q;o=Concat[3] y0,rest",
     "RotaryEmbedding"},
    {"first halves negated", "f=Slice x,v8,far,v3;g=Slice x,v0,v8,v3;m=Neg g;r=Concat[3] m,f;" SUM("x", "cs", "sn")},
    {"second halves first", HALVES("x") "m=Neg f;r=Concat[3] m,g;" SUM("x", "cs", "sn")},
    {"unequal parts", "f=Slice x,v0,v6,v3;g=Slice x,v6,far,v3;" TURNED SUM("x", "cs", "sn")},
    {"neighbours joined as halves", NEIGHBOURS("x") TURNED SUM("x", "cs", "sn")},
    {"another tensor's halves", HALVES("y") TURNED SUM("x", "cs", "sn")},
    {"a cache for each head", HALVES("x") TURNED SUM("x", "cx", "sn")},
    {"a difference of both",
     HALVES("x") "a=Mul f,ch;b=Mul g,sh;c=Sub a,b;d=Mul g,ch;e=Mul f,sh;h=Sub d,e;o=Concat[3] c,h"},
    {"two caches of cosines", HALVES("x") "a=Mul f,ch;b=Mul g,sh;c=Sub a,b;d=Mul g,sh;e=Mul f,sh;h=Add d,e;o=Concat[3] "
                                          "c,h"},
};

static inline onnx_build *spelled_rotary_open(const spelled *s) {
  onnx_build *b = build_open(18);
  static const char *const inputs[][2] = {{"x", "f32[b,4,t,16]"},  {"y", "f32[b,4,t,16]"},  {"u", "f32[b,t,4,16]"},
                                          {"cs", "f32[1,1,t,16]"}, {"sn", "f32[1,1,t,16]"}, {"ch", "f32[b,1,t,8]"},
                                          {"sh", "f32[b,1,t,8]"},  {"cu", "f32[b,t,1,16]"}, {"su", "f32[b,t,1,16]"},
                                          {"cx", "f32[1,4,t,16]"}, {"ca", "f32[t,12]"},     {"sa", "f32[t,12]"},
                                          {"fr", "f32[1,t,8]"}};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) build_input(b, inputs[i][0], inputs[i][1]);
  for (int64_t i = 0; i < 13; i++) {
    char name[4];
    snprintf(name, sizeof name, "v%d", (int)i);
    build_i64(b, name, "1", &i);
    name[0] = 'i';
    build_i64(b, name, "", &i);
  }
  build_i64(b, "far", "1", (int64_t[]){INT64_MAX});
  build_i64(b, "flat", "4", (int64_t[]){0, 0, 0, 16});
  build_f32(b, "half", "", (float[]){0.5f});
  build_i64(b, "pairs", "5", (int64_t[]){0, 0, 0, 8, 2});
  build_output(b, spelled_nodes(b, s->text), "f32");
  return b;
}

/* Rows of the caches for the last places of a longer mask: as many as x has places, or one for all of them. */
static const spelled spelled_last_places[] = {
    {"the last rows of a cache", "a=Slice cl,from,far,v1;b=Slice sl,from,far,v1;", "RotaryEmbedding"},
    {"the first rows of a cache", "a=Slice cl,v0,t,v1;b=Slice sl,v0,t,v1;", "RotaryEmbedding"},
    {"rows from a place on", "a=Slice cl,t,far,v1;b=Slice sl,t,far,v1;"},
};

static inline onnx_build *spelled_last_places_open(const spelled *s) {
  char text[1024];
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[b,4,t,16]");
  build_input(b, "cl", "f32[b,m,16]");
  build_input(b, "sl", "f32[b,m,16]");
  for (int64_t i = 0; i < 9; i++) {
    char name[] = {'v', (char)('0' + i), 0};
    build_i64(b, name, "1", &i);
  }
  build_i64(b, "far", "1", (int64_t[]){INT64_MAX});
  snprintf(text, sizeof text,
           "h=Shape x;t=Gather h,v2;from=Neg t;%scs=Unsqueeze a,v1;sn=Unsqueeze b,v1;" HALVES("x")
               TURNED SUM("x", "cs", "sn"),
           s->text);
  build_output(b, spelled_nodes(b, text), "f32");
  return b;
}

/* ---- rows of caches ---- */

typedef struct spelled_rows {
  const char *what, *text;
  bool made;             /* TensorScatter */
  const char *reduction; /* NULL: none, and text has the scatter */
} spelled_rows;

/* Rows r: f32[b,3,t,4] go to the places p, p + 1, ... of the cache c: f32[b,3,40,4]; rf and cf have the heads behind
 * the rows; r1 is one row. at: i64[1], which may be negative. */
#define ROWS_HEAD \
  "rs=Shape r;t=Gather rs,i2;p=Add at,i4;ps=Squeeze p;n=Range i0,t,i1;q=Add ps,n;i=Unsqueeze " \
  "q,last;x=Transpose[2,0,1,3] c;" \
  "y=Transpose[2,0,1,3] r;w=Unsqueeze q,ax013;e=Expand w,rs;"

static const spelled_rows spelled_rows_of_caches[] = {
    {"index_put", "s=ScatterND x,i,y;o=Transpose[1,2,0,3] s", true},
    {"index_put, the result as it lies", "o=ScatterND x,i,y", true},
    {"heads behind the rows",
     "f=Transpose[1,0,2,3] cf;g=Transpose[1,0,2,3] rf;s=ScatterND f,i,g;o=Transpose[1,0,2,3] s", true},
    {"index_copy by elements", "o=ScatterElements[2] c,e,r", true},
    {"an axis from the end", "o=ScatterElements[-2] c,e,r", true},
    {"a slice that is assigned",
     "d=Add ps,t;l=Range ps,d,i1;h=Unsqueeze l,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s", true},
    {"one row at a place from the end",
     "h=Unsqueeze at,last;g=Transpose[2,0,1,3] r1;s=ScatterND x,h,g;o=Transpose[1,2,0,3] s", true},
    {"places that are not negative", "d=Max p,i0;l=Add d,n;h=Unsqueeze l,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s",
     true},
    /* near misses */
    {"every second place", "d=Mul n,i2;l=Add ps,d;h=Unsqueeze l,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s"},
    {"places that run backwards", "l=Sub ps,n;h=Unsqueeze l,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s"},
    {"a slice of every second row",
     "d=Mul t,i2;g=Add ps,d;l=Range ps,g,i2;h=Unsqueeze l,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s"},
    {"places from the next one on",
     "d=Add t,i1;l=Range i1,d,i1;g=Add ps,l;h=Unsqueeze g,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s"},
    {"places up to a number", "d=Min q,i4;h=Unsqueeze d,last;s=ScatterND x,h,y;o=Transpose[1,2,0,3] s"},
    {"other places for each head",
     "d=Add at,three;g=Unsqueeze d,ax023;h=Shape r1;k=Expand g,h;o=ScatterElements[2] c,k,r1"},
    {"rows of a part of the heads", "f=Slice r,i0v,two,ax1;g=Slice e,i0v,two,ax1;o=ScatterElements[2] c,g,f"},
    {"rows that are added", "l=Neg r", false, "add"},
};

static inline onnx_build *spelled_rows_open(const spelled_rows *s) {
  char text[2048];
  onnx_build *b = build_open(18);
  static const char *const inputs[][2] = {{"c", "f32[b,3,40,4]"}, {"r", "f32[b,3,t,4]"},  {"cf", "f32[b,40,3,4]"},
                                          {"rf", "f32[b,t,3,4]"}, {"r1", "f32[b,3,1,4]"}, {"at", "i64[1]"}};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) build_input(b, inputs[i][0], inputs[i][1]);
  for (int64_t i = 0; i < 5; i++) {
    char name[] = {'i', (char)('0' + i), 0};
    build_i64(b, name, "", &i);
  }
  build_i64(b, "i0v", "1", (int64_t[]){0});
  build_i64(b, "two", "1", (int64_t[]){2});
  build_i64(b, "three", "3", (int64_t[]){0, 1, 2});
  build_i64(b, "last", "1", (int64_t[]){-1});
  build_i64(b, "ax1", "1", (int64_t[]){1});
  build_i64(b, "ax013", "3", (int64_t[]){0, 1, 3});
  build_i64(b, "ax023", "3", (int64_t[]){0, 2, 3});
  snprintf(text, sizeof text, ROWS_HEAD "%s", s->text);
  const char *last = spelled_nodes(b, text);
  if (s->reduction) {
    build_node_t *n = build_node(b, "ScatterElements", "c,e,r", last = "sum");
    build_int(b, n, "axis", 2);
    build_string(b, n, "reduction", s->reduction);
  }
  build_output(b, last, "f32");
  return b;
}

#endif
