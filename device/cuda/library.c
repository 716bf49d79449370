/* NVIDIA's libraries (options `cudnn` and `cublas`): at its launch a convolution or product takes either Reed's own
 * kernel or a plan of the library. The faster one is measured once for the call's kind and the binary order of its
 * size, and remembered for the device; a plan is made once for its extents. Weights in the packed order are copied into
 * the library's order once. A call that the library cannot take, and any failure of the library before a launch, means
 * the own kernel, from then on.
 *
 * All state is guarded by the lock, which is taken before the device's. A queue has its own workspaces. While a graph
 * is recorded nothing is opened, planned, measured or allocated: the run before the recording has done so. */
#include "base/mem.h"
#include "device/cuda/convolutions.h"
#include "device/cuda/library_call.h"
#include "device/cuda/products.h"

typedef struct library {
  cuda_library base;
  uv_mutex_t lock; /* guards the fields below */
  weights_copies weights;
  convolutions *convolutions; /* NULL: not asked for */
  products *products;         /* NULL: not asked for */
} library;

static reed_status launch(cuda_queue *queue, const cuda_ready *own, bool *out_done, reed_diagnosis *diagnosis) {
  library *of = (library *)cuda_of(&queue->base)->library;
  const bool convolution = of->convolutions && convolutions_take(own->kernel),
             product = of->products && products_take(own->kernel);
  *out_done = false;
  if (!convolution && !product) return REED_OK;
  uv_mutex_lock(&of->lock);
  const reed_status status = convolution
                                 ? convolutions_launch(of->convolutions, &of->weights, queue, own, out_done, diagnosis)
                                 : products_launch(of->products, &of->weights, queue, own, out_done, diagnosis);
  uv_mutex_unlock(&of->lock);
  return status;
}

static void forget(cuda_device *self, uint64_t serial, device_queue *after) {
  library *of = (library *)self->library;
  uv_mutex_lock(&of->lock);
  weights_forget(&of->weights, &of->lock, self, serial, after);
  uv_mutex_unlock(&of->lock);
}

static void close_queue(cuda_queue *queue) {
  library *of = (library *)cuda_of(&queue->base)->library;
  if (of->convolutions) convolutions_close_queue(of->convolutions, queue);
  for (size_t i = 0; i < queue->library.workspaces.n; i++)
    cuda_release(queue->base.device, queue->library.workspaces.items[i], NULL);
  VEC_FREE(&queue->library.workspaces);
}

static void close_library(cuda_library *base) {
  library *self = (library *)base;
  if (self->convolutions) convolutions_close(self->convolutions);
  if (self->products) products_close(self->products);
  weights_fini(&self->weights);
  uv_mutex_destroy(&self->lock);
  mem_free(self);
}

reed_status cuda_library_open(const cuda_options *options, cuda_library **out_library, reed_diagnosis *diagnosis) {
  library *made = mem_calloc(1, sizeof *made);
  if (!made || uv_mutex_init_recursive(&made->lock) != 0) { /* a release within asks for copies of weights */
    mem_free(made);
    return diag_no_memory(diagnosis, "the libraries of kernels");
  }
  made->base = (cuda_library){launch, forget, close_queue, close_library};
  made->weights.free_item = TABLE_NONE;
  if (options->cudnn) made->convolutions = convolutions_open(options->cudnn == LIBRARY_ALWAYS);
  if (options->cublas) made->products = products_open(options->cublas == LIBRARY_ALWAYS);
  if ((options->cudnn && !made->convolutions) || (options->cublas && !made->products)) {
    close_library(&made->base);
    return diag_no_memory(diagnosis, "the libraries of kernels");
  }
  *out_library = &made->base;
  return REED_OK;
}
