/* Plans of random epochs. Each program is a random graph of element-wise operators, Concat and Split over tensors of
 * the host and of a device, made from two inputs of independent sizes, with a kill as soon as a tensor is not needed
 * any more. Its result must be the bits that the graph has by arithmetic, and the memory that the plan gives its
 * tensors is checked tensor by tensor: pieces of an arena that are live at one step do not overlap, parts lie inside
 * their whole, and a piece lives from the step that writes a tensor on it to the last step that reads one. Cases by
 * hand: test_plan.c, test_share.c. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/alloc_hook.h"
#include "tests/vm/epoch/same_entry.h"
#include "tests/vm/hand.h"
#include "vm/epoch/variant.h"

enum { MOST_TENSORS = 40, MOST_INPUTS = 3 };

typedef enum kind { COPY, ADD, MUL, RELU, NEG, CONCAT, SPLIT } kind;
static const char *const names[] = {"", "Add", "Mul", "Relu", "Neg", "Concat", "Split"};

/* Rows in units of half the rows of each input: a Concat joins rows of both. */
typedef struct size {
  int of[2];
} size;

static bool same_size(size a, size b) { return a.of[0] == b.of[0] && a.of[1] == b.of[1]; }
static int64_t elements_of(size s, const int64_t *rows) { return (s.of[0] * rows[0] + s.of[1] * rows[1]) * 4 / 2; }

/* A tensor of the program: register number + 2 holds it, because r0 and r1 are the inputs. */
typedef struct made {
  kind kind;
  bool on_host;
  int half;                          /* the output of a Split: 0 or 1 */
  int n_inputs, inputs[MOST_INPUTS]; /* -2 and -1: the program's inputs */
  size parts;
  int step, killed; /* steps of the run section */
  bool dead;
} made;

typedef struct program {
  made tensors[MOST_TENSORS];
  int n;
  uint64_t random;
} program;

static int below(program *p, int n) {
  p->random ^= p->random << 13;
  p->random ^= p->random >> 7;
  p->random ^= p->random << 17;
  return (int)(p->random % (uint64_t)n);
}

/* A random tensor with this placement and, unless NULL, this size; -1: none. */
static int pick(program *p, bool on_host, const size *parts) {
  int fit[MOST_TENSORS], n = 0;
  for (int i = 0; i < p->n; i++)
    if (p->tensors[i].on_host == on_host && (!parts || same_size(p->tensors[i].parts, *parts))) fit[n++] = i;
  return n ? fit[below(p, n)] : -1;
}

static void add(program *p, made t) { p->tensors[p->n++] = t; }

static void make(program *p, uint64_t seed, int n) {
  *p = (program){.random = seed * 0x9e3779b97f4a7c15u + 1};
  for (int x = 0; x < 2; x++) {
    size whole = {.of = {x == 0 ? 2 : 0, x == 1 ? 2 : 0}};
    add(p, (made){.kind = COPY, .n_inputs = 1, .inputs = {x - 2}, .parts = whole});
    add(p, (made){.kind = NEG, .on_host = true, .n_inputs = 1, .inputs = {x - 2}, .parts = whole});
  }
  while (p->n < n) {
    bool on_host = below(p, 4) == 0;
    int a = pick(p, on_host, NULL), b = pick(p, on_host, &p->tensors[a].parts);
    made t = {.kind = (kind)(ADD + below(p, 6)), .on_host = on_host, .inputs = {a, b}, .parts = p->tensors[a].parts};
    t.n_inputs = t.kind == ADD || t.kind == MUL ? 2 : 1;
    if (on_host && below(p, 3) == 0) {
      t.kind = COPY, t.on_host = false, t.n_inputs = 1;
    } else if (t.kind == CONCAT) {
      t.n_inputs = 2 + below(p, 2);
      t.parts = (size){0};
      for (int i = 0; i < t.n_inputs; i++) {
        t.inputs[i] = pick(p, on_host, NULL);
        for (int x = 0; x < 2; x++) t.parts.of[x] += p->tensors[t.inputs[i]].parts.of[x];
      }
      if (t.parts.of[0] + t.parts.of[1] > 12) continue;
    } else if (t.kind == SPLIT) {
      if (t.parts.of[0] % 2 != 0 || t.parts.of[1] % 2 != 0 || p->n + 2 > n) continue;
      for (int x = 0; x < 2; x++) t.parts.of[x] /= 2;
      add(p, t);
      t.half = 1;
    }
    add(p, t);
  }
}

