/* Template: the reductions of ops/cpu/reduce/reduce.def for one class of dtypes, on 64-bit accumulators. Included once
 * a class with
 *   CLASS     f, s, u or b: names end in it
 *   A, W      the accumulator's type; as wide, unsigned
 *   IF_FLOAT IF_SIGNED IF_UNSIGNED IF_INT IF_BOOL(x): x where the class is that one, else nothing
 * which it undefines. An element is given as A, which holds every element exactly. */
#define NAME_(name, tag) name##_##tag
#define NAMED(name, tag) NAME_(name, tag)
#define LOWEST lowest
#define HIGHEST highest
/* The value with which accumulation begins. */
static __device__ inline A NAMED(reduce_start, CLASS)(int op, A lowest, A highest) {
  (void)lowest, (void)highest;
  switch (op) {
#define REDUCTION(name, class, start, value, join, finish) IF_##class(case OP_##name : return static_cast<A>(start);)
#include "ops/cpu/reduce/reduce.def"
    default: return 0;
  }
}
static __device__ inline A NAMED(reduce_value, CLASS)(int op, A x) {
  switch (op) {
#define REDUCTION(name, class, start, value, join, finish) IF_##class(case OP_##name : return static_cast<A>(value);)
#include "ops/cpu/reduce/reduce.def"
    default: return x;
  }
}
static __device__ inline A NAMED(reduce_join, CLASS)(int op, A a, A v) {
  switch (op) {
#define REDUCTION(name, class, start, value, join, finish) IF_##class(case OP_##name : return static_cast<A>(join);)
#include "ops/cpu/reduce/reduce.def"
    default: return a;
  }
}
static __device__ inline A NAMED(reduce_finish, CLASS)(int op, A a, int64_t n) {
  (void)n;
  switch (op) {
#define REDUCTION(name, class, start, value, join, finish) IF_##class(case OP_##name : return static_cast<A>(finish);)
#include "ops/cpu/reduce/reduce.def"
    default: return a;
  }
}
#undef NAME_
#undef NAMED
#undef LOWEST
#undef HIGHEST
#undef CLASS
#undef A
#undef W
