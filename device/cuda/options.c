/* The options in a CUDA device's name: cuda?check=1, cuda?profile=FILE, cuda?lacks=Conv+TopK. Their meaning:
 * cuda_options in state.h. The driver reads its own options. */
#include <string.h>

#include "device/cuda/state.h"
#include "ops/device_options.h"

/* Takes the path of option `profile`. */
static reed_status read_path(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  static const char key[] = "profile";
  size_t n;
  const char *path = device_option_word(text, key, &n);
  if (!path) return REED_OK;
  if (n == 0 || n >= sizeof out_options->profile)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "device '" CUDA_DEVICE_NAME "': option '%s' takes the path of a file, of at most %zu bytes", key,
                     sizeof out_options->profile - 1);
  memcpy(out_options->profile, path, n);
  out_options->profile[n] = 0;
  return REED_OK;
}

reed_status cuda_options_read(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  static const device_option_place places[] = {
#define CUDA_OPTION(key, most) {#key, offsetof(cuda_options, key)},
#include "ops/device_options.def"
  };
  *out_options = (cuda_options){0};
  const reed_status status =
      device_options_read(CUDA_DEVICE_NAME, text, places, sizeof places / sizeof *places, out_options, diagnosis);
  return status == REED_OK ? read_path(text, out_options, diagnosis) : status;
}
