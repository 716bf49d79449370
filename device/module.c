/* Loadable devices: finds and loads a module's file, refuses a cut file and a module of another version or other
 * sources. Modules stay loaded for the life of the process, because their threads may outlive the last device. Opening
 * devices by name: open.c. */
#include "device/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "device/contract.h"

/* The file of a kind: a path is taken as it is; a name is looked up in the folder of the library that holds this code.
 * False: the path is too long. */
static bool file_of(const char *kind, char *out_path, size_t capacity) {
  if (strchr(kind, '/')) return (size_t)snprintf(out_path, capacity, "%s", kind) < capacity;
  Dl_info here;
  const char *slash = dladdr((void *)device_module_find, &here) ? strrchr(here.dli_fname, '/') : NULL;
  int folder = slash ? (int)(slash - here.dli_fname) + 1 : 0;
  return (size_t)snprintf(out_path, capacity, "%.*slibreed-%s.so", folder, folder ? here.dli_fname : "", kind) <
         capacity;
}

typedef enum found { NOTHING, NO_FILE, A_FILE } found; /* NO_FILE: a folder, a pipe, which the loader would wait for */

static found look_for(const char *path) {
  uv_fs_t request;
  found what = NOTHING;
  if (uv_fs_stat(NULL, &request, path, NULL) == 0)
    what = (request.statbuf.st_mode & S_IFMT) == S_IFREG ? A_FILE : NO_FILE;
  uv_fs_req_cleanup(&request);
  return what;
}

bool device_module_present(const char *kind) {
  char path[1024];
  return file_of(kind, path, sizeof path) && look_for(path) == A_FILE;
}

/* True if the file ends before its table of sections, which is a shared object's last part: the loader would map what
 * is missing, and the process would end at its first use (SIGBUS). */
static bool is_cut(const char *path) {
  Elf64_Ehdr head;
  FILE *file = fopen(path, "rb");
  if (!file) return false; /* the loader tells why */
  const bool whole = fread(&head, sizeof head, 1, file) == 1 && fseek(file, 0, SEEK_END) == 0;
  const long bytes = ftell(file);
  fclose(file);
  return whole && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
         (bytes < 0 || (uint64_t)bytes < head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize);
}

/* Loads the file of a kind. A name without a file beside the library is left to the dynamic loader's search path,
 * because an executable that links these rooms lies in another folder than the modules. */
static reed_status load(const char *kind, uv_lib_t *out_library, reed_diagnosis *diagnosis) {
  char path[1024];
  bool named = !strchr(kind, '/');
  if (!file_of(kind, path, sizeof path))
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device '%.64s..': the name is too long", kind);
  found what = look_for(path);
  bool there = what == A_FILE;
  if (what == NO_FILE) return diag_fail(diagnosis, REED_ERROR_DEVICE, "device module '%s' is not a regular file", path);
  if (there && is_cut(path))
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device module '%s' cannot be loaded: the file is cut", path);
  if (!named && !there) return diag_fail(diagnosis, REED_ERROR_DEVICE, "there is no device module at '%s'", path);
  if (uv_dlopen(there ? path : strrchr(path, '/') ? strrchr(path, '/') + 1 : path, out_library) == 0) return REED_OK;
  reed_status status =
      there ? diag_fail(diagnosis, REED_ERROR_DEVICE, "device module '%s' cannot be loaded: %s", path,
                        uv_dlerror(out_library))
            : diag_fail(diagnosis, REED_ERROR_DEVICE, "there is no device '%s' here: no module '%s'", kind, path);
  uv_dlclose(out_library);
  return status;
}

static reed_status check(const char *kind, uv_lib_t *library, const device_module **out_module,
                         reed_diagnosis *diagnosis) {
  void *symbol = NULL;
  if (uv_dlsym(library, DEVICE_MODULE_SYMBOL, &symbol) != 0)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "'%s' is no device module: it has no " DEVICE_MODULE_SYMBOL, kind);
  const device_module *module = ((device_module_fn)symbol)();
  if (!module || !module->version || !module->name)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "'%s' is no device module: its " DEVICE_MODULE_SYMBOL " gives none",
                     kind);
  if (strcmp(module->version, REED_DEVICE_VERSION) != 0)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device module '%s' is of version %s, this library of %s", kind,
                     module->version, REED_DEVICE_VERSION);
  if (module->contract != DEVICE_CONTRACT)
    return diag_fail(diagnosis, REED_ERROR_DEVICE,
                     "device module '%s' was built from other sources than this library (contract %08x there, %08x "
                     "here): build it again",
                     kind, (unsigned)module->contract, (unsigned)DEVICE_CONTRACT);
  if (!strchr(kind, '/') && strcmp(module->name, kind) != 0)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "the module of device '%s' is that of '%s': its file was renamed",
                     kind, module->name);
  *out_module = module;
  return REED_OK;
}

reed_status device_module_find(const char *kind, const device_module **out_module, reed_diagnosis *diagnosis) {
  uv_lib_t library; /* stays open; a file that is loaded again is the same one */
  reed_status status = load(kind, &library, diagnosis);
  if (status != REED_OK) return status;
  status = check(kind, &library, out_module, diagnosis);
  if (status != REED_OK) uv_dlclose(&library);
  return status;
}
