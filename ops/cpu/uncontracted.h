/* Included first by a file whose products and sums are rounded one by one, so that its results are the same bits on
 * every CPU: the compiler joins none of them to a fused operation. */
#ifndef OPS_CPU_UNCONTRACTED_H_
#define OPS_CPU_UNCONTRACTED_H_

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#endif
