/* .npy files. An array that was read is written and read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/npy.h"

const fuzz_target fuzz_this = {"npy", FUZZ_BYTES};

void fuzz_seeds(fuzz_corpus *corpus) {
  static const char *const kinds[] = {"<f4", ">f4", "<f8", "<f2", "|V2", "|i1", "<i2", ">i8",
                                      "<i4", "|u1", "<u2", ">u4", "<u8", "|b1", "<c8", "<U3"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int fortran = 0; fortran < 2; fortran++) {
      char file[128 + 96] = "\x93NUMPY\x01\x00\x76\x00";
      int n = snprintf(file + 10, 119, "{'descr': '%s', 'fortran_order': %s, 'shape': (2, 3, 2), }", kinds[i],
                       fortran ? "True" : "False");
      memset(file + 10 + n, ' ', (size_t)(118 - n));
      file[127] = '\n';
      for (int k = 0; k < 96; k++) file[128 + k] = (char)(k * 37);
      fuzz_seed(corpus, file, sizeof file, 128);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  reed_tensor *tensor, *again;
  complaint c;
  int status = npy_read("fuzz.npy", bytes, n, &tensor, &c);
  fuzz_seen((reed_status)status, status == DONE ? "read" : c.text);
  if (status == DONE) {
    fuzz_accepted();
    char *file;
    size_t n_file;
    npy_write(tensor, &file, &n_file);
    if (npy_read("again.npy", file, n_file, &again, &c) != DONE)
      fuzz_fail("what was written cannot be read: %s", c.text);
    if (reed_tensor_elements(again) != reed_tensor_elements(tensor))
      fuzz_fail("written and read again it has other extents");
    reed_tensor_close(&again);
    reed_tensor_close(&tensor);
    free(file);
  }
  fuzz_heap_end();
  return 0;
}
