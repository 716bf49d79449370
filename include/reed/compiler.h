/* ONNX -> module. The second library, libreed-compiler. */
#ifndef REED_COMPILER_H_
#define REED_COMPILER_H_

#include "reed/operator.h"
#include "reed/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum reed_precision { REED_PRECISION_F32, REED_PRECISION_BF16, REED_PRECISION_F16 } reed_precision;

/* Takes a module's bytes in order, piece by piece, so that no copy of the whole need be in memory. Any status but
 * REED_OK ends the writing, and is what the call that wrote returns. */
typedef struct reed_module_sink {
  void *context;
  reed_status (*begin)(void *context, size_t n_bytes); /* once, before the first piece: how many bytes there will be */
  reed_status (*write)(void *context, const void *bytes, size_t n);
} reed_module_sink;

typedef struct reed_compile_options {
  const reed_registry *registry;      /* custom operators; NULL: none */
  const char *const *disabled_passes; /* names of passes to leave out; NULL-terminated; NULL: none */
  reed_precision precision;           /* other than f32: ERROR_UNSUPPORTED for now */
  const char *external_folder;        /* where external tensor files are looked for; NULL: the model file's folder */
  /* Called between passes with a short text and how far along 0..1; NULL: nobody */
  void (*progress)(void *context, const char *what, double done);
  void *progress_context;
  /* Not 0: the compilation ends with ERROR_CANCELLED, soon. Read while it goes on, written by another thread or a
   * signal handler; NULL: nobody asks */
  const int *cancel;
  /* Counts (how many boxes NonMaxSuppression keeps, how many elements NonZero finds) stay on the device as long as
   * operators can run at the bound: the host fetches a count only where an operator needs it (ops/bound.def). Results
   * are the same bits; false: every count is fetched at the end of its epoch */
  bool counts_on_device;
  const reed_module_sink
      *sink; /* where the module goes: *out_bytes becomes NULL, and both may be NULL pointers; NULL: to memory */
  /* Files of external tensors must lie in external_folder, links followed, or in the folder where the model file lies
   * when its own links are followed; others are refused (ERROR_FORMAT). True: they are read wherever the model says. */
  bool external_anywhere;
  /* Called with the path, without links, of each file that is read beside the model; NULL: nobody */
  void (*reading)(void *context, const char *path);
  void *reading_context;
  /* What the module is to run on: names with commas between them, each with what it lacks ("sim?lacks=Conv+TopK.f64";
   * see `vm help compile`); operators that one of them lacks are placed on the host. NULL: "host,sim" */
  const char *target;
} reed_compile_options;

/* Compiles the ONNX file to module bytes (released with reed_text_free((char *)bytes)) and a report of what every pass
 * did (JSON; NULL: not wanted). Unsupported operators, attributes and dtypes are all listed in one diagnosis, by node
 * name (ERROR_UNSUPPORTED). */
REED_API REED_MUST_CHECK reed_status reed_compile_file(const char *onnx_path, const reed_compile_options *options,
                                                       void **out_bytes, size_t *out_n_bytes, char **out_report_json,
                                                       reed_diagnosis *diagnosis);
REED_API REED_MUST_CHECK reed_status reed_compile_bytes(const void *onnx, size_t n_onnx,
                                                        const reed_compile_options *options, void **out_bytes,
                                                        size_t *out_n_bytes, char **out_report_json,
                                                        reed_diagnosis *diagnosis);
/* The passes' names, NULL-terminated, static: for --disable and its "did you mean". */
REED_API const char *const *reed_compile_pass_names(void);

/* A tensor from the bytes of an ONNX TensorProto, as test cases keep their inputs and outputs (input_0.pb). *out_name
 * (NULL: not wanted) is released with reed_text_free; "" where the file gives none. ERROR_UNSUPPORTED for dtypes that
 * Reed has not, ERROR_FORMAT for damaged bytes. */
REED_API REED_MUST_CHECK reed_status reed_onnx_read_tensor(const void *bytes, size_t n_bytes, char **out_name,
                                                           reed_tensor **out_tensor, reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
