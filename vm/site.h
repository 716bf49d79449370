/* Prepared kernels, shared by counting references: by entries of the memo, by the shape section being executed, by
 * invokes outside of epochs. A kernel is found by everything that its `prepare` was given, so a call that has been
 * prepared before, at any call site of the same family (family.h), is not prepared again while its kernel lives. Which
 * entry uses which kernel: epoch/. */
#ifndef VM_SITE_H_
#define VM_SITE_H_

#include <string.h>

#include "base/rows.h"
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

/* The words of a call. They lie in the session's list of words from `first` on, until the list is cut. */
typedef struct site_call {
  size_t first, n; /* n 0: no call */
  uint64_t hash;   /* of the words */
  bool listed;     /* the words have all `value` elements, so that the call's kernel can be found */
} site_call;

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
  VEC_OF(int64_t) words;       /* scratch: the calls being looked for */
  mem_row states;              /* where the kernels of the host lie */
  mem_row states_aside;        /* where those lie that a helper prepares */
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
/* The steps of site_prepare. A caller that knows several calls takes each step for all of them, with the prefetches
 * between, so that the CPU waits for the memory of several kernels at a time.
 * site_form: appends the call's words to the list. False: no memory.
 * site_find: the kernel of a formed call, with one reference more; NULL: there is none.
 * site_make: prepares the kernel of a formed call that has none. */
bool site_form(site_kernels *kernels, const op_call *call, uint32_t site, int32_t device,
               site_call *out_call) REED_MUST_CHECK;
site_kernel *site_find(site_kernels *kernels, const site_call *formed, uint32_t site);
reed_status site_make(site_kernels *kernels, const op_call *call, const site_call *formed, uint32_t site,
                      site_kernel **out_kernel) REED_MUST_CHECK;
/* As site_make, of a kernel that has been prepared for the call (site_describe), which it takes on success. */
reed_status site_adopt(site_kernels *kernels, const site_call *formed, uint32_t site, const reed_kernel *made,
                       site_kernel **out_kernel, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Gives `call` the operands that the words of a listed call without rooms tell. in, descs and out have
 * REED_MAX_OPERANDS items, which the call borrows, as it does the words. */
void site_describe(const int64_t *words, op_call *call, op_call_input *in, reed_desc *descs, reed_desc *out);
/* Fetches memory into the CPU's caches: first a call's place in the table, then the place of its kernel's address, then
 * the kernel. */
void site_prefetch_slot(const site_kernels *kernels, const site_call *formed);
void site_prefetch_number(const site_kernels *kernels, const site_call *formed, uint32_t *out_number);
void site_prefetch_kernel(const site_kernels *kernels, const site_call *formed, uint32_t number);
/* True if the call is likely to have a kernel: one has the hash of its words. */
bool site_is_likely(const site_kernels *kernels, const site_call *formed);
/* True if the words of two calls are equal. */
static inline bool site_same_call(const site_kernels *kernels, const site_call *a, const site_call *b) {
  const int64_t *words = kernels->words.items;
  return a->listed == b->listed && a->n == b->n &&
         memcmp(words + a->first, words + b->first, a->n * sizeof(int64_t)) == 0;
}
/* Cuts the list of words to n words. */
static inline void site_cut(site_kernels *kernels, size_t n) { kernels->words.n = n; }
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
