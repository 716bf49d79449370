/* The file around the code: header, versions, features, sections, and items that do not agree with one another. Damaged
 * files of every kind are refused or verified, never run into; every allocation of loading fails once. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "bytecode/format.h"
#include "bytecode/insn.h"
#include "bytecode/text/text.h"
#include "loader/checksum.h"
#include "loader/loader.h"
#include "loader/rules.h"
#include "reed/reed.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static const char source[] =
    ".module \"model\" producer \"test\" \"1\" devices 2\n.type row = f32[n, 4] \"x\"\n.const c \"weights\" = f32[2, "
    "4] {1, 2, 3, 4, 5, 6, 7, 8}\n.const e = i64[0] {}\n"
    ".site add = Add (2 -> 1) \"node/add\"\n.site pool = MaxPool (1 -> 1) \"node/pool\" {kernel_shape = [2, 2], "
    "auto_pad = \"VALID\"}\n"
    ".site elu = Elu (1 -> 1) \"node/elu\" {alpha = 0.5}\n.site fill = ConstantOfShape (1 -> 1) \"\" {value = f32[1] "
    "{2}}\n"
    ".function main (row) -> (row \"y\")\n  const r1, c, device @ \"node/add\"\n  s.dim s0, r0, 0\n"
    "  epoch.enter 0, plan, [r0:shape, r1:shape], [s0]\n  shape.like r2, r0, device\n  shape add, device, [r3], "
    "[r2:shape, r1:shape] @ \"node/add\"\n"
    "  branch.if s0, plan\n  s.const s1, -1\nplan:\n  epoch.plan 0\n  copy r2, r0, input, add, 0\n  invoke add, "
    "device, [r3], [r2, r1] @ \"node/add\"\n  kill r2\n  epoch.end 0\n"
    "  readback r4, r3, output, add, 0\n  kill r3\n  sync\n  switch s0, [x, y]\nx:\n  call helper, [r5], [s2], [r4, "
    "r4], [s0]\ny:\n  return [r4], []\n"
    ".function helper (object, row | 1) -> (object | 1)\n  adt.make r2, 3, [r0, r1]\n  fail \"no\"\n";

static uint8_t *bytes; /* the module, for all cases */
static size_t n_bytes;

static void setup(void) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  void *made;
  reed_status status = reed_module_assemble(source, NULL, &made, &n_bytes, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  bytes = made;
  reed_diagnosis_close(&d);
}

static void teardown(void) { mem_free(bytes); }

static format_header *header(void) { return (format_header *)bytes; }
static format_section *toc(int id) { return (format_section *)(bytes + sizeof(format_header)) + id - 1; }
static void *items(int id) { return bytes + toc(id)->offset; }

static uint64_t sum_of(const uint8_t *data, size_t n) {
  uint64_t sum = 0;
  ck_assert(module_file_checksum(data, n, NULL, NULL, &sum));
  return sum;
}

static void set_checksum(void) {
  format_trailer checksum = sum_of(bytes, n_bytes - sizeof checksum);
  memcpy(bytes + n_bytes - sizeof checksum, &checksum, sizeof checksum);
}

static reed_status load(bool ignore_checksum, reed_diagnosis *d) {
  module *m;
  load_options options = {.ignore_checksum = ignore_checksum};
  reed_status status = loader_open_bytes(bytes, n_bytes, &options, &m, d);
  if (status == REED_OK) module_close(&m);
  return status;
}

/* Loads the bytes as they now are, with a checksum that is right. */
static void refused(const char *rule, const char *has, reed_status wanted) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  set_checksum();
  reed_status status = load(false, d);
  const char *message = reed_diagnosis_message(d);
  ck_assert_msg(status == wanted && strncmp(message, rule, 3) == 0 && strstr(message, has),
                "wanted %s ... %s, got %d: %s", rule, has, status, message);
  reed_diagnosis_close(&d);
}

