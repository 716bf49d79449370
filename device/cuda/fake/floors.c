/* The least time of each kernel on an H100, from the plans of launches that a process has carried out under the
 * emulation: the larger of the time for the operands' bytes and the time for the arithmetic, by the data sheet. An
 * operand counts with all of its bytes, a counted one with those of its bound; arithmetic is that of products,
 * convolutions, attention and recurrent cells, and one operation an element of the others that compute. bench/
 * gpu_floors.py prints the sums. */
#include <pthread.h>
#include <string.h>

#include "device/cuda/fake/state.h"
#include "device/cuda/kernels/kernel.h"
#include "reed/status.h"

/* NVIDIA H100 SXM 80 GB, data sheet: bytes and operations a second (tensor cores without sparsity). */
static const double bandwidth = 3.35e12, peak_f32 = 66.9e12, peak_f64 = 33.5e12, peak_tf32 = 494.7e12,
                    peak_halves = 989.4e12;

typedef struct reed_fake_floor {
  const char *kernel;
  int64_t launches;
  double read_bytes, written_bytes, operations, seconds, seconds_of_bytes;
} reed_fake_floor;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static reed_fake_floor floors[CUDA_KERNELS]; /* guarded by the lock */

static double product_of(const int64_t *extents, int32_t n) {
  double product = 1;
  for (int32_t i = 0; i < n; i++) product *= (double)extents[i];
  return product;
}

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

static bool ends(const char *name, const char *with) {
  const size_t n = strlen(name), m = strlen(with);
  return n >= m && strcmp(name + n - m, with) == 0;
}

static double operations_of(const char *name, const void *args) {
  if (begins(name, "reed_product_")) {
    const product_args *a = args;
    return 2.0 * (double)a->m * (double)a->n * (double)a->k * product_of(a->batch_dims, a->batch_rank);
  }
  if (begins(name, "reed_conv_transpose_")) {
    const conv_transpose_args *a = args;
    return 2.0 * (double)(a->images * a->groups * a->c) * (double)(a->m * a->taps) * product_of(a->in, a->axes);
  }
  if (begins(name, "reed_conv_")) {
    const conv_args *a = args;
    return 2.0 * (double)a->pixels * (double)(a->groups * a->m) * (double)(a->c * a->taps);
  }
  if (strcmp(name, "reed_deform") == 0) {
    const deform_args *a = args;
    return 2.0 * (double)a->n * (double)(a->group_channels * a->kernel[0] * a->kernel[1]);
  }
  if (begins(name, "reed_attention_") && !begins(name, "reed_attention_join_")) {
    const attention_args *a = args;
    return 2.0 * (double)(a->batch * a->kv_heads * a->shared) * (double)(a->queries * a->total) *
           (double)(a->size + a->value_size);
  }
  if (begins(name, "reed_recurrent_")) {
    const recurrent_args *a = args;
    return 2.0 * (double)(a->directions * a->steps * a->sequences) * (double)(a->gates * a->hidden * a->hidden);
  }
  if (strcmp(name, "reed_map") == 0) return (double)((const map_args *)args)->n * ((const map_args *)args)->n_steps;
  if (strcmp(name, "reed_map_words") == 0) {
    const map_words_args *a = args;
    return (double)a->n * a->n_steps * (a->counted.count ? (double)a->counted.capacity : 1);
  }
  if (strcmp(name, "reed_reduce") == 0)
    return (double)((const reduce_args *)args)->outputs * (double)((const reduce_args *)args)->n;
  if (begins(name, "reed_norm_")) return (double)((const norm_args *)args)->rows * (double)((const norm_args *)args)->n;
  return 0;
}

static double peak_of(const char *name) {
  return ends(name, "_f64") ? peak_f64 : ends(name, "_tf32") ? peak_tf32 : ends(name, "f16") ? peak_halves : peak_f32;
}

void fake_count(const struct cuda_prepared *plan) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    const cuda_launch *l = &plan->launches[i];
    reed_fake_floor *f = &floors[l->kernel];
    double bytes[2] = {0, 0};
    for (uint32_t k = l->first_pointer; k < l->first_pointer + l->n_pointers; k++)
      if (plan->pointers[k].source != CUDA_FROM_NUMBER && plan->pointers[k].source != CUDA_FROM_FAULT)
        bytes[plan->pointers[k].written] += (double)plan->pointers[k].bytes;
    f->kernel = cuda_kernel_infos[l->kernel].name;
    const double operations = operations_of(f->kernel, plan->args + l->args_at),
                 of_bytes = (bytes[0] + bytes[1]) / bandwidth, of_operations = operations / peak_of(f->kernel);
    f->launches++;
    f->read_bytes += bytes[0];
    f->written_bytes += bytes[1];
    f->operations += operations;
    f->seconds += of_bytes > of_operations ? of_bytes : of_operations;
    f->seconds_of_bytes += of_bytes > of_operations ? of_bytes : 0;
  }
  pthread_mutex_unlock(&lock);
}

/* The kernels that were launched since the last call, at most `capacity`; their number. */
REED_API int reed_fake_floors(reed_fake_floor *out_floors, int capacity);
int reed_fake_floors(reed_fake_floor *out_floors, int capacity) {
  int n = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < CUDA_KERNELS; i++) {
    if (floors[i].launches && n < capacity) out_floors[n++] = floors[i];
    floors[i] = (reed_fake_floor){0};
  }
  pthread_mutex_unlock(&lock);
  return n;
}
