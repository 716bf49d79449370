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

bool loadable_next(const char **options, loadable_word *out_word) {
  const char *text = *options;
  const size_t n = strcspn(text, "&"), n_key = strcspn(text, "=&"), n_sign = n > n_key;
  *out_word = (loadable_word){text, text + n_key + n_sign, n_key, n - n_key - n_sign};
  *options = text + n + (text[n] == '&');
  return *text != 0;
}

bool loadable_has_key(const loadable_word *word, const char *key) {
  return strlen(key) == word->n_key && memcmp(key, word->key, word->n_key) == 0;
}

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

static reed_status refuse_option(const loadable_options *known, const loadable_word *word, reed_diagnosis *diagnosis) {
  text_buffer names = {0};
  for (size_t i = 0; i < known->n_numbers; i++) text_append(&names, "%s, ", known->numbers[i].key);
  if (*known->other_numbers) text_append(&names, "%s, ", known->other_numbers);
  if (*known->other_words) text_append(&names, "%s, ", known->other_words);
  text_append(&names, "lacks, only, counts");
  reed_status status = diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': there is no option '%.*s'; known: %s",
                                 known->device, (int)word->n_key, word->key, names.failed ? "" : names.data);
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
  for (loadable_word word; loadable_next(&text, &word);) {
    if (is_list(word.key) || is_among(known->other_words, word.key, word.n_key)) continue;
    const loadable_option *option = NULL;
    for (size_t i = 0; i < known->n_numbers; i++)
      if (loadable_has_key(&word, known->numbers[i].key)) option = &known->numbers[i];
    if (!option && !is_among(known->other_numbers, word.key, word.n_key)) return refuse_option(known, &word, diagnosis);
    int64_t number;
    if (!read_number(word.value, word.n_value, &number))
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': option '%.*s' takes a number from 0 on",
                       known->device, (int)word.n_key, word.key);
    if (option) *(int64_t *)((char *)out + option->at) = number;
  }
  return REED_OK;
}

char *loadable_target(const char *name, const char *options) {
  text_buffer text = {0};
  text_append(&text, "%s", name);
  const char *between = "?";
  for (loadable_word word; loadable_next(&options, &word);) {
    if (!is_list(word.key)) continue;
    text_append(&text, "%s", between);
    text_append_bytes(&text, word.key, (size_t)(word.value + word.n_value - word.key));
    between = "&";
  }
  if (text.failed) text_fini(&text);
  return text.data;
}
