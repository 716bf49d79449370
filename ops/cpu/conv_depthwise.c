/* Depthwise Conv with channels last (ops/cpu/depthwise.h): weights turned once per program, rows of Y shared out over threads. */
#include "ops/cpu/conv.h"
#include "ops/cpu/depthwise.h"

#define PRODUCTS_PER_BYTE 4 /* in the currency of CPU_WORK_PER_THREAD */

typedef struct depthwise {
  window w;
  activation activation;
  void (*row)(const depthwise_row *r);
  int64_t images, channels;
  bool with_bias, with_residual;
  int n_threads;
  kernel_cache *cache, *own_cache; /* own_cache: the call had none */
  float *packed;                   /* constant weights; NULL: packed into the workspace at each run */
} depthwise;

/* ---- weights ---- */

typedef struct packed_key {
  const void *constant;
  int64_t kind; /* no other key of the program's cache is of these bytes */
  int64_t channels, taps;
} packed_key;

/* [channels][taps] -> [taps][channels] */
static void pack(const float *from, int64_t channels, int64_t taps, float *to) {
  for (int64_t k = 0; k < taps; k++)
    for (int64_t c = 0; c < channels; c++) to[k * channels + c] = from[c * taps + k];
}

static reed_status packed_build(void *context, kernel_cache_value *out_value) {
  const packed_key *key = context;
  size_t bytes = (size_t)(key->channels * key->taps) * sizeof(float);
  float *packed = mem_alloc_bulk(bytes);
  if (!packed) return REED_ERROR_MEMORY;
  pack(key->constant, key->channels, key->taps, packed);
  *out_value = (kernel_cache_value){packed, mem_free_aligned, (int64_t)bytes};
  return REED_OK;
}

/* Gives d the constant weights packed, once per program. */
static reed_status pack_constant(const reed_kernel_call *call, depthwise *d) {
  packed_key key;
  memset(&key, 0, sizeof key);
  key = (packed_key){call->host_values[1], 'D', d->channels, d->w.kernel[0] * d->w.kernel[1]};
  reed_status status = REED_OK;
  void *data = NULL;
  d->cache = call->env ? call->env->cache : NULL;
  if (!d->cache) {
    status = kernel_cache_open(&d->own_cache);
    d->cache = d->own_cache;
  }
  if (status == REED_OK) status = kernel_cache_get(d->cache, &key, sizeof key, packed_build, &key, &data);
  if (status != REED_OK) return status;
  d->packed = data;
  cpu_constant_packed(call, 1);
  return REED_OK;
}

/* ---- running ---- */

typedef struct depthwise_run {
  const depthwise *d;
  const float *x, *weights, *bias, *residual;
  float *y;
} depthwise_run;

/* Rows begin..end of all images. */
static void run_rows(void *context, int64_t begin, int64_t end) {
  const depthwise_run *run = context;
  const depthwise *d = run->d;
  int64_t rows = d->w.out[0], y_row = d->w.out[1] * d->channels, x_image = d->w.in[0] * d->w.in[1] * d->channels;
  for (int64_t i = begin; i < end; i++) {
    depthwise_row r = {
      .w = &d->w,
      .activation = &d->activation,
      .channels = d->channels,
      .row = i % rows,
      .x = run->x + i / rows * x_image,
      .weights = run->weights,
      .bias = run->bias,
      .residual = run->residual ? run->residual + i * y_row : NULL,
      .y = run->y + i * y_row,
    };
    d->row(&r);
  }
}

static reed_status run_depthwise(const void *state, const reed_kernel_buffers *buffers) {
  const depthwise *d = state;
  depthwise_run run = {d, buffers->inputs[0], d->packed, d->with_bias ? buffers->inputs[2] : NULL, d->with_residual ? buffers->inputs[3] : NULL,
                       buffers->outputs[0]};
  int64_t taps = d->w.kernel[0] * d->w.kernel[1];
  if (!d->packed) {
    pack(buffers->inputs[1], d->channels, taps, buffers->workspace);
    run.weights = buffers->workspace;
  }
  cpu_parallel(d->n_threads, d->images * d->w.out[0], 1, run_rows, &run);
  return REED_OK;
}

static void depthwise_free(void *state) {
  depthwise *d = state;
  if (d->packed) kernel_cache_release(d->cache, d->packed);
  kernel_cache_close(&d->own_cache);
  mem_free(d);
}

reed_status conv_depthwise_prepare(const reed_kernel_call *call, const window *w, const activation *act, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  int64_t channels = x->dims[1];
  if (x->dtype != REED_F32 || w->n != 2 || reed_attrs_int(call->attrs, "group", 1) != channels || weights->dims[0] != channels || weights->dims[1] != 1)
    return REED_OK;
  depthwise *d = mem_calloc(1, sizeof *d);
  if (!d) return cpu_no_memory(call);
  *d = (depthwise){.w = *w, .activation = *act, .row = CPU_PICK(act->level, depthwise_row), .images = x->dims[0], .channels = channels,
                   .with_bias = cpu_present(call, 2), .with_residual = cpu_present(call, 3)};
  int64_t pixels = desc_elements(y), taps = w->kernel[0] * w->kernel[1];
  d->n_threads = cpu_threads_for(cpu_env_threads(call), pixels * (taps < INT16_MAX ? taps : INT16_MAX) / PRODUCTS_PER_BYTE);
  if (call->constant[1]) {
    if (pack_constant(call, d) != REED_OK) {
      depthwise_free(d);
      return cpu_no_memory(call);
    }
    *out_kernel = (reed_kernel){run_depthwise, d, depthwise_free, 0, (int64_t)sizeof *d};
    return REED_OK;
  }
  *out_kernel = (reed_kernel){run_depthwise, d, depthwise_free, desc_bytes(weights), (int64_t)sizeof *d};
  return REED_OK;
}