START_TEST(a_module_is_read_as_it_was_described) {
  module *m;
  ck_assert_int_eq(loader_open_bytes(bytes, n_bytes, &(load_options){0}, &m, NULL), REED_OK);
  ck_assert_str_eq(m->model_name, "model");
  ck_assert_str_eq(m->producer, "test");
  ck_assert_int_eq(m->n_devices, 2);
  ck_assert_uint_eq(m->n_functions, 2);
  ck_assert_str_eq(m->strings[m->functions[1].name], "helper");
  ck_assert_uint_eq(m->n_constants, 2);
  ck_assert_str_eq(m->strings[m->constants[0].name], "weights");
  ck_assert_uint_eq((uintptr_t)m->constants[0].data % 64, 0);
  ck_assert_float_eq(((const float *)m->constants[0].data)[7], 8);
  ck_assert_str_eq(m->strings[~m->types[m->inputs[0]].dims[0]], "n");
  ck_assert_int_eq(m->types[m->inputs[0]].dims[1], 4);
  ck_assert_uint_eq(m->n_epochs, 1);
  int64_t n;
  ck_assert_int_eq(reed_attrs_ints(&m->sites[1].attrs, "kernel_shape", &n)[1], 2);
  ck_assert_str_eq(reed_attrs_string(&m->sites[1].attrs, "auto_pad", ""), "VALID");
  ck_assert_double_eq(reed_attrs_float(&m->sites[2].attrs, "alpha", 0), 0.5);
  ck_assert_float_eq(*(const float *)reed_attrs_find(&m->sites[3].attrs, "value")->data, 2);
  ck_assert_uint_eq(m->n_debug, 3);
  ck_assert_str_eq(m->strings[m->debug[0].node], "node/add");
  module_close(&m);
  ck_assert_ptr_null(m);
}
END_TEST

static int64_t resident_bytes(void) {
  long long total, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%lld %lld", &total, &resident) != 2) resident = 0;
    fclose(f);
  }
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static float sum_of_constant(const module *m) {
  float sum = 0;
  for (int64_t i = 0; i < m->constants[0].desc.dims[0]; i++) sum += ((const float *)m->constants[0].data)[i];
  return sum;
}

/* A module with one megabyte of ones; mem_free'd. */
static void *module_of_ones(size_t *out_n_bytes) {
  enum { N = 1 << 18 };
  text_buffer text = {0};
  text_append(&text, ".module \"m\" producer \"test\" \"1\" devices 1\n.type row = f32[n] \"x\"\n.const c = f32[%d] {1",
              N);
  for (int i = 1; i < N; i++) text_append_bytes(&text, ", 1", 3);
  text_append(&text, "}\n.function main (row) -> (row \"y\")\n  const r1, c, host\n  return [r0], []\n");
  ck_assert(!text.failed);
  void *made;
  ck_assert_int_eq(reed_module_assemble(text.data, NULL, &made, out_n_bytes, NULL), REED_OK);
  text_fini(&text);
  return made;
}

START_TEST(forgotten_constants_leave_memory_and_can_be_read_again) {
  char path[] = "/tmp/test_loader_XXXXXX";
  int file = mkstemp(path);
  size_t n;
  void *made = module_of_ones(&n);
  ck_assert_int_eq((ssize_t)n, write(file, made, n));
  close(file);
  module *mapped, *copied;
  ck_assert_int_eq(loader_open_file(path, &(load_options){0}, &mapped, NULL), REED_OK);
  ck_assert_int_eq(loader_open_bytes(made, n, &(load_options){0}, &copied, NULL), REED_OK);
  mem_free(made);
  int64_t bytes = desc_bytes(&mapped->constants[0].desc), before = resident_bytes();
  module_forget(mapped, mapped->constants[0].data, bytes);
  /* all pages but those that the constant shares with its neighbours */
  ck_assert_int_le(resident_bytes(), before - bytes * 3 / 4);
  module_forget(copied, copied->constants[0].data, bytes); /* a copy stays, because no file has its bytes */
  int ours = 1;                                            /* memory outside of the module */
  module_forget(mapped, &ours, sizeof ours);
  module_forget(mapped, mapped->constants[0].data, 3);
  ck_assert_float_eq(sum_of_constant(mapped), 1 << 18);
  ck_assert_float_eq(sum_of_constant(copied), 1 << 18);
  ck_assert_int_eq(ours, 1);
  module_close(&mapped);
  module_close(&copied);
  unlink(path);
}
END_TEST

