/* Pictures: PNG round trips, JPEG, tensors of every layout, damaged files; drawing stays inside the picture. */
#include "tools/picture.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/draw.h"
#include "tests/suite.h"

static rgb_picture gradient(int width, int height) {
  rgb_picture p = {width, height, need((size_t)width * (size_t)height, 3)};
  for (int i = 0; i < 3 * width * height; i++) p.pixels[i] = (uint8_t)(i * 7 + i / 256);
  return p;
}

static char *png_of(const rgb_picture *p, size_t *out_n) {
  complaint c = {0};
  char *bytes;
  ck_assert_msg(picture_write_png(p, &bytes, out_n, &c) == DONE, "%s", c.text);
  return bytes;
}

START_TEST(png_comes_back_and_is_refused_when_cut) {
  rgb_picture p = gradient(13, 7), back;
  size_t n;
  char *bytes = png_of(&p, &n);
  complaint c = {0};
  ck_assert_int_eq(picture_read("x.png", bytes, n, &back, &c), DONE);
  ck_assert(back.width == 13 && back.height == 7);
  ck_assert_mem_eq(back.pixels, p.pixels, 13 * 7 * 3);
  picture_fini(&back);
  for (size_t k = 0; k < n - 12; k++) ck_assert_int_eq(picture_read("x.png", bytes, k, &back, &c), BAD_FILE);
  free(bytes);
  picture_fini(&p);
}
END_TEST

START_TEST(flipped_bytes_of_a_png_never_crash) {
  rgb_picture p = gradient(5, 4), back;
  size_t n;
  char *bytes = png_of(&p, &n);
  for (size_t i = 0; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      complaint c;
      bytes[i] ^= (char)(1 << bit);
      if (picture_read("x.png", bytes, n, &back, &c) == DONE) picture_fini(&back);
      bytes[i] ^= (char)(1 << bit);
    }
  free(bytes);
  picture_fini(&p);
}
END_TEST

START_TEST(jpeg_is_read_near_enough_and_damage_does_not_exit) {
  rgb_picture p = {16, 16, need(256, 3)}, back;
  for (int i = 0; i < 256; i++) memcpy(p.pixels + 3 * i, (uint8_t[]){200, 100, 50}, 3);
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long n = 0;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &bytes, &n);
  jpeg.image_width = jpeg.image_height = 16, jpeg.input_components = 3, jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < 16) jpeg_write_scanlines(&jpeg, &(JSAMPROW){p.pixels + 48 * jpeg.next_scanline}, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  complaint c = {0};
  ck_assert_msg(picture_read("x.jpg", bytes, n, &back, &c) == DONE, "%s", c.text);
  for (int i = 0; i < 3 * 256; i++) ck_assert_int_le(abs(back.pixels[i] - p.pixels[i]), 4);
  picture_fini(&back);
  for (unsigned long k = 3; k + 2 < n; k += 5) ck_assert_int_eq(picture_read("x.jpg", bytes, k, &back, &c), BAD_FILE);
  for (unsigned long i = 3; i < n; i++) {
    bytes[i] ^= 0x55;
    if (picture_read("x.jpg", bytes, n, &back, &c) == DONE) picture_fini(&back);
    bytes[i] ^= 0x55;
  }
  ck_assert_int_eq(picture_read("x.gif", "GIF89a", 6, &back, &c), BAD_FILE);
  free(bytes);
  picture_fini(&p);
}
END_TEST

