/* Pictures: reading PNG and JPEG, writing PNG, and converting pictures to tensors and back. Only picture.c uses libpng
 * and libjpeg. */
#ifndef TOOLS_PICTURE_H_
#define TOOLS_PICTURE_H_

#include "tools/tool.h"

/* 8-bit RGB, rows one after the other. */
typedef struct rgb_picture {
  int width, height;
  uint8_t *pixels; /* owned; 3 * width * height */
} rgb_picture;

/* The form of a picture's tensor. */
typedef struct picture_form {
  const char
      *layout; /* "chw", "nchw", "hwc", "nhwc"; NULL: the layout of the model's input, or chw if that is unknown */
  double mean[3], std[3]; /* (value in 0..1 - mean) / std; all zero std: 1 */
} picture_form;

/* Reads a PNG or JPEG, recognised by its first bytes. Palettes, grey and 16 bit become 8-bit RGB by value (no colour
 * management); alpha is dropped. BAD_FILE. */
int picture_read(const char *name, const void *bytes, size_t n, rgb_picture *out_picture, complaint *c);
/* PNG file contents, free()d by the caller. */
int picture_write_png(const rgb_picture *picture, char **out_bytes, size_t *out_n, complaint *c);
void picture_fini(rgb_picture *picture);

/* RGB as f32 in 0..1, shifted and scaled by the form. `wanted` (may be NULL) describes the model's input: rank 4 gives
 * a leading 1, an extent of 3 in last place gives channels last, u8 gives the bytes unchanged. */
int picture_to_tensor(const rgb_picture *picture, const picture_form *form, const reed_value_info *wanted,
                      reed_tensor **out_tensor, complaint *c);
/* A picture of a tensor [3,h,w], [1,3,h,w], [h,w,3], [h,w], [1,h,w], [1,1,h,w]: u8 unchanged, floats from 0..1. MISUSE
 * for other tensors. */
int picture_from_tensor(const reed_tensor *tensor, rgb_picture *out_picture, complaint *c);

#endif
