/* VALUE, the command line's way to write a tensor. No files: '@' is taken out. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/value.h"

const fuzz_target fuzz_this = {"value", FUZZ_TEXT};

void fuzz_seeds(fuzz_corpus *corpus) {
  static const char *const texts[] = {"2x3xf32=1,2,3,4,5,6",
                                      "2x3xf32=0.5",
                                      "f32=1",
                                      "3x48x64xf32=rand:7",
                                      "2xbool=true,false",
                                      "1x1x1x1x1x1x1x1xi8=-128",
                                      "0xf64=",
                                      "4xbf16=1e38,-inf,nan,0x1p-3",
                                      "2xu64=18446744073709551615,0",
                                      "3xi64=-9223372036854775808,1,2",
                                      "i32=rand:0",
                                      "2x2xf16=1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    fuzz_seed(corpus, texts[i], strlen(texts[i]), strlen(texts[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  char *text = malloc(n + 1);
  memcpy(text, bytes, n);
  text[n] = 0;
  for (size_t i = 0; i < n; i++)
    if (text[i] == '@') text[i] = '=';
  reed_desc desc;
  (void)value_parse_extents(text, &desc);
  (void)value_looks_like(text);
  reed_tensor *tensor;
  complaint c;
  if (value_parse_type(text, strcspn(text, "="), &desc)) { /* a large splat is no fault, only slow */
    int64_t elements = 1;
    bool large = false;
    for (int32_t i = 0; i < desc.rank && !large; i++)
      large = __builtin_mul_overflow(elements, desc.dims[i], &elements) || elements > 1 << 20;
    if (large) goto done;
  }
  int status = value_parse(text, &(picture_form){0}, NULL, &tensor, &c);
  fuzz_seen((reed_status)status, status == DONE ? "read" : c.text);
  if (status == DONE) {
    fuzz_accepted();
    reed_tensor_close(&tensor);
  }
done:
  free(text);
  fuzz_heap_end();
  return 0;
}
