/* Versions of memory whose rows runs overwrite (history.h). The list of steps is guarded by a lock of its own, because
 * views are closed on any thread. */
#include "vm/history.h"

#include <stddef.h>
#include <string.h>

#include "base/diag.h"
#include "base/mem.h"
#include "base/strides.h"
#include "vm/transfer.h"

static void lock(reed_tensor *memory) {
  while (__atomic_exchange_n(&memory->history_lock, 1, __ATOMIC_ACQUIRE)) {
  } /* held for some instructions */
}

static void unlock(reed_tensor *memory) { __atomic_store_n(&memory->history_lock, 0, __ATOMIC_RELEASE); }

history_step *history_step_of(const overwritten *record) {
  size_t bytes = record ? (size_t)record->n_bytes : sizeof *record;
  history_step *step = mem_calloc(1, offsetof(history_step, rows) + bytes);
  if (step && record) memcpy(&step->rows, record, bytes);
  return step;
}

history_step *history_step_on(const overwritten *record, reed_tensor *saved) {
  history_step *step = mem_calloc(1, sizeof *step);
  if (!step) return NULL;
  step->rows = *record;
  step->saved = reed_tensor_retain(saved);
  return step;
}

void history_step_free(history_step *step) {
  if (step) reed_tensor_close(&step->saved);
  mem_free(step);
}

void history_add(reed_tensor *memory, reed_tensor *view, history_step *step) {
  lock(memory);
  step->version = view->version = memory->version + 1;
  __atomic_store_n(&memory->version, step->version, __ATOMIC_RELEASE);
  step->n_older = __atomic_load_n(&memory->n_views, __ATOMIC_ACQUIRE) - 1;
  if (step->n_older > 0) {
    step->older = memory->history;
    memory->history = step;
    step = NULL;
  }
  unlock(memory);
  history_step_free(step);
}

void history_leave(reed_tensor *memory, int64_t version) {
  history_step *dropped = NULL;
  lock(memory);
  __atomic_fetch_sub(&memory->n_views, 1, __ATOMIC_ACQ_REL);
  for (history_step **at = &memory->history; *at && (*at)->version > version;) {
    history_step *step = *at;
    if (--step->n_older > 0) {
      at = &step->older;
      continue;
    }
    *at = step->older;
    step->older = dropped;
    dropped = step;
  }
  unlock(memory);
  while (dropped) {
    history_step *older = dropped->older;
    history_step_free(dropped);
    dropped = older;
  }
}

bool history_is_only_view(reed_tensor *memory, const reed_tensor *past) {
  const reed_tensor *view = tensor_origin(past);
  bool is_view = view->base && tensor_root(view->base) == memory;
  lock(memory);
  int32_t n_present = __atomic_load_n(&memory->n_views, __ATOMIC_ACQUIRE);
  if (memory->history) n_present -= memory->history->n_older;
  bool only = is_view ? view->version == memory->version && n_present == 1 : n_present == 0;
  unlock(memory);
  return only;
}

/* ---- rows of older versions ---- */

static reed_status put(void *context, void *to, const char *elements, int64_t n_bytes) {
  transfer_side target = *(const transfer_side *)context, source = {.strides = (int64_t[]){1}};
  const reed_desc bytes = {.dtype = REED_U8, .rank = 1, .dims = {n_bytes}};
  target.data = to;
  target.strides = source.strides;
  source.data = (void *)elements;
  return transfer(&target, &source, &bytes, NULL);
}

static reed_status put_into(const overwritten *record, const reed_tensor *target, void *memory, int64_t block_bytes,
                            reed_diagnosis *diagnosis) {
  transfer_side side;
  reed_status status = transfer_open(target, &side, diagnosis);
  if (status != REED_OK) return status;
  status = overwritten_each(record, memory, block_bytes, put, &side);
  transfer_close(&side);
  return status;
}

reed_status history_fetch(const overwritten *record, reed_tensor *saved, overwritten **out_record, int64_t *out_n_saves,
                          reed_diagnosis *diagnosis) {
  reed_tensor *fetched = NULL;
  overwritten *made = mem_alloc((size_t)record->n_bytes);
  reed_status status = made ? reed_tensor_to_host(saved, &fetched, diagnosis) : diag_no_memory(diagnosis, "a cache");
  if (status == REED_OK) {
    *made = *record;
    memcpy(made + 1, (const int64_t *)fetched->data + 1, (size_t)record->n_bytes - sizeof *made);
    *out_n_saves = *(const int64_t *)fetched->data;
    *out_record = made;
  } else mem_free(made);
  reed_tensor_close(&fetched);
  return status;
}

/* Puts the rows of the step into a dense copy of its memory's older version, which may have fewer rows. */
static reed_status put_step(const history_step *s, const reed_tensor *copy, reed_diagnosis *diagnosis) {
  const int64_t block_bytes = s->rows.n_blocks ? copy->bytes / s->rows.n_blocks : 0;
  overwritten *fetched = NULL;
  int64_t n_saves;
  reed_status status = s->saved ? history_fetch(&s->rows, s->saved, &fetched, &n_saves, diagnosis) : REED_OK;
  if (status == REED_OK) status = put_into(fetched ? fetched : &s->rows, copy, copy->data, block_bytes, diagnosis);
  mem_free(fetched);
  return status;
}

reed_status history_put_back(const overwritten *record, const reed_tensor *memory, reed_diagnosis *diagnosis) {
  return put_into(record, memory, record->memory, record->block_bytes, diagnosis);
}

/* The step before s, or the newest one for NULL, if it is newer than the version. Steps that an open view needs stay.
 */
static const history_step *step_before(reed_tensor *memory, const history_step *s, int64_t version) {
  lock(memory);
  s = s ? s->older : memory->history;
  unlock(memory);
  return s && s->version > version ? s : NULL;
}

reed_status history_past(reed_tensor *given, reed_tensor **out_past, reed_diagnosis *diagnosis) {
  const reed_tensor *view = tensor_origin(given);
  *out_past = NULL;
  if (!view->base) return REED_OK;
  reed_tensor *memory = tensor_root(view->base), *made = NULL;
  if (view->version == __atomic_load_n(&memory->version, __ATOMIC_ACQUIRE)) return REED_OK;
  int64_t mark = __atomic_exchange_n(&memory->written, TENSOR_ROWS_HELD, __ATOMIC_ACQ_REL);
  if (mark == TENSOR_ROWS_HELD)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "an input lies in memory that another run writes at the moment");
  reed_status status = tensor_copy(given, given->on, &made, diagnosis);
  for (const history_step *s = NULL; status == REED_OK && (s = step_before(memory, s, view->version));)
    status = put_step(s, made, diagnosis);
  __atomic_store_n(&memory->written, mark, __ATOMIC_RELEASE);
  if (status == REED_OK) *out_past = made;
  else reed_tensor_close(&made);
  return status;
}
