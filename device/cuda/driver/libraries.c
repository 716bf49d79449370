/* The software of NVIDIA on this machine, as JSON: the driver if it is missing, and the libraries of kernels, found or
 * not. Opening the driver: open.c. */
#include <stdio.h>

#include "device/cuda/cublas/cublas.h"
#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/driver/driver.h"

static reed_status find_cudnn(reed_diagnosis *diagnosis) {
  cudnn_calls calls;
  return cudnn_find(&calls, diagnosis);
}
static reed_status find_cublas(reed_diagnosis *diagnosis) {
  cublas_calls calls;
  return cublas_find(&calls, diagnosis);
}

void cuda_driver_describe(json_writer *json) {
  static const struct {
    const char *name, *file, *command;
    reed_status (*find)(reed_diagnosis *diagnosis);
  } libraries[] = {
      {"cuDNN", "libcudnn.so.9", "pip install nvidia-cudnn-cu" CUDA_MAJOR, find_cudnn},
      {"cuBLASLt", "libcublasLt.so." CUDA_MAJOR,
       CUDA_BUILT_FOR < 13 ? "pip install nvidia-cublas-cu" CUDA_MAJOR : "pip install nvidia-cublas", find_cublas},
  };
  cuda_driver driver;
  int version = 0;
  bool found = cuda_driver_find(&driver, NULL) == REED_OK;
  if (!found || driver.driver_version(&version) || version / 1000 < CUDA_BUILT_FOR) {
    json_begin_array(json, "missing");
    json_begin_object(json, NULL);
    json_string(json, "what", "an NVIDIA driver for CUDA " CUDA_MAJOR " or newer, from NVIDIA's packages");
    json_string(json, "command", "apt-get install cuda-drivers");
    json_end_object(json);
    json_end_array(json);
  }
  json_begin_array(json, "libraries");
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    reed_diagnosis *reason = NULL;
    const bool may_say = reed_diagnosis_open(&reason) == REED_OK, there = libraries[i].find(reason) == REED_OK;
    json_begin_object(json, NULL);
    json_string(json, "library", libraries[i].name);
    json_string(json, "file", libraries[i].file);
    json_bool(json, "found", there);
    if (!there && may_say) json_string(json, "reason", reed_diagnosis_message(reason));
    if (!there) json_string(json, "command", libraries[i].command);
    reed_diagnosis_close(&reason);
    json_end_object(json);
  }
  json_end_array(json);
}
