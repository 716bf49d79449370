/* The caller's stream (reed_session_set_stream): a run's queues wait for the stream's work. Outputs that the stream
 * still uses when they are closed: output.c. */
#include "vm/devices.h"
#include "vm/state.h"

/* Sets the stream; 0 or -1: none. */
static reed_status set(vm_devices *devices, int64_t stream, reed_diagnosis *diagnosis) {
  int32_t found = 0, n = 0;
  for (int32_t i = 1; i < devices->n; i++)
    if (devices->items[i].on->stream_record) found = i, n++;
  if (stream > 0 && n != 1)
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED,
                     "a session with a stream needs one device that has streams of callers (cuda), this one has %d", n);
  if (stream > 0 && !devices->begun) {
    const vm_device *d = &devices->items[found];
    reed_status status = d->on->event_open(d->device, &devices->begun, diagnosis);
    if (status != REED_OK) return status;
  }
  devices->stream = stream > 0 ? stream : 0;
  devices->stream_on = found;
  if (found) output_store_set_stream(devices->items[found].outputs, devices->stream);
  return REED_OK;
}

reed_status devices_mark_stream(vm_devices *devices, reed_diagnosis *diagnosis) {
  if (!devices->stream) return REED_OK;
  const vm_device *d = &devices->items[devices->stream_on];
  return d->on->stream_record(d->device, devices->stream, devices->begun, diagnosis);
}

reed_status devices_wait_for_stream(vm_devices *devices, reed_diagnosis *diagnosis) {
  if (!devices->stream) return REED_OK;
  const vm_device *d = &devices->items[devices->stream_on];
  reed_status status = d->on->event_wait(d->compute, devices->begun, diagnosis);
  if (status == REED_OK) status = d->on->event_wait(d->copies, devices->begun, diagnosis);
  return status;
}

reed_status reed_session_set_stream(reed_session *s, int64_t stream, reed_diagnosis *diagnosis) {
  if (!s || stream < -1)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_set_stream: a session and the number of a stream are needed");
  if (!claim_take(&s->claim, NULL)) return claim_refuse(diagnosis);
  reed_status status = set(&s->devices, stream, diagnosis);
  claim_release(&s->claim);
  return status;
}
