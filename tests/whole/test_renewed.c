/* Hits by capacity (vm/epoch/variant.h): steps of a decoder whose caches grow in place renew the last entry. Models in
 * which other kernels, too, depend on the length: a mask, a view, a value, a branch, a dense copy. Every step is
 * compared bit for bit with a session that binds nothing. Entries themselves: tests/vm/epoch/test_variant_keys.c. */
#include "tests/whole/model.h"

enum { D = 4, HEADS = 2, CAPACITY = 32, WIDTH = 8, LAYERS = 24 };

typedef enum reader {
  ATTENTION, /* nothing else reads the length */
  MASK,      /* a mask by places that Attention cannot fold */
  EXPANDED,  /* such a mask, repeated for each token: its own memory for one token */
  GIVEN,     /* a mask of all keys that is an input */
  VIEW,      /* a product of K with batch and heads in one axis */
  VALUE,     /* the length is a factor */
  BRANCH,    /* the length decides for a branch */
  COPY,      /* a kernel that reads no strides */
  N_READERS
} reader;

static const char *const keys_type = "f32[b,2,p,4]", *const rows_type = "f32[b,2,t,4]";

static void add_branch(onnx_build *b) {
  onnx_build *high = build_subgraph(b), *low = build_subgraph(b);
  build_node(high, "Neg", "y", "far");
  build_output(high, "far", "f32");
  build_node(low, "Exp", "y", "near");
  build_output(low, "near", "f32");
  build_i64(b, "twelve", "", (int64_t[]){12});
  build_node(b, "Greater", "n,twelve", "is_far");
  build_node_t *choice = build_node(b, "If", "is_far", "z");
  build_graph_attr(b, choice, "then_branch", high);
  build_graph_attr(b, choice, "else_branch", low);
}

static void add_reader(onnx_build *b, reader r) {
  switch (r) {
    case ATTENTION:
    case MASK:
    case EXPANDED:
    case GIVEN:
    case N_READERS: build_node(b, "Identity", "y", "z"); return;
    case VIEW:
      build_i64(b, "flat", "3", (int64_t[]){HEADS, -1, D});
      build_node(b, "Reshape", "k,flat", "flat_k");
      build_node(b, "Reshape", "q,flat", "flat_q");
      build_ints(b, build_node(b, "Transpose", "flat_k", "turned"), "perm", "0,2,1");
      build_node(b, "MatMul", "flat_q,turned", "z");
      return;
    case VALUE:
      build_int(b, build_node(b, "Cast", "n", "factor"), "to", 1);
      build_node(b, "Mul", "y,factor", "z");
      return;
    case BRANCH: add_branch(b); return;
    case COPY: build_node(b, "Exp", "k", "z"); return;
  }
}

/* Attention over a cache; a row of products of x, which do not depend on the length, stands for the rest of a decoder.
 */
static onnx_build *decoder(reader r) {
  float weights[WIDTH * WIDTH];
  onnx_build *b = build_open(17);
  build_input(b, "q", rows_type);
  build_input(b, "pk", keys_type);
  build_input(b, "pv", keys_type);
  build_input(b, "nk", rows_type);
  build_input(b, "nv", rows_type);
  build_input(b, "x", "f32[3,8]");
  build_input(b, "given", "f32[1,g]");
  for (int i = 0; i < WIDTH * WIDTH; i++) weights[i] = (float)(i * 7919 % 31 - 15) / 64;
  build_f32(b, "w", "8,8", weights);
  char from[16] = "x", operands[32], to[16];
  for (int i = 0; i < LAYERS; i++) {
    snprintf(operands, sizeof operands, "%s,w", from);
    snprintf(to, sizeof to, "x%d", i);
    build_node(b, "MatMul", operands, to);
    memcpy(from, to, sizeof to);
  }
  build_int(b, build_node(b, "Concat", "pk,nk", "k"), "axis", 2);
  build_int(b, build_node(b, "Concat", "pv,nv", "v"), "axis", 2);
  build_node(b, "Shape", "k", "extents");
  build_i64(b, "two", "", (int64_t[]){2});
  build_node(b, "Gather", "extents,two", "n");
  build_ints(b, build_node(b, "Transpose", "k", "kt"), "perm", "0,1,3,2");
  build_node(b, "MatMul", "q,kt", "s");
  bool made = r == MASK || r == EXPANDED;
  if (made) {
    build_i64(b, "zero", "", (int64_t[]){0});
    build_i64(b, "one", "", (int64_t[]){1});
    build_i64(b, "five", "", (int64_t[]){5});
    build_i64(b, "twos", "1", (int64_t[]){2});
    build_f32(b, "shown", "", (float[]){0});
    build_f32(b, "dim", "", (float[]){-2});
    build_node(b, "Range", "zero,n,one", "places");
    build_node(b, "Sub", "n,five", "border");
    build_node(b, "Less", "places,border", "old");
    build_node(b, "Where", "old,dim,shown", "mask");
    if (r == EXPANDED) {
      build_node(b, "Shape", "q", "rows");
      build_node(b, "Gather", "rows,twos", "tokens");
      build_node(b, "Gather", "extents,twos", "keys");
      build_int(b, build_node(b, "Concat", "tokens,keys", "square"), "axis", 0);
      build_node(b, "Expand", "mask,square", "repeated");
    }
    build_node(b, "Add", r == EXPANDED ? "s,repeated" : "s,mask", "masked");
  }
  if (r == GIVEN) build_node(b, "Add", "s,given", "masked");
  build_node(b, "Softmax", made || r == GIVEN ? "masked" : "s", "weights");
  build_node(b, "MatMul", "weights,v", "y");
  add_reader(b, r);
  build_output(b, "z", "f32");
  build_output(b, "k", "f32[b,2,n,4]");
  build_output(b, "v", "f32[b,2,n,4]");
  build_output(b, from, "f32[3,8]");
  return b;
}

