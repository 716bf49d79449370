/* Subgraphs as exporters write them, each in one line, for the passes that recognise them: "d=Sub x,m;s=Mul d,d;..."
 * The inputs are x, y, z and w; the result is the last name; constants have fixed names (spelled_open). Transpose takes
 * its perm in brackets, Concat, Gather and Split their axis, Trilu `upper`, Cast its dtype, which otherwise is f32. A
 * node with two results has them as a+b=Op. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_SPELLED_H_
#define TESTS_COMPILER_PASSES_REWRITE_SPELLED_H_

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/onnx_build.h"

typedef struct spelled {
  const char *what, *text;
  const char *made; /* the operator that the subgraph becomes; NULL: a near miss, which stays */
  const char *x;    /* type of x; NULL: f32[n,6,8] */
  bool half;        /* it computes halves */
} spelled;

static const spelled spelled_activations[] = {
    {"BERT's Gelu", "d=Div x,root2;e=Erf d;a=Add e,one;m=Mul x,a;o=Mul m,half", "Gelu"},
    {"Gelu, half first", "h=Mul half,x;d=Mul x,invroot2;e=Erf d;a=Add one,e;o=Mul h,a", "Gelu"},
    {"Gelu, the gate halved", "d=Div x,root2;e=Erf d;a=Add e,one;g=Mul a,half;o=Mul g,x", "Gelu"},
    {"Gelu over 2", "d=Div x,root2;e=Erf d;a=Add e,one;m=Mul a,x;o=Div m,two", "Gelu"},
    {"Gelu of a shared Div by another", "d=Div x,one3;e=Erf d;a=Add e,one;m=Mul x,a;o=Mul m,half"},
    {"Gelu times 0.25", "d=Div x,root2;e=Erf d;a=Add e,one;m=Mul x,a;o=Mul m,quarter"},
    {"Gelu of two values", "d=Div x,root2;e=Erf d;a=Add e,one;m=Mul y,a;o=Mul m,half"},
    {"Gelu plus 2", "d=Div x,root2;e=Erf d;a=Add e,two;m=Mul x,a;o=Mul m,half"},
    {"Gelu upside down", "d=Div root2,x;e=Erf d;a=Add e,one;m=Mul x,a;o=Mul m,half"},
    {"Gelu that somebody looks into", "d=Div x,root2;e=Erf d;a=Add e,one;m=Mul x,a;h=Mul m,half;o=Add h,e"},
    {"Gelu widened by its constant", "d=Div x,root2;e=Erf d;a=Add e,ones;m=Mul x,a;o=Mul m,half", NULL, "f32[n,1,8]"},
    {"torch's tanh Gelu",
     "q=Mul x,x;c=Mul x,q;k=Mul tiny,c;s=Add x,k;i=Mul kappa,s;t=Tanh i;a=Add one,t;m=Mul x,a;o=Mul half,m", "Gelu"},
    {"NewGELU", "h=Mul x,half;c=Pow x,three;k=Mul c,tiny;s=Add x,k;i=Mul s,kappa;t=Tanh i;a=Add t,one;o=Mul h,a",
     "Gelu"},
    {"fast Gelu",
     "h=Mul x,half;b=Mul x,kappa;k=Mul x,tiny;q=Mul k,x;g=Add q,one;i=Mul b,g;t=Tanh i;a=Add t,one;o=Mul h,a", "Gelu"},
    {"JAX's tanh Gelu",
     "k=Mul tiny,x;q=Mul x,k;c=Mul x,q;s=Add x,c;i=Mul kappa,s;t=Tanh i;a=Add one,t;g=Mul half,a;o=Mul x,g", "Gelu"},
    {"tanh Gelu of a square",
     "h=Mul x,half;c=Pow x,two;k=Mul c,tiny;s=Add x,k;i=Mul s,kappa;t=Tanh i;a=Add t,one;o=Mul h,a"},
    {"tanh Gelu by another number",
     "h=Mul x,half;c=Pow x,three;k=Mul c,one3;s=Add x,k;i=Mul s,kappa;t=Tanh i;a=Add t,one;o=Mul h,a"},
    {"SiLU", "s=Sigmoid x;o=Mul x,s", "Swish"},
    {"quick Gelu", "k=Mul x,one7;s=Sigmoid k;o=Mul s,x", "Swish"},
    {"a gate", "s=Sigmoid y;o=Mul x,s"},
    {"SiLU of rows", "k=Mul x,rows;s=Sigmoid k;o=Mul s,x"},
    {"Mish", "p=Softplus x;t=Tanh p;o=Mul x,t", "Mish"},
    {"HardSwish", "a=Add x,three;c=Clip a,zero,six;m=Mul x,c;o=Div m,six", "HardSwish"},
    {"HardSwish by its gate", "a=Add x,three;c=Clip a,zero,six;g=Div c,six;o=Mul g,x", "HardSwish"},
    {"HardSwish of four", "a=Add x,three;c=Clip a,zero,three;m=Mul x,c;o=Div m,six"},
    {"HardSigmoid", "a=Add x,three;c=Clip a,zero,six;o=Div c,six", "HardSigmoid"},
    {"HardSigmoid of two", "a=Add x,two;c=Clip a,zero,six;o=Div c,six"},
};