START_TEST(bytes_are_borrowed_if_they_are_aligned) {
  char *aligned = mem_alloc_aligned(n_bytes + 64, 64);
  memcpy(aligned, bytes, n_bytes);
  module *m;
  ck_assert_int_eq(loader_open_bytes(aligned, n_bytes, &(load_options){.borrow = true}, &m, NULL), REED_OK);
  ck_assert((const char *)m->constants[0].data > aligned && (const char *)m->constants[0].data < aligned + n_bytes);
  /* borrowed bytes stay, because no file has them */
  module_forget(m, m->constants[0].data, desc_bytes(&m->constants[0].desc));
  module_close(&m);
  ck_assert_mem_eq(aligned, bytes, n_bytes);
  memmove(aligned + 16, aligned, n_bytes);
  ck_assert_int_eq(loader_open_bytes(aligned + 16, n_bytes, &(load_options){.borrow = true}, &m, NULL),
                   REED_ERROR_ARGUMENT);
  ck_assert_int_eq(loader_open_bytes(aligned + 16, n_bytes, &(load_options){0}, &m, NULL), REED_OK);
  module_close(&m);
  mem_free_aligned(aligned);
}
END_TEST

START_TEST(a_file_is_mapped_and_used_in_place) {
  char path[] = "/tmp/test_loader_XXXXXX";
  int file = mkstemp(path);
  ck_assert_int_ge(file, 0);
  ck_assert_int_eq((ssize_t)n_bytes, write(file, bytes, n_bytes));
  close(file);
  module *m;
  ck_assert_int_eq(loader_open_file(path, &(load_options){0}, &m, NULL), REED_OK);
  ck_assert_uint_eq((uintptr_t)m->constants[0].data % 64, 0);
  module_close(&m);
  ck_assert_int_eq(truncate(path, 0), 0);
  ck_assert_int_eq(loader_open_file(path, &(load_options){0}, &m, NULL), REED_ERROR_FORMAT);
  unlink(path);
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(loader_open_file(path, &(load_options){0}, &m, d), REED_ERROR_IO);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(d), path));
  ck_assert_int_eq(loader_open_file("/", &(load_options){0}, &m, d), REED_ERROR_IO);
  reed_diagnosis_close(&d);
}
END_TEST

