/* What a target can run: operators, dtypes and attributes, as data that placement, packing and devices read alike.
 *
 * A target is written as devices are (device/device.h): its name in ops/targets.def, perhaps a number, and options:
 *
 *     sim                             all of it
 *     sim?lacks=Conv+TopK.f64         without Conv, and without TopK where an operand is f64
 *     sim?lacks=*.f64                 without f64, in any operator (of what the shape function reads the dtype is free)
 *     sim?lacks=Resize@mode=cubic     without Resize in that mode; Conv@packed: without Conv that has the attribute
 *     sim?only=Conv.f32+Relu          nothing but Conv whose operands may be f32, and Relu
 *
 * An item is OPERATOR or *, then .DTYPE, then @ATTRIBUTE or @ATTRIBUTE=VALUE; an operator of another domain may be
 * written DOMAIN::OPERATOR. `only` comes first: what it does not name is lacking; `lacks` takes away from the rest.
 * Both may be given, with & between them; options that are numbers (seed=7) are the device's business.
 * Targets with commas between them are a list: what one of them lacks the list lacks. */
#ifndef OPS_CAPABILITY_H_
#define OPS_CAPABILITY_H_

#include "base/diag.h"
#include "base/text.h"
#include "ops/op.h"

/* What a call asks of a target. Dtypes: of n_inputs inputs, then of outputs, REED_NONE where absent or not known; they
 * may be NULL. */
typedef struct capability_call {
  const reed_op *op;
  const reed_attrs *attrs;
  const reed_dtype *dtypes;
  int32_t n_inputs, n_dtypes;
} capability_call;

typedef struct capability capability;
/* Of one target or a list of them; NULL means `capability_default`. ERROR_ARGUMENT names the word that is wrong: an
 * operator must be built in or in `registry` (NULL allowed). */
#define CAPABILITY_DEFAULT "host,sim"
reed_status capability_open(const char *targets, const reed_registry *registry, capability **out_capability,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;
void capability_close(capability **c);
/* The targets as they were written; of NULL, "". */
const char *capability_text(const capability *c);
/* True where every target of the list has a kernel for the call; NULL is a target that has everything. */
bool capability_has(const capability *c, const capability_call *call);
/* Appends what of the call is lacking, such as "TopK with f64" or "Resize with mode=cubic"; only where it is. */
void capability_say_lack(const capability *c, const capability_call *call, text_buffer *out);

#endif
