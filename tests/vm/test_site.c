/* Prepared kernels (vm/site.h): a call finds the kernel of an equal call and of no other, whichever part of the call
 * differs; the last reference frees the state. Kernels of entries: epoch/test_entries.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "base/mem.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "vm/site.h"

static int n_prepared, n_freed;

static void free_state(void *state) {
  n_freed++;
  free(state);
}

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) { return REED_OK; }

static reed_status prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (call->n_inputs > 0 && call->inputs[0].rank == 0) return REED_ERROR_SHAPE;
  n_prepared++;
  *out_kernel = (reed_kernel){.run = run_nothing, .state = malloc(1), .free = free_state, .state_bytes = 1000};
  return REED_OK;
}

static const reed_op_input op_inputs[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = ~0u},
                                          {.name = "n", .reads = REED_READS_VALUE, .dtypes = ~0u, .optional = true},
                                          {.name = "w", .reads = REED_READS_SHAPE, .dtypes = ~0u, .optional = true}};
static const reed_op_output op_outputs[] = {{.name = "y"}, {.name = "z", .optional = true}};
static const reed_op op = {.domain = "test",
                           .name = "Stated",
                           .inputs = op_inputs,
                           .n_inputs = 3,
                           .outputs = op_outputs,
                           .n_outputs = 2,
                           .cpu = prepare};

/* A call with its operands. */
typedef struct made {
  op_call call;
  reed_desc in[3], out[2];
  op_call_input inputs[3];
  reed_room in_rooms[3], out_rooms[2];
  int64_t numbers[2];
  float weights[2][4];
  reed_attrs attrs;
  int32_t device;
  uint32_t site;
} made;

static void make(made *m) {
  memset(m, 0, sizeof *m);
  for (int i = 0; i < 3; i++) {
    m->in[i] = (reed_desc){.dtype = REED_F32, .rank = 2, .dims = {3, 4}};
    m->inputs[i].desc = &m->in[i];
    m->in_rooms[i].axis = -1;
  }
  m->in[1] = (reed_desc){.dtype = REED_I64, .rank = 1, .dims = {2}};
  m->numbers[0] = 5;
  /* elements of input 0 are no part of the call, because the shape function reads its extents only */
  m->inputs[0].data = m->weights;
  m->inputs[1].data = m->numbers;
  m->inputs[2].data = m->weights[0];
  m->inputs[2].constant = true;
  for (int i = 0; i < 2; i++) {
    m->out[i] = (reed_desc){.dtype = REED_F32, .rank = 2, .dims = {3, 4}};
    m->out_rooms[i].axis = -1;
  }
  m->call = (op_call){.op = &op,
                      .attrs = &m->attrs,
                      .node = "node",
                      .n_inputs = 3,
                      .n_outputs = 2,
                      .inputs = m->inputs,
                      .outputs = m->out,
                      .prepare = prepare};
}

/* The differences between calls; each makes the call another one. */
enum {
  SITE,
  DEVICE,
  DTYPE,
  RANK,
  EXTENT,
  ABSENT_INPUT,
  FEWER_INPUTS,
  NUMBER,
  NOT_CONSTANT,
  OTHER_CONSTANT,
  OUT_EXTENT,
  ABSENT_OUTPUT,
  IN_ROOM,
  IN_CAPACITY,
  IN_COUNTED,
  OUT_ROOM,
  DIFFERENCES
};

static void differ(made *m, int difference) {
  switch (difference) {
    case SITE: m->site = 1; break;
    case DEVICE: m->device = 1; break;
    case DTYPE: m->in[0].dtype = REED_I32; break;
    case RANK: m->in[0].rank = 1; break;
    case EXTENT: m->in[0].dims[1] = 5; break;
    case ABSENT_INPUT: m->inputs[1].desc = NULL; break;
    case FEWER_INPUTS: m->call.n_inputs = 2; break;
    case NUMBER: m->numbers[1] = 6; break;
    case NOT_CONSTANT: m->inputs[2].constant = false; break;
    case OTHER_CONSTANT: m->inputs[2].data = m->weights[1]; break;
    case OUT_EXTENT: m->out[0].dims[0] = 2; break;
    case ABSENT_OUTPUT: m->out[1].dtype = REED_NONE; break;
    case IN_ROOM:
    case IN_CAPACITY:
    case IN_COUNTED:
      m->in_rooms[0] =
          (reed_room){.axis = 0, .capacity = difference == IN_CAPACITY ? 9 : 8, .counted = difference == IN_COUNTED};
      m->call.input_rooms = m->in_rooms;
      m->call.output_rooms = m->out_rooms;
      break;
    case OUT_ROOM:
      m->out_rooms[0] = (reed_room){.axis = 0, .capacity = 8};
      m->call.input_rooms = m->in_rooms;
      m->call.output_rooms = m->out_rooms;
      break;
  }
}

