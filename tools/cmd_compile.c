/* vm compile: compiles an ONNX file to a module file. Opening and compiling models for all subcommands: model.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/plain.h"

static const char *const precision_names[] = {"f32", "bf16", "f16", NULL, NULL};

static const flag flags[] = {
    {NULL, "-o", FLAG_TARGET, offsetof(options, output), "M.reed", "the file of the module (required)"},
    {"--precision", NULL, FLAG_CHOICE, offsetof(options, precision), "P",
     "of the weights of convolutions and products: f32 (default), bf16, f16; see below", precision_names},
    {"--target", NULL, FLAG_TEXT, offsetof(options, target), "NAMES",
     "the targets of the module (default host,sim); see below"},
    FLAG_OF_COUNTS,
    FLAG_OF_DIMS,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    {"--report", NULL, FLAG_TARGET, offsetof(options, report), "FILE.json",
     "the changes of every pass, epochs, boundaries ('-': standard output)"},
    FLAG_OF_PLUGINS,
    FLAG_END,
};

/* The number of transposes in the report. */
static int count_transposes(const char *report) {
  cJSON *all = cJSON_Parse(report);
  int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(all, "transposes"));
  cJSON_Delete(all);
  return n;
}

/* The changes that a pass made, by the report. */
static int count_changes(const char *report, const char *pass) {
  cJSON *all = cJSON_Parse(report), *row;
  int n = 0;
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(all, "passes")) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "name"));
    if (name && strcmp(name, pass) == 0)
      n = (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(row, "changes"));
  }
  cJSON_Delete(all);
  return n;
}

static int run(const options *o, complaint *c) {
  const char *path = o->arguments.items[0];
  char *report = NULL, size[32], time[32];
  model m = {0};
  if (!o->output) return complain(c, MISUSE, "where does the module go? Give -o M.reed");
  int status = model_compile_to(o, path, o->output, &m, &report, c);
  if (!status && o->report) status = file_write(o->report, report, strlen(report), c);
  if (!status && !target_is_printed())
    printf("compiled %s to %s, %s, in %s; transposes left: %d\n", plain(path), plain(o->output),
           text_bytes((double)m.n_bytes, size, sizeof size), text_us(m.compile_us, time, sizeof time),
           count_transposes(report));
  if (!status && o->precision && strcmp(o->precision, "f32") && !count_changes(report, "precision") &&
      !count_changes(report, "half_products"))
    fprintf(stderr, "note: no product of the model takes %s on the targets '%s'; all weights are as before\n",
            o->precision, o->target ? o->target : "host");
  if (report) reed_text_free(report);
  model_fini(&m);
  return status;
}

/* The passes that --disable takes. */
static void list_passes(FILE *out) {
  fputs("\nPASS is one of\n", out);
  reed_pass_info pass;
  for (size_t i = 0; reed_compile_pass(i, &pass); i++)
    if (!pass.required) fprintf(out, "  %-16s  %s\n", pass.name, pass.summary);
}

static const char notes[] =
    "An error lists all parts of the model that are not supported, by node name; 'vm ops' lists the operators.\n"
    "NAMES are devices with commas between them, such as host,sim or cuda ('vm info --devices' lists the devices). A\n"
    "device's name may have a list of operators that it lacks:\n"
    "sim?lacks=Conv+TopK is sim without Conv and TopK; Conv.f64: without Conv of f64; *.f64: without f64 in any\n"
    "operator; Resize@mode=cubic: without that attribute; sim?only=Conv+Relu: only these operators. An operator that "
    "one\n"
    "of the devices lacks runs on the host, between kernels. 'vm run --device' takes names in the same form; its "
    "device\n"
    "must have all that the module was compiled for.\n"
    "With --precision bf16 or f16 the constant weights of convolutions and products are stored in that precision, in\n"
    "half the bytes. With bf16, values between convolutions that a product would round are stored as bf16 too. On a\n"
    "CPU with AVX512-BF16 the products of bf16 round their input to bf16 and sum in f32, those of Winograd's\n"
    "convolution to fixed point of 16 bits, except where f32 is faster. Weights of f16 are widened where they are\n"
    "multiplied (AVX2): half the memory, and faster than f32 where few rows are multiplied. Elsewhere a program "
    "widens\n"
    "the weights once to f32: no faster than f32, with more memory while it runs. On cuda products read and write\n"
    "halves, as torch.autocast computes them: operands are rounded, sums are f32. Heads of boxes and scores keep f32.\n"
    "Compare results before use: how much they deviate depends on the model.";

const command command_compile = {"compile",
                                 "m.onnx -o m.reed [--target NAMES] [--disable PASS]... [--report FILE.json]",
                                 "compiles an ONNX model to a module file",
                                 notes,
                                 flags,
                                 1,
                                 1,
                                 run,
                                 list_passes};
