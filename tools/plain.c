/* Text without control characters (plain.h). The escapes are those of JSON and of assembly text, so that both texts
 * stay valid. */
#include "tools/plain.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tools/need.h"

static int write_visible(char *out, uint32_t c) {
  if (c == '\n') return sprintf(out, "\\n");
  if (c == '\t') return sprintf(out, "\\t");
  if (c == '\r') return sprintf(out, "\\r");
  return sprintf(out, "\\u%04x", (unsigned)c);
}

/* Writes the text to out, which has room (NULL: only measures); returns the number of bytes without the NUL. */
static size_t convert(const char *text, bool lines, char *out) {
  char scratch[16];
  size_t n = 0;
  while (*text) {
    int taken = (int)utf8_length(text, strnlen(text, 4)), written;
    uint32_t c = taken ? utf8_read(text, (size_t)taken) : 0;
    bool stays = taken && (!utf8_is_obeyed(c) || (lines && (c == '\n' || c == '\t')));
    if (stays) written = taken, memcpy(scratch, text, (size_t)taken);
    else if (taken) written = write_visible(scratch, c);
    else written = sprintf(scratch, "\\x%02x", (unsigned)(unsigned char)*text);
    if (out) memcpy(out + n, scratch, (size_t)written);
    n += (size_t)written;
    text += taken ? taken : 1;
  }
  if (out) out[n] = 0;
  return n;
}

/* Kept to the end of the process, newest first. */
typedef struct kept {
  struct kept *older;
  char text[];
} kept;

static const char *make_plain(const char *text, bool lines) {
  static kept *newest;
  size_t n = strlen(text), n_plain = convert(text, lines, NULL);
  if (n == n_plain) return text; /* every change makes it longer */
  kept *k = need(1, sizeof *k + n_plain + 1);
  convert(text, lines, k->text);
  k->older = newest;
  newest = k;
  return k->text;
}

const char *plain(const char *text) { return make_plain(text, false); }
const char *plain_lines(const char *text) { return make_plain(text, true); }
