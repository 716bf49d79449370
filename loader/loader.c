/* Opens a module from a file or from bytes: the source of the bytes, their owner, and the order of the checks. The
 * checks themselves: file.c, sections.c, sites.c, verify.c. */
#include "loader/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "bytecode/text/text.h"
#include "loader/file.h"
#include "loader/rules.h"
#include "loader/sections.h"
#include "loader/verify.h"
#include "reed/reed.h"

#define FORGET_FROM_BYTES (1 << 20) /* the system takes longer to drop a few pages than they are worth */

/* The bytes that a loaded module borrows, and their owner. */
typedef struct backing {
  void *bytes;
  size_t n_bytes;
  enum { MAPPED, OWNED /* mem_alloc_aligned */, BORROWED } kind;
} backing;

static void backing_close(backing *b) {
  if (!b) return;
  if (b->kind == MAPPED) munmap(b->bytes, b->n_bytes);
  if (b->kind == OWNED) mem_free_aligned(b->bytes);
  mem_free(b);
}

void module_close(module **module_handle) {
  module *m = *module_handle;
  *module_handle = NULL;
  if (!m) return;
  mem_free(m->strings);
  mem_free(m->types);
  mem_free(m->functions);
  if (m->sites)
    mem_free((void *)m->sites[0].attrs.items); /* one block holds the attributes of all sites (sections.c) */
  mem_free(m->sites);
  mem_free(m->site_ops);
  mem_free(m->constants);
  mem_free(m->epochs);
  mem_free(m->epochs_shaped);
  mem_free(m->debug);
  mem_free(m->inputs);
  mem_free(m->outputs);
  backing_close(m->owner);
  mem_free(m);
}

void module_forget(const module *m, const void *data, int64_t n_bytes) {
  const backing *b = m->owner;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) & ~(page - 1),
            end = ((uintptr_t)data + (uintptr_t)n_bytes) & ~(page - 1);
  if (!b || b->kind != MAPPED || n_bytes < FORGET_FROM_BYTES || begin < (uintptr_t)b->bytes ||
      end > (uintptr_t)b->bytes + b->n_bytes)
    return;
  (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only advice */
}

/* A module on its way from the file to verified code. */
typedef struct opening {
  module_file file;
  const load_options *options;
  module *m;
  reed_status status;
  reed_diagnosis *diagnosis;
} opening;

/* All checks but the checksum's. The checks trust no byte of the file, so they need not wait for the checksum. */
static void read_and_verify(void *context) {
  opening *o = context;
  o->m->minor = o->file.minor;
  o->status = module_file_read_sections(&o->file, o->diagnosis);
  if (o->status == REED_OK)
    o->status = sections_read(&o->file, o->options->registry, o->options->cancel, o->m, o->diagnosis);
  if (o->status == REED_OK) o->status = verify_module(o->m, o->options->cancel, o->diagnosis);
}

/* Takes the backing, also on failure. */
static reed_status open_backing(backing *b, const load_options *options, module **out_module,
                                reed_diagnosis *diagnosis) {
  opening o = {.options = options, .m = mem_calloc(1, sizeof *o.m), .diagnosis = diagnosis};
  if (!o.m) {
    backing_close(b);
    return diag_no_memory(diagnosis, "a module");
  }
  o.m->owner = b;
  reed_status status = module_file_read_header(b->bytes, b->n_bytes, &o.file, diagnosis);
  if (status == REED_OK) {
    if (options->ignore_checksum) read_and_verify(&o);
    else status = module_file_check(&o.file, &(checksum_beside){read_and_verify, &o}, options->cancel, diagnosis);
    if (status == REED_OK) status = o.status;
  }
  if (status != REED_OK) {
    module_close(&o.m);
    return status;
  }
  *out_module = o.m;
  return REED_OK;
}

/* False: cancelled. */
static bool copy_bytes(char *to, const char *from, size_t n_bytes, const int *cancel) {
  for (size_t at = 0; at < n_bytes; at += CANCEL_BYTES) {
    if (cancel_asked(cancel)) return false;
    memcpy(to + at, from + at, n_bytes - at < CANCEL_BYTES ? n_bytes - at : CANCEL_BYTES);
  }
  return true;
}