enum { KEYS = 1, N_INPUTS = 7, N_OUTPUTS = 4 };

typedef struct steps {
  model m;
  reed_session *session, *plain;
  reed_tensor *memory[2];
  reed_tensor *grown[2], *dense[2]; /* the pasts of both sessions */
  reed_tensor *x;
  int64_t batch;
} steps;

static reed_tensor *rows(const steps *s, int64_t n, int seed) {
  reed_tensor *t = floats(4, (int64_t[]){s->batch, HEADS, n, D}, 0);
  float *data = reed_tensor_data(t);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) data[i] = (float)((i + seed * 5) * 7919 % 61 - 30) / 32;
  return t;
}

static reed_session *bound_session(steps *s, const reed_session_options *options) {
  reed_session *session = NULL;
  ck_assert_int_eq(reed_session_open(s->m.program, options, &session, s->m.said), REED_OK);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(reed_session_bind_output(session, KEYS + (size_t)i, s->memory[i], 2, s->m.said), REED_OK);
  return session;
}

static void begin(steps *s) {
  for (int i = 0; i < 2; i++) {
    reed_tensor_close(&s->grown[i]);
    reed_tensor_close(&s->dense[i]);
    s->grown[i] = rows(s, 0, 0);
    s->dense[i] = reed_tensor_retain(s->grown[i]);
  }
}

static steps steps_open(reader r, reed_session_options options) {
  steps s = {.m = model_open(decoder(r), "host", REED_COUNTS_HOST), .batch = 1};
  options.n_threads = 1;
  if (!options.device) options.device = "host";
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(
        reed_tensor_open_on(options.device, REED_F32, 4, (int64_t[]){1, HEADS, CAPACITY, D}, &s.memory[i], s.m.said),
        REED_OK);
  s.session = bound_session(&s, &options);
  s.plain = session_of(&s.m, "host");
  s.x = floats(2, (int64_t[]){3, WIDTH}, -4);
  begin(&s);
  return s;
}

static void steps_close(steps *s) {
  for (int i = 0; i < 2; i++) {
    reed_tensor_close(&s->grown[i]);
    reed_tensor_close(&s->dense[i]);
    reed_tensor_close(&s->memory[i]);
  }
  reed_tensor_close(&s->x);
  reed_session_close(&s->session);
  reed_session_close(&s->plain);
  model_close(&s->m);
}

static int64_t length_of(const steps *s) { return reed_tensor_dims(s->dense[0])[2]; }

/* Joins n rows in the session; if the run succeeds, its results must be those of the session that binds nothing, and
 * become the next past. */