/* The sections are read while the checksum is computed, and would be refused for another reason. */
START_TEST(damage_is_the_reason_that_is_told) {
  bytes[toc(FORMAT_CODE)->offset] ^= 0xff;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(reed_module_verify(bytes, n_bytes, NULL, d), REED_ERROR_FORMAT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(d), "V03: the file is damaged"));
  ck_assert_int_eq(reed_module_verify(bytes, n_bytes, &(reed_program_options){.ignore_checksum = true}, d),
                   REED_ERROR_FORMAT);
  ck_assert_ptr_null(strstr(reed_diagnosis_message(d), "V03"));
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(a_damaged_byte_is_noticed_unless_checksums_are_ignored) {
  bytes[toc(FORMAT_DATA)->offset] ^= 1;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(load(false, d), REED_ERROR_FORMAT);
  ck_assert_int_eq(strncmp(reed_diagnosis_message(d), "V03: the file is damaged", 24), 0);
  ck_assert_int_eq(load(true, d), REED_OK);
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(other_minor_versions_and_unknown_optional_sections_load) {
  header()->minor = FORMAT_MINOR + 7;
  header()->optional_features = ~0ull;
  toc(FORMAT_METADATA)->id = 4711;
  toc(FORMAT_DEBUG)->id = 4712;
  set_checksum();
  ck_assert_int_eq(load(false, NULL), REED_OK);
}
END_TEST

/* Rule V56 came with minor version 1: a module of version 2.0 that breaks it loads, its epoch marked, and is written as
 * version 2.0 again. */
START_TEST(an_older_module_may_break_a_newer_rule) {
  static const char unshaped[] =
      ".module \"m\" devices 2\n.type row = f32[4] \"x\"\n.site add = Add (2 -> 1)\n.function main (row) -> (row)\n"
      "  epoch.enter 0, p0, [r0:shape], []\n  shape.like r1, r0, device\n  shape.like r2, r0, device\np0: epoch.plan "
      "0\n"
      "  copy r1, r0, input, add, 0\n  invoke add, device, [r2], [r1, r1]\n  kill r1\n  epoch.end 0\n"
      "  epoch.enter 1, p1, [r2:shape], []\n  shape add, device, [r3], [r2:shape, r2:shape]\np1: epoch.plan 1\n"
      "  invoke add, device, [r3], [r2, r2]\n  epoch.end 1\n  return [r0], []\n";
  void *made;
  size_t n_made;
  ck_assert_int_eq(text_assemble(unshaped, &made, &n_made, NULL), REED_OK);
  mem_free(bytes);
  bytes = made, n_bytes = n_made;
  ck_assert_int_eq(header()->minor, FORMAT_MINOR);
  refused("V56", "runs no `shape` of this call site", REED_ERROR_FORMAT);
  header()->minor = 0;
  set_checksum();
  module *m;
  ck_assert_int_eq(loader_open_bytes(bytes, n_bytes, &(load_options){0}, &m, NULL), REED_OK);
  ck_assert(!m->epochs_shaped[0] && m->epochs_shaped[1]);
  module_memory again;
  reed_module_sink sink = module_memory_sink(&again);
  ck_assert_int_eq(module_write(m, &sink, NULL), REED_OK);
  ck_assert(again.n == n_bytes && memcmp(again.bytes, bytes, n_bytes) == 0);
  mem_free(again.bytes);
  module_close(&m);
}
END_TEST

/* A reader that does not know ranges must not run a module that has some, because the compiler relied on the ranges. */
START_TEST(only_ranges_that_exist_must_be_known) {
  ck_assert_uint_eq(toc(FORMAT_RANGES)->flags, 0);
  void *made;
  size_t n_made;
  static const char ranged[] =
      ".module \"m\"\n.function main (f32[n]) -> (f32[n])\n  return [r0], []\n.range n (0, 0) = [1, 4]\n";
  ck_assert_int_eq(text_assemble(ranged, &made, &n_made, NULL), REED_OK);
  mem_free(bytes);
  bytes = made, n_bytes = n_made;
  ck_assert_uint_eq(toc(FORMAT_RANGES)->flags, FORMAT_SECTION_REQUIRED);
  ck_assert_int_eq(load(false, NULL), REED_OK);
  toc(FORMAT_RANGES)->id = 4711;
  set_checksum();
  refused("V04", "section 4711", REED_ERROR_VERSION);
}
END_TEST

START_TEST(a_header_that_is_none_is_refused) {
  header()->magic[3] ^= 1;
  refused("V01", "this is no module file", REED_ERROR_FORMAT);
  header()->magic[3] ^= 1;
  header()->n_bytes++;
  refused("V01", "the header says", REED_ERROR_FORMAT);
  header()->n_bytes--;
  size_t whole = n_bytes;
  for (n_bytes = 0; n_bytes < whole; n_bytes += n_bytes < 128 ? 1 : 61) ck_assert_int_ne(load(true, NULL), REED_OK);
  n_bytes = whole;
  header()->major++;
  refused("V02", "version 3", REED_ERROR_VERSION);
  header()->major--;
  header()->required_features = 1ull << 17;
  refused("V02", "feature bit 17", REED_ERROR_VERSION);
}
END_TEST

START_TEST(sections_must_be_whole_aligned_inside_and_once) {
  const format_section code = *toc(FORMAT_CODE);
  toc(FORMAT_CODE)->offset += 4;
  refused("V04", "CODE", REED_ERROR_FORMAT);
  *toc(FORMAT_CODE) = code, toc(FORMAT_CODE)->n_bytes--;
  refused("V04", "whole number", REED_ERROR_FORMAT);
  *toc(FORMAT_CODE) = code, toc(FORMAT_CODE)->offset = UINT64_MAX - 63;
  refused("V04", "does not fit", REED_ERROR_FORMAT);
  *toc(FORMAT_CODE) = code, toc(FORMAT_CODE)->n_bytes = UINT64_MAX - 3;
  refused("V04", "does not fit", REED_ERROR_FORMAT);
  *toc(FORMAT_CODE) = code, toc(FORMAT_CODE)->id = FORMAT_STRINGS;
  refused("V04", "STRINGS is there twice", REED_ERROR_FORMAT);
  *toc(FORMAT_CODE) = code, toc(FORMAT_CODE)->id = 99, toc(FORMAT_CODE)->flags = 0;
  refused("V04", "CODE is missing", REED_ERROR_FORMAT);
  toc(FORMAT_CODE)->flags = FORMAT_SECTION_REQUIRED;
  refused("V04", "section 99", REED_ERROR_VERSION);
  *toc(FORMAT_CODE) = code;
  header()->n_sections = UINT32_MAX;
  refused("V04", "table of contents", REED_ERROR_FORMAT);
}
END_TEST

/* Makes a field wrong, checks the message, and restores the field. */
#define WRONG(field, value, rule, has) \
  do { \
    __typeof__(field) old_ = field; \
    field = value; \
    refused(rule, has, REED_ERROR_FORMAT); \
    field = old_; \
  } while (0)

START_TEST(items_that_do_not_agree_are_refused) {
  uint32_t *strings = items(FORMAT_STRINGS);
  char *text = items(FORMAT_TEXT);
  WRONG(strings[1], UINT32_MAX, "V05", "string 1");
  WRONG(strings[0], strings[1], "V05", "string 0 is out of order");
  WRONG(strings[2], strings[1], "V05", "string 2 is out of order");
  WRONG(text[strings[1]], (char)0xff, "V05", "not UTF-8");
  format_type *types = items(FORMAT_TYPES);
  WRONG(types[0].dtype, REED_DTYPE_COUNT, "V06", "dtype");
  WRONG(types[0].rank, 9, "V06", "rank 9");
  WRONG(types[0].rank, -2, "V06", "rank -2");
  WRONG(types[0].device, 2, "V06", "device 2 of 2");
  WRONG(types[0].name, 999, "V06", "string 999");
  WRONG(types[0].dims[0], INT64_MIN, "V06", "extent 0");
  WRONG(types[0].flags, 8, "V06", "flags 8");
  format_function *functions = items(FORMAT_FUNCTIONS);
  WRONG(functions[0].name, 999, "V07", "function 0");
  WRONG(functions[1].code_at, 0, "V07", "function 1");
  WRONG(functions[1].n_code, UINT32_MAX, "V07", "function 1");
  WRONG(functions[1].n_code, functions[1].n_code - 1, "V07", "belong to no function");
  WRONG(functions[0].n_r, UINT32_MAX, "V07", "registers");
  WRONG(functions[0].n_r, 0, "V07", "more parameters");
  WRONG(functions[0].params_at, UINT32_MAX, "V07", "signatures");
  WRONG(*(uint32_t *)items(FORMAT_SIGNATURES), 99, "V08", "type 99");
  format_info *info = items(FORMAT_INFO);
  WRONG(info->producer, 999, "V08", "no string");
  WRONG(info->n_devices, 17, "V08", "17 devices");
  WRONG(info->n_devices, 0, "V08", "0 devices");
  WRONG(info->n_inputs, 2, "V08", "2 inputs");
  WRONG(info->outputs_at, 9999, "V08", "signatures");
  WRONG(functions[0].n_s_results, 1, "V08", "scalars");
  WRONG(types[0].device, 1, "V08", "no tensor on the host");
  format_site *sites = items(FORMAT_SITES);
  WRONG(sites[0].node, 999, "V09", "call site 0");
  WRONG(sites[0].n_inputs, -1, "V09", "-1 inputs");
  WRONG(sites[0].n_inputs, 3, "V09", "Add takes 2 to 2");
  WRONG(sites[0].n_outputs, 0, "V09", "Add gives 1 to 1");
  WRONG(sites[1].attributes_at, 7, "V10", "call site 1");
  format_attribute *attributes = items(FORMAT_ATTRIBUTES); /* auto_pad, kernel_shape; alpha; value */
  WRONG(attributes[0].name, 999, "V10", "attribute 0");
  WRONG(attributes[0].type, 77, "V10", "unknown type 77");
  WRONG(attributes[0].value, 999, "V10", "not there");
  WRONG(attributes[0].name, attributes[1].name, "V10", "out of order");
  WRONG(attributes[1].value, UINT64_MAX - 7, "V10", "not there");
  WRONG(attributes[1].n, INT64_MAX, "V10", "not there");
  WRONG(attributes[1].n, -1, "V10", "not there");
  WRONG(attributes[1].type, REED_ATTR_INT, "V10", "is of type");
  WRONG(attributes[3].value, 4, "V10", "not there");
  WRONG(attributes[3].dims[0], INT64_MAX, "V10", "not there");
  format_constant *constants = items(FORMAT_CONSTANTS);
  WRONG(constants[0].dims[0], 3, "V11", "'weights'");
  WRONG(constants[0].dims[0], INT64_MAX, "V11", "no valid type");
  WRONG(constants[0].dtype, 0, "V11", "no valid type");
  WRONG(constants[0].rank, 9, "V11", "no valid type");
  WRONG(constants[0].n_bytes, 31, "V11", "31 bytes");
  WRONG(constants[0].data_at, constants[0].data_at + 4, "V11", "not aligned");
  WRONG(constants[0].data_at, UINT64_MAX - 63, "V11", "not inside");
  WRONG(constants[0].name, 999, "V11", "string 999");
  module_debug *debug = items(FORMAT_DEBUG);
  WRONG(debug[1].pc, debug[0].pc, "V12", "out of order");
  WRONG(debug[1].function, 9, "V12", "function 9");
  WRONG(debug[1].node, 999, "V12", "string 999");
  module_epoch *epochs = items(FORMAT_EPOCHS);
  WRONG(epochs[0].plan, epochs[0].enter, "V50", "epoch 0");
  WRONG(epochs[0].end, UINT32_MAX, "V50", "epoch 0");
  WRONG(epochs[0].function, 1, "V50", "epoch 0");
  uint32_t *code = items(FORMAT_CODE);
  WRONG(code[0], 0xffff, "V20", "begins no instruction");
  WRONG(code[0], code[0] + 0x10000, "V20", "word 0");
  ck_assert_int_eq(load(true, NULL), REED_OK);
}
END_TEST

START_TEST(an_operator_or_attribute_that_does_not_exist_is_named) {
  static const struct {
    const char *site, *rule, *has;
  } cases[] = {
      {"Adds (2 -> 1) \"node\"", "V09", "there is no operator 'Adds'"},
      {"Add in \"com.acme\" (2 -> 1) \"node\"", "V09", "'Add' in domain com.acme"},
      {"MaxPool (1 -> 1) \"node\"", "V10", "needs the attribute 'kernel_shape'"},
      {"Add (2 -> 1) \"node\" {axis = 1}", "V10", "Add has no attribute 'axis'"},
  };
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    snprintf(text, sizeof text, ".site s = %s\n.function main ()\n  return [], []\n", cases[i].site);
    void *made;
    size_t n;
    ck_assert_int_lt(reed_module_assemble(text, NULL, &made, &n, d), 0);
    ck_assert_msg(strncmp(reed_diagnosis_message(d), cases[i].rule, 3) == 0 &&
                      strstr(reed_diagnosis_message(d), cases[i].has),
                  "%s", reed_diagnosis_message(d));
    ck_assert_str_eq(reed_diagnosis_node(d), "node");
  }
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(every_allocation_of_loading_may_fail) {
  for (int64_t k = 1, more = 1; more; k++) {
    alloc_hook_begin();
    alloc_hook_fail_at(k);
    reed_status status = load(false, NULL);
    more = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_int_eq(status, more ? REED_ERROR_MEMORY : REED_OK);
  }
}
END_TEST

/* Builds with sanitizers notice more faults than this build. */
START_TEST(damaged_modules_never_crash) {
  uint8_t *whole = mem_copy(bytes, n_bytes);
  uint64_t seed = (uint64_t)_i + 1;
  size_t n_whole = n_bytes, n_loaded = 0, tail = (size_t)toc(FORMAT_DATA)->offset;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (int i = 0; i < 5000; i++) {
    memcpy(bytes, whole, n_whole);
    for (int k = 0; k < 1 + i % 4; k++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      size_t at = (seed >> 33) % tail;
      static const uint8_t values[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff, 0xfe};
      bytes[at] = seed & 1 ? values[seed >> 20 & 7] : (uint8_t)(bytes[at] + (seed >> 12 & 3) - 1);
    }
    if (i % 16 == 0) n_bytes = header()->n_bytes = (seed >> 30) % n_whole;
    n_loaded += load(true, d) == REED_OK;
    char *text = NULL;
    reed_program_options ignore = {.ignore_checksum = true};
    if (reed_module_disassemble(bytes, n_bytes, &ignore, &text, d) == REED_OK) mem_free(text);
    n_bytes = n_whole;
  }
  ck_assert_uint_gt(n_loaded, 0); /* some damage is harmless */
  reed_diagnosis_close(&d);
  mem_free(whole);
}
END_TEST

START_TEST(every_rule_of_the_file_is_broken_above) {
  /* The rules of the cases above. A new rule with a number below 20 fails here until it has a case. */
  static const int tested[] = {RULE_HEADER,    RULE_VERSION,   RULE_CHECKSUM,  RULE_SECTIONS, RULE_STRINGS,
                               RULE_TYPES,     RULE_FUNCTIONS, RULE_INTERFACE, RULE_SITES,    RULE_ATTRIBUTES,
                               RULE_CONSTANTS, RULE_DEBUG,     RULE_RANGES /* test_rules.c */};
  int n_file_rules = 0;
  for (int i = 0; i < VERIFY_RULE_COUNT; i++) n_file_rules += verify_rules[i].number < 20;
  ck_assert_int_eq(n_file_rules, (int)(sizeof tested / sizeof *tested));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("loader");
  TCase *c = tcase_create("loader");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 120);
  suite_add_tcase(suite, c);
  tcase_add_test(c, a_module_is_read_as_it_was_described);
  tcase_add_test(c, a_file_is_mapped_and_used_in_place);
  tcase_add_test(c, forgotten_constants_leave_memory_and_can_be_read_again);
  tcase_add_test(c, bytes_are_borrowed_if_they_are_aligned);
  tcase_add_test(c, damage_is_the_reason_that_is_told);
  tcase_add_test(c, a_damaged_byte_is_noticed_unless_checksums_are_ignored);
  tcase_add_test(c, other_minor_versions_and_unknown_optional_sections_load);
  tcase_add_test(c, only_ranges_that_exist_must_be_known);
  tcase_add_test(c, an_older_module_may_break_a_newer_rule);
  tcase_add_test(c, a_header_that_is_none_is_refused);
  tcase_add_test(c, sections_must_be_whole_aligned_inside_and_once);
  tcase_add_test(c, items_that_do_not_agree_are_refused);
  tcase_add_test(c, an_operator_or_attribute_that_does_not_exist_is_named);
  tcase_add_test(c, every_allocation_of_loading_may_fail);
  tcase_add_loop_test(c, damaged_modules_never_crash, 0, 4);
  tcase_add_test(c, every_rule_of_the_file_is_broken_above);
  return suite_run(suite);
}
