/* Running problems by oneDNN (onednn.h). The program's cache keeps the engine, units (a problem at one chunk size) and
 * packed weights. oneDNN also keeps its last primitives in a cache of its own; both caches hold the same objects.
 * oneDNN allocates from the C library, so the allocator hook sees only tensors. */
#include "bench/onednn.h"

#include <omp.h>
#include <stdlib.h>

#include "oneapi/dnnl/dnnl.h"

#define UNIT_BYTES 160000   /* of a unit in the cache: code and descriptors, 70 to 190 KB over convolutions */
#define MEMORIES_BYTES 8192 /* the memory objects of a lane */
/* The number of primitives that oneDNN keeps in the whole process, some 100 KB each; the program's cache keeps the
 * primitives that are used again. The number is set only if no other code has chosen one. */
#define PRIMITIVES_DEFAULT 1024
#define PRIMITIVES 256
#define ALIGNMENT 64
#define PRODUCTS_PER_BYTE 4 /* in the currency of CPU_WORK_PER_THREAD: some 50 products a nanosecond */
#define UNITS_MAX 16        /* chunk sizes are powers of two up to 2^15 */

static int64_t align_up(int64_t n) { return (n + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1); }

/* oneDNN builds and runs with the calling thread alone: its OpenMP team would wait for each thread. Returns the former
 * number of threads. */
static int threads_alone(void) {
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}
static void threads_restore(int before) {
  if (before != 1) omp_set_num_threads(before);
}

/* ---- shared through the cache: engine, units, packed weights ---- */

static reed_status status_of(dnnl_status_t status) {
  return status == dnnl_success ? REED_OK : status == dnnl_out_of_memory ? REED_ERROR_MEMORY : REED_ERROR_UNSUPPORTED;
}

static void engine_free(void *engine) { dnnl_engine_destroy(engine); }

static reed_status engine_build(void *context, kernel_cache_value *out_value) {
  /* only a process's first engine can lower the level */
  cpu_level level = cpu_level_now();
  if (level <= CPU_AVX2) (void)dnnl_set_max_cpu_isa(level == CPU_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
  int capacity;
  if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success && capacity == PRIMITIVES_DEFAULT)
    (void)dnnl_set_primitive_cache_capacity(PRIMITIVES);
  dnnl_engine_t engine;
  dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
  if (status != dnnl_success) return status_of(status);
  *out_value = (kernel_cache_value){engine, engine_free, 4096};
  return REED_OK;
}

static reed_status engine_get(kernel_cache *cache, dnnl_engine_t *out_engine) {
  static const char key[] = "onednn engine";
  void *engine;
  reed_status status = kernel_cache_get(cache, key, sizeof key, engine_build, NULL, &engine);
  if (status == REED_OK) *out_engine = engine;
  return status;
}

/* A problem at one chunk size: the primitive, its layouts, and the reorders to and from them (NULL: not needed). */
typedef struct unit {
  kernel_cache *cache;
  dnnl_engine_t engine;
  dnnl_primitive_t compute, reorder_src, reorder_weights, reorder_residual, reorder_dst;
  dnnl_memory_desc_t user_src, user_weights, user_dst, src, weights, dst, bias, scratchpad;
} unit;

typedef struct unit_key {
  onednn_problem problem;
  int64_t level;
} unit_key;

typedef struct unit_context {
  kernel_cache *cache;
  const unit_key *key;
  bool built; /* false: the unit was in the cache */
} unit_context;

static void unit_free(void *data) {
  unit *u = data;
  dnnl_primitive_t *primitives[] = {&u->compute, &u->reorder_src, &u->reorder_weights, &u->reorder_residual,
                                    &u->reorder_dst};
  for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++)
    if (*primitives[i]) dnnl_primitive_destroy(*primitives[i]);
  kernel_cache_release(u->cache, u->engine);
  mem_free(u);
}

