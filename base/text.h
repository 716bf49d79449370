/* Growable text, and the validity of UTF-8. */
#ifndef BASE_TEXT_H_
#define BASE_TEXT_H_

#include <stdbool.h>
#include <stddef.h>

#include "reed/status.h"

/* Always NUL terminated once written. A failed append sets `failed` and later ones do nothing, so that a writer checks
 * once at the end. */
typedef struct text_buffer {
  char *data; /* owned; NULL while empty */
  size_t n, capacity;
  int failed;
} text_buffer;
void text_append(text_buffer *text, const char *format, ...) REED_PRINTF(2, 3);
void text_append_bytes(text_buffer *text, const void *bytes, size_t n);
void text_fini(text_buffer *text);

/* The number of bytes of the character that begins at `text` (n > 0 bytes are left); 0: no well-formed UTF-8 there
 * (Unicode 15, table 3-7: no overlong forms, no surrogates). */
size_t utf8_length(const char *text, size_t n);
/* True for n bytes of well-formed UTF-8 without NUL. */
bool utf8_valid(const char *text, size_t n);

#endif
