/* seq.stack and seq.join: the tensors of a sequence copied into one tensor. Other sequence instructions are in
 * interp.c. */
#include "vm/sequence.h"
#include "vm/memory.h"

#include <string.h>

/* The extents of n items stacked or joined. *desc holds the descriptor of one item at first, and stays so if n is 0. */
static reed_status together(reed_session *s, const ref *items, size_t n, int32_t device, bool join, reed_desc *desc) {
  int64_t rows = 0;
  for (size_t i = 0; i < n; i++) {
    if (items[i].kind != REF_STORED || items[i].t.device != device)
      return not_a_tensor(&s->run, &items[i], "a sequence of tensors on one device");
    reed_desc item = items[i].t.desc, like = i ? items[0].t.desc : item;
    bool fits = !join || (item.rank > 0 && !__builtin_add_overflow(rows, item.dims[0], &rows));
    if (join && fits) like.dims[0] = item.dims[0];
    if (!fits || !desc_equal(&like, &item)) {
      char a[128], b[128];
      return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "a %s changes from %s in iteration 0 to %s in iteration %zu",
                       join ? "part" : "scan output", desc_text(&items[0].t.desc, a, sizeof a),
                       desc_text(&item, b, sizeof b), i);
    }
    *desc = item;
  }
  if (join) {
    desc->dims[0] = rows;
    return REED_OK;
  }
  if (desc->rank == REED_MAX_RANK)
    return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "a stacked sequence would have rank %d", REED_MAX_RANK + 1);
  memmove(desc->dims + 1, desc->dims, sizeof(int64_t) * (size_t)desc->rank);
  desc->dims[0] = (int64_t)n;
  desc->rank++;
  return REED_OK;
}

reed_status exec_stack(reed_session *s, ref *target, const ref *sequence, const module_type *type,
                       int32_t module_device, bool join) {
  if (sequence->kind != REF_OBJECT || sequence->object->kind != OBJECT_SEQUENCE)
    return not_a_tensor(&s->run, sequence, "a sequence");
  int32_t device = s->devices.bind[module_device];
  size_t n = sequence->object->fields.n;
  const ref *items = sequence->object->fields.items;
  reed_desc desc = {.dtype = type->dtype, .rank = type->rank < 0 ? 0 : type->rank};
  for (int32_t i = 0; i < desc.rank; i++) desc.dims[i] = type->dims[i] < 0 ? 0 : type->dims[i];
  reed_status status = together(s, items, n, device, join, &desc);
  if (status != REED_OK) return status;
  ref made = {0};
  if (!ref_set_shaped(&s->run.objects, &made, &desc, device, -1))
    return diag_fail(s->run.diagnosis, REED_ERROR_SHAPE,
                     "a sequence is larger than any memory when it is put together");
  status = give_memory(s, &made);
  if (status != REED_OK) return status;
  char *to = made.t.data;
  vm_device *on = &s->devices.items[device];
  if (device) status = device_before_launch(on, s->run.diagnosis);
  for (size_t i = 0; i < n && status == REED_OK; i++) {
    if (items[i].bytes == 0) continue;
    if (device == 0) memcpy(to, items[i].t.data, (size_t)items[i].bytes);
    else status = on->on->copy_within(on->compute, to, items[i].t.data, items[i].bytes, NULL, s->run.diagnosis);
    to += items[i].bytes;
  }
  made.kind = REF_STORED;
  ref_assign(&s->run.objects, target, &made);
  ref_clear(&s->run.objects, &made);
  return status;
}