/* Builds the reorder a -> b; NULL if both layouts are the same. */
static dnnl_status_t reorder_build(dnnl_engine_t engine, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                                   dnnl_primitive_t *out_primitive) {
  *out_primitive = NULL;
  if (dnnl_memory_desc_equal(a, b)) return dnnl_success;
  dnnl_primitive_desc_t pd;
  dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, a, engine, b, engine, NULL);
  if (status != dnnl_success) return status;
  status = dnnl_primitive_create(out_primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

/* Sets scale, residual, and a workspace that the caller provides. */
static dnnl_status_t attributes_build(const onednn_problem *p, dnnl_primitive_attr_t *out_attributes) {
  dnnl_primitive_attr_t attributes;
  dnnl_post_ops_t post_ops = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
  if (status != dnnl_success) return status;
  status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  float scale = (float)p->scale;
  if (status == dnnl_success && scale != 1) status = dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &scale);
  if (status == dnnl_success) status = dnnl_post_ops_create(&post_ops);
  if (status == dnnl_success && p->with_residual) status = dnnl_post_ops_append_sum(post_ops, 1.0f);
  if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, post_ops);
  if (post_ops) dnnl_post_ops_destroy(post_ops);
  if (status == dnnl_success) *out_attributes = attributes;
  else dnnl_primitive_attr_destroy(attributes);
  return status;
}

static dnnl_status_t describe(dnnl_memory_desc_t *md, int64_t rank, const int64_t *dims, dnnl_data_type_t type,
                              const int64_t *strides) {
  return dnnl_memory_desc_init_by_strides(md, (int)rank, dims, type, strides);
}

static dnnl_status_t describe_any(dnnl_memory_desc_t *md, int64_t rank, const int64_t *dims, dnnl_data_type_t type) {
  return dnnl_memory_desc_init_by_tag(md, (int)rank, dims, type, dnnl_format_tag_any);
}

typedef union descriptor {
  dnnl_convolution_desc_t convolution;
  dnnl_deconvolution_desc_t deconvolution;
  dnnl_matmul_desc_t matmul;
} descriptor;

static dnnl_status_t operation_build(const onednn_problem *p, unit *u, descriptor *out) {
  const dnnl_memory_desc_t *bias = p->with_bias ? &u->bias : NULL;
  switch ((onednn_kind)p->kind) {
    case ONEDNN_CONV:
      return dnnl_dilated_convolution_forward_desc_init(&out->convolution, dnnl_forward_inference,
                                                        dnnl_convolution_direct, &u->src, &u->weights, bias, &u->dst,
                                                        p->strides, p->dilations, p->pads_begin, p->pads_end);
    case ONEDNN_CONV_TRANSPOSE:
      return dnnl_dilated_deconvolution_forward_desc_init(
          &out->deconvolution, dnnl_forward_inference, dnnl_deconvolution_direct, &u->src, &u->weights, bias, &u->dst,
          p->strides, p->dilations, p->pads_begin, p->pads_end);
    case ONEDNN_MATMUL: return dnnl_matmul_desc_init(&out->matmul, &u->src, &u->weights, bias, &u->dst);
  }
  return dnnl_invalid_arguments;
}

/* Chooses layouts. A product's src and dst keep their layouts, and with as_they_lie so do the tensors that the problem
 * marks. oneDNN chooses the others, and always those of constant weights. */
