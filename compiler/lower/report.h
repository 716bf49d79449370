/* Lowering's part of the compile report. */
#ifndef COMPILER_LOWER_REPORT_H_
#define COMPILER_LOWER_REPORT_H_

#include "base/json.h"
#include "compiler/lower/emit.h"

/* Adds members to the open object: placement, epochs with the reasons for their boundaries, copies. */
void lower_report(const lower *l, json_writer *json);

#endif
