/* The module's own declarations of cuDNN's binary interface against NVIDIA's cudnn.h, where that is: numbers, and every
 * function of cudnn.def. */
#include <cudnn.h>

#include "device/cuda/cudnn/cudnn.h"

#define SAME(ours, theirs, value) _Static_assert((int)(theirs) == (value), #theirs);
CUDNN_NUMBERS(SAME)
_Static_assert(sizeof(cudnnBackendAttributeName_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int32_t) &&
                   sizeof(cudnnBackendNumericalNote_t) == sizeof(int32_t) && sizeof(cudnnStatus_t) == sizeof(int),
               "enums are ints");

/* cudnn.h declares each symbol of the table. */
int main(void) {
  static const size_t sizes[] = {
#define CUDNN(result, name, symbol, parameters) sizeof(&symbol),
#include "device/cuda/cudnn/cudnn.def"
  };
  return sizes[0] != sizeof(void *);
}