static dnnl_status_t layouts_build(const onednn_problem *p, bool as_they_lie, unit *u) {
  const bool product = p->kind == ONEDNN_MATMUL;
  const dnnl_data_type_t type = p->bf16 ? dnnl_bf16 : dnnl_f32;
  dnnl_status_t status = describe(&u->user_src, p->rank, p->src, type, p->src_strides);
  if (status == dnnl_success)
    status = describe(&u->user_weights, p->weights_rank, p->weights, dnnl_f32, p->weights_strides);
  if (status == dnnl_success) status = describe(&u->user_dst, p->rank, p->dst, dnnl_f32, p->dst_strides);
  if (status != dnnl_success) return status;
  u->src = u->user_src;
  u->dst = u->user_dst;
  u->weights = u->user_weights;
  /* oneDNN's SSE code expects every pixel's channels to be aligned as vectors, and faults otherwise (2.6) */
  bool plain = as_they_lie && (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
  if (!product && !(p->src_plain && plain)) status = describe_any(&u->src, p->rank, p->src, type);
  if (!product && !(p->dst_plain && plain) && status == dnnl_success)
    status = describe_any(&u->dst, p->rank, p->dst, dnnl_f32);
  if (!p->weights_plain && status == dnnl_success)
    status = describe_any(&u->weights, p->weights_rank, p->weights, type);
  if (status == dnnl_success && p->with_bias) {
    int64_t dims[ONEDNN_MAX_DIMS] = {p->dst[1]};
    if (product) {
      for (int64_t i = 0; i < p->rank; i++) dims[i] = i == p->rank - 1 ? p->dst[i] : 1;
    }
    status = dnnl_memory_desc_init_by_tag(&u->bias, product ? (int)p->rank : 1, dims, dnnl_f32,
                                          !product       ? dnnl_a
                                          : p->rank == 2 ? dnnl_ab
                                                         : dnnl_abc);
  }
  return status;
}

static dnnl_status_t primitive_describe(const onednn_problem *p, bool as_they_lie, dnnl_primitive_attr_t attributes,
                                        unit *u, dnnl_primitive_desc_t *out_pd) {
  descriptor operation;
  dnnl_status_t status = layouts_build(p, as_they_lie, u);
  if (status == dnnl_success) status = operation_build(p, u, &operation);
  return status == dnnl_success ? dnnl_primitive_desc_create(out_pd, &operation, attributes, u->engine, NULL) : status;
}

/* True if oneDNN has only its own plain reference for the problem. */
static bool is_reference(const_dnnl_primitive_desc_t pd) {
  const char *name;
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
         strncmp(name, "ref", 3) == 0;
}

static dnnl_status_t unit_fill(const onednn_problem *p, unit *u) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_status_t status = attributes_build(p, &attributes);
  if (status == dnnl_success) status = primitive_describe(p, true, attributes, u, &pd);
  if (attributes && (p->src_plain || p->dst_plain) &&
      (!pd || is_reference(pd))) { /* groups of a few channels: another layout may help */
    if (pd) dnnl_primitive_desc_destroy(pd);
    pd = NULL;
    status = primitive_describe(p, false, attributes, u, &pd);
  }
  if (status == dnnl_success) {
    u->src = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    u->weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    u->dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    u->scratchpad = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    status = dnnl_primitive_create(&u->compute, pd);
  }
  if (status == dnnl_success) status = reorder_build(u->engine, &u->user_src, &u->src, &u->reorder_src);
  if (status == dnnl_success) status = reorder_build(u->engine, &u->user_weights, &u->weights, &u->reorder_weights);
  if (status == dnnl_success) status = reorder_build(u->engine, &u->dst, &u->user_dst, &u->reorder_dst);
  if (status == dnnl_success && p->with_residual)
    status = reorder_build(u->engine, &u->user_dst, &u->dst, &u->reorder_residual);
  if (pd) dnnl_primitive_desc_destroy(pd);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return status;
}

static reed_status unit_build(void *context, kernel_cache_value *out_value) {
  unit_context *c = context;
  unit *u = mem_calloc(1, sizeof *u);
  if (!u) return REED_ERROR_MEMORY;
  u->cache = c->cache;
  reed_status status = engine_get(c->cache, &u->engine);
  if (status != REED_OK) {
    mem_free(u);
    return status;
  }
  int before = threads_alone();
  status = status_of(unit_fill(&c->key->problem, u));
  threads_restore(before);
  c->built = status == REED_OK;
  if (status == REED_OK) *out_value = (kernel_cache_value){u, unit_free, UNIT_BYTES};
  else unit_free(u);
  return status;
}

/* Constant weights in a unit's layout. */
typedef struct packed {
  kernel_cache *cache;
  dnnl_engine_t engine;
  dnnl_memory_t memory;
  void *data;
} packed;

typedef struct packed_key {
  const void *constant;
  dnnl_memory_desc_t from, to;
} packed_key;

typedef struct packed_context {
  const unit *unit;
  const void *constant;
  dnnl_stream_t stream;
} packed_context;