static const char *place(const made *t) { return t->on_host ? "host" : "device"; }

/* "[r1:shape, r2:shape]" or "[r1, r2]" */
static void append_inputs(text_buffer *out, const made *t, const char *flag) {
  text_append(out, "[");
  for (int i = 0; i < t->n_inputs; i++) text_append(out, "%sr%d%s", i ? ", " : "", t->inputs[i] + 2, flag);
  text_append(out, "]");
}

static void append_outputs(text_buffer *out, const program *p, int i) {
  if (p->tensors[i].kind == SPLIT) text_append(out, "[r%d, r%d], ", i + 2, i + 3);
  else text_append(out, "[r%d], ", i + 2);
}

/* Kills tensors that no tensor from `next` on reads. The last Concat reads all tensors without a reader. */
static void append_kills(text_buffer *out, program *p, int next, const bool *kept, int *step) {
  for (int i = 0; i < next; i++) {
    bool read = kept[i];
    for (int k = next; k < p->n && !read; k++)
      for (int j = 0; j < p->tensors[k].n_inputs; j++) read |= p->tensors[k].inputs[j] == i;
    if (read || p->tensors[i].dead) continue;
    text_append(out, "  kill r%d\n", i + 2);
    p->tensors[i].dead = true;
    p->tensors[i].killed = (*step)++;
  }
}

/* The text; the output is a Concat of all tensors of the device without a reader. */
static char *text_of(program *p) {
  text_buffer out = {0};
  bool kept[MOST_TENSORS] = {0};
  int n_kept = 0;
  for (int i = 0; i < p->n; i++) {
    bool read = p->tensors[i].on_host;
    for (int k = i + 1; k < p->n; k++)
      for (int j = 0; j < p->tensors[k].n_inputs; j++) read |= p->tensors[k].inputs[j] == i;
    n_kept += kept[i] = !read;
  }
  if (!n_kept) n_kept += kept[0] = true; /* the copy of an input */
  text_append(&out,
              ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n, 4] \"x\"\n.type z = f32[k, 4] \"z\"\n"
              ".type y = f32[m, 4] \"y\"\n.inputs x, z\n.outputs y\n");
  for (int i = 0; i < p->n; i++) {
    const made *t = &p->tensors[i];
    if (t->kind == COPY || t->half) continue;
    text_append(&out, ".site k%d = %s (%d -> %d) \"k%d\"%s\n", i, names[t->kind], t->n_inputs, t->kind == SPLIT ? 2 : 1,
                i,
                t->kind == CONCAT  ? " {axis = 0}"
                : t->kind == SPLIT ? " {axis = 0, num_outputs = 2}"
                                   : "");
  }
  text_append(&out, ".site all = Concat (%d -> 1) \"all\" {axis = 0}\n", n_kept);
  text_append(&out, ".function main (x, z) -> (y) registers %d 0\n  epoch.enter 0, plan, [r0:shape, r1:shape], []\n",
              p->n + 4);
  for (int i = 0; i < p->n; i++) {
    const made *t = &p->tensors[i];
    if (t->half) continue;
    if (t->kind == COPY) {
      text_append(&out, "  shape.like r%d, r%d, device\n", i + 2, t->inputs[0] + 2);
      continue;
    }
    text_append(&out, "  shape k%d, %s, ", i, place(t));
    append_outputs(&out, p, i);
    append_inputs(&out, t, ":shape");
    text_append(&out, "\n");
  }
  made all = {.n_inputs = 0};
  text_buffer joined = {0}, shaped = {0};
  for (int i = 0; i < p->n; i++)
    if (kept[i]) {
      text_append(&joined, "%sr%d", all.n_inputs ? ", " : "", i + 2);
      text_append(&shaped, "%sr%d:shape", all.n_inputs++ ? ", " : "", i + 2);
    }
  text_append(&out, "  shape all, device, [r%d], [%s]\nplan: epoch.plan 0\n", p->n + 2, shaped.data);
  int step = 0;
  for (int i = 0; i < p->n; i++) {
    made *t = &p->tensors[i];
    if (t->half) continue;
    t->step = step;
    if (t->kind == COPY) {
      text_append(&out, "  copy r%d, r%d, %s, all, 0\n", i + 2, t->inputs[0] + 2,
                  t->inputs[0] < 0 ? "input" : "placement");
    } else {
      text_append(&out, "  invoke k%d, %s, ", i, place(t));
      append_outputs(&out, p, i);
      append_inputs(&out, t, "");
      text_append(&out, "\n");
    }
    step++;
    if (t->kind == SPLIT) p->tensors[i + 1].step = t->step;
    append_kills(&out, p, i + 1 + (t->kind == SPLIT), kept, &step);
  }
  text_append(&out, "  invoke all, device, [r%d], [%s]\n", p->n + 2, joined.data);
  step++;
  memset(kept, 0, sizeof kept);
  append_kills(&out, p, p->n, kept, &step);
  text_append(&out, "  epoch.end 0\n  readback r%d, r%d, output, all, 0\n  sync\n  kill r%d\n  return [r%d], []\n",
              p->n + 3, p->n + 2, p->n + 2, p->n + 3);
  ck_assert(!out.failed);
  text_fini(&joined);
  text_fini(&shaped);
  return out.data;
}