START_TEST(layouts_means_and_deviations) {
  rgb_picture p = gradient(3, 2);
  complaint c = {0};
  reed_tensor *t;
  ck_assert_int_eq(picture_to_tensor(&p, &(picture_form){0}, NULL, &t, &c), DONE);
  ck_assert(reed_tensor_rank(t) == 3 && reed_tensor_dims(t)[0] == 3 && reed_tensor_dims(t)[1] == 2 &&
            reed_tensor_dims(t)[2] == 3);
  /* pixel (1, 2), green, exactly as PyTorch's division gives it */
  ck_assert(((float *)reed_tensor_data(t))[6 + 5] == (float)p.pixels[3 * 5 + 1] / 255.0f);
  reed_tensor_close(&t);
  picture_form form = {.layout = "nhwc", .mean = {0.5, 0.25, 0}, .std = {0.5, 2, 1}};
  ck_assert_int_eq(picture_to_tensor(&p, &form, NULL, &t, &c), DONE);
  ck_assert(reed_tensor_rank(t) == 4 && reed_tensor_dims(t)[3] == 3);
  ck_assert(fabs(((float *)reed_tensor_data(t))[3 * 4 + 1] - (p.pixels[3 * 4 + 1] / 255.0 - 0.25) / 2) < 1e-6);
  reed_tensor_close(&t);
  reed_value_info info = {.dtype = REED_U8, .rank = 4, .dims = {1, -1, -1, 3}};
  ck_assert_int_eq(picture_to_tensor(&p, &(picture_form){0}, &info, &t, &c), DONE);
  ck_assert(reed_tensor_dtype(t) == REED_U8 && reed_tensor_dims(t)[3] == 3);
  ck_assert_mem_eq(reed_tensor_data(t), p.pixels, 18);
  rgb_picture back;
  ck_assert_int_eq(picture_from_tensor(t, &back, &c), DONE);
  ck_assert_mem_eq(back.pixels, p.pixels, 18);
  picture_fini(&back);
  reed_tensor_close(&t);
  picture_fini(&p);
}
END_TEST

START_TEST(detections_far_outside_and_not_finite_are_drawn_without_harm) {
  rgb_picture p = gradient(40, 30);
  float boxes[] = {-1e30f, -1e30f, 1e30f, 1e30f, NAN, 0, INFINITY, 5, 30, 25, 5, 5, 10, 2, 20, 12},
        scores[] = {0.9f, 0.8f, NAN, 0.6f};
  float *masks = need(4 * 40 * 30, sizeof *masks);
  int64_t labels[] = {1, -3, 99, 2};
  for (int i = 0; i < 4 * 40 * 30; i++) masks[i] = i % 3 == 0 ? NAN : (float)i;
  const char *names[] = {"one", "two", "three", "four"};
  reed_tensor *tensors[4];
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 2, (int64_t[]){4, 4}, boxes, NULL, NULL, &tensors[0]), REED_OK);
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_I64, 1, (int64_t[]){4}, labels, NULL, NULL, &tensors[1]), REED_OK);
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 1, (int64_t[]){4}, scores, NULL, NULL, &tensors[2]), REED_OK);
  ck_assert_int_eq(reed_tensor_open_borrowed(REED_F32, 4, (int64_t[]){4, 1, 30, 40}, masks, NULL, NULL, &tensors[3]),
                   REED_OK);
  complaint c = {0};
  detections found;
  ck_assert_msg(detections_find(names, tensors, 4, &p, &found, &c) == DONE, "%s", c.text);
  ck_assert(found.boxes == tensors[0] && found.labels == tensors[1] && found.scores == tensors[2] &&
            found.masks == tensors[3]);
  draw_detections(
      &p, &found,
      (const char *[]){"zero", "a label whose name is much longer than the picture is wide, so that it is cut"}, 2, 2,
      0.0);
  ck_assert(p.width == 80 && p.height == 60);
  rgb_picture small = gradient(4, 4);
  ck_assert_int_eq(detections_find(names, tensors, 4, &small, &found, &c), MISUSE);
  ck_assert(strstr(c.text, "do not cover") != NULL);
  ck_assert_int_eq(detections_find(names, tensors + 1, 3, &p, &found, &c), MISUSE);
  for (int i = 0; i < 4; i++) reed_tensor_close(&tensors[i]);
  free(masks);
  picture_fini(&p);
  picture_fini(&small);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pictures");
  TCase *all = tcase_create("pictures");
  tcase_add_test(all, png_comes_back_and_is_refused_when_cut);
  tcase_add_test(all, flipped_bytes_of_a_png_never_crash);
  tcase_add_test(all, jpeg_is_read_near_enough_and_damage_does_not_exit);
  tcase_add_test(all, layouts_means_and_deviations);
  tcase_add_test(all, detections_far_outside_and_not_finite_are_drawn_without_harm);
  suite_add_tcase(suite, all);
  return suite_run(suite);
}