static void packed_free(void *data) {
  packed *p = data;
  if (p->memory) dnnl_memory_destroy(p->memory);
  mem_free_aligned(p->data);
  kernel_cache_release(p->cache, p->engine);
  mem_free(p);
}

static dnnl_status_t execute_two(dnnl_primitive_t primitive, dnnl_stream_t stream, dnnl_memory_t from,
                                 dnnl_memory_t to) {
  dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  return dnnl_primitive_execute(primitive, stream, 2, arguments);
}

static reed_status packed_build(void *context, kernel_cache_value *out_value) {
  const packed_context *c = context;
  const unit *u = c->unit;
  size_t bytes = dnnl_memory_desc_get_size(&u->weights);
  packed *p = mem_calloc(1, sizeof *p);
  if (!p) return REED_ERROR_MEMORY;
  p->cache = u->cache;
  reed_status status = engine_get(u->cache, &p->engine);
  if (status != REED_OK) {
    mem_free(p);
    return status;
  }
  dnnl_memory_t from = NULL;
  p->data = mem_alloc_bulk(bytes);
  status = p->data ? REED_OK : REED_ERROR_MEMORY;
  if (status == REED_OK) status = status_of(dnnl_memory_create(&p->memory, &u->weights, p->engine, p->data));
  if (status == REED_OK)
    status = status_of(dnnl_memory_create(&from, &u->user_weights, p->engine, (void *)(uintptr_t)c->constant));
  if (status == REED_OK) {
    int before = threads_alone();
    status = status_of(execute_two(u->reorder_weights, c->stream, from, p->memory));
    threads_restore(before);
  }
  if (from) dnnl_memory_destroy(from);
  if (status == REED_OK) *out_value = (kernel_cache_value){p, packed_free, (int64_t)bytes};
  else packed_free(p);
  return status;
}

/* ---- a runner: chunks over the free extent, with memory objects of its own for every worker ---- */

typedef struct memories {
  dnnl_memory_t user_src, user_weights, user_dst, residual, src, weights, dst, bias, scratchpad;
} memories;

typedef struct lane { /* one chunk size */
  unit *unit;
  packed *packed;    /* NULL: weights come with the run, or are used as they are */
  memories *workers; /* one each; owned */
  int64_t src_offset, weights_offset, dst_offset, scratchpad_offset; /* into a worker's workspace */
} lane;

typedef struct segment {
  int32_t lane;
  int64_t begin;
} segment;

struct onednn_runner {
  kernel_cache *cache, *own_cache; /* own_cache: the call had none */
  dnnl_engine_t engine;
  dnnl_stream_t *streams; /* one per worker */
  onednn_problem problem;
  cpu_team team;                            /* takes the segments */
  int64_t src_step, weights_step, dst_step; /* elements per unit of the free extent */
  const float *constant_weights;
  int64_t worker_bytes, state_bytes; /* of the workspace, per worker; of the heap */
  int32_t n_lanes, n_segments;
  lane lanes[UNITS_MAX];
  segment *segments;
};

static void memories_free(const memories *m) {
  dnnl_memory_t all[] = {m->user_src, m->user_weights, m->user_dst, m->residual,  m->src,
                         m->weights,  m->dst,          m->bias,     m->scratchpad};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (all[k]) dnnl_memory_destroy(all[k]);
}

void onednn_close(onednn_runner *r) {
  if (!r) return;
  for (int32_t i = 0; i < r->n_lanes; i++) {
    lane *l = &r->lanes[i];
    for (int32_t worker = 0; l->workers && worker < r->team.threads; worker++) memories_free(&l->workers[worker]);
    mem_free(l->workers);
    kernel_cache_release(r->cache, l->packed);
    kernel_cache_release(r->cache, l->unit);
  }
  for (int32_t worker = 0; r->streams && worker < r->team.threads; worker++)
    if (r->streams[worker]) dnnl_stream_destroy(r->streams[worker]);
  mem_free(r->streams);
  if (r->engine) kernel_cache_release(r->cache, r->engine);
  kernel_cache_close(&r->own_cache);
  mem_free(r->segments);
  mem_free(r);
}

