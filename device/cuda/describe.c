/* A CUDA device described as JSON, for reed_devices_json: the driver's version and every card of the machine. The
 * libraries beside the driver: driver/libraries.c. The kernels of this build, and which of them have been proven on a
 * card: driver/driver.h, cuda_proofs. */
#include <stdio.h>

#include "device/cuda/kernels/operators.h"
#include "device/cuda/state.h"

/* Asks the driver, not a context, so that cards that no session uses stay untouched. */
static cu_result describe_card(const cuda_driver *cu, int number, json_writer *json) {
  cu_device card = 0;
  char name[256] = "", capability[32];
  size_t bytes = 0;
  int major = 0, minor = 0, multiprocessors = 0, shared = 0;
  cu_result result = cu->device_get(&card, cu->first_ordinal + number);
  if (!result) result = cu->device_name(name, (int)sizeof name, card);
  if (!result) result = cu->device_memory(&bytes, card);
  if (!result) result = cu->device_attribute(&major, CU_CAPABILITY_MAJOR, card);
  if (!result) result = cu->device_attribute(&minor, CU_CAPABILITY_MINOR, card);
  if (!result) result = cu->device_attribute(&multiprocessors, CU_MULTIPROCESSORS, card);
  if (!result) result = cu->device_attribute(&shared, CU_SHARED_BYTES_OPT_IN, card);
  if (result) return result;
  snprintf(capability, sizeof capability, "%d.%d", major, minor);
  json_begin_object(json, NULL);
  json_integer(json, "number", number);
  json_string(json, "card", name);
  json_integer(json, "card_bytes", (int64_t)bytes);
  json_string(json, "capability", capability);
  json_integer(json, "multiprocessors", multiprocessors);
  json_integer(json, "shared_bytes", shared);
  json_string(json, "tensor_cores", cuda_has_tensor_cores(major) ? "f16 bf16 tf32=1" : "unused");
  json_end_object(json);
  return CU_SUCCESS;
}

static bool is_proven(const cuda_operator *row) {
  for (const cuda_proof *p = cuda_proofs; p->kernel; p++)
    if (!p->card && cuda_operator_launches(row, p->kernel)) return false;
  return true;
}

/* The kernels with their proofs, and the operators that have a kernel without one. */
static void describe_proofs(json_writer *json) {
  json_begin_array(json, "kernels");
  for (const cuda_proof *p = cuda_proofs; p->kernel; p++) {
    json_begin_object(json, NULL);
    json_string(json, "kernel", p->kernel);
    json_string(json, "ptx", p->ptx);
    if (p->card) {
      json_string(json, "proven_on", p->card);
      json_string(json, "proven_driver", p->driver);
      json_string(json, "proven_date", p->date);
    }
    json_end_object(json);
  }
  json_end_array(json);
  json_begin_array(json, "emulated_only");
  for (const cuda_operator *row = cuda_operators; row->name; row++)
    if (!is_proven(row)) json_string(json, NULL, row->name);
  json_end_array(json);
}

void cuda_describe(const device *opened, json_writer *json) {
  int version = 0, n = 0;
  if (opened) {
    const cuda_driver *cu = &((const cuda_device *)opened)->driver;
    char text[32];
    if (!cu->driver_version(&version)) {
      snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
      json_string(json, "driver", text);
    }
    json_begin_array(json, "cards");
    if (cu->device_count(&n)) n = 0;
    for (int i = 0; i < n; i++) (void)describe_card(cu, i, json);
    json_end_array(json);
  }
  if (cuda_proofs->kernel) describe_proofs(json);
  cuda_driver_describe(json);
}
