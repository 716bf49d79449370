/* Reading a Col2Im call: its planes, and the window that slides over an image. */
#include "ops/cpu/calls/col2im.h"

reed_status col2im_read(const reed_kernel_call *call, col2im *c) {
  const reed_desc *x = &call->inputs[0], *block = &call->inputs[2], *y = &call->outputs[0];
  *c = (col2im){.team = cpu_env_team(call), .level = cpu_level_now(), .dtype = x->dtype};
  bool fit = x->rank == 3 && y->rank >= 3 && desc_elements(block) == y->rank - 2 && y->dims[0] == x->dims[0];
  if (fit) {
    window_init_image(call, call->host_values[2], &c->w);
    c->image = cpu_product(c->w.in, 0, c->w.n);
    c->windows = x->dims[2];
    int64_t windows = 1, channels = y->dims[1];
    c->block = 1;
    for (int32_t i = 0; i < c->w.n && fit; i++)
      fit = !__builtin_mul_overflow(c->block, c->w.kernel[i], &c->block) &&
            !__builtin_mul_overflow(windows, c->w.out[i], &windows);
    fit = fit && !__builtin_mul_overflow(channels, c->block, &channels) && channels == x->dims[1] &&
          windows == c->windows;
  }
  if (!fit) {
    char columns[96], image[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "columns %s and images %s do not go together",
                            desc_text(x, columns, sizeof columns), desc_text(y, image, sizeof image));
  }
  c->planes = y->dims[0] * y->dims[1];
  return REED_OK;
}
