/* Reading and transforming a built model, for the front half's tests. */
#ifndef TESTS_COMPILER_FRONT_H_
#define TESTS_COMPILER_FRONT_H_

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/place.h"
#include "compiler/onnx/onnx.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/passes.h"
#include "tests/compiler/onnx_build.h"

typedef struct front {
  reed_diagnosis diagnosis;
  reed_status status; /* of the last step */
  ir_module *m;
  pass_run run;
  void *bytes; /* the built model, in which the weights stay */
} front;

static inline void front_read_bytes(front *f, const void *bytes, size_t n, const char *folder) {
  *f = (front){0};
  reed_diagnosis_clear(&f->diagnosis);
  f->status = ir_module_open(NULL, &f->diagnosis, &f->m);
  if (f->status == REED_OK) f->status = onnx_read(f->m, bytes, n, &(onnx_external){.folder = folder});
}

/* Reads the built model and closes the builder. */
static inline void front_read(front *f, onnx_build **b) {
  size_t n;
  const void *bytes = build_pack(*b, &n);
  void *kept = memcpy(malloc(n), bytes, n);
  front_read_bytes(f, kept, n, NULL);
  f->bytes = kept;
  build_close(b);
}

#define front_ok(f) \
  ck_assert_msg((f)->status == REED_OK, "%s: %s", reed_status_name((f)->status), (f)->diagnosis.message)
#define front_says(f, expected, text) \
  do { \
    ck_assert_msg((f)->status == (expected), "%s: %s", reed_status_name((f)->status), (f)->diagnosis.message); \
    ck_assert_msg(strstr((f)->diagnosis.message, (text)) != NULL, "'%s' is not in: %s", (text), \
                  (f)->diagnosis.message); \
  } while (0)

/* Runs every pass to the end, placement before the last ones, but those in `disabled`, separated by commas (may be
 * NULL). */
static inline void front_passes(front *f, const char *disabled) {
  char names[256], *rest = names, *name;
  f->run = (pass_run){.m = f->m};
  snprintf(names, sizeof names, "%s", disabled ? disabled : "");
  while (disabled && (name = strsep(&rest, ","))) f->run.totals[pass_find(name)].disabled = true;
  f->status = pass_run_all(&f->run);
  if (f->status != REED_OK) return;
  place_counts counts;
  ir_count_uses(f->m);
  f->status = place_module(f->m, &counts);
  if (f->status == REED_OK) f->status = pass_run_placed(&f->run);
}

/* Every pass but chains, which would hide operators from the test. */
static inline void front_optimize(front *f, onnx_build **b) {
  front_read(f, b);
  front_ok(f);
  front_passes(f, "chains");
  front_ok(f);
}

typedef struct front_search {
  const reed_op *op;
  ir_node *first;
  int n;
} front_search;

static inline reed_status front_visit(void *context, ir_node *n) {
  front_search *s = context;
  if (n->op != s->op) return REED_OK;
  if (!s->first) s->first = n;
  s->n++;
  return REED_OK;
}

/* The first node of that operator, bodies included; NULL: none. */
static inline ir_node *front_node(const front *f, op_id op) {
  front_search s = {.op = op_builtin(op)};
  ck_assert_int_eq(ir_walk(f->m->main, true, front_visit, &s), REED_OK);
  return s.first;
}

static inline int front_count(const front *f, op_id op) {
  front_search s = {.op = op_builtin(op)};
  ck_assert_int_eq(ir_walk(f->m->main, true, front_visit, &s), REED_OK);
  return s.n;
}

/* Changes that all runs of a pass made. */
static inline int64_t front_changes(const front *f, const char *pass) {
  return f->run.totals[pass_find(pass)].n_changes;
}

/* "f32[n,3]" of a value; the text lives until the next call. */
static inline const char *front_type(const front *f, const ir_value *v) {
  static char out[1024];
  char dim[256];
  size_t n = (size_t)snprintf(out, sizeof out, "%s", reed_dtype_name(v->type.dtype));
  if (v->type.rank < 0) n += (size_t)snprintf(out + n, sizeof out - n, "[..");
  for (int32_t i = 0; i < v->type.rank; i++)
    n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? "," : "[",
                          symbols_text(f->m->symbols, v->type.dims[i], dim, sizeof dim));
  snprintf(out + n, sizeof out - n, v->type.rank == 0 ? "[]" : "]");
  return out;
}

/* The same of the first result of main. */
static inline const char *front_result_type(const front *f) { return front_type(f, f->m->main->results[0]); }

/* Element i of a constant. */
static inline double front_element(const ir_value *v, int64_t i) {
  ck_assert(ir_is_constant(v));
  return reed_dtype_read(v->type.dtype, (const char *)v->data + (size_t)i * reed_dtype_bytes(v->type.dtype));
}

static inline void front_fini(front *f) {
  ir_module_close(&f->m);
  free(f->bytes);
  f->bytes = NULL;
}

/* The reader refuses the model with this status and text. */
static inline void front_refuses(onnx_build **b, reed_status status, const char *text) {
  front f;
  front_read(&f, b);
  front_says(&f, status, text);
  front_fini(&f);
}

#endif
