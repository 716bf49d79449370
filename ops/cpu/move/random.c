/* RandomNormal and RandomUniform. They have no separate references, because each call gives other numbers; the tests
 * hold the stream to Philox's published words and the numbers to their distributions. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/whole.h"
#include "ops/cpu/move/random_loops.h"
#include "ops/random.h"

#define GROUP_TIME 1500 /* of a group, in the bytes that take as long to move */

typedef struct random_state {
  cpu_team team;
  random_stream *stream; /* the session's; NULL: each call takes the first series of seed 0 */
  bool has_seed;
  uint64_t seed;
  random_group numbers;
  int64_t n, group_numbers, bytes; /* bytes: of a number */
  bool is_double;
  void (*floats)(const random_group *g, float *out);
  void (*doubles)(const random_group *g, double *out);
  convert_fn convert; /* of f32 to the output's dtype; NULL: it is f32 or f64 */
} random_state;

typedef struct random_job {
  const random_state *s;
  uint64_t key, series;
  char *out;
} random_job;

/* One group; the last one of a tensor may have fewer numbers. */
static void fill_group(const random_job *job, int64_t at) {
  const random_state *s = job->s;
  union {
    float floats[RANDOM_FLOATS];
    double doubles[RANDOM_DOUBLES];
  } made;
  random_group g = s->numbers;
  g.key = job->key;
  g.series = job->series;
  g.group = (uint64_t)at;
  const int64_t first = at * s->group_numbers, n = smaller(s->n - first, s->group_numbers);
  char *out = job->out + first * s->bytes;
  if (s->is_double) s->doubles(&g, made.doubles);
  else s->floats(&g, made.floats);
  if (s->convert) s->convert(out, made.floats, n);
  else memcpy(out, &made, (size_t)(n * s->bytes));
}

static void fill_groups(void *context, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end; at++) fill_group(context, at);
}

static reed_status run_random(const void *state, const reed_kernel_buffers *buffers) {
  const random_state *s = state;
  random_job job = {.s = s, .out = buffers->outputs[0]};
  if (s->stream) {
    job.key = s->stream->seed;
    job.series = s->stream->n_series++;
  }
  if (s->has_seed) job.key = s->seed;
  return cpu_parallel(s->team, divided(s->n, s->group_numbers), 1, fill_groups, &job);
}

/* A seed given by the node: the bits of a double, none of which is a small whole number as a session's seed is. */
static uint64_t node_seed(double seed) {
  uint64_t bits;
  memcpy(&bits, &seed, sizeof bits);
  return ~bits;
}

/* The largest number of the dtype below `high`. */
static double largest_below(reed_dtype dtype, double high) {
  const int64_t bytes = (int64_t)reed_dtype_bytes(dtype);
  const uint64_t sign = 1ull << (8 * bytes - 1);
  uint64_t bits = 0;
  reed_dtype_write(dtype, &bits, high);
  if (reed_dtype_read(dtype, &bits) < high) return reed_dtype_read(dtype, &bits);
  if (bits & sign) bits++;
  else bits = bits ? bits - 1 : sign + 1;
  return reed_dtype_read(dtype, &bits);
}

reed_status cpu_prepare_random(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  if (!dtype_is_real(out->dtype))
    return reed_kernel_fail(call, REED_ERROR_TYPE, "cannot make numbers of %s", reed_dtype_name(out->dtype));
  random_state *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  const cpu_level level = cpu_level_now();
  const reed_attr *seed = reed_attrs_find(call->attrs, "seed");
  s->stream = call->env ? call->env->random : NULL;
  if ((s->has_seed = seed != NULL)) s->seed = node_seed(seed->f);
  s->numbers.normal = op_id_of(call->op) == OP_RandomNormal;
  s->numbers.offset = op_attr_float(call->attrs, s->numbers.normal ? "mean" : "low");
  const double second = op_attr_float(call->attrs, s->numbers.normal ? "scale" : "high");
  s->numbers.factor = s->numbers.normal ? second : second - s->numbers.offset;
  s->numbers.most = INFINITY;
  if (!s->numbers.normal && second > s->numbers.offset) s->numbers.most = largest_below(out->dtype, second);
  s->numbers.bits = out->dtype == REED_F16 ? 11 : out->dtype == REED_BF16 ? 8 : 24;
  s->n = desc_elements(out);
  s->bytes = (int64_t)reed_dtype_bytes(out->dtype);
  s->is_double = out->dtype == REED_F64;
  s->group_numbers = s->is_double ? RANDOM_DOUBLES : RANDOM_FLOATS;
  s->floats = CPU_PICK(level, random_floats);
  s->doubles = CPU_PICK(level, random_doubles);
  if (s->bytes == 2) s->convert = convert_between(level, REED_F32, out->dtype);
  s->team = cpu_team_for(cpu_env_team(call), s->n / s->group_numbers * GROUP_TIME);
  cpu_kernel_set(out_kernel, run_random, s);
  return REED_OK;
}
