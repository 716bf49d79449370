/* No include guard. Includes FORMULAS_OF_DTYPE, the name of a header, once for each dtype of formulas.def but f32, with
 * the macros that formula_template.h describes: T, W, TAG, FN and IF_*. */
#define IF_BOOL(...)
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define T double
#define W double
#define TAG f64
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE

#undef IF_FLOAT
#define IF_FLOAT(...)
#undef IF_INT
#define IF_INT(...) __VA_ARGS__
#undef IF_SIGNED
#define IF_SIGNED(...) __VA_ARGS__
#define T int8_t
#define W uint32_t
#define TAG i8
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T int16_t
#define W uint32_t
#define TAG i16
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T int32_t
#define W uint32_t
#define TAG i32
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T int64_t
#define W uint64_t
#define TAG i64
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE

#undef IF_SIGNED
#define IF_SIGNED(...)
#undef IF_UNSIGNED
#define IF_UNSIGNED(...) __VA_ARGS__
#define T uint8_t
#define W uint32_t
#define TAG u8
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T uint16_t
#define W uint32_t
#define TAG u16
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T uint32_t
#define W uint32_t
#define TAG u32
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#define T uint64_t
#define W uint64_t
#define TAG u64
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE

#undef IF_UNSIGNED
#define IF_UNSIGNED(...)
#undef IF_INT
#define IF_INT(...)
#undef IF_BOOL
#define IF_BOOL(...) __VA_ARGS__
#define T uint8_t
#define W uint32_t
#define TAG truth
#define FN(f) f##_f64
#include FORMULAS_OF_DTYPE
#undef IF_FLOAT
#undef IF_SIGNED
#undef IF_UNSIGNED
#undef IF_INT
#undef IF_BOOL
#undef FORMULAS_OF_DTYPE
