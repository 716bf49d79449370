/* Direct and Winograd convolutions of the same layers (layers.h). */
#include "bench/layers.h"
#include "bench/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ops/cpu/product/panels.h"
#include "ops/cpu/product/winograd.h"

static const struct {
  const char *what;
  int64_t images, rows, columns, channels, outputs; /* rows and columns of Y */
  int32_t stride;                                   /* 0: 1 */
  int64_t taps, dilation;                           /* of lines, along the columns; taps 0: 3x3 */
} layers[] = {
    {"VGG at 300, 64 to 64", 1, 300, 300, 64, 64},
    {"VGG at 300, 64 to 128", 1, 150, 150, 64, 128},
    {"VGG at 300, 128 to 128", 1, 150, 150, 128, 128},
    {"VGG at 300, 128 to 256", 1, 75, 75, 128, 256},
    {"VGG at 300, 256 to 256", 1, 75, 75, 256, 256},
    {"VGG at 300, 256 to 512", 1, 37, 37, 256, 512},
    {"VGG at 300, 512 to 512", 1, 37, 37, 512, 512},
    {"VGG at 300, last", 1, 18, 18, 512, 512},
    {"ResNet-50 at 224, layer 1", 1, 56, 56, 64, 64},
    {"ResNet-50 at 224, layer 2", 1, 28, 28, 128, 128},
    {"ResNet-50 at 224, layer 3", 1, 14, 14, 256, 256},
    {"ResNet-50 at 224, layer 4", 1, 7, 7, 512, 512},
    {"Mask R-CNN, layer 1", 1, 200, 272, 64, 64},
    {"Mask R-CNN, layer 2", 1, 100, 136, 128, 128},
    {"Mask R-CNN, layer 3", 1, 50, 68, 256, 256},
    {"Mask R-CNN, layer 4", 1, 25, 34, 512, 512},
    {"Mask R-CNN, FPN and RPN 0", 1, 200, 272, 256, 256},
    {"Mask R-CNN, FPN and RPN 1", 1, 100, 136, 256, 256},
    {"Mask R-CNN, RPN 4", 1, 13, 17, 256, 256},
    {"Mask R-CNN, mask head", 100, 14, 14, 256, 256},
    {"stride 2, 128 on 28x28", 1, 28, 28, 128, 128, 2},
    {"stride 2, 256 on 14x14", 1, 14, 14, 256, 256, 2},
    {"stride 2, 512 on 7x7", 1, 7, 7, 512, 512, 2},
    {"stride 2, 128 on 100x136", 1, 100, 136, 128, 128, 2},
    {"stride 2, 256 on 50x68", 1, 50, 68, 256, 256, 2},
    {"stride 2, 512 on 25x34", 1, 25, 34, 512, 512, 2},
    {"stride 2, 32 to 64 on 80x80", 1, 80, 80, 32, 64, 2},
    {"stride 2, 64 to 128 on 40x40", 1, 40, 40, 64, 128, 2},
    {"line of 400, 256, k 3", 1, 1, 400, 256, 256, 1, 3, 1},
    {"line of 400, 256, k 7", 1, 1, 400, 256, 256, 1, 7, 1},
    {"line of 400, 256, k 11", 1, 1, 400, 256, 256, 1, 11, 1},
    {"line of 400, 256, k 11, d 5", 1, 1, 400, 256, 256, 1, 11, 5},
    {"line of 1600, 128, k 3", 1, 1, 1600, 128, 128, 1, 3, 1},
    {"line of 1600, 128, k 7, d 3", 1, 1, 1600, 128, 128, 1, 7, 3},
    {"line of 1600, 128, k 11", 1, 1, 1600, 128, 128, 1, 11, 1},
    {"line of 6400, 64, k 3", 1, 1, 6400, 64, 64, 1, 3, 1},
    {"line of 6400, 64, k 7", 1, 1, 6400, 64, 64, 1, 7, 1},
    {"line of 6400, 64, k 11", 1, 1, 6400, 64, 64, 1, 11, 1},
    {"line of 25600, 32, k 3", 1, 1, 25600, 32, 32, 1, 3, 1},
    {"line of 25600, 32, k 7", 1, 1, 25600, 32, 32, 1, 7, 1},
    {"line of 25600, 32, k 11", 1, 1, 25600, 32, 32, 1, 11, 1},
    {"line of 25600, 32, k 11, d 5", 1, 1, 25600, 32, 32, 1, 11, 5},
    {"line of 25600, 16, k 7", 1, 1, 25600, 16, 16, 1, 7, 1},
    {"line of 1600, 512, k 3, stride 2", 1, 1, 1600, 512, 512, 2, 3, 1},
    {"line of 200, 512, k 3, stride 2", 1, 1, 200, 512, 512, 2, 3, 1},
    {"line of 100, 512, k 3", 1, 1, 100, 512, 512, 1, 3, 1},
    {"line of 20, 512, k 3", 1, 1, 20, 512, 512, 1, 3, 1},
    {"lines of Inception, 1x7 on 17x17, 192", 1, 17, 17, 192, 192, 1, 7, 1},
};

