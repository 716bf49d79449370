/* The compiler's API: an ONNX model becomes module bytes. Its code is a library of its own, libreed-compiler. */
#ifndef REED_COMPILER_H_
#define REED_COMPILER_H_

#include "reed/operator.h"
#include "reed/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum reed_precision { REED_PRECISION_F32, REED_PRECISION_BF16, REED_PRECISION_F16 } reed_precision;

/* The place of counts (numbers of boxes that NonMaxSuppression keeps, of elements that NonZero finds) while a module
 * runs. Results are the same bits in each case. */
typedef enum reed_counts {
  /* REED_COUNTS_DEVICE if each of the module's targets is a device that keeps counts ("cuda", "cuda-emulated", "sim"),
   * else REED_COUNTS_HOST, as for "host,sim", because on the host a count is known at no cost */
  REED_COUNTS_BY_TARGET,
  REED_COUNTS_HOST,  /* every count is fetched at the end of its epoch */
  REED_COUNTS_DEVICE /* counts stay on the device as long as operators can run at the bound; the host fetches a count
                        only for an operator that needs it (ops/bound.def) */
} reed_counts;

/* Receives a module's bytes in order, piece by piece, so that the whole module need not be in memory twice. A status
 * other than REED_OK from either function ends the writing; the compile call returns this status. */
typedef struct reed_module_sink {
  void *context;
  reed_status (*begin)(void *context, size_t n_bytes); /* called once, before the first piece, with the module's size */
  reed_status (*write)(void *context, const void *bytes, size_t n);
} reed_module_sink;

typedef struct reed_compile_options {
  const reed_registry *registry;      /* custom operators; NULL: none */
  const char *const *disabled_passes; /* names of passes to leave out; NULL-terminated; NULL: none */
  reed_precision precision;           /* of constant weights of products: bf16 or f16 halve the module. On the host
                                         products read and give f32, on a GPU values of the precision */
  const char *external_folder;        /* folder of the external tensor files; NULL: the model file's folder */
  /* Called between passes with a short text and the progress 0..1; NULL: no such call */
  void (*progress)(void *context, const char *what, double done);
  void *progress_context;
  const reed_module_sink *sink; /* receives the module: *out_bytes becomes NULL, and the parameters out_bytes and
                                   out_n_bytes may be NULL pointers; NULL: the module is returned in memory */
  /* False: files of external tensors must lie in external_folder (links followed) or in the folder of the model file
   * (its own links followed); other files are refused (ERROR_FORMAT). True: files are read from any folder that the
   * model names. */
  bool external_anywhere;
  /* Called with the path (links resolved) of each file that is read besides the model; NULL: no such call */
  void (*reading)(void *context, const char *path);
  void *reading_context;
  /* The targets of the module: names with commas between them, each with a list of operators, dtypes or attributes that
   * it lacks ("sim?lacks=Conv+TopK.f64"; see `vm help compile`). An operator that one of the targets lacks is placed on
   * the host. NULL: "host,sim" */
  const char *target;
  /* A value other than 0 ends the compilation soon, with ERROR_CANCELLED. The compiler polls it; another thread or a
   * signal handler may write it. NULL: the compilation cannot be cancelled */
  const int *cancel;
  reed_counts counts;
  /* Ranges of named dims of the inputs, one for each name: the module is for extents in these ranges only, and a run
   * checks them first. A range of one extent fixes the dim. The compiler folds what follows from the ranges, and
   * sessions size memory by them. A dim whose name is a sum or product of named dims and integers ("past + 1",
   * "2*past") has the range that follows from theirs. A name that no input has: ERROR_ARGUMENT with the list of the
   * names; likewise for ranges that contradict each other */
  const reed_dim_range *dims;
  size_t n_dims;
} reed_compile_options;

/* Compiles the ONNX file to module bytes (released with reed_text_free((char *)bytes)) and a JSON report of each pass's
 * changes (out_report_json NULL: not wanted). One diagnosis lists all unsupported operators, attributes and dtypes by
 * node name (ERROR_UNSUPPORTED). */
REED_API REED_MUST_CHECK reed_status reed_compile_file(const char *onnx_path, const reed_compile_options *options,
                                                       void **out_bytes, size_t *out_n_bytes, char **out_report_json,
                                                       reed_diagnosis *diagnosis);
REED_API REED_MUST_CHECK reed_status reed_compile_bytes(const void *onnx, size_t n_onnx,
                                                        const reed_compile_options *options, void **out_bytes,
                                                        size_t *out_n_bytes, char **out_report_json,
                                                        reed_diagnosis *diagnosis);
/* A pass of the compiler. Static storage. */
typedef struct reed_pass_info {
  const char *name;    /* for reed_compile_options.disabled_passes */
  const char *summary; /* one line */
  bool required;       /* disabling the pass is refused (ERROR_ARGUMENT) */
} reed_pass_info;

/* Pass i in the order in which passes run. False: there are not so many passes, or out_info is NULL. */
REED_API bool reed_compile_pass(size_t i, reed_pass_info *out_info);

/* A tensor from the bytes of an ONNX TensorProto, the form of the inputs and outputs of ONNX test cases (input_0.pb).
 * *out_name (out_name NULL: not wanted) is released with reed_text_free; it is "" for a tensor without a name.
 * ERROR_UNSUPPORTED for dtypes that Reed does not have, ERROR_FORMAT for damaged bytes. */
REED_API REED_MUST_CHECK reed_status reed_onnx_read_tensor(const void *bytes, size_t n_bytes, char **out_name,
                                                           reed_tensor **out_tensor, reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
