/* Damaged modules. Modules that pass loader and verifier are run on the host and on the simulated accelerator, with a
 * budget of instructions, little memory, and inputs that fit the module's declarations. */
#include <stdlib.h>
#include <string.h>

#include "bytecode/format.h"
#include "reed/compiler.h"
#include "tests/fuzz/fuzz.h"

const fuzz_target fuzz_this = {"module", FUZZ_WORDS};

/* The bytes before the payload of constants are hot. */
static void seed_module(fuzz_corpus *corpus, const void *bytes, size_t n) {
  size_t n_hot = n;
  format_header header;
  memcpy(&header, bytes, sizeof header);
  for (uint32_t i = 0; i < header.n_sections; i++) {
    format_section section;
    memcpy(&section, (const char *)bytes + sizeof header + i * sizeof section, sizeof section);
    if (section.id == FORMAT_DATA) n_hot = (size_t)section.offset + 256;
  }
  fuzz_seed(corpus, bytes, n, n_hot);
}

static void seed_texts(fuzz_corpus *corpus, const char *folder) {
  fuzz_corpus texts = {0};
  fuzz_seed_folder(&texts, folder, ".rasm", 1 << 20);
  for (size_t i = 0; i < texts.n; i++) {
    void *bytes;
    size_t n;
    char *text = malloc(texts.items[i].n + 1);
    memcpy(text, texts.items[i].bytes, texts.items[i].n);
    text[texts.items[i].n] = 0;
    if (reed_module_assemble(text, NULL, &bytes, &n, NULL) == REED_OK) {
      /* small modules are seeds four times, because they are worth more tries */
      for (int k = 0; k < 4; k++) seed_module(corpus, bytes, n);
      reed_text_free(bytes);
    }
    free(text);
    free(texts.items[i].bytes);
  }
  free(texts.items);
}

static void seed_models(fuzz_corpus *corpus, const char *folder, size_t most) {
  fuzz_corpus models = {0};
  fuzz_seed_folder(&models, folder, ".onnx", most);
  for (size_t i = 0; i < models.n; i++) {
    void *bytes;
    size_t n;
    if (reed_compile_bytes(models.items[i].bytes, models.items[i].n, NULL, &bytes, &n, NULL, NULL) == REED_OK) {
      seed_module(corpus, bytes, n);
      reed_text_free(bytes);
    }
    free(models.items[i].bytes);
  }
  free(models.items);
}

void fuzz_seeds(fuzz_corpus *corpus) {
  seed_texts(corpus, fuzz_source("examples"));
  seed_texts(corpus, fuzz_source("tests/fuzz/seeds"));
  seed_models(corpus, fuzz_source("examples/shapes"), 8 << 20);
  const char *cases = getenv("REED_ONNX_CASES"); /* ONNX's own node cases, if this machine has them */
  if (cases) seed_models(corpus, cases, 4096);
}

/* ---- running ---- */

#define ELEMENTS_MOST 65536

/* Unknown extents are small numbers that depend on `variant`; values too. NULL: too large. */
static reed_tensor *make_input(const reed_value_info *info, uint64_t variant) {
  static const int64_t extents[] = {1, 2, 3, 5, 40, 0, 17, 4};
  static const reed_dtype dtypes[] = {REED_F32, REED_I64, REED_BOOL, REED_U8, REED_F16};
  int32_t rank = info->rank < 0 ? (int32_t)(variant % 4) : info->rank;
  int64_t dims[REED_MAX_RANK], n = 1;
  for (int32_t i = 0; i < rank; i++) {
    dims[i] = info->rank >= 0 && info->dims[i] >= 0 ? info->dims[i] : extents[(variant + (uint64_t)(i == 0)) % 8];
    if (dims[i] > ELEMENTS_MOST || (n *= dims[i]) > ELEMENTS_MOST) return NULL;
  }
  reed_dtype dtype = info->dtype == REED_NONE ? dtypes[variant % 5] : info->dtype;
  reed_tensor *tensor;
  if (reed_tensor_open(dtype, rank, dims, &tensor) != REED_OK) return NULL;
  bool floating = dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
  size_t bytes = reed_dtype_bytes(dtype);
  for (int64_t i = 0; i < n; i++) {
    uint64_t h = ((uint64_t)i + variant * 977) * 0x9e3779b97f4a7c15ull >> 40;
    double x = floating             ? (double)(h % 2048) / 1024 - 0.5
               : dtype == REED_BOOL ? (double)(h % 2)
                                    : (double)(h % 5) - (double)(variant % 2);
    reed_dtype_write(dtype, (char *)reed_tensor_data(tensor) + (size_t)i * bytes, x);
  }
  return tensor;
}

