/* The part of the compile report that lowering tells. */
#ifndef COMPILER_LOWER_REPORT_H_
#define COMPILER_LOWER_REPORT_H_

#include "base/json.h"
#include "compiler/lower/emit.h"

/* Members of the object that is open: placement, epochs with the reasons of their boundaries, copies. */
void lower_report(const lower *l, json_writer *json);

#endif
