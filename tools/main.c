/* The `vm` command: finds the subcommand, parses its flags, runs it, and prints the complaint if it failed. Exit
 * statuses are in tools/exit_status.h. */
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/files.h"
#include "tools/interrupt.h"
#include "tools/plain.h"

static const command *const commands[] = {
#define COMMAND_ROW(name) &command_##name,
    COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char value_notes[] = "VALUE is one of\n"
                                  "  @FILE.npy                     a NumPy array\n"
                                  "  @FILE.png  @FILE.jpg          a picture: RGB, channels first, f32 in 0..1 "
                                  "(--mean, --std and --layout change that)\n"
                                  "  2x3xf32=1,2,3,4,5,6           extents, dtype, elements\n"
                                  "  2x3xf32=0.5                   every element the same\n"
                                  "  f32=1                         a scalar\n"
                                  "  3x480x640xf32=rand:7          random numbers of that seed: floats in 0..1, u8 and "
                                  "i8 over all they hold, other integers 0..9\n"
                                  "dtypes: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool\n";

static const char step_notes[] =
    "First steps with an exported model:\n"
    "  vm info m.onnx                                names, dtypes and extents of its inputs and outputs\n"
    "  vm run m.onnx -i image=@photo.jpg             runs it; -o NAME=FILE.npy saves an output, --expect NAME=FILE.npy "
    "compares one\n"
    "  vm compile m.onnx -o m.reed                   once; every command then opens m.reed without compiling\n"
    "  vm bench m.reed -i image=@photo.jpg           its latency and memory\n";

static const char exit_notes[] = "Exit status: 0 done, and all as expected; 1 results differ or a case failed; 2 "
                                 "misuse; 3 a bad file or model; 4 a failed run; 130 ended by a signal (a "
                                 "second one does not wait for the cleaning up)\n";

static const command *find(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  return NULL;
}

static void print_overview(FILE *out) {
  fprintf(out, "vm %s: compiles and runs models whose tensor shapes are known only while they run\n\n", reed_version());
  for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  vm %-9s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(out, "  vm %-9s %s\n", "help", "this, or all about one COMMAND, as 'vm COMMAND --help' does");
  fprintf(out,
          "\n%s\nM is a .reed file (a compiled module), or an .onnx or .pb file (an ONNX model), which is compiled in "
          "memory first.\n\n%s\n%s",
          step_notes, value_notes, exit_notes);
}

static void print_flag(FILE *out, const flag *f) {
  char left[100];
  snprintf(left, sizeof left, "%s%s%s%s%s", f->short_name ? f->short_name : "",
           f->short_name && f->name ? ", "
           : f->short_name          ? ""
                                    : "    ",
           f->name ? f->name : "", f->argument ? " " : "", f->argument ? f->argument : "");
  fprintf(out, strlen(left) > 28 ? "  %s\n  %-28s  " : "  %-28s%s  ", left, "");
  fprintf(out, "%s", f->help);
  for (size_t i = 0; f->type == FLAG_DEVICES && f->choices[i]; i++)
    fprintf(out, "%s%s%s", i ? ", " : "; here: ", f->choices[i], i ? "" : " (default)");
  fputc('\n', out);
}

static void print_help(FILE *out, const command *command) {
  fprintf(out, "vm %s %s\n\n%s\n", command->name, command->synopsis, command->summary);
  if (command->flags[0].name || command->flags[0].short_name) fputc('\n', out);
  bool values = false;
  for (const flag *f = command->flags; f->name || f->short_name; f++) {
    if (f->help) print_flag(out, f);
    values = values || (f->argument && strcmp(f->argument, "NAME=VALUE") == 0);
  }
  if (command->notes) fprintf(out, "\n%s\n", command->notes);
  if (command->list) command->list(out);
  if (values) fprintf(out, "\n%s", value_notes);
}

static int unknown_command(const char *name, complaint *c) {
  const char *names[N_COMMANDS + 1] = {[N_COMMANDS] = "help"};
  for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i]->name;
  char near[200];
  return complain(c, MISUSE, "no command '%s'%s ('vm help' lists them)", name,
                  suggestion(name, names, N_COMMANDS + 1, near, sizeof near));
}

static int help(int n_words, const char *const *words, complaint *c) {
  if (n_words > 1) return complain(c, MISUSE, "one word too many ('%s'): vm help [COMMAND]", words[1]);
  if (n_words == 0) {
    print_overview(stdout);
    return DONE;
  }
  if (strcmp(words[0], "help") == 0) {
    puts("vm help [COMMAND]\n\nall commands, or all about one");
    return DONE;
  }
  const command *command = find(words[0]);
  if (!command) return unknown_command(words[0], c);
  print_help(stdout, command);
  return DONE;
}

static int run_command(const command *command, int n_words, const char *const *words, complaint *c) {
  options o = {.draw_scale = 1, .runs = -1, .warmup = -1};
  int status = flags_parse(command->flags, n_words, words, &o, &o.arguments, c);
  if (!status && o.arguments.n < command->min_arguments)
    status = complain(c, MISUSE, "%.*s is missing: vm %s %s", (int)strcspn(command->synopsis, " "), command->synopsis,
                      command->name, command->synopsis);
  else if (!status && o.arguments.n > command->max_arguments)
    status = complain(c, MISUSE, "one word too many ('%s'): vm %s %s", o.arguments.items[o.arguments.n - 1],
                      command->name, command->synopsis);
  for (const flag *f = command->flags; !status && (f->name || f->short_name); f++) {
    const char *target = f->type == FLAG_TARGET ? *(const char **)((char *)&o + f->offset) : NULL;
    if (target) status = target_announce(target, flag_name(f), c);
  }
  if (!status) status = command->run(&o, c);
  flags_fini(command->flags, &o);
  words_fini(&o.arguments);
  return status;
}

int main(int n_arguments, char **arguments) {
  interrupt_begin();
  device_names_read();
  const char *const *words = (const char *const *)arguments + 1;
  int n_words = n_arguments - 1;
  complaint c = {0};
  const char *name = n_words > 0 ? words[0] : "";
  const command *command = find(name);
  int status;
  if (!*name) {
    print_overview(stderr);
    return MISUSE;
  }
  for (int i = 1; command && i < n_words && strcmp(words[i], "--"); i++)
    if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
      print_help(stdout, command);
      return DONE;
    }
  if (strcmp(name, "--version") == 0) {
    printf("vm %s\n", reed_version());
    status = DONE;
  } else if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    status = help(n_words - 1, words + 1, &c);
  } else {
    status = command ? run_command(command, n_words - 1, words + 1, &c) : unknown_command(name, &c);
  }
  progress_end();
  if (interrupted()) status = complain(&c, INTERRUPTED, "interrupted");
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == DONE)
    status = complain(&c, BAD_FILE, "cannot write to standard output");
  if (*c.text) fprintf(stderr, "vm%s%s: %s\n", command ? " " : "", command ? name : "", plain_lines(c.text));
  return status;
}