static void run_once(reed_session *session, const reed_program *program, uint64_t variant, reed_diagnosis *d) {
  size_t n_inputs = reed_program_input_count(program), n_outputs = reed_program_output_count(program);
  if (n_inputs > 64 || n_outputs > 64) return;
  reed_tensor *inputs[64] = {NULL}, *outputs[64] = {NULL};
  bool made = true;
  for (size_t i = 0; i < n_inputs && made; i++) {
    reed_value_info info;
    made = reed_program_input(program, i, &info) == REED_OK && (inputs[i] = make_input(&info, variant)) != NULL;
  }
  if (made) {
    reed_status status = reed_session_run(session, inputs, n_inputs, outputs, n_outputs, d);
    fuzz_seen(status, status == REED_OK ? "ran" : reed_diagnosis_message(d));
    for (size_t i = 0; i < n_outputs; i++) {
      if (!outputs[i]) continue;
      volatile uint8_t sum = 0; /* reads every byte of the output */
      for (int64_t k = 0; k < reed_tensor_bytes(outputs[i]); k++)
        sum = (uint8_t)(sum + ((uint8_t *)reed_tensor_data(outputs[i]))[k]);
      reed_tensor_close(&outputs[i]);
    }
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
}

typedef reed_status (*figures_fn)(reed_session *, char **, reed_diagnosis *);
static void ask(reed_session *session, figures_fn figures, reed_diagnosis *d) {
  char *text;
  if (figures(session, &text, d) == REED_OK) reed_text_free(text);
}

static void run(reed_program *program, const char *device, reed_diagnosis *d) {
  reed_session_options options = {.device = device,
                                  .n_threads = 1,
                                  .memory_cap_bytes = 16 << 20,
                                  .memo_entries = 2,
                                  .max_call_depth = 64,
                                  .max_instructions = 20000};
  reed_session *session;
  if (reed_session_open(program, &options, &session, d) != REED_OK) return;
  static const uint64_t variants[] = {0, 0, 3, 4, 5, 0};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) run_once(session, program, variants[i], d);
  ask(session, reed_session_stats_json, d);
  ask(session, reed_session_plan_json, d);
  reed_session_close(&session);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  reed_diagnosis *d;
  reed_program *program;
  reed_program_options options = {.ignore_checksum = true};
  if (reed_diagnosis_open(&d) != REED_OK) return 0;
  reed_status status = reed_program_open_bytes(bytes, n, &options, &program, d);
  fuzz_seen(status, status == REED_OK ? "loaded" : reed_diagnosis_message(d));
  if (status == REED_OK) {
    fuzz_accepted();
    char *text;
    if (reed_program_info_json(program, &text, d) == REED_OK) reed_text_free(text);
    if (n < 65536 && reed_module_disassemble(bytes, n, &options, &text, d) == REED_OK) {
      void *again;
      size_t n_again;
      status = reed_module_assemble(text, NULL, &again, &n_again, d);
      if (status != REED_OK) fuzz_fail("its own text does not assemble: %s", reed_diagnosis_message(d));
      reed_text_free(again);
      reed_text_free(text);
    }
    run(program, "host", d);
    run(program, "sim", d);
    reed_program_close(&program);
  }
  reed_diagnosis_close(&d);
  fuzz_heap_end();
  return 0;
}
