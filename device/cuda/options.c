/* The options in a CUDA device's name: cuda?check=1, cuda?profile=FILE, cuda?lacks=Conv+TopK. Their meaning:
 * cuda_options in state.h. The driver reads its own options (cuda_driver_options). */
#include <stdio.h>
#include <string.h>

#include "device/cuda/library.h"
#include "device/loadable.h"

/* Takes the path of option `profile`. */
static reed_status read_path(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  static const char key[] = "profile";
  for (loadable_word word; loadable_next(&text, &word);) {
    if (!loadable_has_key(&word, key)) continue;
    if (word.n_value == 0 || word.n_value >= sizeof out_options->profile)
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                       "device '" CUDA_DEVICE_NAME "': option '%s' takes the path of a file, of at most %zu bytes", key,
                       sizeof out_options->profile - 1);
    memcpy(out_options->profile, word.value, word.n_value);
    out_options->profile[word.n_value] = 0;
  }
  return REED_OK;
}

reed_status cuda_options_read(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  static const loadable_option numbers[] = {
#define KEY(name) {#name, offsetof(cuda_options, name)}
      KEY(check), KEY(cublas), KEY(cudnn), KEY(poison), KEY(tf32), KEY(values),
#undef KEY
  };
  char words[64];
  snprintf(words, sizeof words, "profile%s%s", *cuda_driver_words ? ", " : "", cuda_driver_words);
  const loadable_options known = {CUDA_DEVICE_NAME, numbers, sizeof numbers / sizeof *numbers, cuda_driver_options,
                                  words};
  *out_options = (cuda_options){0};
  reed_status status = loadable_options_read(&known, text, out_options, diagnosis);
  if (status == REED_OK) status = read_path(text, out_options, diagnosis);
  if (status != REED_OK || (out_options->cudnn <= LIBRARY_ALWAYS && out_options->cublas <= LIBRARY_ALWAYS))
    return status;
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                   "device '" CUDA_DEVICE_NAME "': option '%s' takes 0, 1 (measured) or 2 (wherever it has a plan)",
                   out_options->cudnn > LIBRARY_ALWAYS ? "cudnn" : "cublas");
}
