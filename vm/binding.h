/* The destinations that the caller has set for a session's outputs: a copy on the host, the device that computes the
 * output, or memory of the caller. The border of a run (border.c) and the placement of an epoch's memory
 * (epoch/place.c) read them. The public calls: destinations.c. */
#ifndef VM_BINDING_H_
#define VM_BINDING_H_

#include "vm/devices.h"
#include "vm/epoch/memo.h"
#include "vm/tensor.h"

/* The destination of one output. */
typedef struct output_destination {
  int64_t most_bytes;  /* of the output by the declared ranges of the inputs' extents; 0: not known */
  bool keep;           /* stays on the device where it is computed */
  reed_tensor *memory; /* the caller's, one reference; NULL: not bound */
  int32_t room_axis;   /* along which the memory may have more room than the output; -1: none */
  int32_t device;      /* of the memory, as the session numbers it; -1: not a device of the session */
  storage place;       /* the memory as registers hold it; one reference while no register does */
  /* Of the run in progress (append.h): */
  bool aside;                /* the run leaves the memory alone, because a tensor there must stay as it is */
  bool held;                 /* the run holds the memory's mark, and gives `mark_before` back if it fails */
  bool grows, grown;         /* the output may be written after its past in the memory; it was written there */
  bool has_rows;             /* of `grows`: the past has rows there */
  bool overwrites;           /* of `held`: the output has new rows in place of rows of its past (history.h) */
  struct history_step *step; /* the rows that the run has overwritten; while the run's outputs are made */
  uint32_t grown_input;      /* the model's input that is its past */
  int64_t mark_before;
  bool saves;       /* a device's kernel was told to save the rows that it overwrites in `saved` */
  overwritten rows; /* of `saves`: the record without pieces and elements */
  /* From run to run: */
  reed_tensor *saved; /* memory of the device for saved rows; NULL: none. Steps of the history may have it, too */
  int64_t n_saves;    /* in this memory so far */
} output_destination;

/* The memory that the output is written to in this run; NULL: none. */
static inline reed_tensor *binding_memory(const output_destination *w) { return w->aside ? NULL : w->memory; }

typedef struct bindings {
  output_destination *outputs; /* per output of the model */
  size_t n;
  bool any_bound;
} bindings;

reed_status bindings_open(bindings *b, size_t n_outputs, bool keep, vm_devices *devices,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;
void bindings_close(bindings *b);

/* Binds the output to the memory, which is retained; NULL: to none. device: the session's number of its device. */
void binding_set(output_destination *w, reed_tensor *memory, int32_t room_axis, int32_t device);
/* Passes the destinations on to the session's devices. Called after each change. */
void bindings_note(bindings *b, vm_devices *devices);

/* True if the storage is the bound memory of some output. */
bool bindings_have(const bindings *b, const storage *place);
/* True if the output's destination is on the device. */
static inline bool binding_wants(const bindings *b, uint32_t output, int32_t device) {
  const output_destination *w = &b->outputs[output];
  return w->memory ? w->device == device : w->keep;
}
/* True if the bound memory holds a tensor of that desc: dtype and extents are the memory's, but for a smaller extent
 * along the axis with room. */
bool binding_holds(const output_destination *w, const reed_desc *desc);
/* The strides that the desc has in the bound memory, which holds it. */
void binding_strides(const output_destination *w, const reed_desc *desc, int64_t *out_strides);
/* The bound memory of the output with one reference more, if a tensor on that device may be computed there: it is free,
 * the desc (bounded_axis -1, or the axis of whose extent the desc has the bound) fits, and its elements lie dense. Else
 * NULL. */
storage *binding_take(bindings *b, uint32_t output, int32_t device, const reed_desc *desc, int32_t bounded_axis);

#endif
