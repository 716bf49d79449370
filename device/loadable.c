/* Parts of loadable devices (loadable.h). Loading them: module.c. */
#include "device/loadable.h"

#include <string.h>

#include "base/text.h"
#include "ops/device_options.h"

static const device_services *services;

static void *forward_allocate(void *context, size_t bytes) {
  (void)context;
  return services->allocator->allocate(services->allocator->context, bytes);
}

static void *forward_resize(void *context, void *block, size_t bytes) {
  (void)context;
  return services->allocator->resize(services->allocator->context, block, bytes);
}

static void forward_release(void *context, void *block) {
  (void)context;
  services->allocator->release(services->allocator->context, block);
}

void loadable_use(const device_services *given) {
  if (services) return;
  services = given;
  reed_set_allocator(&(reed_allocator){forward_allocate, forward_resize, forward_release, NULL});
}

reed_kernel_prepare_fn loadable_host_kernel(const reed_op *op) { return services->host_kernel(op); }

char *loadable_target(const char *name, const char *options) {
  text_buffer text = {0};
  text_append(&text, "%s", name);
  const char *between = "?", *end = options + strlen(options);
  for (device_option option; device_option_next(&options, end, &option);) {
    if (device_option_list(&option) == NO_LIST) continue;
    text_append(&text, "%s", between);
    text_append_bytes(&text, option.key, (size_t)(option.value + option.n_value - option.key));
    between = "&";
  }
  if (text.failed) text_fini(&text);
  return text.data;
}
