/* Exclusive use of a session by one run, or by one question about the last run. A second user is refused at once;
 * closing the session waits for the first. */
#ifndef VM_CLAIM_H_
#define VM_CLAIM_H_

#include <stdbool.h>
#include <uv.h>

#include "reed/reed.h"

/* The state of an asynchronous run that holds a session before a thread has begun it. */
typedef enum claim_ticket { TICKET_WAITING, TICKET_BEGUN, TICKET_DROPPED } claim_ticket;

typedef struct session_claim {
  uv_mutex_t mutex;
  uv_cond_t released;
  bool held;
  int *ticket; /* of the holder; NULL: the holder has begun */
  int cancel;  /* asks the holder to end: base/cancel.h */
} session_claim;

/* False: no memory. */
bool claim_init(session_claim *c);
void claim_fini(session_claim *c);
/* Takes the claim; false: it is held. ticket: claim_ticket of work that begins later (TICKET_WAITING), alive until the
 * claim is released or the ticket dropped; NULL: the work begins now. */
bool claim_take(session_claim *c, int *ticket);
/* Returns the failure for a second user. */
reed_status claim_refuse(reed_diagnosis *diagnosis) REED_MUST_CHECK;
void claim_release(session_claim *c);
/* Asks the holder to end; does nothing if the claim is free. Any thread, and signal handlers. */
void claim_cancel(session_claim *c);
/* The holder with a ticket begins. False: the ticket was dropped, the claim may be gone. */
bool claim_begin(int *ticket);
/* Takes the claim for good. A holder that has not begun loses the claim; a holder that has begun is asked to end and
 * waited for. */
void claim_take_last(session_claim *c);

#endif
