/* Comparison of two entries of an epoch: registers, roots, places of kernels, figures of arenas. Offsets may differ,
 * because a layout depends on the layouts before it. The entries are of two sessions of one program, or of programs
 * without constants. */
#ifndef TESTS_VM_EPOCH_SAME_ENTRY_H_
#define TESTS_VM_EPOCH_SAME_ENTRY_H_

#include <check.h>

#include "vm/state.h"

static inline void check_same_entry(const epoch_entry *a, const epoch_entry *b) {
  ck_assert(a->roots.n == b->roots.n && a->kernels.n == b->kernels.n && a->writes.n == b->writes.n);
  for (size_t i = 0; i < a->roots.n; i++) {
    const epoch_root *r = &a->roots.items[i], *q = &b->roots.items[i];
    ck_assert(r->bytes == q->bytes && r->first == q->first && r->last == q->last && r->inside == q->inside &&
              r->at == q->at && r->outlives == q->outlives && r->copied == q->copied && r->device == q->device &&
              r->returned == q->returned && r->returned_write == q->returned_write);
  }
  for (int32_t d = 0; d < MODULE_MAX_DEVICES; d++) { /* b has a layout of its own, so its lower bound is exact */
    ck_assert_int_eq(a->arenas[d].bytes_without_reuse, b->arenas[d].bytes_without_reuse);
    ck_assert_int_le(a->arenas[d].lower_bound, b->arenas[d].lower_bound);
    ck_assert_int_le(a->arenas[d].lower_bound, a->arenas[d].bytes);
  }
  for (size_t i = 0; i < a->writes.n; i++) {
    const epoch_write *r = &a->writes.items[i], *q = &b->writes.items[i];
    ck_assert(r->reg == q->reg && r->root == q->root && r->at == q->at && r->extent_root == q->extent_root &&
              r->extent_index == q->extent_index && r->bound == q->bound && r->value.bytes == q->value.bytes &&
              r->value.kind == q->value.kind && r->value.shaped_by == q->value.shaped_by &&
              r->value.shaped_as == q->value.shaped_as && r->value.bounded_axis == q->value.bounded_axis &&
              r->value.t.room == q->value.t.room && desc_equal(&r->value.t.desc, &q->value.t.desc));
  }
  for (size_t i = 0; i < a->kernels.n; i++) {
    const epoch_kernel *r = &a->kernels.items[i], *q = &b->kernels.items[i];
    ck_assert(r->site == q->site && r->n_roots == q->n_roots && r->workspace_root == q->workspace_root &&
              r->extent_root == q->extent_root && r->counted == q->counted &&
              r->prepared->n_words == q->prepared->n_words);
    for (size_t k = 0; k < r->prepared->n_words; k++) ck_assert_int_eq(r->prepared->words[k], q->prepared->words[k]);
  }
}

#endif
