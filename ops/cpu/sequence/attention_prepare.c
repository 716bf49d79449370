/* Preparing an Attention kernel: few queries (attention_few.c) or blocks of queries (attention.c). */
#include "base/mem.h"
#include "ops/cpu/sequence/attention_state.h"

static convert_fn to_f32(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_NONE ? NULL : convert_between(cpu_level_now(), dtype, REED_F32);
}

/* True for calls whose earlier keys and values have the dtype of the new ones; others would need two conversions in the
 * block loops. */
static bool is_fast(const attention *a) {
  bool halves = a->q.dtype != REED_F64 && a->v.dtype != REED_F64;
  return halves && (a->past == 0 || (a->past_k.dtype == a->k.dtype && a->past_v.dtype == a->v.dtype));
}

/* Up to so many queries read K and V once for all heads that share them (attention_few.c). More queries fill half of
 * the 16 columns of a block of queries (attention.c), which computes a product at twice the speed. */
#define FEW_QUERIES 8

reed_status cpu_prepare_attention(const reed_kernel_call *call, reed_kernel *out_kernel) {
  attention a;
  reed_status status = attention_read(call, &a);
  if (status != REED_OK) return status;
  bool scores_wanted = call->n_outputs > 3 && call->outputs[3].dtype != REED_NONE;
  if (scores_wanted || !is_fast(&a) || desc_elements(&call->outputs[0]) == 0) return REED_OK;
  attention_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  s->a = a;
  s->load_q = to_f32(a.q.dtype);
  s->load_k = to_f32(a.k.dtype);
  s->load_v = to_f32(a.v.dtype);
  s->load_mask = a.mask_dtype == REED_BOOL ? NULL : to_f32(a.mask_dtype);
  if (a.y.dtype != REED_F32) s->store = convert_between(cpu_level_now(), REED_F32, a.y.dtype);
  s->value_columns = (a.value_size + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
  status = a.queries <= FEW_QUERIES ? attention_prepare_few(s, out_kernel) : attention_prepare_blocks(s, out_kernel);
  out_kernel->reads_rooms = status == REED_OK && attention_reads_rooms(call);
  return status;
}
