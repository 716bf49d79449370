/* Variants (vm/epoch/variant.h): entries that are made by the calls that depend on the key. Each entry and each result
 * must equal that of a new session, in whatever order sizes grow, shrink and come back, and however few entries the
 * memo may have. The calls of a miss: test_miss.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "tests/alloc_hook.h"
#include "tests/vm/epoch/same_entry.h"
#include "tests/vm/epoch/tails.h"
#include "tests/vm/hand.h"
#include "vm/epoch/variant.h"

/* Of x [2, n, 4] and z [2, m, 4]: x beside z, kernels in place, a view whose extents a host kernel computes, operators
 * that read these extents and compute with them; and a row of kernels that read z alone. */
static const char text[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[2, n, 4] \"x\"\n.type z = f32[2, m, 4] \"z\"\n"
    ".type y = f32[2, k, 4] \"y\"\n.type w = f32[a, b, c] \"w\"\n.type v = f32[3] \"v\"\n.inputs x, z\n"
    ".outputs y, w, v\n.const one = f32[1] {2.5}\n"
    ".site a = Neg (1 -> 1) \"a\"\n.site b = Concat (2 -> 1) \"b\" {axis = 1}\n.site c = Relu (1 -> 1) \"c\"\n"
    ".site d = Add (2 -> 1) \"d\"\n.site e = Shape (1 -> 1) \"e\"\n.site f = Reshape (2 -> 1) \"f\"\n"
    ".site g = Expand (2 -> 1) \"g\"\n.site h = Cast (1 -> 1) \"h\" {to = 1}\n.site i = Abs (1 -> 1) \"i\"\n"
    ".site j = Exp (1 -> 1) \"j\"\n.site k = Tanh (1 -> 1) \"k\"\n.site l = Sigmoid (1 -> 1) \"l\"\n"
    ".site m = Neg (1 -> 1) \"m\"\n.site n = Concat (2 -> 1) \"n\" {axis = 1}\n"
    ".function main (x, z) -> (y, w, v) registers 40 0\n"
    "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
    "  const r9, one, device\n  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
    "  shape i, device, [r20], [r3:shape]\n  shape j, device, [r21], [r20:shape]\n  shape k, device, [r22], "
    "[r21:shape]\n"
    "  shape l, device, [r23], [r22:shape]\n  shape m, device, [r24], [r23:shape]\n  shape i, device, [r25], "
    "[r24:shape]\n"
    "  shape j, device, [r26], [r25:shape]\n  shape k, device, [r27], [r26:shape]\n  shape l, device, [r28], "
    "[r27:shape]\n"
    "  shape m, device, [r29], [r28:shape]\n"
    "  shape a, device, [r4], [r2:shape]\n  shape b, device, [r5], [r4:shape, r3:shape]\n"
    "  shape c, device, [r6], [r5:shape]\n  shape e, host, [r7], [r6:shape]\n  invoke e, host, [r7], [r6]\n"
    "  shape f, device, [r8], [r6:shape, r7:value]\n  shape g, device, [r10], [r9:shape, r7:value]\n"
    "  shape d, device, [r11], [r8:shape, r10:shape]\n  shape.like r12, r7, device\n"
    "  shape h, device, [r13], [r12:shape]\n  shape n, device, [r14], [r29:shape, r11:shape]\n"
    "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, i, 0\n"
    "  invoke i, device, [r20], [r3]\n  invoke j, device, [r21], [r20]\n  kill r20\n  invoke k, device, [r22], [r21]\n"
    "  kill r21\n  invoke l, device, [r23], [r22]\n  kill r22\n  invoke m, device, [r24], [r23]\n  kill r23\n"
    "  invoke i, device, [r25], [r24]\n  kill r24\n  invoke j, device, [r26], [r25]\n  kill r25\n"
    "  invoke k, device, [r27], [r26]\n  kill r26\n  invoke l, device, [r28], [r27]\n  kill r27\n"
    "  invoke m, device, [r29], [r28]\n  kill r28\n"
    "  invoke a, device, [r4], [r2]\n  kill r2\n  invoke b, device, [r5], [r4, r3]\n  kill r4\n  kill r3\n"
    "  invoke c, device, [r6], [r5]\n  kill r5\n  view r8, r6\n  kill r6\n  invoke g, device, [r10], [r9, r7]\n"
    "  invoke d, device, [r11], [r8, r10]\n  kill r8\n  copy r12, r7, placement, h, 0\n"
    "  invoke h, device, [r13], [r12]\n  kill r12\n  invoke n, device, [r14], [r29, r11]\n  kill r29\n  kill r11\n"
    "  epoch.end 0\n  readback r15, r14, output, n, 0\n  readback r16, r10, output, g, 0\n"
    "  readback r17, r13, output, h, 0\n  sync\n  kill r14\n  kill r10\n  kill r13\n  kill r7\n  kill r9\n"
    "  return [r15, r16, r17], []\n";

static reed_registry *registry;
static reed_program *program;
static bool tail; /* the program is of a tail */

/* ---- test.Work: y = -x, by way of a workspace of 16 bytes per element, which it fills; none for one row ---- */

static reed_status work_shape(reed_shape_call *call) {
  call->outputs[0].rank = call->inputs[0].rank;
  for (int32_t k = 0; k < call->inputs[0].rank; k++) call->outputs[0].dims[k] = call->inputs[0].dims[k];
  return call->status;
}

static reed_status even_run(const void *state, const reed_kernel_buffers *buffers) {
  int64_t n = *(const int64_t *)state;
  for (int64_t i = 0; i < n; i++) ((float *)buffers->outputs[0])[i] = -((const float *)buffers->inputs[0])[i];
  return REED_OK;
}

static reed_status work_run(const void *state, const reed_kernel_buffers *buffers) {
  int64_t n = *(const int64_t *)state;
  if (n > 8) memset(buffers->workspace, 0x55, (size_t)n * 16);
  return even_run(state, buffers);
}

static reed_status work_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t *n = malloc(sizeof *n);
  *n = desc_elements(&call->outputs[0]);
  *out_kernel = (reed_kernel){.run = work_run, .state = n, .free = free, .workspace_bytes = *n > 8 ? *n * 16 : 0};
  return REED_OK;
}