enum { SAMPLES = 400 };

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *numbers(int64_t n) {
  float *x = aligned_alloc(64, (size_t)(n * 4 + 127) / 64 * 64);
  for (int64_t i = 0; i < n; i++) x[i] = (float)((uint64_t)i * 2654435761u % 1000) / 1000 - 0.5f;
  return x;
}

typedef struct layer {
  winograd_problem p;
  float *x, *packed, *y;
  double flop;
} layer;

/* Output `i` of Y in float64, from the packed weights. */
static double exact(const layer *l, int64_t i) {
  const winograd_problem *p = &l->p;
  int64_t output = i % p->outputs, column = i / p->outputs % p->out[1], row = i / p->y_row % p->out[0],
          image = i / p->y_image, panel = output / PACKED_WIDTH, width = packed_width(p->outputs, panel);
  const float *weights = l->packed + panel * PACKED_WIDTH * winograd_taps(p) * p->channels + output % PACKED_WIDTH;
  const int64_t tap_columns = winograd_axis_taps(p, 1);
  double sum = 0;
  for (int64_t tap = 0; tap < winograd_taps(p); tap++) {
    int64_t y = p->stride[0] * row - p->pad[0] + tap / tap_columns,
            x = p->stride[1] * column - p->pad[1] + tap % tap_columns * p->dilation[1];
    if (y < 0 || y >= p->in[0] || x < 0 || x >= p->in[1]) continue;
    for (int64_t c = 0; c < p->channels; c++)
      sum += (double)l->x[image * p->x_image + y * p->x_row + x * p->x_pixel + c] *
             (double)weights[(tap * p->channels + c) * width];
  }
  return sum;
}

static double error_of(const layer *l) {
  int64_t n = l->p.images * l->p.y_image;
  double worst = 0, squares = 0;
  for (int64_t k = 0; k < SAMPLES; k++) {
    int64_t i = (int64_t)((uint64_t)k * 2654435761u % (uint64_t)n);
    double truth = exact(l, i), off = fabs((double)l->y[i] - truth);
    squares += truth * truth;
    if (off > worst) worst = off;
  }
  return worst / sqrt(squares / SAMPLES);
}

static double direct(const layer *l, int runs) {
  const winograd_problem *p = &l->p;
  reed_kernel_env env = {.n_threads = 1};
  const reed_kernel_call call = {.env = &env};
  const panel_problem problem = {.images = p->images,
                                 .groups = 1,
                                 .channels = p->channels,
                                 .outputs = p->outputs,
                                 .in = {1, p->in[0], p->in[1]},
                                 .out = {1, p->out[0], p->out[1]},
                                 .taps = {1, winograd_axis_taps(p, 0), winograd_axis_taps(p, 1)},
                                 .stride = {1, p->stride[0], p->stride[1]},
                                 .dilation = {1, 1, p->dilation[1]},
                                 .pad = {0, p->pad[0], p->pad[1]},
                                 .x_image = p->x_image,
                                 .x_slab = p->x_image,
                                 .x_row = p->x_row,
                                 .x_pixel = p->x_pixel,
                                 .x_channel = 1,
                                 .y_image = p->y_image,
                                 .y_slab = p->y_image,
                                 .y_row = p->y_row,
                                 .y_pixel = p->y_pixel,
                                 .activation = p->activation};
  panel_plan *plan;
  if (panel_plan_open(&call, &problem, &plan) != REED_OK) exit(1);
  void *workspace = aligned_alloc(64, (size_t)(panel_plan_workspace_bytes(plan) + 127) / 64 * 64);
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = cpu_s();
    if (panel_plan_run(plan, l->x, l->packed, NULL, NULL, l->y, workspace) != REED_OK) exit(1);
    double now = cpu_s() - begin;
    if (now < best) best = now;
  }
  panel_plan_close(plan);
  free(workspace);
  return l->flop / best * 1e-9;
}