static const spelled spelled_norms[] = {
    {"torch's LayerNorm",
     "m=ReduceMean x,last;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;n=Div d,r;g=Mul n,gamma;o=Add "
     "g,beta",
     "LayerNormalization"},
    {"LayerNorm by products",
     "m=ReduceMean x,last;d=Sub x,m;q=Mul d,d;v=ReduceMean q,last;e=Add eps,v;r=Sqrt e;i=Reciprocal r;n=Mul i,d;g=Mul "
     "gamma,n;o=Add beta,g",
     "LayerNormalization"},
    {"LayerNorm by a power",
     "m=ReduceMean x,last;d=Sub x,m;q=Mul d,d;v=ReduceMean q,last;e=Add eps,v;i=Pow e,mhalf;n=Mul d,i;o=Mul n,gamma",
     "LayerNormalization"},
    {"plain LayerNorm", "m=ReduceMean x,last;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;o=Div d,r",
     "LayerNormalization"},
    {"LayerNorm and a residual",
     "m=ReduceMean x,last;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;n=Div d,r;g=Mul n,gamma;o=Add "
     "g,y",
     "LayerNormalization"},
    {"LayerNorm over two axes",
     "m=ReduceMean x,last2;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last2;e=Add v,eps;r=Sqrt e;o=Div d,r",
     "LayerNormalization"},
    {"over the first axis",
     "m=ReduceMean x,first;d=Sub x,m;q=Pow d,two;v=ReduceMean q,first;e=Add v,eps;r=Sqrt e;o=Div d,r"},
    {"over other axes",
     "m=ReduceMean x,last2;d=Sub x,m;q=Pow d,two;v=ReduceMean q,first;e=Add v,eps;r=Sqrt e;o=Div d,r"},
    {"without a root", "m=ReduceMean x,last;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last;e=Add v,eps;o=Div d,e"},
    {"of cubes", "m=ReduceMean x,last;d=Sub x,m;q=Pow d,three;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;o=Div d,r"},
    {"the sum instead of the difference",
     "m=ReduceMean x,first;d=Add x,m;q=Pow d,two;v=ReduceMean q,first;e=Add v,eps;r=Sqrt e;o=Div d,r"},
    {"of extents that are not known",
     "m=ReduceMean x,last;d=Sub x,m;q=Pow d,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;o=Div d,r", NULL,
     "f32[n,6,c]"},
    {"Llama's RMSNorm", "q=Pow x,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;i=Reciprocal r;n=Mul x,i;o=Mul gamma,n",
     "RMSNormalization"},
    {"RMSNorm by a quotient", "q=Mul x,x;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;n=Div x,r;o=Mul n,gamma",
     "RMSNormalization"},
    {"torch's RMSNorm", "q=Pow x,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;i=Div one,r;n=Mul x,i;o=Mul gamma,n",
     "RMSNormalization"},
    {"torch's LayerNorm of halves, squares in f64",
     "h=Cast[10] x;m=ReduceMean h,last;s=Sub h,m;d=Cast[11] s;q=Pow d,two64;v=ReduceMean q,last;e=Add v,eps64;r=Sqrt "
     "e;w=Div d,r;n=Cast[10] w;g=Mul n,gamma16;b=Add g,beta16;o=Cast b",
     "LayerNormalization", .half = true},
    {"Llama's RMSNorm of halves",
     "h=Cast[10] x;f=Cast h;q=Pow f,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;i=Reciprocal r;w=Mul f,i;n=Cast[10] "
     "w;g=Mul gamma16,n;o=Cast g",
     "RMSNormalization", .half = true},
    {"LayerNorm between Casts", "h=Cast[10] x;f=Cast h;n=LayerNormalization f,gamma,beta;b=Cast[10] n;o=Cast b",
     "LayerNormalization", .half = true},
    {"LayerNorm between Casts, by numbers that are no halves",
     "h=Cast[10] x;f=Cast h;n=LayerNormalization f,fine,beta;b=Cast[10] n;o=Cast b", .half = true},
    {"LayerNorm between Casts of two kinds",
     "h=Cast[10] x;f=Cast h;n=LayerNormalization f,gamma,beta;b=Cast[16] n;o=Cast b", .half = true},
    {"LayerNorm of differences that a Cast rounds, an RMSNorm of halves",
     "m=ReduceMean x,last;s=Sub x,m;d=Cast[10] s;q=Mul d,d;v=ReduceMean q,last;e=Add v,eps16;r=Sqrt e;w=Div d,r;n=Cast "
     "w;o=Mul n,gamma",
     "RMSNormalization", .half = true},
    {"another's RMS", "q=Mul y,y;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;o=Div x,r"},
};

