/* Capability lists: the operators, dtypes and attributes that a target can run, as data that placement, packing and
 * devices share.
 *
 * A target is written like a device (device/device.h): its name in ops/targets.def, an optional number, and options:
 *
 *     sim                             everything
 *     sim?lacks=Conv+TopK.f64         all but Conv, and all but TopK with an f64 operand
 *     sim?lacks=*.f64                 no operator with an f64 operand (inputs that the shape function reads may be f64)
 *     sim?lacks=Resize@mode=cubic     all but Resize in this mode; Conv@packed: all but Conv with this attribute
 *     sim?only=Conv.f32+Relu          nothing but Conv on f32 operands, and Relu
 *     sim?counts=Gather+RoiAlign      everything; only these two run at the bound of a count (docs/epochs.md)
 *
 * An item is OPERATOR (not control flow, which has no kernels) or *, then .DTYPE, then @ATTRIBUTE or @ATTRIBUTE=VALUE;
 * an operator of another domain may be written DOMAIN::OPERATOR. A target may have all three options, with & between
 * them: `only` is applied first, then `lacks` takes away from the rest. Without `counts` every operator may run at the
 * bound of a count; with it the operators that it does not name get the count on the host. Options that are numbers
 * (seed=7), and card=NAME, are read by the device. Targets with commas between them form a list; the list lacks
 * whatever one of its targets lacks.
 */
#ifndef OPS_CAPABILITY_H_
#define OPS_CAPABILITY_H_

#include "base/diag.h"
#include "base/text.h"
#include "ops/op.h"

/* The parts of a call that items are compared with. dtypes: n_inputs of the inputs, then those of the outputs;
 * REED_NONE for an absent or unknown operand. The pointers may be NULL. */
typedef struct capability_call {
  const reed_op *op;
  const reed_attrs *attrs;
  const reed_dtype *dtypes;
  int32_t n_inputs, n_dtypes;
} capability_call;

typedef struct capability capability;
/* Parses one target or a list of targets; NULL stands for CAPABILITY_DEFAULT. ERROR_ARGUMENT names the wrong word: an
 * operator must be built in or in `registry` (NULL allowed). */
#define CAPABILITY_DEFAULT "host,sim"
reed_status capability_open(const char *targets, const reed_registry *registry, capability **out_capability,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;
void capability_close(capability **c);
/* The text that the targets were parsed from; "" for NULL. */
const char *capability_text(const capability *c);
/* True if every target of the list has a kernel for the call. c NULL: a target that has everything. */
bool capability_has(const capability *c, const capability_call *call);
/* True if every target's kernel for the call can run at the bound of a count: it reads the true extent from the
 * device's memory, or is prepared when the extent is known. c NULL: true. */
bool capability_reads_counts(const capability *c, const capability_call *call);
/* The option of a target (`cudnn`, `cublas`) by which a library computes the call, whose plans have numbers as extents;
 * NULL: no target names such a library. A device with the option runs the call at the bound all the same, by its own
 * kernel. */
const char *capability_library(const capability *c, const capability_call *call);
/* True if counts stay on the device unless the compiler is told otherwise: so it is for each target of the list
 * (ops/targets.def). */
bool capability_keeps_counts(const capability *c);
/* True if every target has some call of the operator; then the items that exclude other calls of it are appended, such
 * as "f64, mode=cubic". */
bool capability_of_op(const capability *c, const reed_op *op, text_buffer *out_excluded);
/* Appends the lacking part of the call, such as "TopK with f64" or "Resize with mode=cubic"; nothing if the targets
 * have the call. */
void capability_say_lack(const capability *c, const capability_call *call, text_buffer *out);

#endif
