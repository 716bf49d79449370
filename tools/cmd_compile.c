/* vm compile: an ONNX file to a module file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_reader.h"
#include "tools/model.h"

/* Only f32 is supported; the compiler refuses the others in a sentence */
static const char *const precision_names[] = {"f32", NULL, "bf16", "f16", NULL};

static const char *const counts_names[] = {"host", "device", NULL, NULL};

static const flag flags[] = {
    {NULL, "-o", FLAG_TEXT, offsetof(options, output), "M.reed", "where the module goes (needed)"},
    {"--precision", NULL, FLAG_CHOICE, offsetof(options, precision), "P", NULL, precision_names},
    {"--target", NULL, FLAG_TEXT, offsetof(options, target), "NAMES",
     "what it is to run on (default host,sim): see below"},
    {"--counts", NULL, FLAG_CHOICE, offsetof(options, counts), "WHERE",
     "host (default): the host fetches every count of boxes or elements; device: only where an operator needs it",
     counts_names},
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    {"--report", NULL, FLAG_TEXT, offsetof(options, report), "FILE.json", "what every pass did ('-': standard output)"},
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

static int run(const options *o, complaint *c) {
  const char *path = o->arguments.items[0];
  char *report = NULL, size[32], time[32];
  model m = {0};
  if (!o->output) return complain(c, MISUSE, "where does the module go? Give -o M.reed");
  int status = model_compile_to(o, path, o->output, &m, &report, c);
  if (!status && o->report) status = file_write(o->report, report, strlen(report), c);
  if (!status && strcmp(o->output, "-") && (!o->report || strcmp(o->report, "-")))
    printf("compiled %s to %s, %s, in %s; transposes left: %d\n", path, o->output,
           text_bytes((double)m.n_bytes, size, sizeof size), text_us(m.compile_us, time, sizeof time),
           count_transposes(report));
  if (report) reed_text_free(report);
  model_fini(&m);
  return status;
}

static const char notes[] =
    "All that is not supported in a model is said at once, by node name; 'vm ops' lists the operators that are.\n"
    "NAMES are devices with commas between them: host, sim. A device may be told what it lacks: sim?lacks=Conv+TopK "
    "is\n"
    "sim without Conv and TopK; Conv.f64: without f64 in Conv; *.f64: in any operator; Resize@mode=cubic: without "
    "that\n"
    "attribute; sim?only=Conv+Relu: nothing but these. What one of the devices lacks runs on the host, between "
    "kernels.\n"
    "The device of 'vm run --device' is written in the same way, and has to have what the module was compiled for.";

const command command_compile = {"compile",
                                 "m.onnx -o m.reed [--target NAMES] [--disable PASS]... [--report FILE.json]",
                                 "compiles an ONNX model to a module file",
                                 notes,
                                 flags,
                                 1,
                                 1,
                                 run};
