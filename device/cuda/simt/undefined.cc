/* The functions that g++ calls in kernels under -fsanitize=undefined. Each ends the launch with the place in the
 * source. Their names and parameters are the compiler's (libsanitizer/ubsan/ubsan_handlers.h in GCC). */
#include "device/cuda/simt/state.hpp"

/* The first field of the data of each handler. */
struct source_place {
  const char *file;
  unsigned line, column;
};

#define HOOK extern "C" __attribute__((visibility("hidden")))
#define UNDEFINED(name, text, ...) \
  HOOK void __ubsan_handle_##name(__VA_ARGS__); \
  void __ubsan_handle_##name(__VA_ARGS__) { simt_fail("%s at %s:%u", text, place->file, place->line); }

UNDEFINED(add_overflow, "overflow of a sum", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(sub_overflow, "overflow of a difference", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(mul_overflow, "overflow of a product", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(negate_overflow, "overflow of a negation", const source_place *place, uintptr_t)
UNDEFINED(divrem_overflow, "an undefined division", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(shift_out_of_bounds, "an undefined shift", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(out_of_bounds, "an index outside of an array", const source_place *place, uintptr_t)
UNDEFINED(pointer_overflow, "overflow of a pointer", const source_place *place, uintptr_t, uintptr_t)
UNDEFINED(float_cast_overflow, "a number that does not fit an integer", const source_place *place, uintptr_t)
UNDEFINED(load_invalid_value, "a value that its type does not have", const source_place *place, uintptr_t)
UNDEFINED(builtin_unreachable, "a place that cannot be reached", const source_place *place)
UNDEFINED(missing_return, "a function without a result", const source_place *place)

/* TypeMismatchData of ubsan_handlers.h. */
struct type_mismatch {
  source_place place;
  const void *type;
  unsigned char log_alignment, kind;
};
HOOK void __ubsan_handle_type_mismatch_v1(const type_mismatch *data, uintptr_t at);
void __ubsan_handle_type_mismatch_v1(const type_mismatch *data, uintptr_t at) {
  if (!at) simt_fail("a null pointer at %s:%u", data->place.file, data->place.line);
  simt_fail("a misaligned access at %s:%u: its type demands an alignment of %u bytes", data->place.file,
            data->place.line, 1u << data->log_alignment);
}
