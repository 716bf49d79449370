/* The software of NVIDIA on this machine, as JSON: the driver if it is missing, and the libraries of kernels, found or
 * not. Opening the driver: open.c. */
#include <stdio.h>
#include <uv.h>

#include "device/cuda/driver/driver.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define MAJOR TEXT(CUDA_BUILT_FOR)

static bool is_found(const char *file) {
  uv_lib_t library;
  if (uv_dlopen(file, &library) == 0) return true; /* stays open, because these libraries lose memory when closed */
  uv_dlclose(&library);
  return false;
}

void cuda_driver_describe(json_writer *json) {
  static const struct {
    const char *name, *file, *command;
  } libraries[] = {
      {"cuDNN", "libcudnn.so.9", "pip install nvidia-cudnn-cu" MAJOR},
      {"cuBLASLt", "libcublasLt.so." MAJOR,
       CUDA_BUILT_FOR < 13 ? "pip install nvidia-cublas-cu" MAJOR : "pip install nvidia-cublas"},
  };
  cuda_driver driver;
  int version = 0;
  bool found = cuda_driver_find(&driver, NULL) == REED_OK;
  if (!found || driver.driver_version(&version) || version / 1000 < CUDA_BUILT_FOR) {
    json_begin_array(json, "missing");
    json_begin_object(json, NULL);
    json_string(json, "what", "an NVIDIA driver for CUDA " MAJOR " or newer, from NVIDIA's packages");
    json_string(json, "command", "apt-get install cuda-drivers");
    json_end_object(json);
    json_end_array(json);
  }
  json_begin_array(json, "libraries");
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    bool there = is_found(libraries[i].file);
    json_begin_object(json, NULL);
    json_string(json, "library", libraries[i].name);
    json_string(json, "file", libraries[i].file);
    json_bool(json, "found", there);
    if (!there) json_string(json, "command", libraries[i].command);
    json_end_object(json);
  }
  json_end_array(json);
}
