/* VALUE, the command line's way to write a tensor:
 *
 *   @FILE.npy  @FILE.png  @FILE.jpg        a file's contents
 *   2x3xf32=1,2,3,4,5,6                    extents, dtype, elements
 *   2x3xf32=0.5                            every element the same
 *   f32=1                                  a scalar
 *   3x480x640xf32=rand:7                   random numbers of that seed: floats in 0..1, u8 and i8 over all they hold,
 * bool, other integers 0..9 */
#ifndef TOOLS_VALUE_H_
#define TOOLS_VALUE_H_

#include "tools/picture.h"
#include "tools/tool.h"

/* Parses extents and dtype: "2x3xf32", "f32", in at most n characters of the text. False: the text has no type. */
bool value_parse_type(const char *text, size_t n, reed_desc *out_desc);
/* Parses extents, "2x3", or extents with a dtype; *out_desc has REED_NONE for no dtype. */
bool value_parse_extents(const char *text, reed_desc *out_desc);
/* True for a text that can only be a VALUE: it begins with '@', or with a type and '='. */
bool value_looks_like(const char *text);
/* Parses the whole text: MISUSE names the expected text and the place; BAD_FILE and FAILED_RUN for files and memory.
 * `form` and `wanted` (may be NULL) are for pictures, see picture_to_tensor. */
int value_parse(const char *text, const picture_form *form, const reed_value_info *wanted, reed_tensor **out_tensor,
                complaint *c);
/* Random elements, the same on every machine. */
void value_random(reed_tensor *tensor, uint64_t seed);
/* Reads @FILE. The file's name and contents tell its format. */
int value_read_file(const char *path, const picture_form *form, const reed_value_info *wanted, reed_tensor **out_tensor,
                    complaint *c);

#endif
