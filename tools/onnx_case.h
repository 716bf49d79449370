/* ONNX test cases as for onnx_test_runner: a folder with model.onnx and test_data_set_*\/{input,output}_*.pb.
 */
#ifndef TOOLS_ONNX_CASE_H_
#define TOOLS_ONNX_CASE_H_

#include "tools/model.h"

typedef enum case_result { CASE_PASSED, CASE_FAILED, CASE_UNSUPPORTED } case_result;

/* The folders below (or at) `root` that hold a model.onnx, sorted; each a malloc()ed path appended to *found. BAD_FILE
 * when root can not be read. */
int case_find(const char *root, words *found, complaint *c);
/* Compiles the folder's model, runs its data sets on o's device, compares. CASE_UNSUPPORTED only if the compiler
 * reports it. *out_detail is the reason of a failure, "" for a pass; free()d by the caller. */
case_result case_run(const options *o, const char *folder, char **out_detail);

#endif
