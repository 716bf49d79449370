/* Taking, releasing and cancelling under one mutex; only the cancel flag is raised without it. */
#include "vm/claim.h"

#include "base/cancel.h"
#include "base/diag.h"

bool claim_init(session_claim *c) {
  *c = (session_claim){0};
  if (uv_mutex_init(&c->mutex) != 0) return false;
  if (uv_cond_init(&c->released) == 0) return true;
  uv_mutex_destroy(&c->mutex);
  return false;
}

void claim_fini(session_claim *c) {
  uv_cond_destroy(&c->released);
  uv_mutex_destroy(&c->mutex);
}

bool claim_take(session_claim *c, int *ticket) {
  uv_mutex_lock(&c->mutex);
  bool taken = !c->held;
  if (taken) {
    c->ticket = ticket;
    cancel_set(&c->cancel, false);
    __atomic_store_n(&c->held, true, __ATOMIC_RELEASE);
  }
  uv_mutex_unlock(&c->mutex);
  return taken;
}

reed_status claim_refuse(reed_diagnosis *diagnosis) {
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "a run of this session is in flight: one at a time");
}

void claim_release(session_claim *c) {
  uv_mutex_lock(&c->mutex);
  __atomic_store_n(&c->held, false, __ATOMIC_RELEASE);
  c->ticket = NULL;
  uv_cond_signal(&c->released);
  uv_mutex_unlock(&c->mutex);
}

void claim_cancel(session_claim *c) {
  if (__atomic_load_n(&c->held, __ATOMIC_ACQUIRE)) cancel_set(&c->cancel, true);
}

bool claim_begin(int *ticket) {
  int waiting = TICKET_WAITING;
  return __atomic_compare_exchange_n(ticket, &waiting, TICKET_BEGUN, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void claim_take_last(session_claim *c) {
  uv_mutex_lock(&c->mutex);
  int waiting = TICKET_WAITING;
  bool dropped =
      c->held && c->ticket &&
      __atomic_compare_exchange_n(c->ticket, &waiting, TICKET_DROPPED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  while (c->held && !dropped) {
    cancel_set(&c->cancel, true);
    uv_cond_wait(&c->released, &c->mutex);
  }
  c->held = true;
  uv_mutex_unlock(&c->mutex);
}
