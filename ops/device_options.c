/* Reading the options of a device's name by the rows of ops/device_options.def. */
#include "ops/device_options.h"

#include <string.h>

#include "base/text.h"

typedef enum option_group { NO_OPTIONS = 0, SIM_OPTIONS = 1, CUDA_OPTIONS = 2, EMULATED_OPTIONS = 4 } option_group;

/* The groups of a kind of device. */
static const struct {
  const char *name;
  unsigned groups;
} kinds[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) {#name, options},
#include "ops/targets.def"
};

enum { WORD = -1 }; /* in the place of the largest number */
static const struct {
  const char *key;
  option_group group;
  int64_t most;
  const char *computed; /* the operators of the option's library; NULL: it opens none */
} rows[] = {
#define SIM_OPTION(key, most) {#key, SIM_OPTIONS, most, NULL},
#define CUDA_OPTION(key, most) {#key, CUDA_OPTIONS, most, NULL},
#define CUDA_LIBRARY(key, most, operators) {#key, CUDA_OPTIONS, most, operators},
#define EMULATED_OPTION(key, most) {#key, EMULATED_OPTIONS, most, NULL},
#define CUDA_WORD(key) {#key, CUDA_OPTIONS, WORD, NULL},
#define EMULATED_WORD(key) {#key, EMULATED_OPTIONS, WORD, NULL},
#include "ops/device_options.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

bool device_option_next(const char **text, const char *end, device_option *out_option) {
  const char *at = *text;
  if (at == end) return false;
  const char *sign = memchr(at, '&', (size_t)(end - at)), *last = sign ? sign : end,
             *equals = memchr(at, '=', (size_t)(last - at)), *value = equals ? equals + 1 : last;
  *out_option = (device_option){.key = at,
                                .value = value,
                                .n_key = (size_t)((equals ? equals : last) - at),
                                .n_value = (size_t)(last - value),
                                .dangles = sign && sign + 1 == end};
  *text = sign ? sign + 1 : end;
  return true;
}

static bool is(const device_option *option, const char *key) {
  return strlen(key) == option->n_key && memcmp(key, option->key, option->n_key) == 0;
}

static const char *const list_keys[N_LISTS] = {"lacks", "only", "counts"};

device_list device_option_list(const device_option *option) {
  for (int i = 0; i < N_LISTS; i++)
    if (is(option, list_keys[i])) return (device_list)i;
  return NO_LIST;
}

const char *device_option_library(const device_option *option, const char **out_key) {
  for (size_t i = 0; i < N_ROWS; i++)
    if (rows[i].computed && is(option, rows[i].key)) {
      *out_key = rows[i].key;
      return rows[i].computed;
    }
  return NULL;
}

static unsigned groups_of(const char *kind) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, kind) == 0) return kinds[i].groups;
  return NO_OPTIONS;
}

static reed_status refuse_unknown(const char *what, const char *name, const device_option *option, unsigned groups,
                                  reed_diagnosis *diagnosis) {
  text_buffer names = {0};
  for (size_t i = 0; i < N_ROWS; i++)
    if (rows[i].group & groups) text_append(&names, "%s, ", rows[i].key);
  for (int i = 0; i < N_LISTS; i++) text_append(&names, "%s%s", list_keys[i], i + 1 < N_LISTS ? ", " : "");
  const reed_status status = diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s '%s': there is no option '%.*s'; known: %s",
                                       what, name, (int)option->n_key, option->key, names.failed ? "" : names.data);
  text_fini(&names);
  return status;
}

/* Reads n digits; false: there are none, other characters, or too many. */
static bool read_number(const char *digits, size_t n, int64_t *out_number) {
  int64_t number = 0;
  for (size_t i = 0; i < n; i++) {
    const int digit = digits[i] - '0';
    if (digit < 0 || digit > 9 || number > (INT64_MAX - digit) / 10) return false;
    number = number * 10 + digit;
  }
  *out_number = number;
  return n > 0;
}

bool device_number_read(const char *digits, size_t n, int32_t *out_number) {
  int64_t number;
  if (!read_number(digits, n, &number) || number >= DEVICES_OF_A_KIND) return false;
  *out_number = (int32_t)number;
  return true;
}

reed_status device_option_read(const char *kind, const char *what, const char *name, const device_option *option,
                               int64_t *out_number, reed_diagnosis *diagnosis) {
  const unsigned groups = groups_of(kind);
  size_t i = 0;
  *out_number = 0;
  if (option->dangles)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s '%s': an option is missing behind the last '&'", what, name);
  if (device_option_list(option) != NO_LIST)
    return option->n_value ? REED_OK
                           : diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                                       "%s '%s': option '%.*s' takes a list of operators, such as Conv+TopK", what,
                                       name, (int)option->n_key, option->key);
  while (i < N_ROWS && !(rows[i].group & groups && is(option, rows[i].key))) i++;
  if (i == N_ROWS) return refuse_unknown(what, name, option, groups, diagnosis);
  if (rows[i].most == WORD) return REED_OK;
  int64_t number;
  if (read_number(option->value, option->n_value, &number) && number <= rows[i].most) {
    *out_number = number;
    return REED_OK;
  }
  if (rows[i].most == INT64_MAX)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s '%s': option '%s' takes a number from 0 on", what, name,
                     rows[i].key);
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "%s '%s': option '%s' takes a number from 0 to %lld", what, name,
                   rows[i].key, (long long)rows[i].most);
}

reed_status device_options_read(const char *kind, const char *text, const device_option_place *places, size_t n,
                                void *out, reed_diagnosis *diagnosis) {
  const char *end = text + strlen(text);
  reed_status status = REED_OK;
  for (device_option option; status == REED_OK && device_option_next(&text, end, &option);) {
    int64_t number;
    status = device_option_read(kind, "device", kind, &option, &number, diagnosis);
    for (size_t i = 0; i < n && status == REED_OK; i++)
      if (is(&option, places[i].key)) *(int64_t *)((char *)out + places[i].at) = number;
  }
  return status;
}

const char *device_option_word(const char *text, const char *key, size_t *out_n) {
  const char *end = text + strlen(text), *found = NULL;
  for (device_option option; device_option_next(&text, end, &option);) {
    if (!is(&option, key)) continue;
    found = option.value;
    *out_n = option.n_value;
  }
  return found;
}
