/* Describes the devices of this machine as JSON: for each kind whether it can be opened, the reason if not, what is
 * missing and the command that gets it. A module describes its own devices (device_module.describe); the host is
 * described here. */
#include <string.h>
#include <uv.h>

#include "base/json.h"
#include "base/processors.h"
#include "device/module.h"
#include "ops/cpu/common/cpu.h"
#include "reed/device.h"

static void describe_host(json_writer *json) {
  uv_cpu_info_t *cpus = NULL;
  int n = 0;
  if (uv_cpu_info(&cpus, &n) == 0) {
    if (n > 0 && cpus[0].model) json_string(json, "cpu", cpus[0].model);
    uv_free_cpu_info(cpus, n);
  }
  json_string(json, "level", cpu_level_name(cpu_level_now()));
  json_integer(json, "threads", processors_count());
}

static void describe_kind(json_writer *json, const reed_device_info *kind) {
  device *opened = NULL;
  const device_module *module = NULL;
  reed_diagnosis said = {0};
  bool is_host = strcmp(kind->name, "host") == 0;
  reed_status status = device_open(kind->name, &opened, &said);
  json_begin_object(json, NULL);
  json_string(json, "name", kind->name);
  json_string(json, "summary", kind->summary);
  json_bool(json, "ready", status == REED_OK);
  if (status != REED_OK) json_string(json, "reason", said.message);
  if (is_host) {
    describe_host(json);
  } else if (device_module_find(kind->name, &module, NULL) != REED_OK) {
    json_begin_array(json, "missing");
    json_begin_object(json, NULL);
    json_string(json, "what", "the device's module, which is built where its compiler is (docs/gpu.md)");
    json_string(json, "command", "meson setup build && ninja -C build");
    json_end_object(json);
    json_end_array(json);
  }
  if (opened) {
    device_memory memory;
    opened->interface->memory(opened, &memory);
    if (memory.total_bytes) json_integer(json, "memory_bytes", memory.total_bytes);
  }
  if (module && module->describe) module->describe(opened, json);
  json_end_object(json);
  device_close(&opened);
}

reed_status reed_devices_json(char **out_json, reed_diagnosis *diagnosis) {
  if (!out_json) return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_devices_json: a place for the text is needed");
  json_writer writer = {0}, *json = &writer;
  reed_device_info kind;
  json_begin_object(json, NULL);
  json_begin_array(json, "devices");
  for (size_t i = 0; reed_device_kind(i, &kind); i++) describe_kind(json, &kind);
  json_end_array(json);
  json_end_object(json);
  return json_finish(json, out_json, diagnosis, "the devices as JSON");
}
