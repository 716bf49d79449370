/* vm verify, vm dis, vm asm: verify a module, and turn it into text and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/interrupt.h"
#include "tools/model.h"
#include "tools/plain.h"

/* ---- verify ---- */

static int verify(const options *o, complaint *c) {
  const char *path = o->arguments.items[0];
  model m = {0};
  char size[32];
  int status = model_read(o, path, &m, c);
  if (!status) {
    reed_program_options settings = {
        .registry = m.registry, .ignore_checksum = o->ignore_checksum, .cancel = interrupt_flag()};
    interrupt_polled_begin();
    reed_status verified = reed_module_verify(m.bytes, m.n_bytes, &settings, m.diagnosis);
    interrupt_polled_end();
    if (interrupted()) status = complain(c, INTERRUPTED, "interrupted");
    else if (verified) status = complain_diagnosis(c, BAD_FILE, path, verified, m.diagnosis);
  }
  if (!status) printf("%s: verified, %s\n", plain(path), text_bytes((double)m.n_bytes, size, sizeof size));
  model_fini(&m);
  return status;
}

static const flag verify_flags[] = {FLAG_OF_CHECKSUM, FLAG_OF_EXTERNAL, FLAG_OF_PLUGINS, FLAG_END};
const command command_verify = {"verify",
                                "M [--ignore-checksum]",
                                "verifies a module, and runs nothing",
                                "docs/verify.md lists the rules by their numbers.",
                                verify_flags,
                                1,
                                1,
                                verify};

/* ---- dis ---- */

static int disassemble(const options *o, complaint *c) {
  const char *path = o->arguments.items[0];
  model m = {0};
  char *text = NULL;
  int status = model_read(o, path, &m, c);
  if (!status) {
    reed_program_options settings = {
        .registry = m.registry, .ignore_checksum = o->ignore_checksum, .cancel = interrupt_flag()};
    interrupt_polled_begin();
    reed_status done = reed_module_disassemble(m.bytes, m.n_bytes, &settings, &text, m.diagnosis);
    interrupt_polled_end();
    if (interrupted()) status = complain(c, INTERRUPTED, "interrupted");
    else if (done) status = complain_diagnosis(c, BAD_FILE, path, done, m.diagnosis);
  }
  if (!status) status = file_write(o->output ? o->output : "-", text, strlen(text), c);
  if (text) reed_text_free(text);
  model_fini(&m);
  return status;
}

static const flag dis_flags[] = {{NULL, "-o", FLAG_TARGET, offsetof(options, output), "FILE.rasm",
                                  "the file of the text (default: standard output)"},
                                 FLAG_OF_DISABLED,
                                 FLAG_OF_EXTERNAL,
                                 FLAG_OF_CHECKSUM,
                                 FLAG_OF_PLUGINS,
                                 FLAG_END};
const command command_dis = {
    "dis", "M [-o FILE.rasm]", "writes a module as text, which 'vm asm' turns back into the same bytes",
    NULL,  dis_flags,          1,
    1,     disassemble};

/* ---- asm ---- */

static int assemble(const options *o, complaint *c) {
  const char *path = o->arguments.items[0];
  model m = {0};
  char *text = NULL, size[32];
  void *bytes = NULL;
  size_t n = 0, n_bytes = 0;
  if (!o->output) return complain(c, MISUSE, "where does the module go? Give -o M.reed");
  int status = model_load_plugins(o, &m, c);
  target_protect(path);
  if (!status) status = file_read(path, &text, &n, c);
  if (!status && strlen(text) != n)
    status = complain(c, BAD_FILE, "'%s' is no text: it has a zero byte at %zu", path, strlen(text));
  if (!status) {
    reed_status done = reed_module_assemble(text, m.registry, &bytes, &n_bytes, m.diagnosis);
    if (done) status = complain_diagnosis(c, BAD_FILE, path, done, m.diagnosis);
  }
  if (!status) status = file_write(o->output, bytes, n_bytes, c);
  if (!status && !target_is_printed())
    printf("assembled %s to %s, %s\n", plain(path), plain(o->output), text_bytes((double)n_bytes, size, sizeof size));
  if (bytes) reed_text_free(bytes);
  free(text);
  model_fini(&m);
  return status;
}

static const flag asm_flags[] = {
    {NULL, "-o", FLAG_TARGET, offsetof(options, output), "M.reed", "the file of the module (required)"},
    FLAG_OF_PLUGINS,
    FLAG_END};
const command command_asm = {
    "asm", "FILE.rasm -o M", "assembles the text of a module", "docs/isa.md describes the instructions.", asm_flags, 1,
    1,     assemble};
