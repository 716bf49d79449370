/* Devices by name: one object for each name in a process, counted; the list of kinds. Loading modules: module.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/hook.h"
#include "base/mem.h"
#include "base/text.h"
#include "device/host.h"
#include "device/module.h"
#include "ops/device_options.h"
#include "ops/kernel.h"
#include "reed/device.h"
#include "reed/dlpack.h"

/* A name in parts. */
typedef struct device_name {
  char kind[512]; /* a kind or a module's path */
  int32_t index;
  const char *options;
} device_name;

typedef struct opened {
  struct opened *next;
  device *device;
  char *name;  /* in one form: without ":0" */
  char *shown; /* without options */
  int64_t n_references;
} opened;

static uv_once_t once = UV_ONCE_INIT;
/* Guards the list. Held while a device opens or closes, so that a name has one device at any time. */
static uv_mutex_t lock;
static opened *all;
static void start(void) { (void)!uv_mutex_init(&lock); }

static const device_services services = {&reed_allocator_hook, kernel_cpu};

/* DLDeviceType by kind. */
static const int32_t dlpack_types[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) dlpack,
#include "ops/targets.def"
};

static const reed_device_info kinds[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) {#name, summary, false},
#include "ops/targets.def"
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* True if the system has a file of that name. */
static bool has_file(const char *path) {
  uv_fs_t request;
  bool has = uv_fs_stat(NULL, &request, path, NULL) == 0;
  uv_fs_req_cleanup(&request);
  return has;
}

/* True if the machine has what the kind's module needs to open a device. A GPU is known by the files of its driver,
 * because starting the driver takes longer than a command. */
static bool has_hardware(const char *kind) {
  return strcmp(kind, "cuda") != 0 || has_file("/dev/nvidiactl") || has_file("/dev/dxg");
}

bool reed_device_kind(size_t i, reed_device_info *out_info) {
  if (i >= N_KINDS || !out_info) return false;
  *out_info = kinds[i];
  out_info->present =
      strcmp(kinds[i].name, "host") == 0 || (device_module_present(kinds[i].name) && has_hardware(kinds[i].name));
  return true;
}

static reed_status parse(const char *text, device_name *out_name, reed_diagnosis *diagnosis) {
  const char *options = strchr(text, '?'), *end = options ? options : text + strlen(text), *colon = end;
  *out_name = (device_name){.options = options ? options + 1 : ""};
  if (options && !options[1])
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': options are missing behind the '?'", text);
  while (colon > text && colon[-1] >= '0' && colon[-1] <= '9') colon--;
  bool numbered = colon < end && colon > text + 1 && colon[-1] == ':';
  if (numbered) {
    if (!device_number_read(colon, (size_t)(end - colon), &out_name->index))
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': devices of a kind are numbered 0..%d", text,
                       DEVICES_OF_A_KIND - 1);
    end = colon - 1;
  }
  size_t n = (size_t)(end - text);
  if (n == 0 || n >= sizeof out_name->kind || (memchr(text, ':', n) && !memchr(text, '/', n)))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "'%s' is no device name; the form is NAME, NAME:NUMBER or a path",
                     text);
  memcpy(out_name->kind, text, n);
  return REED_OK;
}

static bool is_kind(const char *name) {
  for (size_t i = 0; i < N_KINDS; i++)
    if (strcmp(kinds[i].name, name) == 0) return true;
  return false;
}

/* A known kind's options are checked before the kind's module, which may be missing, or unable to start. */
static reed_status open_kind(const device_name *name, const char *text, device **out_device,
                             reed_diagnosis *diagnosis) {
  if (strcmp(name->kind, "host") == 0) {
    if (name->index || name->options[0])
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "device '%s': there is one host, without options", text);
    return host_open(out_device, diagnosis);
  }
  const device_module *module = NULL;
  reed_status status =
      is_kind(name->kind) ? device_options_read(name->kind, name->options, NULL, 0, NULL, diagnosis) : REED_OK;
  if (status == REED_OK) status = device_module_find(name->kind, &module, diagnosis);
  if (status != REED_OK) return status;
  return module->open(&services, name->index, name->options, out_device, diagnosis);
}