/* ---- the result by arithmetic ---- */

static float *compute(const program *p, int i, float *const *x, const int64_t *rows, float **values) {
  const made *t = &p->tensors[i];
  int64_t n = elements_of(t->parts, rows);
  float *y = malloc((size_t)(n ? n : 1) * sizeof *y);
  const float *a = t->inputs[0] < 0 ? x[t->inputs[0] + 2] : values[t->inputs[0]],
              *b = t->n_inputs > 1 ? values[t->inputs[1]] : NULL;
  int64_t at = 0;
  for (int64_t k = 0; k < n; k++) switch (t->kind) {
      case COPY: y[k] = a[k]; break;
      case ADD: y[k] = a[k] + b[k]; break;
      case MUL: y[k] = a[k] * b[k]; break;
      case RELU: y[k] = a[k] > 0 ? a[k] : 0; break;
      case NEG: y[k] = -a[k]; break;
      case SPLIT: y[k] = a[t->half * n + k]; break;
      case CONCAT: break;
    }
  for (int j = 0; t->kind == CONCAT && j < t->n_inputs; j++) {
    int64_t count = elements_of(p->tensors[t->inputs[j]].parts, rows);
    if (count) memcpy(y + at, values[t->inputs[j]], (size_t)count * sizeof *y);
    at += count;
  }
  return y;
}

static bool is_joined(const program *p, int i, int n_read_after) { return !p->tensors[i].on_host && !n_read_after; }

static bool request_failed; /* of the last run_rows */

/* Runs inputs with that many rows (even) and compares the result. fail_at not 0: the run's request of that number
 * fails.
 */
static reed_status run_both(const program *p, reed_session *session, int64_t rows_x, int64_t rows_z, int64_t fail_at) {
  reed_tensor *inputs[2], *output = NULL;
  float *x[2];
  const int64_t rows[2] = {rows_x, rows_z};
  for (int k = 0; k < 2; k++) {
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){rows[k], 4}, &inputs[k]), REED_OK);
    x[k] = reed_tensor_data(inputs[k]);
    for (int64_t i = 0; i < rows[k] * 4; i++) x[k][i] = (float)((i * 7919 + rows[k] + k) % 31 - 15) / 8;
  }
  if (fail_at) alloc_hook_fail_at(fail_at);
  reed_status status = reed_session_run(session, inputs, 2, &output, 1, diagnosis);
  request_failed = fail_at && alloc_hook_failed();
  if (fail_at) alloc_hook_fail_at(0);
  ck_assert(status == REED_OK || (request_failed && status == REED_ERROR_MEMORY));
  if (status == REED_OK) {
    float *values[MOST_TENSORS];
    const float *got = reed_tensor_data(output);
    int64_t at = 0;
    int n_joined = 0;
    for (int i = 0; i < p->n; i++) values[i] = compute(p, i, x, rows, values);
    for (int i = 0; i < p->n; i++) {
      int n_reads = 0;
      for (int k = 0; k < p->n; k++)
        for (int j = 0; j < p->tensors[k].n_inputs; j++) n_reads += p->tensors[k].inputs[j] == i;
      if (!is_joined(p, i, n_reads)) continue;
      n_joined++;
      for (int64_t k = 0; k < elements_of(p->tensors[i].parts, rows); k++, at++)
        if (got[at] != values[i][k] && !(isnan(got[at]) && isnan(values[i][k])))
          ck_abort_msg("tensor %d (%s) element %lld of %lld and %lld rows is %g, not %g", i, names[p->tensors[i].kind],
                       (long long)k, (long long)rows_x, (long long)rows_z, got[at], values[i][k]);
    }
    if (n_joined) ck_assert_int_eq(at, reed_tensor_elements(output));
    for (int i = 0; i < p->n; i++) free(values[i]);
  }
  if (status == REED_OK) reed_tensor_close(&output);
  for (int k = 0; k < 2; k++) reed_tensor_close(&inputs[k]);
  return status;
}

