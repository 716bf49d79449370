/* The options in a CUDA device's name: cuda?check=1, cuda?lacks=Conv+TopK. Their meaning: cuda_options in state.h. The
 * driver reads its own options (cuda_driver_options). */
#include "device/cuda/library.h"
#include "device/loadable.h"

reed_status cuda_options_read(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  static const loadable_option numbers[] = {
#define KEY(name) {#name, offsetof(cuda_options, name)}
      KEY(check), KEY(cublas), KEY(cudnn), KEY(poison), KEY(tf32), KEY(values),
#undef KEY
  };
  const loadable_options known = {CUDA_DEVICE_NAME, numbers, sizeof numbers / sizeof *numbers, cuda_driver_options,
                                  cuda_driver_words};
  *out_options = (cuda_options){0};
  const reed_status status = loadable_options_read(&known, text, out_options, diagnosis);
  if (status != REED_OK || (out_options->cudnn <= LIBRARY_ALWAYS && out_options->cublas <= LIBRARY_ALWAYS))
    return status;
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                   "device '" CUDA_DEVICE_NAME "': option '%s' takes 0, 1 (measured) or 2 (wherever it has a plan)",
                   out_options->cudnn > LIBRARY_ALWAYS ? "cudnn" : "cublas");
}
