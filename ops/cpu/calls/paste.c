/* Reading a PasteMasks call. */
#include "ops/cpu/calls/paste.h"

#include "ops/cpu/calls/resize.h"

reed_status paste_read(const reed_kernel_call *call, paste *out_paste) {
  const reed_desc *masks = &call->inputs[0], *boxes = &call->inputs[1], *y = &call->outputs[0];
  bool fit = masks->rank == 4 && masks->dims[1] == 1 && boxes->rank == 2 && boxes->dims[0] == masks->dims[0] &&
             boxes->dims[1] == 4 && y->rank == 3 && y->dims[0] == masks->dims[0];
  if (!fit) {
    char m[96], b[96], p[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "masks %s, boxes %s and pictures %s do not go together",
                            desc_text(masks, m, sizeof m), desc_text(boxes, b, sizeof b), desc_text(y, p, sizeof p));
  }
  if (masks->dims[2] < 1 || masks->dims[3] < 1 || masks->dims[2] > INT32_MAX || masks->dims[3] > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "masks of %lld by %lld cannot be resized",
                            (long long)masks->dims[2], (long long)masks->dims[3]);
  *out_paste = (paste){.team = cpu_env_team(call),
                       .mapping = resize_read_mapping(call),
                       .level = cpu_level_now(),
                       .masks = masks->dims[0],
                       .rows = masks->dims[2],
                       .columns = masks->dims[3],
                       .height = y->dims[1],
                       .width = y->dims[2]};
  return REED_OK;
}