int64_t onednn_workspace_bytes(const onednn_runner *runner) { return runner->team.threads * runner->worker_bytes; }
int64_t onednn_state_bytes(const onednn_runner *runner) { return runner->state_bytes; }

/* Makes a worker's memory objects, and the places in its workspace for the objects whose data lies there. */
static reed_status memories_make(onednn_runner *r, lane *l, memories *m) {
  const unit *u = l->unit;
  bool pack_each_run = u->reorder_weights && !l->packed;
  struct {
    bool needed;
    const dnnl_memory_desc_t *md;
    int64_t *place;
    dnnl_memory_t *out;
  } wanted[] = {
      {true, &u->user_src, NULL, &m->user_src},
      {!l->packed, &u->user_weights, NULL, &m->user_weights},
      {true, &u->user_dst, NULL, &m->user_dst},
      {r->problem.with_residual, &u->user_dst, NULL, &m->residual},
      {r->problem.with_bias, &u->bias, NULL, &m->bias},
      {u->reorder_src != NULL, &u->src, &l->src_offset, &m->src},
      {pack_each_run, &u->weights, &l->weights_offset, &m->weights},
      {u->reorder_dst != NULL, &u->dst, &l->dst_offset, &m->dst},
      {dnnl_memory_desc_get_size(&u->scratchpad) > 0, &u->scratchpad, &l->scratchpad_offset, &m->scratchpad},
  };
  int64_t end = 0;
  reed_status status = REED_OK;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == REED_OK; i++) {
    if (!wanted[i].needed) continue;
    if (wanted[i].place) {
      *wanted[i].place = end;
      end = align_up(end + (int64_t)dnnl_memory_desc_get_size(wanted[i].md));
    }
    status = status_of(dnnl_memory_create(wanted[i].out, wanted[i].md, r->engine, DNNL_MEMORY_NONE));
  }
  if (end > r->worker_bytes) r->worker_bytes = end;
  return status;
}

static reed_status lane_open(onednn_runner *r, int64_t chunk, lane *l) {
  unit_key key = {.problem = r->problem, .level = cpu_level_now()};
  key.problem.src[0] = key.problem.dst[0] = chunk;
  if (r->problem.weights_follow) key.problem.weights[0] = chunk;
  unit_context context = {r->cache, &key, false};
  void *data;
  reed_status status = kernel_cache_get(r->cache, &key, sizeof key, unit_build, &context, &data);
  if (status != REED_OK) return status;
  unit *u = l->unit = data;
  r->state_bytes += r->team.threads * MEMORIES_BYTES + (context.built ? UNIT_BYTES : 0);
  if (r->constant_weights && u->reorder_weights) {
    packed_key where;
    memset(&where, 0, sizeof where);
    where.constant = r->constant_weights;
    where.from = u->user_weights;
    where.to = u->weights;
    packed_context build = {u, r->constant_weights, r->streams[0]};
    status = kernel_cache_get(r->cache, &where, sizeof where, packed_build, &build, &data);
    if (status != REED_OK) return status;
    l->packed = data;
  }
  l->workers = mem_calloc((size_t)r->team.threads, sizeof *l->workers);
  if (!l->workers) return REED_ERROR_MEMORY;
  for (int32_t worker = 0; worker < r->team.threads && status == REED_OK; worker++)
    status = memories_make(r, l, &l->workers[worker]);
  return status;
}

/* The index of the lane with this chunk size; opens the lane on first use. */
static reed_status lane_find(onednn_runner *r, int64_t *chunks, int64_t chunk, int32_t *out_lane) {
  for (int32_t i = 0; i < r->n_lanes; i++)
    if (chunks[i] == chunk) return *out_lane = i, REED_OK;
  chunks[r->n_lanes] = chunk;
  *out_lane = r->n_lanes++;
  return lane_open(r, chunk, &r->lanes[*out_lane]);
}

/* Cuts 0..extent into chunks: as many as possible of the largest power of two, then smaller ones. One thread runs a
 * rest slightly smaller than a power of two as this power: the rest then computes the last elements of the chunk before
 * it again, with the same results. */
