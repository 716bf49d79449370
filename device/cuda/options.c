/* Reads the options in a CUDA device's name: cuda?check=1, cuda?lacks=Conv+TopK. Their meaning: cuda_options in
 * state.h. The driver's own options (cuda_driver_options) are skipped here, because the driver reads them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/state.h"
#include "device/loadable.h"

static const struct {
  const char *key;
  size_t at;
} keys[] = {{"check", offsetof(cuda_options, check)}, {"poison", offsetof(cuda_options, poison)},
            {"tf32", offsetof(cuda_options, tf32)},   {"values", offsetof(cuda_options, values)},
            {"cudnn", offsetof(cuda_options, cudnn)}, {"cublas", offsetof(cuda_options, cublas)}};

static int64_t *option_of(cuda_options *options, const char *key, size_t n) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strlen(keys[i].key) == n && memcmp(keys[i].key, key, n) == 0) return (int64_t *)((char *)options + keys[i].at);
  return NULL;
}

/* True if the word is in the list of words with commas between them. */
static bool is_among(const char *list, const char *word, size_t n) {
  while (*list) {
    size_t length = strcspn(list, ",");
    if (length == n && memcmp(list, word, n) == 0) return true;
    list += length;
    list += strspn(list, ", ");
  }
  return false;
}

reed_status cuda_options_read(const char *text, cuda_options *out_options, reed_diagnosis *diagnosis) {
  *out_options = (cuda_options){0};
  while (*text) {
    size_t n = strcspn(text, "&"), n_key = strcspn(text, "=&");
    int64_t *option = option_of(out_options, text, n_key);
    bool is_text = loadable_is_list(text) || is_among(cuda_driver_words, text, n_key);
    if (!option && !is_text && !is_among(cuda_driver_options, text, n_key))
      return diag_fail(
          diagnosis, REED_ERROR_DEVICE,
          "device '" CUDA_DEVICE_NAME
          "': there is no option '%.*s'; known: check, cublas, cudnn, poison, tf32, values, lacks, only%s%s%s%s",
          (int)n_key, text, *cuda_driver_options ? ", " : "", cuda_driver_options, *cuda_driver_words ? ", " : "",
          cuda_driver_words);
    const char *number = text + n_key + 1;
    char *end = NULL;
    errno = 0;
    int64_t value = text[n_key] == '=' && !is_text ? strtoll(number, &end, 10) : 0;
    if (!is_text && (!end || end == number || errno || value < 0 || end != text + n))
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device '" CUDA_DEVICE_NAME "': option '%.*s' takes a number from 0 on", (int)n_key, text);
    if (option) *option = value;
    if (out_options->cudnn > 2 || out_options->cublas > 2)
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device '" CUDA_DEVICE_NAME
                       "': option '%.*s' takes 0, 1 (measured) or 2 (wherever it has a plan)",
                       (int)n_key, text);
    text += n;
    text += *text == '&';
  }
  return REED_OK;
}
