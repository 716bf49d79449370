/* The fake driver's own rules, and that the module keeps a thread's context: the module and the fake driver are linked
 * in, with an image of kernels that the test may spoil. The order of streams, and captures: test_fake_streams.c. The
 * module through the device contract: test_module.c. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "device/cuda/state.h"
#include "tests/device/cuda/fake_test.h"

#define MUST_(call) ck_assert_msg((call) == REED_OK, "%s", said.message)

START_TEST(a_call_without_a_context_fails) {
  open_driver("");
  cu_context own;
  cu_stream stream;
  cu_event event;
  ck_assert_int_eq(cu.context_pop(&own), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_create(&stream, CU_NON_BLOCKING), CU_INVALID_CONTEXT);
  ck_assert_int_eq(cu.event_create(&event, 0), CU_INVALID_CONTEXT);
  check_said(CU_INVALID_CONTEXT, "no current context");
  ck_assert_int_eq(cu.context_push(own), CU_SUCCESS);
  close_driver();
}
END_TEST

/* A driver that was started does not work in a forked child, with the parent's context or as another start. Before the
 * fork the fake's thread has run its work and sleeps: a thread that is still being started may hold a lock of the
 * sanitizers' heap (gcc 12), which no thread of the child would release. */
START_TEST(a_fork_does_not_inherit_the_driver) {
  open_driver("");
  const cu_stream stream = stream_of(CU_NON_BLOCKING);
  cu_event event;
  ck_assert_int_eq(cu.event_create(&event, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.event_record(event, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(stream), CU_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    cuda_driver again;
    cu_event other;
    reed_diagnosis why = {0};
    const bool refused = cu.event_create(&other, 0) == CU_NOT_INITIALIZED &&
                         cuda_driver_open("", &again, &why) == REED_ERROR_DEVICE &&
                         strstr(why.message, "started before this process was forked");
    _exit(!refused);
  }
  int status = 1;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(cu.event_record(event, stream), CU_SUCCESS); /* the parent goes on */
  ck_assert_int_eq(cu.stream_synchronize(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  close_driver();
}
END_TEST

START_TEST(a_handle_that_is_not_given_back_is_noticed) {
  open_driver("");
  (void)stream_of(CU_NON_BLOCKING);
  close_driver(); /* ends the process */
}
END_TEST

START_TEST(copies_and_releases_beside_their_blocks_are_refused) {
  open_driver("");
  cu_stream stream = stream_of(CU_NON_BLOCKING);
  cu_event event;
  cu_pool pool;
  cu_pointer data;
  void *pinned;
  float ms;
  const cu_pool_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}};
  ck_assert_int_eq(cu.event_create(&event, CU_EVENT_NO_TIMING), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_create(&pool, &properties), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_allocate(&data, 0, pool, stream), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.pool_allocate(&data, 4096, pool, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.host_allocate(&pinned, 1024, CU_HOST_PORTABLE | CU_HOST_MAPPED), CU_SUCCESS);
  ck_assert_int_eq(cu.copy_in(data, pinned, 0, stream), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.copy_in(data, (char *)pinned + 1, 1024, stream), CU_INVALID_VALUE);
  check_said(CU_INVALID_VALUE, "past its block of pinned memory");
  ck_assert_int_eq(cu.copy_out((char *)pinned + 1, data, 1024, stream), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.copy_in(data, pinned, 1024, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_free(data + 64, stream), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.event_record(event, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_synchronize(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_elapsed(&ms, event, event), CU_INVALID_HANDLE);
  check_said(CU_INVALID_HANDLE, "without time");
  ck_assert_int_eq(cu.host_free(pinned), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_free(data, stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.event_destroy(event), CU_SUCCESS);
  ck_assert_int_eq(cu.pool_destroy(pool), CU_SUCCESS);
  close_driver();
}
END_TEST

START_TEST(pages_are_mapped_into_reserved_addresses_alone) {
  open_driver("");
  const cu_allocation_properties properties = {.type = CU_PINNED, .location = {CU_ON_DEVICE, cu.first_ordinal}},
                                 none = {0};
  const cu_access access = {.location = properties.location, .flags = CU_READ_WRITE};
  size_t page;
  cu_pointer at, other;
  cu_memory pages, wrong;
  ck_assert_int_eq(cu.granularity(&page, &properties, CU_GRANULARITY_RECOMMENDED), CU_SUCCESS);
  ck_assert_int_eq(cu.address_reserve(&other, page + 1, 0, 0, 0), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.address_reserve(&at, 2 * page, 0, 0, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.memory_create(&wrong, page + 1, &properties, 0), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.memory_create(&wrong, page, &none, 0), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.memory_create(&pages, page, &properties, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.memory_map(at + 2 * page, page, 0, pages, 0), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.memory_access(at, page, &access, 1), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.memory_map(at, page, 0, pages, 0), CU_SUCCESS);
  ck_assert_int_eq(cu.memory_map(at, page, 0, pages, 0), CU_INVALID_VALUE); /* twice */
  ck_assert_int_eq(cu.memory_access(at, page, &access, 1), CU_SUCCESS);
  ck_assert_int_eq(cu.address_free(at, 2 * page), CU_INVALID_VALUE); /* still mapped */
  ck_assert_int_eq(cu.memory_unmap(at + page, page), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.memory_unmap(at, page), CU_SUCCESS);
  ck_assert_int_eq(cu.memory_release(pages), CU_SUCCESS);
  ck_assert_int_eq(cu.address_free(at, 2 * page), CU_SUCCESS);
  close_driver();
}
END_TEST

/* ---- launches, with a kernel of the test's own ---- */

typedef struct test_args {
  _Alignas(8) uint64_t n;
} test_args;
static void run_nothing(const void *args) { (void)args; }
static const simt_kernel kernels[] = {{"reed_test", sizeof(test_args), 8, 64, run_nothing}};
static const fake_image image = {kernels, 1};

START_TEST(launches_beyond_the_limits_are_refused) {
  open_driver("");
  cu_stream stream = stream_of(CU_NON_BLOCKING);
  cu_module module;
  cu_function function;
  _Alignas(16) char bytes[32] = {0};
  void *args[] = {bytes}, *crooked[] = {bytes + 4};
  size_t at, n;
  ck_assert_int_eq(cu.module_load(&module, &image), CU_SUCCESS);
  ck_assert_int_eq(cu.module_function(&function, module, "reed_other"), CU_NOT_FOUND);
  ck_assert_int_eq(cu.module_function(&function, module, "reed_test"), CU_SUCCESS);
  ck_assert_int_eq(cu.function_parameter(function, 0, &at, &n), CU_SUCCESS);
  ck_assert(at == 0 && n == sizeof(test_args));
#define LAUNCH(x, y, z, threads, shared, parameters) \
  cu.launch(function, x, y, z, threads, 1, 1, shared, stream, parameters, NULL)
  ck_assert_int_eq(LAUNCH(1, 65535, 1, 64, 49152, args), CU_SUCCESS);
  ck_assert_int_eq(LAUNCH(1, 65536, 1, 64, 0, args), CU_INVALID_VALUE);
  ck_assert_int_eq(LAUNCH(1, 1, 65536, 64, 0, args), CU_INVALID_VALUE);
  ck_assert_int_eq(LAUNCH(0, 1, 1, 64, 0, args), CU_INVALID_VALUE);
  ck_assert_int_eq(LAUNCH(1, 1, 1, 65, 0, args), CU_INVALID_VALUE);
  ck_assert_int_eq(LAUNCH(1, 1, 1, 64, 0, crooked), CU_INVALID_VALUE);
  check_said(CU_INVALID_VALUE, "not aligned");
  ck_assert_int_eq(LAUNCH(1, 1, 1, 64, 49153, args), CU_INVALID_VALUE);
  check_said(CU_INVALID_VALUE, "without the opt-in");
  ck_assert_int_eq(cu.function_set(function, CU_DYNAMIC_SHARED_BYTES, 65536), CU_SUCCESS);
  ck_assert_int_eq(LAUNCH(1, 1, 1, 64, 65536, args), CU_SUCCESS);
  ck_assert_int_eq(cu.function_set(function, CU_DYNAMIC_SHARED_BYTES, 300 << 10), CU_INVALID_VALUE);
  cu.operands(&(cu_operand){bytes, 32, true}, 1, NULL);
  ck_assert_int_eq(LAUNCH(1, 1, 1, 64, 0, args), CU_INVALID_VALUE);
  check_said(CU_INVALID_VALUE, "operand 0 is no memory of the card");
  ck_assert_int_eq(cu.stream_synchronize(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.stream_destroy(stream), CU_SUCCESS);
  ck_assert_int_eq(cu.module_unload(module), CU_SUCCESS);
  close_driver();
}
END_TEST

/* ---- the module ---- */

static void add_once(device *dev, const char *name) {
  both_queues q = {.dev = dev, .on = dev->interface, .said = &said};
  reed_kernel add = {0};
  device_error error;
  void *a = NULL, *b = NULL, *pinned = NULL;
  device_event *event = NULL;
  dev->name = name;
  MUST_(q.on->queue_open(dev, DEVICE_COMPUTE, &q.compute, &said));
  MUST_(q.on->event_open(dev, &event, &said));
  MUST_(q.on->allocate(dev, 64, 0, &a, &said));
  MUST_(q.on->allocate(dev, 64, 1 << 20, &b, &said));
  MUST_(q.on->allocate_pinned(dev, 64, &pinned, &said));
  (void)q.on->extend(dev, b, 4096);
  (void)q.on->holds(dev, pinned, 8);
  memset(pinned, 0, 64);
  MUST_(prepare_add(dev, 16, &add, &said));
  MUST_(q.on->copy_in(q.compute, a, pinned, 64, NULL, &said));
  MUST_(launch_add(&q, q.compute, &add, a, a, b, NULL));
  MUST_(q.on->event_record(q.compute, event, &said));
  (void)q.on->event_done(dev, event);
  MUST_(q.on->synchronize(q.compute, &error, &said));
  q.on->event_close(dev, event);
  q.on->release(dev, a, q.compute);
  q.on->release(dev, b, q.compute);
  q.on->release_pinned(dev, pinned);
  q.on->queue_close(q.compute);
  add.free(add.state);
}

/* The caller's current context, here that of another library, is the same before and after every use of the module; a
 * thread without one has none afterwards. */
START_TEST(the_caller_s_context_stays) {
  device *dev = NULL;
  cu_context now = NULL;
  if (_i) open_driver("");
  ck_assert_msg(cuda_open(0, "late=1", &dev, &said) == REED_OK, "%s", said.message);
  add_once(dev, "cuda-emulated");
  ck_assert_int_eq(fake_context_current(&now), CU_SUCCESS);
  ck_assert_ptr_eq(now, _i ? context : NULL);
  dev->interface->close(dev);
  ck_assert_int_eq(fake_context_current(&now), CU_SUCCESS);
  ck_assert_ptr_eq(now, _i ? context : NULL);
  if (_i) close_driver();
}
END_TEST

/* A kernel whose args struct has another size than the module's is refused when the image is loaded. */
START_TEST(a_wrong_struct_is_refused) {
  device *dev = NULL;
  simt_kernel spoilt[CUDA_KERNELS];
  memcpy(spoilt, ((const fake_image *)fake_images[0])->kernels, sizeof spoilt);
  spoilt[CUDA_KERNELS - 1].args_bytes += 8;
  const fake_image other = {spoilt, CUDA_KERNELS};
  ck_assert_int_eq(cuda_open(0, "", &dev, &said), REED_OK);
  cuda_device *self = (cuda_device *)dev;
  const void *const images[] = {&other, NULL};
  self->driver.images = images;
  ck_assert_int_eq(cuda_enter(self, &said), REED_OK);
  ck_assert_int_eq(self->driver.module_unload(self->modules.items[--self->modules.n]), CU_SUCCESS);
  ck_assert_int_eq(cuda_load_kernels(self, &said), REED_ERROR_DEVICE);
  ck_assert_msg(strstr(said.message, "bytes of args, the module has") != NULL, "%s", said.message);
  cuda_leave(self);
  dev->interface->close(dev);
}
END_TEST

START_TEST(a_described_card_has_its_limits) {
  static const struct {
    const char *options, *name;
    int multiprocessors, shared, major, minor;
  } cards[] = {{"card=H100", "H100", 132, 227 << 10, 9, 0},  {"card=A100&seed=1", "A100", 108, 163 << 10, 8, 0},
               {"late=1&card=T4", "T4", 40, 64 << 10, 7, 5}, {"card=L4", "L4", 58, 99 << 10, 8, 9},
               {"card=A10", "A10", 72, 99 << 10, 8, 6},      {"", "card", 132, 227 << 10, 9, 0}};
  int value = 0;
  char name[100];
  cu_module module;
  cu_function function;
  open_driver(cards[_i].options);
  ck_assert_int_eq(cu.device_name(name, sizeof name, card), CU_SUCCESS);
  ck_assert_msg(strstr(name, cards[_i].name) && strstr(name, "emulated "), "%s", name);
  ck_assert_int_eq(cu.device_attribute(&value, CU_MULTIPROCESSORS, card), CU_SUCCESS);
  ck_assert_int_eq(value, cards[_i].multiprocessors);
  ck_assert_int_eq(cu.device_attribute(&value, CU_CAPABILITY_MAJOR, card), CU_SUCCESS);
  ck_assert_int_eq(value, cards[_i].major);
  ck_assert_int_eq(cu.device_attribute(&value, CU_CAPABILITY_MINOR, card), CU_SUCCESS);
  ck_assert_int_eq(value, cards[_i].minor);
  ck_assert_int_eq(cu.device_attribute(&value, CU_SHARED_BYTES_OPT_IN, card), CU_SUCCESS);
  ck_assert_int_eq(value, cards[_i].shared);
  ck_assert_int_eq(cu.module_load(&module, cu.images[0]), CU_SUCCESS);
  ck_assert_int_eq(cu.module_function(&function, module, cuda_kernel_infos[0].name), CU_SUCCESS);
  ck_assert_int_eq(cu.function_set(function, CU_DYNAMIC_SHARED_BYTES, cards[_i].shared), CU_SUCCESS);
  ck_assert_int_eq(cu.function_set(function, CU_DYNAMIC_SHARED_BYTES, cards[_i].shared + 1), CU_INVALID_VALUE);
  ck_assert_int_eq(cu.module_unload(module), CU_SUCCESS);
  close_driver();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tests = tcase_create("fake");
  tcase_add_test(tests, a_call_without_a_context_fails);
  tcase_add_test(tests, a_fork_does_not_inherit_the_driver);
  tcase_add_test_raise_signal(tests, a_handle_that_is_not_given_back_is_noticed, SIGABRT);
  tcase_add_test(tests, pages_are_mapped_into_reserved_addresses_alone);
  tcase_add_test(tests, copies_and_releases_beside_their_blocks_are_refused);
  tcase_add_test(tests, launches_beyond_the_limits_are_refused);
  tcase_add_loop_test(tests, the_caller_s_context_stays, 0, 2);
  tcase_add_test(tests, a_wrong_struct_is_refused);
  tcase_add_loop_test(tests, a_described_card_has_its_limits, 0, 6);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
