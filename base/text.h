/* Growable text, and checks of UTF-8. Floats as text: number.h. JSON: json.h. */
#ifndef BASE_TEXT_H_
#define BASE_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reed/status.h"

/* After the first append the text ends with NUL. A failed append sets `failed`, and later appends do nothing, so that a
 * writer checks once, at the end. A zeroed buffer is empty. */
typedef struct text_buffer {
  char *data; /* owned; NULL while empty */
  size_t n, capacity;
  int failed;
} text_buffer;
void text_append(text_buffer *text, const char *format, ...) REED_PRINTF(2, 3);
void text_append_bytes(text_buffer *text, const void *bytes, size_t n);
void text_fini(text_buffer *text);

/* Writes a range of extents, "0..4096", or "1.." for a high of INT64_MAX; returns `out`. */
char *range_text(int64_t low, int64_t high, char *out, size_t capacity);

/* The number of bytes of the character at the beginning of `text`, of which n > 0 bytes are left. 0: not well-formed
 * UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates). */
size_t utf8_length(const char *text, size_t n);
/* The code point of the well-formed character of that many bytes (utf8_length). */
uint32_t utf8_read(const char *text, size_t length);
/* True for characters that a terminal obeys instead of showing: controls (C0, DEL, C1), marks of direction, separators
 * of lines and paragraphs. */
bool utf8_is_obeyed(uint32_t code_point);
/* Writes the character of a code point (at most U+10FFFF, no surrogate) and returns the number of its bytes. */
size_t utf8_write(uint32_t code_point, char out[4]);
/* True for n bytes of well-formed UTF-8 without NUL. */
bool utf8_valid(const char *text, size_t n);

#endif
