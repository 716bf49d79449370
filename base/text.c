/* Text buffers and checks of UTF-8 (text.h). */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static int text_room(text_buffer *text, size_t more) {
  if (text->failed) return 0;
  if (text->n + more + 1 <= text->capacity) return 1;
  size_t wanted = text->capacity * 2 > text->n + more + 1 ? text->capacity * 2 : text->n + more + 64;
  char *grown = mem_resize(text->data, wanted, 1);
  if (!grown) {
    text->failed = 1;
    return 0;
  }
  text->data = grown;
  text->capacity = wanted;
  return 1;
}

void text_append(text_buffer *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (n >= 0 && text_room(text, (size_t)n)) {
    vsnprintf(text->data + text->n, (size_t)n + 1, format, again);
    text->n += (size_t)n;
  }
  va_end(again);
}

void text_append_bytes(text_buffer *text, const void *bytes, size_t n) {
  if (!text_room(text, n)) return;
  if (n) memcpy(text->data + text->n, bytes, n);
  text->n += n;
  text->data[text->n] = 0;
}

void text_fini(text_buffer *text) {
  mem_free(text->data);
  *text = (text_buffer){0};
}

char *range_text(int64_t low, int64_t high, char *out, size_t capacity) {
  if (high == INT64_MAX) snprintf(out, capacity, "%lld..", (long long)low);
  else snprintf(out, capacity, "%lld..%lld", (long long)low, (long long)high);
  return out;
}

size_t utf8_length(const char *text, size_t n) {
  const uint8_t *p = (const uint8_t *)text;
  uint8_t c = p[0];
  if (c < 0x80) return 1;
  size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || n < length) return 0;
  uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < length; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return length;
}

uint32_t utf8_read(const char *text, size_t length) {
  uint32_t c = length == 1 ? (uint8_t)text[0] : (uint8_t)text[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) c = c << 6 | ((uint8_t)text[i] & 0x3f);
  return c;
}

bool utf8_is_obeyed(uint32_t c) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},      /* C0, DEL, C1 */
                {0x61c, 0x61c},   {0x200e, 0x200f},  /* marks of direction */
                {0x2028, 0x202e}, {0x2066, 0x2069}}; /* line and paragraph separators, embeddings, isolates */
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (c >= ranges[i].first && c <= ranges[i].last) return true;
  return false;
}

size_t utf8_write(uint32_t c, char out[4]) {
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  out[0] = (char)(heads[n - 1] | c);
  return n;
}

bool utf8_valid(const char *text, size_t n) {
  for (size_t at = 0, length; at < n; at += length) {
    length = text[at] ? utf8_length(text + at, n - at) : 0;
    if (!length) return false;
  }
  return true;
}
