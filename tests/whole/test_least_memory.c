/* The least memory with which a new session runs some sizes is enough for a session that has met other sizes: what a
 * session keeps for speed (arenas, layouts with room, headroom of blocks, free blocks) is given back where a run lacks
 * memory. */
#include <stdio.h>

#include "tests/devices.h"
#include "tests/suite.h"
#include "tests/whole/model.h"

enum { SIZES = 5, ORDERS = 6, RUNS = 24 };

typedef struct size {
  int64_t n, m;
} size;

typedef struct place {
  const char *device;
  bool is_card; /* the memory of the card is bounded, else that of the session */
  int64_t most; /* of an extent */
  int64_t high; /* bytes that are enough for all sizes */
} place;

static const place places[] = {{"host", false, 900, 64 << 20},
                               {"sim", false, 300, 16 << 20},
                               {"cuda-emulated", false, 100, 4 << 20},
                               {"cuda-emulated", true, 100, 8 << 20}};

/* Tensors of n x m, n x 2m and n x n elements, so that sizes of equal area need arenas that differ. */
static onnx_build *mixed(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,m]");
  build_int(b, build_node(b, "Concat", "x,x", "c"), "axis", 1);
  build_int(b, build_node(b, "Softmax", "c", "s"), "axis", 1);
  build_ints(b, build_node(b, "Transpose", "s", "t"), "perm", "1,0");
  build_int(b, build_node(b, "Softmax", "t", "u"), "axis", 1);
  build_ints(b, build_node(b, "Transpose", "u", "y"), "perm", "1,0");
  build_ints(b, build_node(b, "ReduceMax", "x", "row"), "axes", "1");
  build_ints(b, build_node(b, "Transpose", "row", "column"), "perm", "1,0");
  build_node(b, "Mul", "row,column", "g");
  build_int(b, build_node(b, "Softmax", "g", "h"), "axis", 0);
  build_ints(b, build_node(b, "ReduceMax", "h", "z"), "axes", "1");
  build_output(b, "y", "f32[?,?]");
  build_output(b, "z", "f32[?,1]");
  return b;
}

static reed_session *session_with(model *m, const place *p, int64_t bytes) {
  char name[64];
  reed_session *session = NULL;
  snprintf(name, sizeof name, p->is_card ? "%s?memory=%lld" : "%s", p->device, (long long)bytes);
  const reed_session_options options = {.device = name, .n_threads = 2, .memory_cap_bytes = p->is_card ? 0 : bytes};
  const reed_status status = reed_session_open(m->program, &options, &session, m->said);
  ck_assert_msg(status == REED_OK, "%s: %s", name, reed_diagnosis_message(m->said));
  return session;
}

static bool runs(model *m, reed_session *session, size z) {
  reed_tensor *outputs[2] = {NULL}, *x = floats(2, (int64_t[]){z.n, z.m}, 0);
  const reed_status status = reed_session_run(session, &x, 1, outputs, 2, m->said);
  ck_assert_msg(status == REED_OK || status == REED_ERROR_MEMORY, "%s", reed_diagnosis_message(m->said));
  reed_tensor_close(&outputs[0]);
  reed_tensor_close(&outputs[1]);
  reed_tensor_close(&x);
  return status == REED_OK;
}

static bool runs_anew(model *m, const place *p, int64_t bytes, size z) {
  reed_session *session = session_with(m, p, bytes);
  const bool is_enough = runs(m, session, z);
  reed_session_close(&session);
  return is_enough;
}

static int64_t least(model *m, const place *p, size z) {
  int64_t low = 0, high = p->high;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (runs_anew(m, p, middle, z)) high = middle;
    else low = middle;
  }
  return high;
}

/* A fixed sequence of numbers below n. */
static int64_t draw(uint64_t *state, int64_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(*state >> 33) % n;
}

START_TEST(least_memory_of_a_new_session_is_enough_after_other_sizes) {
  const place *p = &places[_i];
  if (!device_is_present(p->device)) return;
  uint64_t state = 1;
  model m = model_open(mixed(), p->device, REED_COUNTS_BY_TARGET);
  for (int order = 0; order < ORDERS; order++) {
    size sizes[SIZES];
    bool is_enough[SIZES];
    for (int i = 0; i < SIZES; i++) sizes[i] = (size){1 + draw(&state, p->most), 1 + draw(&state, p->most)};
    const int64_t bytes = least(&m, p, sizes[0]);
    for (int i = 0; i < SIZES; i++) is_enough[i] = runs_anew(&m, p, bytes, sizes[i]);
    reed_session *session = session_with(&m, p, bytes);
    for (int run = 0; run < RUNS; run++) {
      const int64_t i = run % 3 ? draw(&state, SIZES) : 0;
      ck_assert_msg(runs(&m, session, sizes[i]) || !is_enough[i], "order %d, run %d, %lldx%lld in %lld bytes: %s",
                    order, run, (long long)sizes[i].n, (long long)sizes[i].m, (long long)bytes,
                    reed_diagnosis_message(m.said));
    }
    reed_session_close(&session);
  }
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("least memory");
  tcase_add_loop_test(cases, least_memory_of_a_new_session_is_enough_after_other_sizes, 0,
                      sizeof places / sizeof *places);
  return run_suite(cases, "least_memory");
}