static double winograd(const layer *l, const winograd_form *form, int runs) {
  winograd_plan plan;
  winograd_plan_init(&plan, &l->p, form, (cpu_team){.threads = 1, .chunks = 1});
  int64_t bytes = winograd_plan_workspace_bytes(&plan);
  void *workspace = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
  float *stored = aligned_alloc(64, (size_t)(winograd_plan_stored_bytes(&plan) + 127) / 64 * 64);
  if (form->stored) winograd_plan_store(&plan, l->packed, stored);
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = cpu_s();
    if (winograd_plan_run(&plan, l->x, form->stored ? stored : l->packed, NULL, NULL, l->y, workspace) != REED_OK)
      exit(1);
    double now = cpu_s() - begin;
    if (now < best) best = now;
  }
  free(workspace);
  free(stored);
  return l->flop / best * 1e-9;
}

void measure_layers(int runs, const char *word, bool markdown) {
  cpu_level level = cpu_level_now();
  if (level == CPU_REFERENCE) return;
  double most = measure_peak();
  printf("\n3x3 convolutions, level %s, peak of a core %.0f GFLOP/s; GFLOP/s of the direct arithmetic\n",
         cpu_level_name(level), most);
  const char *bar = markdown ? "| " : "";
  if (markdown)
    printf("\n| layer | direct | / peak | 6x6 | 4x4 | 2x2 | chosen | / peak | form | error | direct's |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|\n");
  else
    printf("%-28s %8s %6s %7s %7s %7s %8s %6s  %-18s %9s %9s\n", "", "direct", "/ peak", "6x6", "4x4", "2x2", "chosen",
           "/ peak", "", "error", "direct's");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    if (!strstr(layers[i].what, word)) continue;
    const int32_t stride = layers[i].stride ? layers[i].stride : 1;
    const bool is_line = layers[i].taps > 0;
    const int64_t dilation = is_line ? layers[i].dilation : 1;
    layer l = {.p = {.images = layers[i].images,
                     .channels = layers[i].channels,
                     .outputs = layers[i].outputs,
                     .line_taps = layers[i].taps,
                     .in = {(is_line ? 1 : stride) * layers[i].rows, stride * layers[i].columns},
                     .out = {layers[i].rows, layers[i].columns},
                     .pad = {!is_line, is_line ? layers[i].taps / 2 * dilation : 1},
                     .stride = {is_line ? 1 : stride, stride},
                     .dilation = {1, dilation},
                     .slices = winograd_one_slice,
                     .x_channel = 1,
                     .x_pixel = layers[i].channels,
                     .y_pixel = layers[i].outputs,
                     .activation = {.level = level}}};
    winograd_problem *p = &l.p;
    p->x_row = p->in[1] * p->x_pixel;
    p->x_image = p->in[0] * p->x_row;
    p->y_row = p->out[1] * p->y_pixel;
    p->y_image = p->out[0] * p->y_row;
    l.flop = 2.0 * (double)winograd_taps(p) * (double)(p->images * p->out[0] * p->out[1]) *
             (double)(p->channels * p->outputs);
    l.x = numbers(p->images * p->x_image);
    l.packed = numbers(winograd_taps(p) * p->channels * ((p->outputs + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP));
    l.y = numbers(p->images * p->y_image);
    double plain = direct(&l, runs), plain_error = error_of(&l);
    printf("%s%-28s %s%8.1f %s%6.2f ", bar, layers[i].what, bar, plain, bar, plain / most);
    winograd_form form;
    for (int size = 0; size < WINOGRAD_SIZES; size++) {
      if (size < winograd_largest(p, 1)) {
        printf("%s%7s ", bar, "-");
        continue;
      }
      form = (winograd_form){0};
      for (int axis = 0; axis < 2; axis++) {
        const int i_size = winograd_is_across(p, axis) ? 0 : size;
        form.n[axis][i_size] = divided(winograd_extent(p, axis), winograd_pixels(p, axis, i_size));
      }
      printf("%s%7.1f ", bar, winograd(&l, &form, runs));
    }
    char text[64] = "direct";
    double chosen = plain, error = plain_error;
    if (winograd_choose(p, true, &form)) {
      winograd_form_text(p, &form, text, sizeof text);
      chosen = winograd(&l, &form, runs);
      error = error_of(&l);
    }
    printf("%s%8.1f %s%6.2f %s%-18s %s%9.1e %s%9.1e %s\n", bar, chosen, bar, chosen / most, bar, text, bar, error, bar,
           plain_error, markdown ? "|" : "");
    fflush(stdout);
    free(l.x);
    free(l.packed);
    free(l.y);
  }
}