static reed_status try_step(steps *s, reed_session *session, int64_t n) {
  int seed = (int)length_of(s);
  reed_tensor *q = rows(s, n, seed), *nk = rows(s, n, seed + 1), *nv = rows(s, n, seed + 2);
  reed_tensor *given = floats(2, (int64_t[]){1, length_of(s) + n}, -2);
  reed_tensor *const in[] = {q, s->grown[0], s->grown[1], nk, nv, s->x, given};
  reed_tensor *const plain_in[] = {q, s->dense[0], s->dense[1], nk, nv, s->x, given};
  reed_tensor *got[N_OUTPUTS] = {0}, *expected[N_OUTPUTS];
  reed_status status = reed_session_run(session, in, N_INPUTS, got, N_OUTPUTS, s->m.said);
  if (status == REED_OK) {
    run_session(&s->m, s->plain, plain_in, expected);
    for (int i = 0; i < N_OUTPUTS; i++) assert_same(got[i], expected[i], ((const char *[]){"z", "k", "v", "x"})[i]);
    for (int i = 0; i < 2; i++) {
      reed_tensor_close(&s->grown[i]);
      reed_tensor_close(&s->dense[i]);
      s->grown[i] = got[1 + i];
      s->dense[i] = expected[1 + i];
    }
    for (int i = 0; i < N_OUTPUTS; i += N_OUTPUTS - 1) {
      reed_tensor_close(&got[i]);
      reed_tensor_close(&expected[i]);
    }
  }
  reed_tensor_close(&given);
  reed_tensor_close(&q);
  reed_tensor_close(&nk);
  reed_tensor_close(&nv);
  return status;
}

static void step(steps *s, reed_session *session) {
  reed_status status = try_step(s, session, 1);
  ck_assert_msg(status == REED_OK, "at %lld: %s", (long long)length_of(s), reed_diagnosis_message(s->m.said));
}

static int64_t renewed(const steps *s) { return statistic_of(s->session, "renewed"); }

/* Whatever reads the length reads the new one, up to the capacity; a longer past is refused, and the cache begins
 * again. A branch that the length decides is planned. */
START_TEST(readers_of_the_length_read_the_new_one) {
  steps s = steps_open((reader)_i, (reed_session_options){0});
  for (int round = 0; round < 2; round++) {
    while (length_of(&s) < CAPACITY) {
      step(&s, s.session);
      if (_i == COPY && length_of(&s) < CAPACITY) /* full memory has no room */
        ck_assert_int_eq(statistic_of(s.session, "dense_bytes"), length_of(&s) * HEADS * D * (int64_t)sizeof(float));
    }
    ck_assert_int_ne(try_step(&s, s.session, 1), REED_OK);
    int64_t least = (round + 1) * (CAPACITY - (_i == EXPANDED ? 12 : 8)); /* a mask outgrows its place once more */
    if (_i == BRANCH) ck_assert_int_ge(statistic_of(s.session, "misses"), 4);
    else ck_assert_msg(renewed(&s) >= least, "reader %d: %lld of %lld", _i, (long long)renewed(&s), (long long)least);
    begin(&s);
  }
  steps_close(&s);
}
END_TEST

/* Two sessions of one program take turns with one memory, so that each one's lengths grow by two. */
START_TEST(sessions_take_turns) {
  steps s = steps_open((reader)_i, (reed_session_options){0});
  reed_session *other = bound_session(&s, &(reed_session_options){.device = "host", .n_threads = 1});
  while (length_of(&s) < CAPACITY) step(&s, length_of(&s) % 2 ? other : s.session);
  if (_i != BRANCH) ck_assert_int_ge(renewed(&s), 8);
  reed_session_close(&other);
  steps_close(&s);
}
END_TEST

/* A memo of one entry, and pasts that lie elsewhere between the steps: the entry is gone when the next step comes. */
START_TEST(entries_are_evicted_between) {
  steps s = steps_open((reader)_i, (reed_session_options){.memo_entries = 1});
  while (length_of(&s) < CAPACITY) {
    step(&s, s.session);
    if (length_of(&s) % 6) continue;
    reed_tensor *q = rows(&s, 1, 9), *given = floats(2, (int64_t[]){1, length_of(&s) + 1}, -2);
    reed_tensor *in[] = {q, s.dense[0], s.dense[1], q, q, s.x, given}, *a[N_OUTPUTS], *b[N_OUTPUTS];
    run_session(&s.m, s.session, in, a);
    run_session(&s.m, s.plain, in, b);
    for (int i = 0; i < N_OUTPUTS; i++) {
      assert_same(a[i], b[i], "a result between");
      reed_tensor_close(&a[i]);
      reed_tensor_close(&b[i]);
    }
    reed_tensor_close(&q);
    reed_tensor_close(&given);
  }
  ck_assert_int_ge(statistic_of(s.session, "evictions"), 4);
  steps_close(&s);
}
END_TEST