/* test.Least: the first three rows of -x. */
static reed_status least_shape(reed_shape_call *call) {
  reed_status status = work_shape(call);
  call->outputs[0].dims[0] = reed_dim_min(call, call->inputs[0].dims[0], 3);
  return status;
}

static reed_status least_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = work_prepare(call, out_kernel);
  out_kernel->workspace_bytes = *(int64_t *)out_kernel->state * 16;
  return status;
}

/* test.Even: -x, in x's place where the number of rows is even. */
static reed_status even_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = work_prepare(call, out_kernel);
  out_kernel->workspace_bytes = 0;
  out_kernel->apart = call->outputs[0].dims[0] % 2;
  out_kernel->run = even_run;
  return status;
}

/* test.Corner: zeros [n, the least of n and 3]. */
static reed_status corner_shape(reed_shape_call *call) {
  call->outputs[0].rank = 2;
  call->outputs[0].dims[0] = call->inputs[0].dims[0];
  call->outputs[0].dims[1] = reed_dim_min(call, call->inputs[0].dims[0], 3);
  return call->status;
}

static reed_status corner_run(const void *state, const reed_kernel_buffers *buffers) {
  memset(buffers->outputs[0], 0, (size_t) * (const int64_t *)state * sizeof(float));
  return REED_OK;
}

static reed_status corner_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = work_prepare(call, out_kernel);
  out_kernel->run = corner_run;
  out_kernel->workspace_bytes = 0;
  return status;
}

/* test.First: as many rows of -x as the second operand says. */
static reed_status first_shape(reed_shape_call *call) {
  reed_status status = work_shape(call);
  call->outputs[0].dims[0] = reed_shape_value(call, 1, 0);
  return status;
}

/* test.Few: a bounded result, of which there is one row. */
static reed_status few_shape(reed_shape_call *call) {
  reed_status status = work_shape(call);
  call->outputs[0].bounded_axis = 0;
  return status;
}

static reed_status few_run(const void *state, const reed_kernel_buffers *buffers) {
  memset(buffers->outputs[0], 0, (size_t) * (const int64_t *)state * sizeof(float));
  buffers->extents[0] = 1;
  return REED_OK;
}

