/* Prepared kernels, shared by counting references: by entries of the memo, by the shape section being executed, by
 * invokes outside of epochs. A kernel is found by everything that its `prepare` was given, so a call that has been
 * prepared before, at any call site of the same family (family.h), is not prepared again while its kernel lives. Which
 * entry uses which kernel: epoch/. */
#ifndef VM_SITE_H_
#define VM_SITE_H_

#include "base/table.h"
#include "base/vec.h"
#include "ops/call.h"

/* A prepared kernel and the call for which it was prepared. */
typedef struct site_kernel {
  reed_kernel kernel;
  uint32_t family;      /* of its sites */
  uint32_t number;      /* among the session's kernels; TABLE_NONE: not among them yet */
  bool listed;          /* can be found: the words have all `value` elements */
  int32_t n_references; /* entries that use it, remembered or not; an invoke in progress; a site that keeps it */
  int32_t n_remembered; /* remembered entries among them: the memo counts the bytes once while this is above 0 */
  int64_t bytes;        /* of the state, of this struct and of the call's words */
  uint64_t hash;        /* of the words */
  size_t n_words;
  int64_t words[]; /* the call: family, device, operands, rooms, addresses of constants, elements of `value` inputs */
} site_kernel;

/* The kernel that site_prepare gave to a site last; it may be freed since. */
typedef struct site_last {
  uint32_t number; /* of the kernel + 1; 0: none */
  uint64_t hash;   /* of the kernel's words */
} site_last;

typedef struct site_kernels {
  const uint32_t *families; /* per site; borrowed */
  site_last *last;          /* per site */
  site_kernel **kept;       /* per site: the kernel of its last invoke outside of epochs, with a reference */
  size_t n_sites;
  table found;                 /* the kernels by hash */
  VEC_OF(site_kernel *) items; /* by number, all kernels, without references; NULL: the number is free */
  VEC_OF(uint32_t) free;       /* free numbers; has room for all */
  VEC_OF(int64_t) words;       /* scratch: the call being looked for */
  struct {
    int64_t found, made, live; /* calls that found their kernel; kernels prepared; kernels that exist */
  } figures;
} site_kernels;

/* families: per site, borrowed until the kernels are closed. */
reed_status site_kernels_open(site_kernels *kernels, const uint32_t *families, size_t n_sites,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Frees the kernels that sites keep. No entry may refer to a kernel any more. */
void site_kernels_close(site_kernels *kernels);

/* The kernel of the call on a physical device, with one reference more: that of an equal call, or a new one that
 * op_call_prepare makes (*out_made true). Threads and other properties of the session are not compared, because the
 * table belongs to one session. */
reed_status site_prepare(site_kernels *kernels, const op_call *call, uint32_t site, int32_t device,
                         site_kernel **out_kernel, bool *out_made) REED_MUST_CHECK;
static inline void site_retain(site_kernel *k) { k->n_references++; }
/* Drops a reference; the last one frees the state. No work that uses the kernel may be queued then. NULL is allowed. */
void site_release(site_kernels *kernels, site_kernel *k);
/* The kernel that site_prepare gave to the site last; NULL: none, or it is freed. */
const site_kernel *site_last_kernel(const site_kernels *kernels, size_t site);
/* The operands of the kernel's call, as they were prepared: the inputs' descs (dtype REED_NONE: absent). Returns their
 * number. */
int32_t site_kernel_inputs(const site_kernel *k, reed_desc out_inputs[REED_MAX_OPERANDS]);
/* The number by which a device reports a failed launch (device_error): the site, and the kernel while it lives. */
uint32_t site_launch_number(const site_kernels *kernels, uint32_t site, const site_kernel *k);
uint32_t site_of_launch(const site_kernels *kernels, uint32_t number, const site_kernel **out_kernel);
/* The site keeps the kernel, and one reference to it, until its next invoke outside of epochs. */
void site_keep(site_kernels *kernels, uint32_t site, site_kernel *k);

#endif
