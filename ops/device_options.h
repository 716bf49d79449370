/* The options in a device's name, KEY=VALUE&KEY=VALUE..., of the kinds of ops/targets.def. Devices and the compiler's
 * targets have their options checked here. */
#ifndef OPS_DEVICE_OPTIONS_H_
#define OPS_DEVICE_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

typedef struct device_option {
  const char *key, *value; /* in the text of all options; of KEY alone the value has no characters */
  size_t n_key, n_value;
  bool dangles; /* the text ends with the '&' behind this option */
} device_option;

enum { DEVICES_OF_A_KIND = 64 };
/* The number of a device among those of its kind, from 0 on; false: the text is none. */
bool device_number_read(const char *digits, size_t n, int32_t *out_number);
/* Takes the first option off the text that ends at `end`; false: there is none. */
bool device_option_next(const char **text, const char *end, device_option *out_option);
/* The options of the list of capabilities (ops/capability.h): lacks, only, counts. */
typedef enum device_list { NO_LIST = -1, LIST_LACKS, LIST_ONLY, LIST_COUNTS, N_LISTS } device_list;
device_list device_option_list(const device_option *option);
/* The operators, with + between them, that the library of an option computes, and the option's key; NULL: the option
 * opens no library. */
const char *device_option_library(const device_option *option, const char **out_key);
/* ERROR_ARGUMENT, in a sentence that begins with `what`, the kind of the name that has the option, and that name: the
 * kind of device has no such option, the option has no number within its bounds, or a list has no items. A word is
 * not checked, nor are a list's items. out_number: of an option with a number, else 0. */
reed_status device_option_read(const char *kind, const char *what, const char *name, const device_option *option,
                               int64_t *out_number, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The place of an option's number (int64_t) in a struct of options. */
typedef struct device_option_place {
  const char *key;
  size_t at;
} device_option_place;
/* Checks all options of a device's name and writes the numbers of those that have a place into the struct `out`, which
 * the caller has filled with defaults. */
reed_status device_options_read(const char *kind, const char *text, const device_option_place *places, size_t n,
                                void *out, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The value of the last option of that key; NULL: there is none. */
const char *device_option_word(const char *text, const char *key, size_t *out_n);

#endif
