/* ONNX files: reader, passes (which run kernels), lowering. Every module that the compiler makes must pass the
 * verifier. */
#include <stdlib.h>

#include "reed/compiler.h"
#include "tests/fuzz/fuzz.h"

const fuzz_target fuzz_this = {"onnx", FUZZ_BYTES};

void fuzz_seeds(fuzz_corpus *corpus) {
  fuzz_seed_folder(corpus, fuzz_source("tests/fuzz/seeds"), ".onnx", 65536);
  const char *cases = getenv("REED_ONNX_CASES"); /* ONNX's own node cases, if this machine has them */
  if (cases) fuzz_seed_folder(corpus, cases, ".onnx", 4096);
  size_t n;
  char *model = fuzz_read(fuzz_source("examples/shapes/shapes.onnx"), &n);
  if (model) fuzz_seed(corpus, model, n, n);
  free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d) != REED_OK) return 0;
  void *module;
  size_t n_module;
  char *report;
  reed_status status = reed_compile_bytes(bytes, n, NULL, &module, &n_module, &report, d);
  fuzz_seen(status, status == REED_OK ? "compiled" : reed_diagnosis_message(d));
  if (status == REED_OK) {
    fuzz_accepted();
    if (reed_module_verify(module, n_module, NULL, d) != REED_OK)
      fuzz_fail("a compiled module does not verify: %s", reed_diagnosis_message(d));
    reed_text_free(module);
    reed_text_free(report);
  }
  reed_tensor *tensor;
  if (reed_onnx_read_tensor(bytes, n, NULL, &tensor, d) == REED_OK) reed_tensor_close(&tensor);
  reed_diagnosis_close(&d);
  fuzz_heap_end();
  return 0;
}