static reed_status few_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = corner_prepare(call, out_kernel);
  out_kernel->run = few_run;
  return status;
}

/* test.Same: one int64, which is the operand's; impure. */
static int64_t n_same;

static reed_status same_run(const void *state, const reed_kernel_buffers *buffers) {
  (void)state;
  n_same++;
  memcpy(buffers->outputs[0], buffers->inputs[0], sizeof(int64_t));
  return REED_OK;
}

static reed_status same_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  (void)call;
  *out_kernel = (reed_kernel){.run = same_run};
  return REED_OK;
}

static const reed_op_input operand = {.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32};
static const reed_op_output result = {.name = "y", .type_rule = REED_TYPE_LIKE};

/* Of one operand; `to` describes the result. */
#define OPERATOR(id, called, to, infer, prepare) \
  static const reed_op id = {.domain = "test", \
                             .name = called, \
                             .inputs = &operand, \
                             .n_inputs = 1, \
                             .outputs = &(to), \
                             .n_outputs = 1, \
                             .shape = (infer), \
                             .cpu = (prepare)}
OPERATOR(work, "Work", result, work_shape, work_prepare);
OPERATOR(least, "Least", result, least_shape, least_prepare);

static const reed_op_input numbers = {.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_I64};
static const reed_op_input limited[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
                                        {.name = "k", .reads = REED_READS_VALUE, .dtypes = 1u << REED_I64}};
OPERATOR(corner, "Corner", result, corner_shape, corner_prepare);
static const reed_op_output bounded = {.name = "y", .type_rule = REED_TYPE_LIKE, .bounded = true};
OPERATOR(few, "Few", bounded, few_shape, few_prepare);
static const reed_op first = {.domain = "test",
                              .name = "First",
                              .inputs = limited,
                              .n_inputs = 2,
                              .outputs = &result,
                              .n_outputs = 1,
                              .shape = first_shape,
                              .cpu = least_prepare};
static const reed_op same = {.domain = "test",
                             .name = "Same",
                             .inputs = &numbers,
                             .n_inputs = 1,
                             .outputs = &result,
                             .n_outputs = 1,
                             .impure = true,
                             .shape = work_shape,
                             .cpu = same_prepare};

static const reed_op even = {.domain = "test",
                             .name = "Even",
                             .inputs = &operand,
                             .n_inputs = 1,
                             .outputs = &result,
                             .n_outputs = 1,
                             .alias = REED_ALIAS_INPLACE_LAST,
                             .shape = work_shape,
                             .cpu = even_prepare};

/* test.Keep: -x in x's place; the second operand is not read. */
static const reed_op_input kept[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
                                     {.name = "k", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
static const reed_op keep = {.domain = "test",
                             .name = "Keep",
                             .inputs = kept,
                             .n_inputs = 2,
                             .outputs = &result,
                             .n_outputs = 1,
                             .alias = REED_ALIAS_INPLACE_FIRST,
                             .shape = work_shape,
                             .cpu = work_prepare};

/* ---- runs ---- */

static reed_session *session_of(const reed_session_options *options) {
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program, options, &session, diagnosis), REED_OK);
  return session;
}

enum { N_OUTPUTS = 3 };

static bool request_failed; /* of the last run */

/* fail_at not 0: the run's request of that number fails. */
static reed_status run(reed_session *session, int64_t n, int64_t m, int64_t fail_at, reed_tensor **outputs) {
  reed_tensor *inputs[2];
  for (int k = 0; k < 2; k++) {
    int64_t rows = k ? m : n, dims[] = {tail ? rows : 2, tail ? 4 : rows, tail ? 2 : 4};
    ck_assert_int_eq(reed_tensor_open(REED_F32, 3, dims, &inputs[k]), REED_OK);
    for (int64_t i = 0; i < reed_tensor_elements(inputs[k]); i++)
      ((float *)reed_tensor_data(inputs[k]))[i] = (float)((i * 7919 + n + k) % 31 - 15) / 8;
  }
  if (fail_at) alloc_hook_fail_at(fail_at);
  reed_status status = reed_session_run(session, inputs, 2, outputs, N_OUTPUTS, diagnosis);
  request_failed = fail_at && alloc_hook_failed();
  if (fail_at) alloc_hook_fail_at(0);
  for (int k = 0; k < 2; k++) reed_tensor_close(&inputs[k]);
  return status;
}

