/* Launches of the module over the fake driver: the module and the fake driver are linked in, so that a test may stand
 * between them. */
#include <uv.h>

#define CUDA_TEST_LINKED
#include "base/desc.h"
#include "device/cuda/fake/state.h"
#include "device/cuda/state.h"
#include "tests/device/cuda/cuda_test.h"

#define MUST_(call) ck_assert_msg((call) == REED_OK, "%s", said.message)

static reed_diagnosis said;

static int n_launched;
static cu_result count_launch(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream,
                              void **parameters, void **extra) {
  n_launched++;
  return fake_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                     extra);
}

/* Concat of two inputs on a device whose launches are counted. */
typedef struct concat_of_two {
  device *dev;
  both_queues q;
  reed_kernel kernel;
} concat_of_two;

/* Rooms NULL: the operands have none. */
static void concat_open(concat_of_two *c, const reed_desc *inputs, const reed_desc *output, int64_t along,
                        const reed_room *input_rooms, const reed_room *output_room) {
  reed_attr axis = {.name = "axis", .type = REED_ATTR_INT, .i = along};
  *c = (concat_of_two){.q.said = &said};
  ck_assert_msg(cuda_open(0, "", &c->dev, &said) == REED_OK, "%s", said.message);
  c->q.dev = c->dev;
  c->q.on = c->dev->interface;
  ((cuda_device *)c->dev)->driver.launch = count_launch;
  const reed_kernel_call call = {.op = op_builtin(OP_Concat),
                                 .attrs = &(reed_attrs){&axis, 1},
                                 .node = "n",
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = output,
                                 .host_values = (const void *const[]){NULL, NULL},
                                 .constant = (const bool[]){false, false},
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = &said,
                                 .input_rooms = input_rooms,
                                 .output_rooms = output_room};
  MUST_(c->q.on->kernel(c->dev, call.op)(&call, &c->kernel));
  MUST_(c->q.on->queue_open(c->dev, DEVICE_COMPUTE, &c->q.compute, &said));
}

static void *concat_memory(concat_of_two *c, int64_t floats) {
  void *memory = NULL;
  MUST_(c->q.on->allocate(c->dev, floats * 4, 0, &memory, &said));
  return memory;
}

static int concat_launches(concat_of_two *c, const void *first, const void *second, void *to) {
  device_error error;
  n_launched = 0;
  MUST_(c->q.on->launch(c->q.compute, &c->kernel,
                        &(reed_kernel_buffers){.inputs = (const void *[]){first, second}, .outputs = &to}, 2, 1, 5,
                        NULL, &said));
  MUST_(c->q.on->synchronize(c->q.compute, &error, &said));
  return n_launched;
}

static void concat_close(concat_of_two *c) {
  c->q.on->queue_close(c->q.compute);
  c->kernel.free(c->kernel.state);
  c->dev->interface->close(c->dev);
}

/* A launch that keeps elements at their places is left out: Concat of a past that lies in the output's memory copies
 * the new rows only. The past is [2,rows,4] in memory of `capacity` rows, the output has 2 rows more and room for 8.
 * A past with other strides has one launch with the new rows. */
START_TEST(elements_at_their_places_are_not_copied) {
  static const struct {
    int64_t rows, capacity;
    bool in_place;
    int launches;
  } cases[] = {{3, 8, true, 1}, {3, 8, false, 2}, {3, 3, true, 1}, {1, 8, true, 1}};
  const reed_desc inputs[] = {{.dtype = REED_F32, .rank = 3, .dims = {2, cases[_i].rows, 4}},
                              {.dtype = REED_F32, .rank = 3, .dims = {2, 2, 4}}},
                  output = {.dtype = REED_F32, .rank = 3, .dims = {2, cases[_i].rows + 2, 4}};
  const reed_room none = {.axis = -1}, past = {.axis = 1, .capacity = cases[_i].capacity},
                  room = {.axis = 1, .capacity = 8}, input_rooms[] = {past, none};
  concat_of_two c;
  concat_open(&c, inputs, &output, 1, input_rooms, &room);
  void *memory = concat_memory(&c, 2 * 8 * 4), *other = concat_memory(&c, 2 * 8 * 4),
       *rows = concat_memory(&c, 2 * 2 * 4);
  ck_assert_int_eq(concat_launches(&c, cases[_i].in_place ? memory : other, rows, memory), cases[_i].launches);
  c.q.on->release(c.dev, memory, c.q.compute);
  c.q.on->release(c.dev, other, c.q.compute);
  c.q.on->release(c.dev, rows, c.q.compute);
  concat_close(&c);
}
END_TEST

