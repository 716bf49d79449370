/* The profile of kernels (option profile=FILE). Each launch that no graph records is timed by two events and waited
 * for. As the device closes, one line for each kernel that ran is appended to FILE: name, launches, microseconds. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/state.h"

struct cuda_profile {
  FILE *file;
  struct {
    int64_t n_launches;
    double us;
  } kernels[CUDA_KERNELS]; /* the device's lock guards them */
};

reed_status cuda_profile_open(const char *path, cuda_profile **out_profile, reed_diagnosis *diagnosis) {
  cuda_profile *made = mem_calloc(1, sizeof *made);
  if (!made) return diag_no_memory(diagnosis, "the profile of device '" CUDA_DEVICE_NAME "'");
  made->file = fopen(path, "a");
  if (!made->file) {
    mem_free(made);
    return diag_fail(diagnosis, REED_ERROR_DEVICE,
                     "device '" CUDA_DEVICE_NAME "': the file '%s' of option 'profile' cannot be written", path);
  }
  *out_profile = made;
  return REED_OK;
}

cu_result cuda_profile_begin(cuda_queue *queue, cuda_timed *out_timed) {
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  cuda_timed made = {0};
  cu_result result = cu->event_create(&made.begin, 0);
  if (!result) result = cu->event_create(&made.end, 0);
  if (!result) result = cu->event_record(made.begin, queue->stream);
  *out_timed = made;
  return result;
}

cu_result cuda_profile_end(cuda_queue *queue, cuda_timed *timed, cuda_kernel_id kernel, cu_result result) {
  cuda_device *self = cuda_of(&queue->base);
  const cuda_driver *cu = &self->driver;
  float ms = 0;
  if (!result) result = cu->event_record(timed->end, queue->stream);
  if (!result) result = cu->event_synchronize(timed->end);
  if (!result) result = cu->event_elapsed(&ms, timed->begin, timed->end);
  if (timed->begin) (void)cu->event_destroy(timed->begin);
  if (timed->end) (void)cu->event_destroy(timed->end);
  if (result) return result;
  uv_mutex_lock(&self->lock);
  self->profile->kernels[kernel].n_launches++;
  self->profile->kernels[kernel].us += (double)ms * 1e3;
  uv_mutex_unlock(&self->lock);
  return CU_SUCCESS;
}

void cuda_profile_close(cuda_profile *self) {
  if (!self) return;
  for (int id = 0; id < CUDA_KERNELS; id++)
    if (self->kernels[id].n_launches)
      fprintf(self->file, "%s\t%lld\t%.3f\n", cuda_kernel_infos[id].name, (long long)self->kernels[id].n_launches,
              self->kernels[id].us);
  fclose(self->file);
  mem_free(self);
}