static reed_status run_rows(const program *p, reed_session *session, int64_t rows, int64_t fail_at) {
  return run_both(p, session, rows, rows, fail_at);
}

/* ---- the plan ---- */

static bool live_together(const epoch_root *a, const epoch_root *b) {
  return a->first <= b->last && b->first <= a->last;
}

static void check_plan(const program *p, const reed_session *s) {
  const epoch_entry *e = variant_use(s->memo.newest);
  ck_assert_ptr_nonnull(e);
  for (size_t i = 0; i < e->roots.n; i++) {
    const epoch_root *a = &e->roots.items[i];
    ck_assert_int_ge(a->offset, 0);
    ck_assert_int_le(a->first, a->last);
    if (a->inside >= 0) {
      const epoch_root *whole = &e->roots.items[a->inside];
      ck_assert(a->device == whole->device && a->at >= 0 && a->at + a->bytes <= whole->bytes);
      ck_assert(whole->first <= a->first && whole->last >= a->last);
      ck_assert_int_eq(a->offset, whole->offset + a->at);
      continue;
    }
    if (a->outlives) continue;
    ck_assert_int_le(a->offset + a->bytes, e->arenas[a->device].bytes);
    for (size_t k = 0; k < i; k++) {
      const epoch_root *b = &e->roots.items[k];
      bool in_arena = b->inside < 0 && !b->outlives && b->device == a->device;
      if (in_arena && a->bytes && b->bytes && live_together(a, b) && a->offset < b->offset + b->bytes &&
          b->offset < a->offset + a->bytes)
        ck_abort_msg("pieces %zu and %zu of device %d overlap", k, i, a->device);
    }
  }
  for (size_t i = 0; i < e->writes.n; i++) {
    const epoch_write *w = &e->writes.items[i];
    if (w->root < 0 || w->reg < 2 || w->reg > (uint32_t)p->n + 1) continue;
    const made *t = &p->tensors[w->reg - 2];
    const epoch_root *root = &e->roots.items[w->root];
    int last = t->step;
    for (int k = 0; k < p->n; k++)
      for (int j = 0; j < p->tensors[k].n_inputs; j++)
        if (p->tensors[k].inputs[j] == (int)w->reg - 2 && p->tensors[k].step > last) last = p->tensors[k].step;
    ck_assert_int_ge(w->at, 0);
    ck_assert_int_le(w->at + w->value.bytes, root->bytes);
    if (root->first > t->step || (!root->outlives && root->last < last))
      ck_abort_msg("tensor %u lives from step %d to %d, its memory from %d to %d", w->reg - 2, t->step, last,
                   root->first, root->last);
  }
}

static const char *const devices[] = {"host", "sim", "sim?late=1&poison=1", "sim?seed=5&poison=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices, N_SEEDS = 60 };

START_TEST(random_epochs_compute_their_graph_in_memory_of_their_own) {
  program p;
  make(&p, (uint64_t)_i + 1, 6 + _i % 30);
  char *text = text_of(&p);
  reed_session *session = opened(text, &(reed_session_options){.device = devices[_i % N_DEVICES], .memo_entries = 3});
  static const int64_t rows[] = {6, 2, 40, 0, 40, 18, 6, 64};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (run_rows(&p, session, rows[i], 0) != REED_OK) ck_abort_msg("%s\n%s", reed_diagnosis_message(diagnosis), text);
    check_plan(&p, session);
  }
  ck_assert_double_ge(memo_figure(session, "hits"), 1);
  reed_session_close(&session);
  free(text);
}
END_TEST

/* A new size of one input starts from the entry of the size before. Whatever the sizes, the entry equals that of a new
 * session: in offsets, roots and kernels' places. */
