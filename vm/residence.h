/* Which tensors at the border of function main the host reads: the model's inputs, and the results that `readback`
 * brings to the host. A tensor whose elements the host never reads may stay on its device. Found once for a program.
 */
#ifndef VM_RESIDENCE_H_
#define VM_RESIDENCE_H_

#include "base/vec.h"
#include "bytecode/module.h"
#include "reed/operator.h"
#include "vm/mentions.h"

/* The first instruction that reads a tensor's elements on the host. */
typedef struct residence_reader {
  bool reads;         /* false: no instruction reads them */
  bool travels;       /* `copy` or `return` uses the elements, on any device */
  copy_reason reason; /* VALUE: a shape function or a scalar; PLACEMENT: a kernel or anything else */
  uint32_t site;      /* UINT32_MAX: none */
  uint32_t input;     /* of the site; without a site: the model's input */
} residence_reader;

/* A readback of main whose tensor may be returned as that output. One row for each such pair, in ascending order of pc.
 */
typedef struct residence_result {
  uint32_t pc, output;
  bool read; /* the host reads the elements as well */
} residence_result;

typedef struct residence {
  residence_reader *inputs; /* per input of the model */
  VEC_OF(residence_result) results;
} residence;

/* False: no memory. *out is to be closed in any case. */
bool residence_find(mentions *found, residence *out);
void residence_fini(residence *found);

#endif
