/* The parts that every loadable device needs of its own, because a module imports nothing of libreed: host memory
 * through the hook of the loading process, and the options that give its list of capabilities. Linked into each module.
 */
#ifndef DEVICE_LOADABLE_H_
#define DEVICE_LOADABLE_H_

#include <stdbool.h>

#include "device/module.h"

/* Makes the module's own allocator forward to the services'. All calls of a process give the same services. */
void loadable_use(const device_services *services);
/* The host's kernel for an operator. */
reed_kernel_prepare_fn loadable_host_kernel(const reed_op *op);
/* An option of a device's name, KEY=VALUE; of KEY alone the value has no characters. */
typedef struct loadable_word {
  const char *key, *value; /* in the text of all options */
  size_t n_key, n_value;
} loadable_word;
/* Takes the first option off KEY=VALUE&KEY=VALUE...; false: there is none. */
bool loadable_next(const char **options, loadable_word *out_word);
bool loadable_has_key(const loadable_word *word, const char *key);

/* An option with a number. */
typedef struct loadable_option {
  const char *key;
  size_t at; /* the number's place (int64_t) in the struct of options */
} loadable_option;
/* The options that a device's name may have, besides those of the list of capabilities. */
typedef struct loadable_options {
  const char *device; /* the kind, for messages */
  const loadable_option *numbers;
  size_t n_numbers;
  const char *other_numbers, *other_words; /* keys with commas between them: options that another room reads */
} loadable_options;
/* Reads KEY=NUMBER&KEY=NUMBER... into the struct `out`, which the caller has filled with defaults. Options of the list
 * of capabilities and words are skipped: they are checked when they are read. ERROR_ARGUMENT names the option that is
 * unknown, or has no number from 0 on. */
reed_status loadable_options_read(const loadable_options *known, const char *text, void *out,
                                  reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The device's list of capabilities (ops/capability.h): `name` with the options ("KEY=VALUE&...") that belong
 * to the list. To be freed with mem_free; NULL: no memory. */
char *loadable_target(const char *name, const char *options);

#endif