/* Inputs of Concat along axis 0, some of which lie at their places in the output's memory: their one launch is left out
 * if all of them do. */
START_TEST(a_launch_of_several_copies_is_left_out_as_a_whole) {
  const reed_desc inputs[] = {{.dtype = REED_F32, .rank = 2, .dims = {3, 4}},
                              {.dtype = REED_F32, .rank = 2, .dims = {2, 4}}},
                  output = {.dtype = REED_F32, .rank = 2, .dims = {5, 4}};
  const bool first = _i & 1, second = _i & 2;
  concat_of_two c;
  concat_open(&c, inputs, &output, 0, NULL, NULL);
  void *memory = concat_memory(&c, 5 * 4), *other = concat_memory(&c, 5 * 4);
  ck_assert_int_eq(concat_launches(&c, first ? memory : other, (char *)(second ? memory : other) + 3 * 4 * 4, memory),
                   !first || !second);
  c.q.on->release(c.dev, memory, c.q.compute);
  c.q.on->release(c.dev, other, c.q.compute);
  concat_close(&c);
}
END_TEST

/* Attention on a queue of its own. */
enum { ATTRIBUTES = 16 };
typedef struct attention_on_queue {
  device *dev;
  reed_kernel kernel;
  device_queue *queue;
  void *x, *y, *workspace; /* x: queries, keys and values, which begin at the same address */
  reed_diagnosis said;
} attention_on_queue;

static void attention_open(attention_on_queue *a, device *dev, reed_dtype dtype, int64_t heads, int64_t queries,
                           int64_t size) {
  const reed_desc x = {.dtype = dtype, .rank = 4, .dims = {1, heads, queries, size}}, inputs[] = {x, x, x};
  const reed_op *op = op_builtin(OP_Attention);
  reed_attr items[ATTRIBUTES];
  ck_assert_int_le(op_attrs_completed(op, &(reed_attrs){0}), ATTRIBUTES);
  const reed_attrs attrs = op_attrs_complete(op, &(reed_attrs){0}, items);
  const reed_kernel_call call = {.op = op,
                                 .attrs = &attrs,
                                 .node = "n",
                                 .n_inputs = 3,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = &x,
                                 .host_values = (const void *const[]){NULL, NULL, NULL},
                                 .constant = (const bool[]){false, false, false},
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = &said};
  *a = (attention_on_queue){.dev = dev};
  MUST_(dev->interface->kernel(dev, op)(&call, &a->kernel));
  MUST_(dev->interface->queue_open(dev, DEVICE_COMPUTE, &a->queue, &said));
  MUST_(dev->interface->allocate(dev, desc_bytes(&x), 0, &a->x, &said));
  MUST_(dev->interface->allocate(dev, desc_bytes(&x), 0, &a->y, &said));
  MUST_(dev->interface->allocate(dev, a->kernel.workspace_bytes + 1, 0, &a->workspace, &said));
}

static void attention_close(attention_on_queue *a) {
  a->dev->interface->release(a->dev, a->x, a->queue);
  a->dev->interface->release(a->dev, a->y, a->queue);
  a->dev->interface->release(a->dev, a->workspace, a->queue);
  a->dev->interface->queue_close(a->queue);
  a->kernel.free(a->kernel.state);
}

static reed_status attention_launch(attention_on_queue *a) {
  const reed_kernel_buffers buffers = {
      .inputs = (const void *[]){a->x, a->x, a->x}, .outputs = &a->y, .workspace = a->workspace};
  return a->dev->interface->launch(a->queue, &a->kernel, &buffers, 3, 1, 5, NULL, &a->said);
}

/* Heads of 96 or 128 elements on one device, by the same kernel with different shared memory. */
enum { ATTENTIONS = 2 };
static struct {
  attention_on_queue *other; /* is launched by another thread while the first launch is on its way to the driver */
  reed_status status;        /* of the other launch */
  int n;                     /* launches, of which the first ones are in the arrays */
  cu_function functions[ATTENTIONS];
  unsigned shared_bytes[ATTENTIONS];
} beside;

