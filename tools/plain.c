/* Text without control characters (plain.h). The escapes are those of JSON and of assembly text, so that both texts
 * stay valid. */
#include "tools/plain.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

/* The number of bytes of the UTF-8 character at the text, and its code point; 0: no UTF-8. */
static int take_character(const char *text, uint32_t *out_number) {
  const unsigned char *b = (const unsigned char *)text;
  int n = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
  if (n == 0) return 0;
  *out_number = n == 1 ? b[0] : b[0] & (0x7fu >> n);
  for (int i = 1; i < n; i++) {
    if ((b[i] & 0xc0) != 0x80) return 0; /* the end of the text too */
    *out_number = *out_number << 6 | (b[i] & 0x3f);
  }
  bool too_long = (n == 3 && *out_number < 0x800) || (n == 4 && *out_number < 0x10000);
  bool surrogate = *out_number >= 0xd800 && *out_number < 0xe000;
  return too_long || surrogate || *out_number > 0x10ffff ? 0 : n;
}

static bool is_obeyed(uint32_t c) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},      /* C0, DEL, C1 */
                {0x61c, 0x61c},   {0x200e, 0x200f},  /* marks of direction */
                {0x2028, 0x202e}, {0x2066, 0x2069}}; /* line and paragraph separators, embeddings, isolates */
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (c >= ranges[i].first && c <= ranges[i].last) return true;
  return false;
}

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
    uint32_t c = 0;
    int taken = take_character(text, &c), written;
    bool stays = taken && (!is_obeyed(c) || (lines && (c == '\n' || c == '\t')));
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
