/* The formulas of ops/cpu/formulas/formulas.def on the device: one function a dtype, made by formula_type.cuh. */
#ifndef DEVICE_CUDA_KERNELS_FORMULAS_CUH_
#define DEVICE_CUDA_KERNELS_FORMULAS_CUH_

#include "device/cuda/kernels/functions.cuh"
#include "device/cuda/kernels/values.cuh"
#include "ops/cpu/formulas/formula.h"

#define IF_BOOL(...)
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define T float
#define W float
#define TAG f32
#define FN(f) f##_f32
#include "device/cuda/kernels/formula_type.cuh"
#undef IF_FLOAT
#undef IF_SIGNED
#undef IF_UNSIGNED
#undef IF_INT
#undef IF_BOOL
#define FORMULAS_OF_DTYPE "device/cuda/kernels/formula_type.cuh"
#include "ops/cpu/formulas/formula_dtypes_template.h"

/* The formula of a step on values of dtype step.from. */
static __device__ inline uint64_t formula_apply(const map_step &step, uint64_t a, uint64_t b, uint64_t c, int *fault) {
  switch (step.from) {
    case REED_F32: return formula_f32(step, a, b, c, fault);
    case REED_F64: return formula_f64(step, a, b, c, fault);
    case REED_I8: return formula_i8(step, a, b, c, fault);
    case REED_I16: return formula_i16(step, a, b, c, fault);
    case REED_I32: return formula_i32(step, a, b, c, fault);
    case REED_I64: return formula_i64(step, a, b, c, fault);
    case REED_U8: return formula_u8(step, a, b, c, fault);
    case REED_U16: return formula_u16(step, a, b, c, fault);
    case REED_U32: return formula_u32(step, a, b, c, fault);
    case REED_U64: return formula_u64(step, a, b, c, fault);
    default: return formula_truth(step, a, b, c, fault);
  }
}

#endif