static void launch_other(void *a) { beside.status = attention_launch(a); }

static cu_result launch_beside(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                               cu_stream stream, void **parameters, void **extra) {
  const int i = beside.n++;
  if (i < ATTENTIONS) beside.functions[i] = function, beside.shared_bytes[i] = shared_bytes;
  if (i == 0) {
    uv_thread_t thread;
    ck_assert_int_eq(uv_thread_create(&thread, launch_other, beside.other), 0);
    ck_assert_int_eq(uv_thread_join(&thread), 0);
  }
  return fake_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                     extra);
}

/* A kernel's limit of shared memory is the device's, not the launch's: a thread that launches it with less does not
 * take the memory from a launch that has asked for more. */
START_TEST(threads_launch_a_kernel_with_different_shared_memory) {
  device *dev = NULL;
  attention_on_queue a[ATTENTIONS];
  device_error error;
  MUST_(cuda_open(0, "", &dev, &said));
  ((cuda_device *)dev)->driver.launch = launch_beside;
  for (int i = 0; i < ATTENTIONS; i++) attention_open(&a[i], dev, REED_F32, 1, 20, (i == 0) == (_i == 0) ? 128 : 96);
  memset(&beside, 0, sizeof beside);
  beside.other = &a[1];
  ck_assert_msg(attention_launch(&a[0]) == REED_OK, "%s", a[0].said.message);
  ck_assert_msg(beside.status == REED_OK, "%s", a[1].said.message);
  ck_assert_int_ge(beside.n, ATTENTIONS);
  ck_assert_ptr_eq(beside.functions[0], beside.functions[1]);
  ck_assert(beside.shared_bytes[_i] > beside.shared_bytes[!_i] && beside.shared_bytes[!_i] > 48 << 10);
  for (int i = 0; i < ATTENTIONS; i++) {
    MUST_(dev->interface->synchronize(a[i].queue, &error, &said));
    attention_close(&a[i]);
  }
  dev->interface->close(dev);
}
END_TEST

static cu_result launch_first_block(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                    cu_stream stream, void **parameters, void **extra) {
  return fake_launch(function, 1, 1, 1, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

/* Cards of compute capability 8.6, 8.9 and 12.0 have 99 KB for a block: for static and dynamic shared memory together.
 * Heads of such sizes that tiles of their dtype would take all of it. */
START_TEST(attention_fits_the_smallest_blocks_of_shared_memory) {
  static const struct {
    reed_dtype dtype;
    int64_t size;
  } cases[] = {{REED_F32, 128}, {REED_F16, 168}, {REED_F32, 120}, {REED_BF16, 176}};
  enum { HEADS = 132, QUERIES = 17 }; /* too many for the kernels for few rows */
  device *dev = NULL;
  fake_world *world;
  attention_on_queue a;
  device_error error;
  MUST_(cuda_open(0, "tf32=1", &dev, &said));
  ((cuda_device *)dev)->driver.launch = launch_first_block;
  MUST_(cuda_enter((cuda_device *)dev, &said));
  ck_assert_int_eq(fake_enter(&world, "a test"), CU_SUCCESS);
  fake_card card = *world->options.card;
  card.shared_bytes = 99 << 10;
  world->options.card = &card;
  fake_leave(world);
  cuda_leave((cuda_device *)dev);
  attention_open(&a, dev, cases[_i].dtype, HEADS, QUERIES, cases[_i].size);
  ck_assert_msg(attention_launch(&a) == REED_OK, "%s", a.said.message);
  MUST_(dev->interface->synchronize(a.queue, &error, &said));
  attention_close(&a);
  dev->interface->close(dev);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tests = tcase_create("launch");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, elements_at_their_places_are_not_copied, 0, 4);
  tcase_add_loop_test(tests, a_launch_of_several_copies_is_left_out_as_a_whole, 0, 4);
  tcase_add_loop_test(tests, threads_launch_a_kernel_with_different_shared_memory, 0, 2);
  tcase_add_loop_test(tests, attention_fits_the_smallest_blocks_of_shared_memory, 0, 4);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
