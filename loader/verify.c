/* The verifier's entry: runs the three passes (verifier.h) over every function of a module. */
#include "loader/verify.h"

#include "base/mem.h"
#include "loader/verify_code.h"
#include "loader/verify_flow.h"
#include "loader/verify_shaped.h"

static reed_status verify_function(verifier *v, uint32_t number) {
  v->number = number;
  v->f = &v->m->functions[number];
  v->code = v->m->code + v->f->code_offset;
  v->n_states = (size_t)v->f->n_r + v->f->n_s;
  v->loops = false;
  size_t n = (size_t)v->f->n_code + 1;
  v->marks = mem_calloc(n, sizeof *v->marks);
  v->places = mem_calloc(n, sizeof *v->places);
  v->block_of = mem_calloc(n, sizeof *v->block_of);
  v->states = mem_calloc(v->n_states + 1, sizeof *v->states);
  reed_status status = v->marks && v->places && v->block_of && v->states
                           ? REED_OK
                           : diag_no_memory(v->diagnosis, "verifying a function");
  if (status == REED_OK) status = verify_code(v);
  if (status == REED_OK) status = verify_flow(v);
  if (status == REED_OK) status = verify_shaped(v);
  mem_free(v->marks), mem_free(v->places), mem_free(v->block_of), mem_free(v->states);
  return status;
}

reed_status verify_module(const module *m, const int *cancel, reed_diagnosis *diagnosis) {
  verifier v = {.m = m, .diagnosis = diagnosis, .cancel = cancel};
  reed_status status = REED_OK;
  for (uint32_t i = 0; status == REED_OK && i < m->n_functions; i++) status = verify_function(&v, i);
  if (status == REED_OK && v.n_epochs_seen != m->n_epochs)
    status = verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_EPOCH_TABLE,
                           "the module lists %zu epochs, its code enters %u", m->n_epochs, v.n_epochs_seen);
  VEC_FREE(&v.asked);
  return status;
}