static site_kernels kernels;
static const uint32_t families[] = {0, 1, 0}; /* of three sites */

static site_kernel *get(const made *m, bool *out_made) {
  site_kernel *k = NULL;
  ck_assert_int_eq(site_prepare(&kernels, &m->call, m->site, m->device, &k, out_made), REED_OK);
  return k;
}

static void open_kernels(void) {
  n_prepared = n_freed = 0;
  alloc_hook_begin();
  memset(&kernels, 0, sizeof kernels);
  ck_assert_int_eq(site_kernels_open(&kernels, families, 3, NULL), REED_OK);
}

static void close_kernels(void) {
  site_kernels_close(&kernels);
  ck_assert_int_eq(n_freed, n_prepared);
  ck_assert_int_eq(kernels.figures.live, 0);
  ck_assert_int_eq(alloc_hook_end(), 0);
}

/* The kernel tells the call's inputs, and is found by the number of its launches. */
static void ck_call(const made *m, const site_kernel *k) {
  reed_desc inputs[REED_MAX_OPERANDS];
  const site_kernel *launched;
  ck_assert_int_eq(site_kernel_inputs(k, inputs), m->call.n_inputs);
  for (int32_t i = 0; i < m->call.n_inputs; i++) {
    const reed_desc *given = m->call.inputs[i].desc;
    ck_assert_int_eq(inputs[i].dtype, given ? given->dtype : REED_NONE);
    if (given) ck_assert(desc_equal(&inputs[i], given));
  }
  ck_assert_uint_eq(site_of_launch(&kernels, site_launch_number(&kernels, m->site, k), &launched), m->site);
  ck_assert_ptr_eq(launched, k);
}

/* The kernel of a call without a difference is found (_i == DIFFERENCES); so is that of an equal call after calls with
 * any difference. */
START_TEST(a_call_finds_the_kernel_of_an_equal_call_only) {
  made plain, other;
  bool is_new;
  make(&plain);
  make(&other);
  if (_i != OTHER_CONSTANT) other.inputs[2].data = plain.inputs[2].data;
  differ(&other, _i);
  site_kernel *a = get(&plain, &is_new);
  ck_assert(is_new);
  site_kernel *b = get(&other, &is_new);
  ck_assert_int_eq(is_new, _i != DIFFERENCES);
  ck_assert_int_eq(a != b, _i != DIFFERENCES);
  ck_call(&plain, a);
  ck_call(&other, b);
  for (int turn = 0; turn < 4; turn++) {
    made copy; /* equal operands at other addresses; only the constant has the same address */
    const made *same = turn % 2 ? &other : &plain;
    make(&copy);
    if (turn % 2) differ(&copy, _i);
    if (same->inputs[2].constant) copy.inputs[2].data = same->inputs[2].data;
    site_kernel *k = get(&copy, &is_new);
    ck_assert(!is_new);
    ck_assert_ptr_eq(k, turn % 2 ? b : a);
    site_release(&kernels, k);
  }
  ck_assert_int_eq(n_freed, 0);
  site_release(&kernels, a);
  site_release(&kernels, b);
  ck_assert_int_eq(n_freed, n_prepared);
  a = get(&plain, &is_new); /* nothing is left of the first kernel */
  ck_assert(is_new);
  site_release(&kernels, a);
}
END_TEST

/* Many calls of a family's two sites: a kernel is found as long as it is held, and never later, in whatever order
 * kernels are released. */
START_TEST(a_kernel_is_found_while_it_lives) {
  enum { CALLS = 300, STEPS = 6000 };
  site_kernel *held[CALLS] = {0};
  int n_found = 0, n_new = 0;
  uint64_t random = 88172645463325252u;
  for (int step = 0; step < STEPS; step++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    int n = (int)(random >> 33) % (step % 500 < 250 ? 5 : CALLS);
    if (random >> 20 & 1) {
      site_release(&kernels, held[n]);
      held[n] = NULL;
      continue;
    }
    made m;
    bool is_new;
    make(&m);
    m.in[0].dims[0] = n;
    m.site = random >> 21 & 1 ? 2 : 0;
    m.inputs[2].data = &kernels; /* one constant for all calls */
    site_kernel *k = get(&m, &is_new);
    ck_assert_int_eq(is_new, !held[n]);
    if (held[n]) ck_assert_ptr_eq(k, held[n]);
    ck_assert_ptr_eq(site_last_kernel(&kernels, m.site), k);
    n_found += !is_new;
    n_new += is_new;
    site_release(&kernels, held[n]);
    held[n] = k;
  }
  ck_assert(n_found > 100 && n_new > 100);
  ck_assert_int_eq(kernels.figures.live, n_prepared - n_freed);
  for (int i = 0; i < CALLS; i++) site_release(&kernels, held[i]);
  ck_assert_ptr_null(site_last_kernel(&kernels, 0));
}
END_TEST

