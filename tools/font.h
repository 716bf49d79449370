/* A small bitmap font for labels in pictures. */
#ifndef TOOLS_FONT_H_
#define TOOLS_FONT_H_

#include <stdbool.h>

enum { FONT_WIDTH = 5, FONT_HEIGHT = 7, FONT_ADVANCE = 6 };

/* True if this pixel of the character is inked. Characters outside printable ASCII look like '?'; pixels outside the
 * glyph are not inked. */
bool font_pixel(char character, int x, int y);

#endif