/* A step that is cancelled at any of its kernels leaves past and entry valid, and is repeated. */
START_TEST(cancelled_steps_are_repeated) {
  enum { WARM = 14 }; /* more steps than there are misses at first */
  steps s = steps_open((reader)_i, (reed_session_options){.memo_entries = 2});
  int64_t before = 0, kernels = 0; /* of the steps; of the last one */
  for (int i = 0; i < WARM; i++) {
    step(&s, s.session);
    before += kernels = reed_session_kernel_count(s.session);
  }
  ck_assert_int_gt(kernels, LAYERS);
  for (int64_t k = 1; k <= LAYERS; k += 3) { /* not the last ones: a host value costs the first steps a kernel */
    steps_close(&s);
    s = steps_open((reader)_i, (reed_session_options){.cancel_at_kernel = before + k});
    while (length_of(&s) < WARM) step(&s, s.session);
    ck_assert_int_eq(try_step(&s, s.session, 1), REED_ERROR_CANCELLED);
    int64_t hits = statistic_of(s.session, "hits"), had = renewed(&s); /* the entry has the length already */
    step(&s, s.session);
    ck_assert_int_eq(renewed(&s), had);
    ck_assert_int_eq(statistic_of(s.session, "hits"), hits + 1);
    while (length_of(&s) < WARM + 4) step(&s, s.session);
  }
  steps_close(&s);
}
END_TEST

/* Decoders of two batch sizes take turns in one session, each with memory of its own: each renews an entry of its own.
 */
START_TEST(batches_take_turns) {
  steps s = steps_open((reader)_i, (reed_session_options){0});
  reed_tensor *memory[2][2], *pasts[2][4];
  for (int k = 0; k < 2; k++) {
    s.batch = 1 + 2 * k;
    begin(&s);
    for (int i = 0; i < 2; i++) {
      const int64_t dims[] = {s.batch, HEADS, CAPACITY, D};
      ck_assert_int_eq(reed_tensor_open_on("host", REED_F32, 4, dims, &memory[k][i], s.m.said), REED_OK);
      pasts[k][i] = s.grown[i], pasts[k][2 + i] = s.dense[i];
      s.grown[i] = s.dense[i] = NULL;
    }
  }
  for (int turn = 0; turn < 2 * CAPACITY; turn++) {
    int k = turn % 2;
    s.batch = 1 + 2 * k;
    for (int i = 0; i < 2; i++) {
      s.grown[i] = pasts[k][i], s.dense[i] = pasts[k][2 + i];
      ck_assert_int_eq(reed_session_bind_output(s.session, KEYS + (size_t)i, memory[k][i], 2, s.m.said), REED_OK);
    }
    step(&s, s.session);
    for (int i = 0; i < 2; i++) {
      pasts[k][i] = s.grown[i], pasts[k][2 + i] = s.dense[i];
      s.grown[i] = s.dense[i] = NULL;
    }
  }
  int64_t least = _i == VIEW || _i == COPY ? CAPACITY - 8 : 2 * (CAPACITY - 8); /* the large batch has dense copies */
  if (_i != BRANCH) ck_assert_msg(renewed(&s) >= least, "reader %d: %lld", _i, (long long)renewed(&s));
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 4; i++) {
      reed_tensor_close(&pasts[k][i]);
      if (i < 2) reed_tensor_close(&memory[k][i]);
    }
  steps_close(&s);
}
END_TEST

/* An accelerator's epochs are planned for each length, and the figures say so. */
START_TEST(lengths_are_misses_on_an_accelerator) {
  steps s = steps_open((reader)_i, (reed_session_options){.device = "sim"});
  while (length_of(&s) < CAPACITY) step(&s, s.session);
  ck_assert_int_eq(renewed(&s), 0);
  if (_i != BRANCH) ck_assert_int_ge(statistic_of(s.session, "missed_lengths"), CAPACITY - 4);
  steps_close(&s);
}
END_TEST

int main(void) {
  TCase *t = tcase_create("renewed");
  tcase_add_loop_test(t, readers_of_the_length_read_the_new_one, 0, N_READERS);
  tcase_add_loop_test(t, sessions_take_turns, 0, N_READERS);
  tcase_add_loop_test(t, batches_take_turns, 0, N_READERS);
  tcase_add_loop_test(t, entries_are_evicted_between, 0, N_READERS);
  tcase_add_loop_test(t, cancelled_steps_are_repeated, 0, N_READERS);
  tcase_add_loop_test(t, lengths_are_misses_on_an_accelerator, 0, N_READERS);
  return run_suite(t, "renewed");
}