/* Several calls are formed before the first of their kernels is sought. */
START_TEST(calls_formed_together_are_those_of_single_calls) {
  enum { CALLS = 9 };
  made calls[CALLS];
  site_call formed[CALLS];
  site_kernel *held[CALLS];
  uint32_t number;
  bool is_new;
  for (int n = 0; n < CALLS; n++) {
    make(&calls[n]);
    calls[n].in[0].dims[0] = 1 + n % (CALLS - 1); /* the last call equals the first one */
    calls[n].inputs[2].data = &kernels;
    ck_assert(site_form(&kernels, &calls[n].call, calls[n].site, 0, &formed[n]));
  }
  for (int n = 0; n < CALLS; n++) {
    ck_assert_int_eq(site_same_call(&kernels, &formed[0], &formed[n]), n % (CALLS - 1) == 0);
    site_prefetch_slot(&kernels, &formed[n]);
    site_prefetch_number(&kernels, &formed[n], &number);
    ck_assert_uint_eq(number, TABLE_NONE);
    site_prefetch_kernel(&kernels, &formed[n], number);
  }
  for (int n = 0; n < CALLS; n++) {
    held[n] = site_find(&kernels, &formed[n], calls[n].site);
    ck_assert_int_eq(held[n] != NULL, n == CALLS - 1);
    if (!held[n]) ck_assert_int_eq(site_make(&kernels, &calls[n].call, &formed[n], calls[n].site, &held[n]), REED_OK);
    ck_call(&calls[n], held[n]);
    site_kernel *k = get(&calls[n], &is_new); /* forms its words behind those of the list */
    ck_assert(!is_new);
    ck_assert_ptr_eq(k, held[n]);
    site_prefetch_number(&kernels, &formed[n], &number);
    ck_assert_uint_eq(number, k->number);
    site_prefetch_kernel(&kernels, &formed[n], number);
    site_release(&kernels, k);
  }
  ck_assert_ptr_eq(held[0], held[CALLS - 1]);
  ck_assert_uint_eq(kernels.words.n, formed[CALLS - 1].first + formed[CALLS - 1].n);
  for (int n = 0; n < CALLS; n++) site_release(&kernels, held[n]);
  site_cut(&kernels, 0);
}
END_TEST

/* An invoke outside of epochs leaves its kernel with the site, until the site's next other call. */
START_TEST(a_site_keeps_one_kernel) {
  made m;
  bool is_new;
  make(&m);
  site_keep(&kernels, 0, get(&m, &is_new));
  site_keep(&kernels, 0, get(&m, &is_new));
  ck_assert(!is_new && n_prepared == 1 && n_freed == 0);
  m.in[0].dims[0] = 7;
  site_keep(&kernels, 0, get(&m, &is_new));
  ck_assert(is_new && n_prepared == 2 && n_freed == 1);
}
END_TEST

/* Calls that cannot be compared or prepared, and a lack of memory. */
START_TEST(a_refused_or_large_call_leaves_nothing) {
  made m;
  bool is_new;
  make(&m);
  int64_t *many = calloc(4000, sizeof *many);
  m.in[1].dims[0] = 4000;
  m.inputs[1].data = many;
  site_kernel *a = get(&m, &is_new), *b = get(&m, &is_new);
  ck_assert(is_new && a != b);
  ck_call(&m, a);
  ck_call(&m, b);
  ck_assert_ptr_null(site_last_kernel(&kernels, m.site));
  site_release(&kernels, a);
  site_release(&kernels, b);
  free(many);
  make(&m);
  m.in[0].rank = 0;
  site_kernel *none = NULL;
  ck_assert_int_eq(site_prepare(&kernels, &m.call, 0, 0, &none, &is_new), REED_ERROR_SHAPE);
  ck_assert_ptr_null(none);
  m.in[0].rank = 2;
  bool failed = true;
  for (int64_t n = 1; failed; n++) {
    m.in[0].dims[0] = 100 + n;
    alloc_hook_fail_at(n);
    reed_status status = site_prepare(&kernels, &m.call, 0, 0, &none, &is_new);
    failed = alloc_hook_failed();
    alloc_hook_fail_at(0);
    ck_assert_int_eq(status, failed ? REED_ERROR_MEMORY : REED_OK);
  }
  site_release(&kernels, none);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("prepared kernels");
  TCase *t = tcase_create("site");
  tcase_add_checked_fixture(t, open_kernels, close_kernels);
  tcase_add_loop_test(t, a_call_finds_the_kernel_of_an_equal_call_only, 0, DIFFERENCES + 1);
  tcase_add_test(t, a_kernel_is_found_while_it_lives);
  tcase_add_test(t, calls_formed_together_are_those_of_single_calls);
  tcase_add_test(t, a_site_keeps_one_kernel);
  tcase_add_test(t, a_refused_or_large_call_leaves_nothing);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