/* NULL: no memory. */
static char *one_form(const device_name *name, bool with_options) {
  text_buffer text = {0};
  text_append(&text, "%s", name->kind);
  if (name->index) text_append(&text, ":%d", name->index);
  if (with_options && name->options[0]) text_append(&text, "?%s", name->options);
  if (text.failed) text_fini(&text);
  return text.data;
}

static void opened_free(opened *record) {
  mem_free(record->shown);
  mem_free(record->name);
  mem_free(record);
}

/* A module that is no known kind is an extension device. */
static int32_t dlpack_type_of(const char *kind) {
  for (size_t i = 0; i < N_KINDS; i++)
    if (strcmp(kinds[i].name, kind) == 0) return dlpack_types[i];
  return kDLExtDev;
}

static reed_status open_new(const device_name *name, const char *text, opened **out_opened, reed_diagnosis *diagnosis) {
  opened *made = mem_calloc(1, sizeof *made);
  if (!made) return diag_no_memory(diagnosis, "a device");
  made->name = one_form(name, true);
  made->shown = one_form(name, false);
  reed_status status = made->name && made->shown ? open_kind(name, text, &made->device, diagnosis)
                                                 : diag_no_memory(diagnosis, "a device's name");
  if (status != REED_OK) {
    opened_free(made);
    return status;
  }
  made->device->name = made->shown;
  made->device->dlpack_type = dlpack_type_of(name->kind);
  made->device->index = name->index;
  made->next = all;
  all = made;
  *out_opened = made;
  return REED_OK;
}

reed_status device_open(const char *text, device **out_device, reed_diagnosis *diagnosis) {
  device_name name;
  reed_status status = parse(text, &name, diagnosis);
  if (status != REED_OK) return status;
  uv_once(&once, start);
  char *wanted = one_form(&name, true);
  if (!wanted) return diag_no_memory(diagnosis, "a device's name");
  uv_mutex_lock(&lock);
  opened *found = all;
  while (found && strcmp(found->name, wanted) != 0) found = found->next;
  if (!found) status = open_new(&name, text, &found, diagnosis);
  if (status == REED_OK) {
    found->n_references++;
    *out_device = found->device;
  }
  uv_mutex_unlock(&lock);
  mem_free(wanted);
  return status;
}

static bool holds(device *self, const void *data, int64_t bytes) {
  return bytes == 0 || !self->interface->holds || self->interface->holds(self, data, bytes);
}

reed_status device_of_dlpack(int32_t type, int32_t index, const void *data, int64_t bytes, device **out_device,
                             reed_diagnosis *diagnosis) {
  uv_once(&once, start);
  uv_mutex_lock(&lock);
  opened *found = all;
  while (found &&
         !(found->device->dlpack_type == type && found->device->index == index && holds(found->device, data, bytes)))
    found = found->next;
  if (found) {
    found->n_references++;
    *out_device = found->device;
  }
  uv_mutex_unlock(&lock);
  if (found) return REED_OK;
  for (size_t i = 0; i < N_KINDS; i++) {
    if (dlpack_types[i] != type) continue;
    char name[64];
    snprintf(name, sizeof name, "%s:%d", kinds[i].name, index);
    device *self = NULL;
    reed_status status = device_open(name, &self, diagnosis);
    if (status != REED_OK) return REED_ERROR_UNSUPPORTED;
    if (holds(self, data, bytes)) return *out_device = self, REED_OK;
    device_close(&self);
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "the tensor's memory is not that of device '%s'", name);
  }
  return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "no device has DLPack's device type %d", type);
}

/* The link to a device's record. */
static opened **link_of(const device *self) {
  opened **at = &all;
  while ((*at)->device != self) at = &(*at)->next;
  return at;
}

void device_retain(device *self) {
  uv_mutex_lock(&lock);
  (*link_of(self))->n_references++;
  uv_mutex_unlock(&lock);
}

void device_close(device **self) {
  device *closed = *self;
  *self = NULL;
  if (!closed) return;
  uv_mutex_lock(&lock);
  opened **at = link_of(closed), *record = *at;
  if (--record->n_references == 0) {
    *at = record->next;
    closed->interface->close(closed);
    opened_free(record);
  }
  uv_mutex_unlock(&lock);
}