/* q, k and v: f32[n,3,6,8]; u: f32[n,6,24], to be split into heads; mask: f32[n,1,6,6]; keep: bool[n,1,1,6]. */
#define SPLIT(x, y, perm) x "s=Reshape " y ",split;" x "=Transpose[" perm "] " x "s;"
#define JOINED "a=Reshape q,three6;b=Reshape k,three6;c=Reshape v,three6;t=Transpose[0,2,1] b;s=MatMul a,t;"
static const spelled spelled_attentions[] = {
    {"scores scaled", "t=Transpose[0,1,3,2] k;s=MatMul q,t;c=Mul s,half;p=Softmax c;o=MatMul p,v", "Attention"},
    {"scores divided", "t=Transpose[0,1,3,2] k;s=MatMul q,t;c=Div s,three;p=Softmax c;o=MatMul p,v", "Attention"},
    {"Q and K scaled", "t=Transpose[0,1,3,2] k;a=Mul q,half;b=Mul half,t;s=MatMul a,b;p=Softmax s;o=MatMul p,v",
     "Attention"},
    {"not scaled", "t=Transpose[0,1,3,2] k;s=MatMul q,t;p=Softmax s;o=MatMul p,v", "Attention"},
    {"K as it is", "s=MatMul q,kt;p=Softmax s;o=MatMul p,v", "Attention"},
    {"a mask added", "t=Transpose[0,1,3,2] k;s=MatMul q,t;c=Mul s,half;m=Add c,mask;p=Softmax m;o=MatMul p,v",
     "Attention"},
    {"a mask in front", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add mask,s;p=Softmax m;o=MatMul p,v", "Attention"},
    {"scores hidden", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,minf,s;p=Softmax m;o=MatMul p,v", "Attention"},
    {"scores shown", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,s,minf;p=Softmax m;o=MatMul p,v", "Attention"},
    {"scores hidden by the lowest number",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,lowest,s;p=Softmax m;o=MatMul p,v", "Attention"},
    {"scores shown but for the lowest number",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,s,lowest;p=Softmax m;o=MatMul p,v", "Attention"},
    {"BERT's",
     SPLIT("a", "u", "0,2,1,3") SPLIT("b", "w", "0,2,3,1")
         SPLIT("c", "u", "0,2,1,3") "s=MatMul a,b;f=Mul s,half;m=Add f,mask;p=Softmax m;y=MatMul "
                                    "p,c;z=Transpose[0,2,1,3] y;o=Reshape z,merge",
     "Attention"},
    {"torch.export's, K turned with batch and heads joined",
     SPLIT("a", "u", "0,2,1,3") SPLIT("b", "w", "0,2,1,3")
         SPLIT("c", "u", "0,2,1,3") "h=Reshape b,three6;i=Transpose[0,2,1] h;l=Reshape i,back;d=Mul a,half;e=Mul "
                                    "l,half;s=MatMul d,e;p=Softmax s;y=MatMul p,c;z=Transpose[0,2,1,3] y;o=Reshape "
                                    "z,merge",
     "Attention"},
    {"scores capped",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;c=Mul s,half;d=Div c,three;h=Tanh d;e=Mul h,three;p=Softmax "
     "e;o=MatMul p,v",
     "Attention"},
    {"scores capped and masked",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;d=Mul s,half;h=Tanh d;e=Mul two,h;m=Add e,mask;p=Softmax m;o=MatMul p,v",
     "Attention"},
    {"two masks added", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;l=Add mask3,m;p=Softmax l;o=MatMul p,v",
     "Attention"},
    {"hidden, and a mask added",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,s,lowest;l=Add m,mask;p=Softmax l;o=MatMul p,v", "Attention"},
    {"a mask added, and hidden",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;l=Where keep,minf,m;p=Softmax l;o=MatMul p,v", "Attention"},
    {"a mask of choices",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;n=Where keep,zero,minf;m=Add s,n;p=Softmax m;o=MatMul p,v", "Attention"},
    {"K turned in three steps",
     "a=Reshape k,three6;b=Transpose[0,2,1] a;t=Reshape b,back;c=Mul t,half;e=Mul q,half;s=MatMul "
     "e,c;p=Softmax s;o=MatMul p,v",
     "Attention"},
    {"one head of keys and values", "f=ReduceMax kt,heads;g=ReduceMax v,heads;s=MatMul q,f;p=Softmax s;o=MatMul p,g",
     "Attention"},
    {"rank 3",
     "a=Reshape q,three6;b=Reshape k,three6;c=Reshape v,three6;t=Transpose[0,2,1] b;s=MatMul a,t;d=Mul "
     "s,half;p=Softmax d;o=MatMul p,c",
     "Attention"},
    {"batch and heads joined",
     JOINED "g=Reshape s,square;m=Add g,mask;p=Softmax m;r=Reshape p,six6;y=MatMul r,c;o=Reshape "
            "y,four",
     "Attention"},
    {"batch and heads joined, also for the Softmax",
     JOINED "g=Reshape s,square;m=Add mask,g;r=Reshape m,six6;p=Softmax r;y=MatMul p,c;o=Reshape y,four", "Attention"},
    {"batch and heads joined, a bias for each head",
     JOINED "l=ReduceMax mask3,last4b;h=Reshape l,line;d=Mul s,half;e=Add d,h;g=Reshape e,square;m=Add "
            "g,mask;p=Softmax m;r=Reshape p,six6;y=MatMul r,c;o=Reshape y,four",
     "Attention"},
    {"batch and heads joined, their scores seen",
     JOINED "g=Reshape s,square;m=Add g,mask;p=Softmax m;r=Reshape p,six6;y=MatMul r,c;z=Reshape y,four;e=ReduceMax "
            "s,last4b;f=ReduceMax e;o=Add z,f"},
    {"batch and heads joined, and parted the other way round", JOINED
     "g=Reshape s,turned;h=Transpose[1,0,2,3] mask3;m=Add g,h;p=Softmax m;r=Reshape p,six6;y=MatMul r,c;o=Reshape "
     "y,four"},
    {"a cap by another number",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;d=Mul s,half;h=Tanh d;e=Mul three,h;p=Softmax e;o=MatMul p,v"},
    {"capped after the mask", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;d=Mul m,half;h=Tanh d;e=Mul "
                              "two,h;p=Softmax e;o=MatMul p,v"},
    {"scaled after the mask", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;d=Mul m,half;p=Softmax d;o=MatMul p,v",
     "Attention"},
    {"scores and weights reshaped to the same extents",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;a=Reshape s,samesquare;m=Add a,mask;p=Softmax m;r=Reshape "
     "p,samesquare;o=MatMul r,v",
     "Attention"},
    {"scaled between two masks",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add mask3,s;d=Mul m,half;l=Add d,mask;p=Softmax l;o=MatMul p,v",
     "Attention"},
    {"at least the lowest number",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;e=Max lowest,m;p=Softmax e;o=MatMul p,v", "Attention"},
    {"at least a number that is not low",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;e=Max m,half;p=Softmax e;o=MatMul p,v"},
    {"at least the lowest number, and a mask",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;e=Max s,lowest;m=Add e,mask;p=Softmax m;o=MatMul p,v"},
    {"scaled after scores were hidden",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,s,lowest;d=Mul m,half;p=Softmax d;o=MatMul p,v"},
    {"capped before the mask, and scaled after it",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;h=Tanh s;m=Add h,mask;d=Mul m,half;p=Softmax d;o=MatMul p,v"},
    {"capped after a scale after the mask",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;e=Mul m,half;d=Mul e,half;h=Tanh d;f=Mul two,h;p=Softmax "
     "f;o=MatMul p,v"},
    {"hidden by a number, and a mask added",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,s,three;l=Add m,mask;p=Softmax l;o=MatMul p,v"},
    {"K stored turned, and one query", "f=Slice q,start0,start1,last4b;s=MatMul f,kt;p=Softmax s;o=MatMul p,v"},
    {"K stored turned, and an unknown number of queries",
     "f=Transpose[2,1,0,3] q;g=ReduceMax kt,first;h=ReduceMax v,first;a=Expand g,one6;b=Expand h,one6;s=MatMul "
     "f,a;p=Softmax s;o=MatMul p,b"},
    {"repeated heads joined with the batch, K turned, and an unknown number of queries",
     "f=Transpose[2,1,0,3] q;g=ReduceMax k,first;h=ReduceMax g,heads;l=Unsqueeze h,last4b;e=Expand "
     "l,six_three;a=Reshape "
     "e,three6;b=Transpose[0,2,1] a;t=Reshape b,back;d=Mul t,half;s=MatMul f,d;p=Softmax s;i=ReduceMax "
     "v,first;c=Expand "
     "i,one6;o=MatMul p,c",
     "Attention"},
    {"a negative scale", "t=Transpose[0,1,3,2] k;s=MatMul q,t;d=Mul s,mhalf;p=Softmax d;o=MatMul p,v"},
    {"heads split and not merged",
     SPLIT("a", "u", "0,2,1,3") SPLIT("b", "w", "0,2,3,1")
         SPLIT("c", "u", "0,2,1,3") "s=MatMul a,b;p=Softmax s;o=MatMul p,c",
     "Attention"},
    {"heads merged and not split", "s=MatMul q,kt;p=Softmax s;y=MatMul p,v;z=Transpose[0,2,1,3] y;o=Reshape z,merge",
     "Attention"},
    {"torch's guard against rows that are masked whole",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;p=Softmax m;i=IsNaN p;g=Where i,zero,p;o=MatMul g,v",
     "Attention"},
    {"another guard",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Add s,mask;p=Softmax m;i=IsNaN p;g=Where i,one,p;o=MatMul g,v"},
    {"scores hidden by a number", "t=Transpose[0,1,3,2] k;s=MatMul q,t;m=Where keep,three,s;p=Softmax m;o=MatMul p,v",
     "Attention"},
    {"a scale for each column", "t=Transpose[0,1,3,2] k;s=MatMul q,t;c=Mul s,six1;p=Softmax c;o=MatMul p,v"},
    {"weights that are seen",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;p=Softmax s;y=MatMul p,v;e=ReduceMax p,last4;o=Add y,e"},
    {"scores that are seen",
     "t=Transpose[0,1,3,2] k;s=MatMul q,t;p=Softmax s;y=MatMul p,v;e=ReduceMax s,last4;o=Add y,e"},
    {"one head of keys", "f=ReduceMax kt,heads;s=MatMul q,f;p=Softmax s;o=MatMul p,v"},
    {"a mask that widens", "f=ReduceMax q,heads;g=ReduceMax kt,heads;h=ReduceMax v,heads;s=MatMul f,g;m=Add "
                           "s,mask3;p=Softmax m;o=MatMul p,h"},
};

static const spelled spelled_groups[] = {
    {"torch's GroupNorm",
     "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;r=Reshape i,whole;m=Mul r,channels;o=Add m,channels",
     "GroupNormalization", "f32[n,6,8]"},
    {"GroupNorm by its own shape",
     "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;s=Shape x;r=Reshape i,s;o=Relu r", "GroupNormalization",
     "f32[n,6,4,5]"},
    {"GroupNorm and rows", "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;r=Reshape i,whole;o=Mul r,rows",
     "GroupNormalization", "f32[n,6,8]"},
    {"GroupNorm of an instance that somebody else reads",
     "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;r=Reshape i,whole;s=ReduceSum i;o=Add r,s", NULL,
     "f32[n,6,8]"},
    {"GroupNorm of other images", "g=Reshape x,joined;i=InstanceNormalization g,grow3,grow3b;o=Reshape i,whole", NULL,
     "f32[2,6,8]"},
};

/* Normalisations that the fusion pass changes. `made`: the operator that the pass joins with the operator after it. */
static const spelled spelled_norm_ends[] = {
    {"BatchNorm and Relu", "n=BatchNormalization x,gamma,beta,rows,beta;o=Relu n", "BatchNormalization", "f32[n,8,6]"},
    {"InstanceNorm and Relu", "n=InstanceNormalization x,gamma,beta;o=Relu n", "InstanceNormalization", "f32[n,8,n,5]"},
    {"GroupNorm and Relu", "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;s=Shape x;r=Reshape i,s;o=Relu r",
     "GroupNormalization", "f32[n,6,4,5]"},
    {"GroupNorm and a limit",
     "g=Reshape x,cut;i=InstanceNormalization g,grow3,grow3b;s=Shape x;r=Reshape i,s;o=Clip r,zero,one3",
     "GroupNormalization", "f32[n,6,4,5]"},
    {"LayerNorm and Tanh", "n=LayerNormalization x,gamma,beta;o=Tanh n", "LayerNormalization"},
    {"RMSNorm and LeakyRelu",
     "q=Pow x,two;v=ReduceMean q,last;e=Add v,eps;r=Sqrt e;i=Reciprocal r;n=Mul x,i;m=Mul gamma,n;o=LeakyRelu m",
     "RMSNormalization"},
    {"a norm that somebody else reads", "n=LayerNormalization x,gamma,beta;r=Relu n;o=Sub r,n"},
    {"a norm and what is no activation", "n=LayerNormalization x,gamma,beta;o=Exp n"},
    {"a norm and a limit that is computed", "n=LayerNormalization x,gamma,beta;m=ReduceMax y;o=Clip n,,m"},
    {"a norm and something between", "n=LayerNormalization x,gamma,beta;f=Floor n;o=Relu f"},
};

static inline void spelled_constants(onnx_build *b) {
  static const struct {
    const char *name;
    float number;
  } scalars[] = {{"zero", 0},
                 {"quarter", 0.25f},
                 {"half", 0.5f},
                 {"mhalf", -0.5f},
                 {"one", 1},
                 {"one3", 1.3f},
                 {"root2", 1.41421354f},
                 {"invroot2", 0.70710677f},
                 {"one7", 1.702f},
                 {"two", 2},
                 {"three", 3},
                 {"six", 6},
                 {"tiny", 0.044715f},
                 {"kappa", 0.7978846f},
                 {"eps", 1e-5f},
                 {"minf", -INFINITY},
                 {"lowest", -3.4028235e38f}};
  static const float rows[8] = {0.5f, 1.5f, 2, -1, 0.25f, 1, 3, -2};
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) build_f32(b, scalars[i].name, "", &scalars[i].number);
  build_f32(b, "rows", "8", rows);
  build_f32(b, "gamma", "8", rows);
  build_f32(b, "fine", "8", (float[]){0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f});
  build_tensor(b, "gamma16", REED_F16, "8",
               (uint16_t[]){0x3800, 0x3e00, 0x4000, 0xbc00, 0x3400, 0x3c00, 0x4200, 0xc000}, true);
  build_tensor(b, "beta16", REED_F16, "8", (uint16_t[]){0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800},
               true);
  build_tensor(b, "eps16", REED_F16, "", (uint16_t[]){0x0400}, true);
  build_tensor(b, "two64", REED_F64, "", (double[]){2}, true);
  build_tensor(b, "eps64", REED_F64, "", (double[]){1e-5}, true);
  build_f32(b, "beta", "8", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_f32(b, "ones", "6,1", (float[]){1, 1, 1, 1, 1, 1});
  build_f32(b, "grow3", "3", (float[]){0.5f, 2, -1});
  build_f32(b, "grow3b", "3", (float[]){0, 1, 3});
  build_f32(b, "channels", "6,1", rows);
  build_i64(b, "cut", "3", (int64_t[]){0, 3, -1});
  build_i64(b, "joined", "3", (int64_t[]){1, 3, -1});
  build_i64(b, "whole", "3", (int64_t[]){-1, 6, 8});
  build_i64(b, "first", "1", (int64_t[]){0});
  build_i64(b, "last", "1", (int64_t[]){-1});
  build_i64(b, "last2", "2", (int64_t[]){2, 1});
  build_i64(b, "last4", "1", (int64_t[]){3});
  build_i64(b, "heads", "1", (int64_t[]){1});
  build_i64(b, "split", "4", (int64_t[]){0, 0, 3, 8});
  build_i64(b, "merge", "3", (int64_t[]){0, 0, 24});
  build_i64(b, "start0", "1", (int64_t[]){0});
  build_i64(b, "start1", "1", (int64_t[]){1});
  build_i64(b, "last4b", "1", (int64_t[]){2});
  build_i64(b, "one6", "4", (int64_t[]){6, 1, 1, 1});
  build_i64(b, "three6", "3", (int64_t[]){-1, 6, 8});
  build_i64(b, "six6", "3", (int64_t[]){-1, 6, 6});
  build_i64(b, "line", "3", (int64_t[]){-1, 1, 6});
  build_i64(b, "four", "4", (int64_t[]){-1, 3, 6, 8});
  build_i64(b, "six_three", "5", (int64_t[]){6, 1, 3, 1, 1});
  build_i64(b, "square", "4", (int64_t[]){-1, 3, 6, 6});
  build_i64(b, "samesquare", "4", (int64_t[]){0, 3, 6, -1});
  build_i64(b, "turned", "4", (int64_t[]){3, -1, 6, 6});
  build_i64(b, "back", "4", (int64_t[]){-1, 3, 8, 6});
  build_f32(b, "six1", "6", (float[]){1, 2, 3, 4, 5, 6});
}

/* Nodes of "a=Op x,y;..."; gives the last name, which lives until the next call. */
static inline const char *spelled_nodes(onnx_build *b, const char *text) {
  static char last[32];
  char copy[2048], *rest = copy, *part;
  snprintf(copy, sizeof copy, "%s", text);
  while ((part = strsep(&rest, ";"))) {
    char *name = strsep(&part, "="), *op = strsep(&part, " "), *numbers = strchr(op, '[');
    if (numbers) *numbers++ = 0, numbers[strcspn(numbers, "]")] = 0;
    char *second = strchr(name, '+');
    if (second) *second = ',';
    build_node_t *n = build_node(b, op, part, name);
    bool turns = strcmp(op, "Transpose") == 0;
    if (numbers && turns) build_ints(b, n, "perm", numbers);
    else if (numbers && strcmp(op, "Cast")) build_int(b, n, strcmp(op, "Trilu") ? "axis" : "upper", atoi(numbers));
    if (second) build_int(b, n, "num_outputs", 2);
    if (strcmp(op, "Cast") == 0) build_int(b, n, "to", numbers ? atoi(numbers) : 1);
    snprintf(last, sizeof last, "%s", name);
  }
  return last;
}

/* The model of one of the above. */
static inline onnx_build *spelled_open(const spelled *s) {
  onnx_build *b = build_open(18);
  build_input(b, "x", s->x ? s->x : "f32[n,6,8]");
  build_input(b, "y", s->x ? s->x : "f32[n,6,8]");
  spelled_constants(b);
  build_output(b, spelled_nodes(b, s->text), "f32");
  return b;
}

static inline onnx_build *spelled_attention_open(const spelled *s) {
  onnx_build *b = build_open(18);
  build_input(b, "q", "f32[n,3,6,8]");
  build_input(b, "k", "f32[n,3,6,8]");
  build_input(b, "kt", "f32[n,3,8,6]");
  build_input(b, "v", "f32[n,3,6,8]");
  build_input(b, "u", "f32[n,6,24]");
  build_input(b, "w", "f32[n,6,24]");
  build_input(b, "mask", "f32[n,1,6,6]");
  build_input(b, "keep", "bool[n,1,1,6]");
  build_input(b, "mask3", "f32[n,3,6,6]");
  spelled_constants(b);
  build_output(b, spelled_nodes(b, s->text), "f32");
  return b;
}

#endif