START_TEST(an_entry_made_from_another_equals_one_made_from_nothing) {
  program p;
  make(&p, (uint64_t)_i + 1000, 8 + _i % 30);
  char *text = text_of(&p);
  const char *device = devices[_i % N_DEVICES];
  reed_session *session = opened(text, &(reed_session_options){.device = device, .memo_entries = 3});
  int64_t x = 6, z = 8;
  for (int step = 0; step < 24; step++) {
    int which = below(&p, 3);
    if (which != 1) x = 2 * below(&p, 20);
    if (which != 0) z = 2 * below(&p, 20);
    if (run_both(&p, session, x, z, 0) != REED_OK) ck_abort_msg("%s\n%s", reed_diagnosis_message(diagnosis), text);
    check_plan(&p, session);
    reed_session *fresh = opened(text, &(reed_session_options){.device = device});
    ck_assert_int_eq(run_both(&p, fresh, x, z, 0), REED_OK);
    check_same_entry(variant_use(session->memo.newest), fresh->memo.newest);
    reed_session_close(&fresh);
  }
  reed_session_close(&session);
  free(text);
}
END_TEST

/* An accelerator's arena grows in place: its address stays, however much the epoch needs. */
START_TEST(the_arena_of_an_accelerator_grows_where_it_is) {
  program p;
  make(&p, 11, 24);
  char *text = text_of(&p);
  reed_session *session = opened(text, &(reed_session_options){.device = "sim"});
  void *address = NULL;
  int64_t bytes = 0;
  for (int64_t rows = 2; rows <= 1 << 14; rows *= 4) {
    ck_assert_int_eq(run_rows(&p, session, rows, 0), REED_OK);
    const storage *arena = session->devices.items[1].arena;
    ck_assert_ptr_nonnull(arena);
    ck_assert_int_ge(arena->bytes, session->memo.newest->arenas[1].bytes);
    if (address) ck_assert_ptr_eq(arena->data, address);
    ck_assert_int_gt(session->memo.newest->arenas[1].bytes, bytes);
    address = arena->data;
    bytes = session->memo.newest->arenas[1].bytes;
  }
  ck_assert_int_eq(run_rows(&p, session, 2, 0), REED_OK);
  ck_assert_ptr_eq(session->devices.items[1].arena->data, address);
  ck_assert_int_gt(session->memo.newest->arenas[0].bytes, 0); /* the host's results are planned too */
  reed_session_close(&session);
  free(text);
}
END_TEST

/* The n-th request for memory fails in a run that plans, in a run that hits, and in a run whose layout is used again:
 * each run is refused or right, by its second attempt, and the session goes on. */
START_TEST(every_failed_allocation_of_an_epoch_is_reported) {
  program p;
  make(&p, 5, 20);
  char *text = text_of(&p);
  alloc_hook_begin();
  reed_session *session =
      opened(text, &(reed_session_options){.device = devices[_i], .memo_entries = 2, .n_threads = 1});
  static const int64_t rows[] = {100, 30, 2000};
  for (int kind = 0; kind < 3; kind++) {
    int n_failed = 0;
    request_failed = true;
    for (int64_t n = 1; request_failed; n++) {
      /* kind 1 repeats a key that the memo has; the other kinds have new keys */
      int64_t other = kind == 0 ? 2 * n : kind == 1 ? 0 : -2 * n;
      (void)!run_rows(&p, session, rows[kind] + other, n);
      n_failed += request_failed;
    }
    if (kind != 1) ck_assert_int_gt(n_failed, 10); /* a hit takes little or nothing */
    ck_assert_int_eq(run_rows(&p, session, rows[kind], 0), REED_OK);
    check_plan(&p, session);
  }
  reed_session_close(&session);
  ck_assert_int_eq(alloc_hook_end(), 0);
  free(text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("random epochs");
  TCase *t = tcase_create("epochs");
  tcase_add_checked_fixture(t, open_diagnosis, close_diagnosis);
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, random_epochs_compute_their_graph_in_memory_of_their_own, 0, N_SEEDS);
  tcase_add_loop_test(t, an_entry_made_from_another_equals_one_made_from_nothing, 0, N_SEEDS);
  tcase_add_test(t, the_arena_of_an_accelerator_grows_where_it_is);
  tcase_add_loop_test(t, every_failed_allocation_of_an_epoch_is_reported, 0, N_DEVICES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