static reed_status segments_make(onednn_runner *r, int64_t extent, int64_t max_chunk) {
  int64_t chunks[UNITS_MAX], chunk = 1, largest;
  while (chunk * 2 <= extent && chunk * 2 <= max_chunk && chunk < (int64_t)1 << (UNITS_MAX - 1)) chunk *= 2;
  largest = chunk;
  r->segments = mem_calloc((size_t)(extent / largest + UNITS_MAX), sizeof *r->segments);
  if (!r->segments) return REED_ERROR_MEMORY;
  for (int64_t begin = 0; begin < extent; begin += chunk) {
    int64_t rest = extent - begin;
    while (chunk / 2 >= rest) chunk /= 2;
    if (chunk > rest) {
      if (chunk - rest <= extent / 16 && r->team.threads == 1) begin = extent - chunk;
      else chunk /= 2;
    }
    segment *s = &r->segments[r->n_segments++];
    s->begin = begin;
    reed_status status = lane_find(r, chunks, chunk, &s->lane);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* Reports to the session that the constant's own elements are no longer read, if every chunk size has packed weights.
 */
static void tell_packed(const reed_kernel_call *call, const onednn_runner *r) {
  bool all = r->constant_weights != NULL;
  for (int32_t i = 0; i < r->n_lanes; i++) all = all && r->lanes[i].packed;
  if (all && call->env && call->env->constant_packed)
    call->env->constant_packed(call->env->context, r->constant_weights,
                               (int64_t)dnnl_memory_desc_get_size(&r->lanes[0].unit->user_weights));
}

static reed_status streams_make(onednn_runner *r) {
  reed_status status = REED_OK;
  r->streams = mem_calloc((size_t)r->team.threads, sizeof *r->streams);
  if (!r->streams) return REED_ERROR_MEMORY;
  for (int32_t worker = 0; worker < r->team.threads && status == REED_OK; worker++)
    status = status_of(dnnl_stream_create(&r->streams[worker], r->engine, dnnl_stream_default_flags));
  return status;
}

reed_status onednn_open(const reed_kernel_call *call, const onednn_problem *problem, int64_t extent, int64_t max_chunk,
                        const void *constant_weights, onednn_runner **out_runner) {
  *out_runner = NULL;
  onednn_runner *r = mem_calloc(1, sizeof *r);
  if (!r) return cpu_no_memory(call);
  r->problem = *problem;
  r->state_bytes = sizeof *r;
  double work = (double)problem->products * (double)extent / PRODUCTS_PER_BYTE;
  r->team = cpu_team_for(cpu_env_team(call), work < 1e15 ? (int64_t)work : INT64_MAX);
  if (r->team.threads > extent) r->team.threads = (int32_t)(extent > 1 ? extent : 1);
  if (r->team.threads > 1 && max_chunk > extent / (2 * r->team.threads))
    max_chunk = extent / (2 * r->team.threads) > 1 ? extent / (2 * r->team.threads) : 1;
  r->constant_weights = constant_weights;
  r->src_step = problem->src_strides[0];
  r->weights_step = problem->weights_follow ? problem->weights_strides[0] : 0;
  r->dst_step = problem->dst_strides[0];
  reed_status status = REED_OK;
  r->cache = call->env ? call->env->cache : NULL;
  if (!r->cache) {
    status = kernel_cache_open(&r->own_cache);
    r->cache = r->own_cache;
  }
  if (status == REED_OK) status = engine_get(r->cache, &r->engine);
  if (status == REED_OK) status = streams_make(r);
  if (status == REED_OK) status = segments_make(r, extent, max_chunk);
  if (status == REED_OK) {
    tell_packed(call, r);
    *out_runner = r;
    return REED_OK;
  }
  onednn_close(r);
  return status == REED_ERROR_MEMORY ? cpu_no_memory(call) : REED_OK;
}

static dnnl_status_t place(dnnl_memory_t memory, const void *data) {
  return memory ? dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data) : dnnl_success;
}

/* A call of onednn_run. */
typedef struct job {
  const onednn_runner *r;
  const void *x;
  const float *w, *bias, *residual;
  float *y;
  char *workspace;
  int failed; /* the dnnl_status_t of a segment that failed */
} job;

/* Gives a worker's memory objects their data for one segment. */
static dnnl_status_t place_all(const job *j, const segment *s, const lane *l, const memories *m, char *workspace) {
  const onednn_runner *r = j->r;
  struct {
    dnnl_memory_t memory;
    const void *data;
  } places[] = {{m->user_src, (const char *)j->x + s->begin * r->src_step * (r->problem.bf16 ? 2 : 4)},
                {m->user_weights, j->w ? j->w + s->begin * r->weights_step : NULL},
                {m->user_dst, j->y + s->begin * r->dst_step},
                {m->residual, j->residual ? j->residual + s->begin * r->dst_step : NULL},
                {m->bias, j->bias},
                {m->src, workspace + l->src_offset},
                {m->weights, workspace + l->weights_offset},
                {m->dst, workspace + l->dst_offset},
                {m->scratchpad, workspace + l->scratchpad_offset}};
  dnnl_status_t status = dnnl_success;
  for (size_t i = 0; i < sizeof places / sizeof *places && status == dnnl_success; i++)
    status = place(places[i].memory, places[i].data);
  return status;
}

/* Runs one segment: reorders in, the primitive, reorder out. */
static dnnl_status_t segment_run(const job *j, const segment *s, int32_t worker) {
  const onednn_runner *r = j->r;
  const lane *l = &r->lanes[s->lane];
  const memories *m = &l->workers[worker];
  const unit *u = l->unit;
  dnnl_stream_t stream = r->streams[worker];
  if (j->residual && !u->reorder_residual)
    memcpy(j->y + s->begin * r->dst_step, j->residual + s->begin * r->dst_step,
           dnnl_memory_desc_get_size(&u->user_dst));
  dnnl_status_t status = place_all(j, s, l, m, j->workspace + worker * r->worker_bytes);
  dnnl_memory_t src = m->src ? m->src : m->user_src, dst = m->dst ? m->dst : m->user_dst;
  dnnl_memory_t weights = l->packed ? l->packed->memory : m->weights ? m->weights : m->user_weights;
  if (status == dnnl_success && m->src) status = execute_two(u->reorder_src, stream, m->user_src, src);
  if (status == dnnl_success && m->weights) status = execute_two(u->reorder_weights, stream, m->user_weights, weights);
  if (status == dnnl_success && u->reorder_residual)
    status = execute_two(u->reorder_residual, stream, m->residual, dst);
  if (status != dnnl_success) return status;
  dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}, {0}, {0}};
  int n = 3;
  if (m->bias) arguments[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, m->bias};
  if (m->scratchpad) arguments[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, m->scratchpad};
  status = dnnl_primitive_execute(u->compute, stream, n, arguments);
  if (status == dnnl_success && m->dst) status = execute_two(u->reorder_dst, stream, dst, m->user_dst);
  return status;
}

static void run_segments(void *context, int64_t begin, int64_t end, int32_t worker) {
  job *j = context;
  int before = threads_alone();
  for (int64_t i = begin; i < end && !cpu_cancelled(&j->r->team); i++) {
    dnnl_status_t status = segment_run(j, &j->r->segments[i], worker);
    if (status != dnnl_success) __atomic_store_n(&j->failed, (int)status, __ATOMIC_RELAXED);
  }
  threads_restore(before);
}

reed_status onednn_run(const onednn_runner *r, const void *x, const float *w, const float *bias, const float *residual,
                       float *y, void *workspace) {
  job j = {.r = r, .x = x, .w = w, .bias = bias, .residual = residual, .y = y, .workspace = workspace};
  cpu_team team = r->team;
  team.chunks = r->n_segments;
  reed_status status = cpu_parallel_scratch(team, r->n_segments, 1, run_segments, &j);
  if (status != REED_OK || j.failed == dnnl_success) return status;
  return j.failed == dnnl_out_of_memory ? REED_ERROR_MEMORY : REED_ERROR_DEVICE;
}
