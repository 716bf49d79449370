/* Assembler text. A module that was assembled is verified; a verified module is written as text again, which must give
 * the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

const fuzz_target fuzz_this = {"text", FUZZ_TEXT};

void fuzz_seeds(fuzz_corpus *corpus) {
  fuzz_seed_folder(corpus, fuzz_source("examples"), ".rasm", 65536);
  fuzz_seed_folder(corpus, fuzz_source("tests/fuzz/seeds"), ".rasm", 65536);
  fuzz_seed_folder(corpus, fuzz_source("tests/bytecode/text"), ".rasm", 65536);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d) != REED_OK) return 0;
  char *text = malloc(n + 1), *back;
  memcpy(text, bytes, n);
  text[n] = 0;
  void *module, *again;
  size_t n_module, n_again;
  reed_status status = reed_module_assemble(text, NULL, &module, &n_module, d);
  fuzz_seen(status, status == REED_OK ? "assembled" : reed_diagnosis_message(d));
  if (status == REED_OK) {
    status = reed_module_verify(module, n_module, NULL, d);
    fuzz_seen(status, status == REED_OK ? "verified" : reed_diagnosis_message(d));
    if (status == REED_OK) {
      fuzz_accepted();
      if (reed_module_disassemble(module, n_module, NULL, &back, d) != REED_OK)
        fuzz_fail("a verified module has no text: %s", reed_diagnosis_message(d));
      if (reed_module_assemble(back, NULL, &again, &n_again, d) != REED_OK)
        fuzz_fail("the disassembler's text does not assemble: %s", reed_diagnosis_message(d));
      if (n_again != n_module || memcmp(again, module, n_module) != 0)
        fuzz_fail("the text of a module assembles to other bytes");
      reed_text_free(back);
      reed_text_free(again);
    }
    reed_text_free(module);
  }
  free(text);
  reed_diagnosis_close(&d);
  fuzz_heap_end();
  return 0;
}
