/* The table of `vm`'s subcommands, and the flags that they share. Dispatch, parsing and help need no more than a
 * subcommand's row. The subcommands are in the cmd_*.c files. */
#ifndef TOOLS_COMMAND_H_
#define TOOLS_COMMAND_H_

#include <stdio.h>

#include "tools/flags.h"
#include "tools/picture.h"

/* The values of all subcommands' flags; a subcommand fills the fields that its flags name. */
typedef struct options {
  words arguments; /* the words that are no flags and no flags' values */
  words inputs, outputs, expected, shapes, disabled, plugins, dims;
  const char *output; /* the one file of compile, dis and asm */
  const char *device, *target, *precision, *counts, *graphs, *json, *report, *stats, *trace, *draw, *labels, *card;
  const char *device_flags; /* the flags that `device` was made from; NULL: --device */
  picture_form picture;
  words rtol, atol; /* "R" or "NAME=R" */
  double min_score;
  int64_t seed, threads, runs, warmup, fresh, memory_cap, draw_scale;
  bool ignore_checksum, external_anywhere, keep_outputs, fetch_outputs, devices;
} options;

typedef struct command {
  const char *name;
  const char *synopsis; /* the words after the name */
  const char *summary;  /* one line */
  const char *notes;    /* the end of its help; NULL: none */
  const flag *flags;
  size_t min_arguments, max_arguments; /* numbers of words that are no flags and no flags' values */
  /* Returns an exit status; complains if the command could not do its work. */
  int (*run)(const options *o, complaint *c);
  void (*list)(FILE *out); /* prints a list after the notes; NULL: none */
} command;

/* All subcommands, in the order of the help. */
#define COMMAND_LIST(X) X(compile) X(run) X(test) X(bench) X(plan) X(profile) X(info) X(ops) X(verify) X(dis) X(asm)
#define COMMAND_DECLARE(name) extern const command command_##name;
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* Flags that several subcommands share. */
#define FLAG_END \
  { 0 }
#define FLAG_OF_INPUTS \
  { \
    "--input", "-i", FLAG_WORDS, offsetof(options, inputs), "NAME=VALUE", \
        "an input; NAME= may be left out if the model has one input" \
  }
#define FLAG_OF_PICTURES \
  {"--mean",    NULL, \
   FLAG_TRIPLE, offsetof(options, picture.mean), \
   "R,G,B",     "subtracted from a picture's values in 0..1 (default 0)"}, \
      {"--std",       NULL, \
       FLAG_DIVISORS, offsetof(options, picture.std), \
       "R,G,B",       "the divisor of a picture's values after --mean (default 1)"}, \
  { \
    "--layout", NULL, FLAG_CHOICE, offsetof(options, picture.layout), "L", \
        "chw, nchw, hwc or nhwc (default: the input's own, else chw)", layout_names \
  }
enum { MOST_RUNS = 1000000000 };
#define FLAG_OF_DEVICE \
  { \
    "--device", "-d", FLAG_DEVICES, offsetof(options, device), "DEVICE", \
        "NAME, NAME:NUMBER or a module's path; sim?lacks=Conv+TopK: without these", (const char *const *)device_names \
  }
#define FLAG_OF_GRAPHS \
  { \
    "--graphs", NULL, FLAG_CHOICE, offsetof(options, graphs), "WHEN", \
        "on or off: an accelerator's launches recorded and replayed (default: on, but off while spans are collected)", \
        graphs_names \
  }
#define FLAG_OF_SEED \
  { \
    "--seed", NULL, FLAG_INT, offsetof(options, seed), "N", "of the model's random numbers (default 0)", NULL, 0, \
        INT64_MAX \
  }
#define FLAG_OF_THREADS \
  { "--threads", NULL, FLAG_INT, offsetof(options, threads), "N", "CPU threads (default 0: all)", NULL, 0, 1024 }
#define FLAG_OF_JSON \
  { "--json", NULL, FLAG_TARGET, offsetof(options, json), "FILE", "the figures as JSON ('-': standard output)" }
#define FLAG_OF_MEMORY_CAP \
  { \
    "--memory-cap", NULL, FLAG_BYTES, offsetof(options, memory_cap), "BYTES", \
        "most memory per device; k, M and G may follow (default 0: no cap)" \
  }
#define FLAG_OF_CHECKSUM \
  { \
    "--ignore-checksum", NULL, FLAG_SWITCH, offsetof(options, ignore_checksum), NULL, \
        "let a damaged module reach the verifier" \
  }
#define FLAG_OF_PLUGINS \
  { "--plugin", NULL, FLAG_WORDS, offsetof(options, plugins), "FILE.so", "a shared object with custom operators" }
#define FLAG_OF_DISABLED \
  { \
    "--disable", NULL, FLAG_WORDS, offsetof(options, disabled), "PASS", \
        "leave a pass of the compiler out ('vm help compile' lists them)" \
  }
#define FLAG_OF_COUNTS \
  { \
    "--counts", NULL, FLAG_CHOICE, offsetof(options, counts), "WHERE", \
        "host: the host fetches every count of boxes or elements; device: only counts that an operator needs " \
        "(default: host if the host is among the targets, else device)", \
        counts_names \
  }
#define FLAG_OF_DIMS \
  { \
    "--dim", NULL, FLAG_WORDS, offsetof(options, dims), "NAME=RANGE", \
        "compile for extents of a named dim in a range: 4, 0..4096, 1.. or ..512" \
  }
#define FLAG_OF_EXTERNAL \
  { \
    "--external-anywhere", NULL, FLAG_SWITCH, offsetof(options, external_anywhere), NULL, \
        "read external data of an ONNX model outside of the model's folder too" \
  }
#define FLAG_OF_TOLERANCES \
  {"--rtol",   NULL, \
   FLAG_WORDS, offsetof(options, rtol), \
   "R",        "relative tolerance (default 1e-3); NAME=R for one output only"}, \
  { \
    "--atol", NULL, FLAG_WORDS, offsetof(options, atol), "A", \
        "absolute tolerance (default 1e-5); NAME=A for one output only" \
  }
extern const char *const layout_names[];
extern const char *const graphs_names[];
extern const char *const counts_names[];
/* The kinds of devices: those that can be opened on this machine, NULL, the other kinds that Reed knows, NULL. */
#define MOST_DEVICES 16
extern const char *device_names[];
/* Fills device_names; called once, before flags are parsed. */
void device_names_read(void);

#endif
