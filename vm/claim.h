/* Who may use a session: one run, or one question about the last run, at a time. A second one is refused, not made to
 * wait; closing waits. */
#ifndef VM_CLAIM_H_
#define VM_CLAIM_H_

#include <stdbool.h>
#include <uv.h>

/* Of a run that holds a session before a thread has begun with it. */
typedef enum claim_ticket { TICKET_WAITING, TICKET_BEGUN, TICKET_DROPPED } claim_ticket;

typedef struct session_claim {
  uv_mutex_t mutex;
  uv_cond_t released;
  bool held;
  int *ticket; /* of the holder; NULL: the holder has begun */
  int cancel;  /* the holder is asked to end: base/cancel.h */
} session_claim;

/* False: no memory. */
bool claim_init(session_claim *c);
void claim_fini(session_claim *c);
/* False: somebody holds it. ticket: claim_ticket of work that begins later (TICKET_WAITING), which lives until the
 * claim is released or the ticket dropped; NULL: it begins now. */
bool claim_take(session_claim *c, int *ticket);
void claim_release(session_claim *c);
/* Asks the holder to end; nobody holds it: does nothing. Any thread, and signal handlers. */
void claim_cancel(session_claim *c);
/* The holder with a ticket begins. False: the ticket was dropped, the claim may be gone. */
bool claim_begin(int *ticket);
/* Takes the claim for good: a holder that has not begun loses it, any other is asked to end and waited for. */
void claim_take_last(session_claim *c);

#endif