reed_status loader_open_bytes(const void *bytes, size_t n_bytes, const load_options *options, module **out_module,
                              reed_diagnosis *diagnosis) {
  if (options->borrow && (uintptr_t)bytes % FORMAT_ALIGNMENT)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "a module's bytes that are borrowed begin at a multiple of %d",
                     FORMAT_ALIGNMENT);
  backing *b = mem_calloc(1, sizeof *b);
  void *copy = options->borrow ? NULL : mem_alloc_aligned(n_bytes, FORMAT_ALIGNMENT);
  if (!b || !(copy || options->borrow)) {
    mem_free(b);
    mem_free_aligned(copy);
    return diag_no_memory(diagnosis, "a copy of the module's bytes");
  }
  *b = copy ? (backing){copy, n_bytes, OWNED} : (backing){(void *)(uintptr_t)bytes, n_bytes, BORROWED};
  if (copy && !copy_bytes(copy, bytes, n_bytes, options->cancel)) {
    backing_close(b);
    return diag_cancelled(diagnosis);
  }
  return open_backing(b, options, out_module, diagnosis);
}

/* Maps the open file. An empty file is refused here, because it cannot be mapped. */
static reed_status map_file(int file, const char *path, backing *out_backing, reed_diagnosis *diagnosis) {
  struct stat info;
  if (fstat(file, &info) != 0) return diag_fail(diagnosis, REED_ERROR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return diag_fail(diagnosis, REED_ERROR_IO, "%s: not a regular file", path);
  if (info.st_size == 0) return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_HEADER, "%s is empty", path);
  void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) return diag_fail(diagnosis, REED_ERROR_IO, "%s: %s", path, strerror(errno));
  *out_backing = (backing){bytes, (size_t)info.st_size, MAPPED};
  return REED_OK;
}

reed_status loader_open_file(const char *path, const load_options *options, module **out_module,
                             reed_diagnosis *diagnosis) {
  backing *b = mem_calloc(1, sizeof *b);
  if (!b) return diag_no_memory(diagnosis, "a module");
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: does not wait for a pipe's writer */
  reed_status status = file >= 0 ? map_file(file, path, b, diagnosis)
                                 : diag_fail(diagnosis, REED_ERROR_IO, "%s: %s", path, strerror(errno));
  if (file >= 0) close(file);
  if (status != REED_OK) {
    mem_free(b);
    return status;
  }
  return open_backing(b, options, out_module, diagnosis);
}

load_options load_options_of(const reed_program_options *options) {
  return options ? (load_options){options->registry, options->ignore_checksum, options->borrow_bytes, options->cancel}
                 : (load_options){0};
}

reed_status reed_module_verify(const void *bytes, size_t n_bytes, const reed_program_options *options,
                               reed_diagnosis *diagnosis) {
  if (!bytes) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_module_verify: bytes are needed");
  load_options load = load_options_of(options);
  module *m;
  reed_status status = loader_open_bytes(bytes, n_bytes, &load, &m, diagnosis);
  if (status == REED_OK) module_close(&m);
  return status;
}

reed_status reed_module_disassemble(const void *bytes, size_t n_bytes, const reed_program_options *options,
                                    char **out_text, reed_diagnosis *diagnosis) {
  if (!bytes || !out_text)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_module_disassemble: bytes and a place for the text are needed");
  load_options load = load_options_of(options);
  module *m;
  reed_status status = loader_open_bytes(bytes, n_bytes, &load, &m, diagnosis);
  if (status != REED_OK) return status;
  status = text_disassemble(m, load.cancel, out_text, diagnosis);
  module_close(&m);
  return status;
}

reed_status reed_module_assemble(const char *text, const reed_registry *registry, void **out_bytes, size_t *out_n_bytes,
                                 reed_diagnosis *diagnosis) {
  if (!text || !out_bytes || !out_n_bytes)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_module_assemble: a text and a place for the bytes are needed");
  void *bytes;
  size_t n_bytes;
  reed_status status = text_assemble(text, &bytes, &n_bytes, diagnosis);
  if (status != REED_OK) return status;
  reed_program_options options = {.registry = registry};
  status = reed_module_verify(bytes, n_bytes, &options, diagnosis);
  if (status != REED_OK) {
    mem_free(bytes);
    return status;
  }
  *out_bytes = bytes;
  *out_n_bytes = n_bytes;
  return REED_OK;
}
