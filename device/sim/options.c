/* Reads the options in a simulated accelerator's name: sim?seed=7&delay_us=50, sim?lacks=Conv+TopK. Their meaning:
 * sim_options in state.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/loadable.h"
#include "device/sim/state.h"

static const struct {
  const char *key;
  size_t at;
} keys[] = {
#define KEY(name) \
  { #name, offsetof(sim_options, name) }
    KEY(fail_allocation), KEY(fail_copy), KEY(fail_launch), KEY(seed), KEY(delay_us), KEY(late), KEY(poison),
#undef KEY
};

static int64_t *option_of(sim_options *options, const char *key, size_t n) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strlen(keys[i].key) == n && memcmp(keys[i].key, key, n) == 0) return (int64_t *)((char *)options + keys[i].at);
  return NULL;
}

reed_status sim_options_read(const char *text, sim_options *out_options, reed_diagnosis *diagnosis) {
  *out_options = (sim_options){.text = text};
  while (*text) {
    size_t n_key = strcspn(text, "=&");
    if (loadable_is_list(text)) {
      text += strcspn(text, "&");
      text += *text == '&';
      continue;
    }
    int64_t *option = option_of(out_options, text, n_key);
    if (!option)
      return diag_fail(diagnosis, REED_ERROR_DEVICE,
                       "device 'sim': there is no option '%.*s'; known: fail_allocation, fail_copy, fail_launch, seed, "
                       "delay_us, late, poison, lacks, only",
                       (int)n_key, text);
    const char *number = text + n_key + 1;
    char *end = NULL;
    errno = 0;
    if (text[n_key] == '=') *option = strtoll(number, &end, 10);
    if (!end || end == number || errno || *option < 0 || (*end && *end != '&'))
      return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'sim': option '%.*s' takes a number from 0 on", (int)n_key,
                       text);
    text = *end ? end + 1 : end;
  }
  return REED_OK;
}
