/* Parts of loadable devices (loadable.h). Loading them: module.c. */
#include "device/loadable.h"

#include <stdint.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"

static const device_services *services;

static void *forward_allocate(void *context, size_t bytes) {
  (void)context;
  return services->allocator->allocate(services->allocator->context, bytes);
}

static void *forward_resize(void *context, void *block, size_t bytes) {
  (void)context;
  return services->allocator->resize(services->allocator->context, block, bytes);
}

static void forward_release(void *context, void *block) {
  (void)context;
  services->allocator->release(services->allocator->context, block);
}

void loadable_use(const device_services *given) {
  if (services) return;
  services = given;
  reed_set_allocator(&(reed_allocator){forward_allocate, forward_resize, forward_release, NULL});
}

reed_kernel_prepare_fn loadable_host_kernel(const reed_op *op) { return services->host_kernel(op); }

/* True for an option of the list of capabilities (ops/capability.h). */
static bool is_list(const char *option) {
  return strncmp(option, "lacks=", 6) == 0 || strncmp(option, "only=", 5) == 0 || strncmp(option, "counts=", 7) == 0;
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

static reed_status refuse_option(const loadable_options *known, const char *key, size_t n_key,
                                 reed_diagnosis *diagnosis) {
  text_buffer names = {0};
  for (size_t i = 0; i < known->n_numbers; i++) text_append(&names, "%s, ", known->numbers[i].key);
  if (*known->other_numbers) text_append(&names, "%s, ", known->other_numbers);
  if (*known->other_words) text_append(&names, "%s, ", known->other_words);
  text_append(&names, "lacks, only, counts");
  reed_status status = diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': there is no option '%.*s'; known: %s",
                                 known->device, (int)n_key, key, names.failed ? "" : names.data);
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

reed_status loadable_options_read(const loadable_options *known, const char *text, void *out,
                                  reed_diagnosis *diagnosis) {
  for (size_t n; *text; text += n + (text[n] == '&')) {
    const size_t n_key = strcspn(text, "=&");
    n = strcspn(text, "&");
    if (is_list(text) || is_among(known->other_words, text, n_key)) continue;
    const loadable_option *option = NULL;
    for (size_t i = 0; i < known->n_numbers; i++)
      if (strlen(known->numbers[i].key) == n_key && memcmp(known->numbers[i].key, text, n_key) == 0)
        option = &known->numbers[i];
    if (!option && !is_among(known->other_numbers, text, n_key)) return refuse_option(known, text, n_key, diagnosis);
    int64_t number;
    if (n == n_key || !read_number(text + n_key + 1, n - n_key - 1, &number))
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': option '%.*s' takes a number from 0 on",
                       known->device, (int)n_key, text);
    if (option) *(int64_t *)((char *)out + option->at) = number;
  }
  return REED_OK;
}

char *loadable_target(const char *name, const char *options) {
  text_buffer text = {0};
  text_append(&text, "%s", name);
  const char *between = "?";
  for (const char *at = options; *at;) {
    size_t n = strcspn(at, "&");
    if (is_list(at)) {
      text_append(&text, "%s", between);
      text_append_bytes(&text, at, n);
      between = "&";
    }
    at += n + (at[n] == '&');
  }
  if (text.failed) text_fini(&text);
  return text.data;
}