static void close_outputs(reed_tensor **outputs) {
  for (int k = 0; k < N_OUTPUTS; k++) reed_tensor_close(&outputs[k]);
}

/* One run; entry and results must equal those of a new session. */
static void compare(reed_session *session, int64_t n, int64_t m) {
  reed_tensor *a[N_OUTPUTS], *b[N_OUTPUTS];
  reed_session *fresh = session_of(&(reed_session_options){0});
  ck_assert_msg(run(session, n, m, 0, a) == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  ck_assert_msg(run(fresh, n, m, 0, b) == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  for (int k = 0; k < N_OUTPUTS; k++) {
    ck_assert_int_eq(reed_tensor_bytes(a[k]), reed_tensor_bytes(b[k]));
    if (memcmp(reed_tensor_data(a[k]), reed_tensor_data(b[k]), (size_t)reed_tensor_bytes(b[k])) != 0)
      ck_abort_msg("output %d of %lld and %lld rows differs", k, (long long)n, (long long)m);
  }
  check_same_entry(variant_use(session->memo.newest), fresh->memo.newest);
  close_outputs(a);
  close_outputs(b);
  reed_session_close(&fresh);
}

/* The tensors in the arena that live at one time do not overlap. */
static void check_arena(const epoch_entry *e) {
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *a = &e->roots.items[i];
    if (a->inside >= 0 || a->outlives || !a->bytes) continue;
    ck_assert_int_le(a->offset + a->bytes, e->arenas[0].bytes);
    for (size_t k = 0; k < i; k++) {
      const epoch_root *b = &e->roots.items[k];
      if (b->inside >= 0 || b->outlives || !b->bytes || a->first > b->last || b->first > a->last) continue;
      ck_assert(a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes);
    }
  }
}

static double variants_of(reed_session *session) { return memo_figure(session, "variants"); }

/* With few rows of z, the tensors that depend on x lie at the end of the arena, which grows. */
START_TEST(steps_that_grow_are_variants) {
  int64_t m = _i ? 2 : 50;
  reed_session *session = session_of(&(reed_session_options){0});
  for (int64_t n = 100; n < 120; n++) {
    compare(session, n, m);
    check_arena(variant_use(session->memo.newest));
  }
  ck_assert_double_ge(variants_of(session), 12);
  /* hits, hits in the order in which the entries were made */
  for (int64_t n = 100; n < 120; n++) compare(session, n, m);
  for (int64_t n = 119; n >= 100; n -= 3) compare(session, n, m);
  ck_assert_double_eq(memo_figure(session, "hits"), 27);
  reed_session_close(&session);
}
END_TEST

/* A size of z alone changes more than half of the calls; such a miss is planned as a whole. */
START_TEST(random_steps_give_the_entries_of_new_sessions) {
  static const int64_t entries[] = {0, 1, 2, 3, 8};
  reed_session *session = session_of(&(reed_session_options){.memo_entries = entries[_i % 5]});
  uint64_t random = (uint64_t)_i * 0x9e3779b97f4a7c15u + 77;
  int64_t n = 60, m = 40, seen[8] = {60, 60, 60, 60, 60, 60, 60, 60};
  for (int step = 0; step < 80; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    int kind = (int)(random >> 40) % 16;
    if (kind < 9) n++;
    else if (kind < 11) n--;
    else if (kind == 11) m = 38 + (int64_t)(random >> 50) % 4;
    else if (kind == 12) n = (int64_t)(random >> 50) % 120;
    else if (kind == 13) n++, m++;
    else n = seen[(random >> 50) % 8];
    if (n < 0) n = 0;
    seen[step % 8] = n;
    compare(session, n, m);
    check_arena(variant_use(session->memo.newest));
  }
  if (entries[_i % 5] != 1) ck_assert_double_ge(variants_of(session), 8);
  reed_session_close(&session);
}
END_TEST

/* The bytes of an entry's kernels but those of the places of a whole; each is counted once. */
static int64_t kernel_bytes(const epoch_entry *e, const site_kernel **seen, size_t *n_seen) {
  int64_t bytes = 0;
  size_t n_whole = e->kernels.n, n_own = e->content ? e->content->n_kernels : 0;
  for (size_t i = 0, call = 0; i < n_whole + n_own + e->host_kernels.n; i++) {
    const site_kernel *k = i < n_whole           ? e->kernels.items[i].prepared
                           : i < n_whole + n_own ? e->content->kernels[i - n_whole]
                                                 : e->host_kernels.items[i - n_whole - n_own];
    bool place = e->places && call < e->places->calls.n && e->places->calls.items[call].kernel == i;
    bool counted = place;
    call += place;
    for (size_t n = 0; n < *n_seen; n++) counted |= seen[n] == k;
    if (counted) continue;
    ck_assert_uint_lt(*n_seen, 400);
    seen[(*n_seen)++] = k;
    bytes += k->bytes;
  }
  return bytes;
}

/* The bytes of the memo's entries, with each whole and each kernel counted once. */
static int64_t bytes_of_entries(const reed_session *session) {
  const site_kernel *seen[400];
  size_t n_seen = 0;
  int64_t bytes = 0;
  for (const epoch_entry *e = session->memo.newest; e; e = e->older) {
    bool first = e->whole != NULL;
    for (const epoch_entry *other = e->older; other; other = other->older) first &= other->whole != e->whole;
    bytes += e->bytes + kernel_bytes(e, seen, &n_seen);
    if (first) bytes += e->whole->bytes + kernel_bytes(e->whole, seen, &n_seen);
  }
  return bytes;
}

/* A whole's memory goes with its last variant: the memo counts as many bytes as its entries have. */
START_TEST(entries_that_share_a_whole_are_counted_once) {
  reed_session *session = session_of(&(reed_session_options){.memo_entries = 4});
  for (int64_t n = 100; n < 140; n++) {
    compare(session, n, 50);
    ck_assert_int_eq(session->memo.figures.bytes, bytes_of_entries(session));
    ck_assert_int_le(session->memo.figures.entries, 4);
  }
  ck_assert_double_ge(variants_of(session), 20);
  while (session->memo.oldest != session->memo.newest) { /* one entry more than the bound evicts one entry */
    session->memo.max_entries--;
    compare(session, 200 + session->memo.max_entries, 50);
  }
  reed_session_close(&session);
}
END_TEST

/* The n-th request of a run that makes a variant, or divides an entry, fails: the run is refused or right. */
START_TEST(every_failed_allocation_is_survived) {
  alloc_hook_begin();
  reed_session *session = session_of(&(reed_session_options){.memo_entries = 3, .n_threads = 1});
  reed_tensor *outputs[N_OUTPUTS];
  int64_t size = 100;
  for (int kind = 0; kind < 2; kind++) { /* kind 0: a variant; kind 1: an entry that is divided first */
    request_failed = true;
    for (int64_t n = 1; request_failed; n++) {
      ck_assert_int_lt(n, 2000);
      compare(session, ++size, 50);
      if (kind == 1) compare(session, 10, 49 - n % 2), compare(session, ++size, 50), compare(session, ++size, 50);
      reed_status status = run(session, ++size, 50, n, outputs);
      ck_assert(status == REED_OK || (request_failed && status == REED_ERROR_MEMORY));
      if (status == REED_OK) close_outputs(outputs);
      if (size > 130) size = 80;
    }
  }
  compare(session, 100, 50);
  reed_session_close(&session);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

static void open_program(const char *of) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(of, registry, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_text_free(bytes);
}

static void open_tail(const char *const *parts) {
  char of[8192];
  snprintf(of, sizeof of, around_tail, parts[0], parts[1], parts[2]);
  reed_program_close(&program);
  open_program(of);
  tail = true;
}

/* For each tail one check alone notices that a size needs a plan of its own. */
static int64_t variants_of_tail(const char *const *parts) {
  open_tail(parts);
  int64_t variants = 0;
  for (uint64_t seed = 0; seed < 24; seed++) {
    reed_session *session = session_of(&(reed_session_options){.memo_entries = 1});
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 77;
    for (int step = 0; step < 8; step++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      compare(session, seed % 2 ? 1 + (int64_t)(random >> 50) % 4 : seed % 4 ? 6 - step % 6 : 1 + step, 64);
      check_arena(variant_use(session->memo.newest));
    }
    variants += (int64_t)variants_of(session);
    reed_session_close(&session);
  }
  return variants;
}

START_TEST(places_that_depend_on_the_size_are_planned) {
  ck_assert_int_ge(variants_of_tail(tails[_i]), _i == EVEN ? 4 : 8); /* every other size is planned */
}
END_TEST

START_TEST(what_decides_more_is_planned) {
  n_same = 0;
  ck_assert_int_eq(variants_of_tail(deciding[_i]), 0);
  if (_i == 1) ck_assert_int_gt(n_same, 24 * 12);
}
END_TEST

/* An entry that needs less than half of a root's bytes gets a plan of its own, and so does an entry that needs more
 * bytes than the root has. Failed attempts become rare, until one succeeds. */
START_TEST(sizes_far_apart_are_planned) {
  open_tail(tails[_i ? WORK : 0]);
  reed_session *session = session_of(&(reed_session_options){0});
  const epoch_state *state = &session->memo.epochs[0];
  enum { ROWS = 100 }; /* slots of a small arena have so much room that sizes far apart fit them */
  static const int64_t sizes[] = {64, 63, 20, 300, 21, 301, 22, 302, 23};
  int32_t most = 0;
  for (size_t i = 0; i < (_i ? sizeof sizes / sizeof *sizes : 3); i++) { /* tail 0: an output may grow */
    compare(session, ROWS * sizes[i], 64);
    check_arena(variant_use(session->memo.newest));
    if (state->wait > most) most = state->wait;
  }
  ck_assert_double_eq(variants_of(session), 0);
  if (_i) ck_assert_int_gt(most, 0);
  ck_assert_int_gt(state->waits, 0);
  for (int64_t n = 24; variants_of(session) == 0; n++) {
    ck_assert_int_lt(n, 40);
    compare(session, ROWS * n, 64);
  }
  ck_assert_int_eq(state->waits, 0);
  reed_session_close(&session);
}
END_TEST

/* An epoch whose entries cannot be divided is seldom asked whether they can. */
START_TEST(a_refused_division_is_a_failed_attempt) {
  open_tail(deciding[2]);
  reed_session *session = session_of(&(reed_session_options){0});
  const epoch_state *state = &session->memo.epochs[0];
  int32_t most = 0;
  for (int64_t n = 60; n < 72; n++) {
    compare(session, n, 64);
    if (state->wait > most) most = state->wait;
  }
  ck_assert_double_eq(variants_of(session), 0);
  ck_assert_int_ge(most, 3);
  reed_session_close(&session);
}
END_TEST

/* An operand whose place an output cannot take may have the output's size. */
START_TEST(other_operands_decide_no_place) {
  open_tail(keeping);
  reed_session *session = session_of(&(reed_session_options){0});
  for (int64_t n = 60; n < 70; n++) compare(session, n, 64); /* x has the output's size if n is 64 */
  ck_assert_double_eq(variants_of(session), 8);
  reed_session_close(&session);
}
END_TEST

static void open_all(void) {
  open_diagnosis();
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &work, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &least, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &corner, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &first, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &same, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &few, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &keep, diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &even, diagnosis), REED_OK);
  open_program(text);
  tail = false;
}

static void close_all(void) {
  reed_program_close(&program);
  reed_registry_close(&registry);
  close_diagnosis();
}

int main(void) {
  Suite *suite = suite_create("variants");
  TCase *t = tcase_create("variant");
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, steps_that_grow_are_variants, 0, 2);
  tcase_add_loop_test(t, random_steps_give_the_entries_of_new_sessions, 0, 20);
  tcase_add_test(t, entries_that_share_a_whole_are_counted_once);
  tcase_add_loop_test(t, places_that_depend_on_the_size_are_planned, 0, N_TAILS);
  tcase_add_loop_test(t, what_decides_more_is_planned, 0, N_DECIDING);
  tcase_add_loop_test(t, sizes_far_apart_are_planned, 0, 2);
  tcase_add_test(t, a_refused_division_is_a_failed_attempt);
  tcase_add_test(t, other_operands_decide_no_place);
  tcase_add_test(t, every_failed_allocation_is_survived);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
