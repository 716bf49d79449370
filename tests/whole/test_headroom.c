/* Memory of changing extents: a size near one that was seen costs no page fault, memory that later runs do not need
 * goes back, and a declared range bounds what is taken. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/suite.h"
#include "tests/whole/runner.h"

/* Rows of 2048 sums: one tensor in the arena, in whose place the next one is computed, and an output as large. The
 * kernels of these operators take no memory of their own. */
static onnx_build *chain(const char *rows) {
  onnx_build *b = build_open(17);
  char type[64];
  snprintf(type, sizeof type, "f32[%s,1024]", rows);
  build_input(b, "x", type);
  build_i64(b, "one", "", (int64_t[]){1});
  build_int(b, build_node(b, "Concat", "x,x", "c"), "axis", 1);
  build_int(b, build_node(b, "Softmax", "c", "s"), "axis", 1);
  build_node(b, "CumSum", "s,one", "z");
  snprintf(type, sizeof type, "f32[%s,2048]", rows);
  build_output(b, "z", type);
  return b;
}

static runner open_chain(const char *rows, const reed_dim_range *dims, size_t n_dims, const char *device) {
  onnx_build *b = chain(rows);
  runner r = runner_open(b, &(reed_compile_options){.dims = dims, .n_dims = n_dims}, device, "headroom");
  build_close(&b);
  return r;
}

static const char *const devices[] = {"host", "sim"};

static int64_t page_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Runs with n rows; returns the page faults of the run. keep NULL: the output is closed. */
static int64_t run_rows(const runner *r, int64_t n, reed_tensor **keep) {
  reed_tensor *in, *out;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){n, 1024}, &in), REED_OK);
  for (int64_t i = 0; i < n * 1024; i += 7) ((float *)reed_tensor_data(in))[i] = (float)(i % 13);
  int64_t before = page_faults();
  runner_run(r, &in, 1, &out, 1, "a run");
  int64_t faults = page_faults() - before;
  reed_tensor_close(&in);
  if (keep) *keep = out;
  else reed_tensor_close(&out);
  return faults;
}

/* The number after "key": in the figures of the device. */
static int64_t figure(const runner *r, const char *device, const char *key) {
  char *json, quoted[64];
  ck_assert_int_eq(reed_session_stats_json(r->session, &json, NULL), REED_OK);
  snprintf(quoted, sizeof quoted, "\"%s\":{", device);
  const char *at = strstr(json, quoted);
  ck_assert_ptr_nonnull(at);
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  at = strstr(at, quoted);
  ck_assert_msg(at != NULL, "%s: %s", key, json);
  int64_t value = strtoll(at + strlen(quoted), NULL, 10);
  reed_text_free(json);
  return value;
}

static const reed_dim_range up_to_2000[] = {{"n", 0, 2000}};

enum { FAULTS_OF_FIRST_ENTRIES = 60 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FAULTS_OF_AN_ENTRY = 60 }; /* with those of the sanitizer's own memory */
#else
enum { FAULTS_OF_AN_ENTRY = 20 };
#endif

/* Each new number of rows is within an eighth of 400, whose tensors take 3.2 MB each, or 800 page faults: they cost
 * none. The first two new sizes take heap memory for their entries and the next ones; later a run takes 32 KiB of it,
 * 8 page faults, from time to time. */
START_TEST(a_size_near_a_seen_one_costs_no_page_fault) {
  runner r = open_chain("n", up_to_2000, _i ? 1 : 0, NULL);
  reed_tensor *held;
  int64_t first = run_rows(&r, 400, &held); /* two generations of outputs, as a decoder's cache has */
  run_rows(&r, 400, NULL);
  run_rows(&r, 400, NULL);
  reed_tensor_close(&held);
  for (int64_t n = 401; n <= 440; n += 3) {
    const int64_t faults = run_rows(&r, n, NULL);
    ck_assert_msg(faults <= (n < 407 ? FAULTS_OF_FIRST_ENTRIES : FAULTS_OF_AN_ENTRY),
                  "%lld rows: %lld page faults, %lld in the first run", (long long)n, (long long)faults,
                  (long long)first);
  }
  runner_close(&r);
}
END_TEST

/* Blocks of a model that has run with one size have 1 MiB more at most; from the second size on, an eighth. A row has
 * 8 KiB in the arena and in the output, so that 3,000 have 24 MB. */
START_TEST(large_blocks_get_an_eighth_from_the_second_size_on) {
  runner r = open_chain("n", NULL, 0, NULL);
  int64_t first = run_rows(&r, 3000, NULL);
  run_rows(&r, 3000, NULL);
  ck_assert_int_le(figure(&r, "host", "output_reserved_bytes"), 3000 * 8192 + (1 << 20));
  int64_t held = figure(&r, "host", "arena_held_bytes");
  ck_assert_int_le(held, 3000 * 8192 + (2 << 20));
  run_rows(&r, 3150, NULL);
  run_rows(&r, 3150, NULL);
  for (int64_t n = 3200; n <= 3500; n += 60) {
    int64_t faults = run_rows(&r, n, NULL);
    ck_assert_msg(faults <= 60, "%lld rows: %lld page faults, %lld in the first run", (long long)n, (long long)faults,
                  (long long)first);
  }
  runner_close(&r);
}
END_TEST

/* The address of the output of a run with n rows. */
static const void *output_at(const runner *r, int64_t n) {
  reed_tensor *out;
  run_rows(r, n, &out);
  const void *at = reed_tensor_data(out);
  reed_tensor_close(&out);
  return at;
}

/* The output of n rows of 8 KiB, whose block has addresses for `most` rows, has memory for its rows and an eighth more,
 * from 4 MiB on to the end of a huge page. */
static void check_held(const runner *r, int64_t n, int64_t most) {
  const int64_t page = 2 << 20, held = figure(r, "host", "output_reserved_bytes");
  int64_t end = n * 8192 + n * 1024;
  if (end >= 2 * page) end = (end + page - 1) / page * page;
  ck_assert_int_ge(held, n * 8192);
  ck_assert_int_le(held, end);
  if (n * 8192 >= 2 * page && end <= most * 8192) ck_assert_int_eq(held % page, 0);
}

/* All extents within a declared range use one block, of which only the pages are in memory that some run needed. */
START_TEST(a_declared_range_sizes_an_output_once) {
  runner r = open_chain("n", up_to_2000, 1, NULL);
  const void *at = output_at(&r, 1);
  for (int64_t n = 1; n <= 2000; n = n * 3 / 2 + 1) {
    ck_assert_ptr_eq(output_at(&r, n), at);
    check_held(&r, n, 2000);
  }
  ck_assert_ptr_eq(output_at(&r, 2000), at);
  ck_assert_ptr_eq(output_at(&r, 600), at);
  runner_close(&r);
}
END_TEST

/* Without a range too, an output that grows to four times its size stays where it is: it takes the pages that it lacks,
 * not a new block. Outputs that are held at one time have blocks of their own. */
START_TEST(an_output_that_grows_keeps_its_block) {
  runner r = open_chain("n", NULL, 0, NULL);
  const void *at = output_at(&r, 300);
  for (int64_t n = 300; n <= 1200; n += 75) {
    ck_assert_ptr_eq(output_at(&r, n), at);
    check_held(&r, n, 4 * 300);
  }
  reed_tensor *a, *b;
  run_rows(&r, 1200, &a);
  run_rows(&r, 1200, &b);
  const char *x = reed_tensor_data(a), *y = reed_tensor_data(b);
  ck_assert(x + reed_tensor_bytes(a) <= y || y + reed_tensor_bytes(b) <= x);
  reed_tensor_close(&a);
  reed_tensor_close(&b);
  runner_close(&r);
}
END_TEST

/* Without an upper end, or with one beyond any memory: on the host, in pinned memory, on a device. */
START_TEST(a_declared_range_is_no_more_than_a_bound) {
  reed_dim_range huge[] = {{"n", 0, INT64_MAX / 16}}, open[] = {{"n", 1, REED_UNBOUNDED}};
  int where = _i / 2;
  runner r = open_chain("n", _i % 2 ? huge : open, 1, devices[where > 0]);
  if (where == 2) ck_assert_int_eq(reed_session_keep_output(r.session, 0, true, NULL), REED_OK);
  for (int64_t n = 1; n < 300; n = n * 2 + 1) run_rows(&r, n, NULL);
  int64_t held = figure(&r, where == 2 ? "sim" : "host", "output_reserved_bytes");
  ck_assert_int_gt(held, 0);
  ck_assert_int_le(held, 300 * 8192 * 9 / 8 * 3);
  runner_close(&r);
}
END_TEST

/* A device has no addresses without memory: its block has the largest size where that is at most four times the size.
 */
START_TEST(a_device_takes_the_largest_size_that_is_near) {
  runner r = open_chain("n", (reed_dim_range[]){{"n", 0, 400}}, 1, "sim");
  ck_assert_int_eq(reed_session_keep_output(r.session, 0, true, NULL), REED_OK);
  run_rows(&r, 90, NULL);
  ck_assert_int_lt(figure(&r, "sim", "output_reserved_bytes"), 150 * 8192);
  for (int64_t n = 120; n <= 400; n += 40) {
    run_rows(&r, n, NULL);
    ck_assert_int_ge(figure(&r, "sim", "output_reserved_bytes"), 400 * 8192);
    ck_assert_int_lt(figure(&r, "sim", "output_reserved_bytes"), (400 + 150) * 8192);
  }
  runner_close(&r);
}
END_TEST

START_TEST(memory_of_large_runs_goes_back_when_the_load_falls) {
  const char *device = devices[_i];
  runner r = open_chain("n", NULL, 0, device);
  run_rows(&r, 3000, NULL); /* 24 MB each in the arena and in the output */
  int64_t large = figure(&r, device, "reserved_bytes") + (_i ? 0 : figure(&r, device, "output_reserved_bytes"));
  ck_assert_int_ge(large, 36 << 20);
  for (int i = 0; i < 200; i++) run_rows(&r, 10 + i % 3, NULL);
  int64_t small = figure(&r, device, "reserved_bytes") + (_i ? 0 : figure(&r, device, "output_reserved_bytes"));
  ck_assert_msg(small <= 8 << 20, "%lld bytes reserved, %lld after the large run", (long long)small, (long long)large);
  run_rows(&r, 3000, NULL);
  runner_close(&r);
}
END_TEST

/* Extents that cannot change need no headroom. */
START_TEST(a_model_of_fixed_extents_has_no_headroom) {
  runner fixed = open_chain("2000", NULL, 0, NULL), open = open_chain("n", NULL, 0, NULL),
         declared = open_chain("n", (reed_dim_range[]){{"n", 2000, 2000}}, 1, NULL);
  run_rows(&fixed, 2000, NULL);
  run_rows(&open, 2000, NULL);
  run_rows(&declared, 2000, NULL);
  int64_t least = figure(&fixed, "host", "output_reserved_bytes"),
          most = figure(&open, "host", "output_reserved_bytes");
  ck_assert_int_eq(least, 2000 * 2048 * 4);
  ck_assert_int_gt(most, least);
  ck_assert_int_le(most, least + least / 8);
  ck_assert_int_eq(figure(&declared, "host", "output_reserved_bytes"), least);
  ck_assert_int_lt(figure(&fixed, "host", "arena_held_bytes"), figure(&open, "host", "arena_held_bytes"));
  runner_close(&fixed);
  runner_close(&open);
  runner_close(&declared);
}
END_TEST

/* ---- layouts of arenas ---- */

/* Five tensors of several sizes, of which three live at once. */
static runner open_layers(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,64]");
  build_i64(b, "one", "", (int64_t[]){1});
  build_int(b, build_node(b, "Concat", "x,x,x", "c"), "axis", 1);
  build_int(b, build_node(b, "Softmax", "c", "s"), "axis", 0);
  build_int(b, build_node(b, "Concat", "s,x,c", "d"), "axis", 1);
  build_node(b, "CumSum", "d,one", "e");
  build_int(b, build_node(b, "Concat", "e,c", "f"), "axis", 1);
  build_int(b, build_node(b, "Softmax", "f", "g"), "axis", 0);
  build_node(b, "ReduceSum", "g,one", "z");
  build_output(b, "z", "f32");
  runner r = runner_open(b, NULL, NULL, "layers");
  build_close(&b);
  return r;
}

/* The last run's largest arena over its lower bound. */
static double arena_ratio(const runner *r, int64_t n) {
  double ratio = (double)figure(r, "host", "arena_bytes") / (double)figure(r, "host", "arena_lower_bound");
  ck_assert_msg(ratio >= 1, "%lld rows: the arena is %f of what no arena can be below", (long long)n, ratio);
  return ratio;
}

/* Runs with n rows. Returns the arena's bytes over its lower bound; *out_again: the layout was an earlier entry's. */
static double arena_of(const runner *r, int64_t n, bool *out_again) {
  int64_t before = figure(r, "memo", "plans_reused");
  reed_tensor *in, *out;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){n, 64}, &in), REED_OK);
  memset(reed_tensor_data(in), 0, (size_t)reed_tensor_bytes(in));
  runner_run(r, &in, 1, &out, 1, "layers");
  reed_tensor_close(&in);
  reed_tensor_close(&out);
  *out_again = figure(r, "memo", "plans_reused") > before;
  return arena_ratio(r, n);
}

/* The first layout is exact, later ones are within a tenth of the entry's lower bound; a layout serves sizes that fill
 * half of it, and smaller ones get a layout of their own. */
START_TEST(an_arena_is_near_its_lower_bound_when_it_is_laid_out) {
  runner r = open_layers();
  bool again;
  ck_assert_double_eq(arena_of(&r, 4000, &again), 1);
  ck_assert(!again);
  double ratio = arena_of(&r, 4040, &again); /* the new arena has headroom for later sizes */
  ck_assert(!again && ratio <= 1.1);
  for (int64_t n = 4050; n <= 4100; n += 10) {
    ratio = arena_of(&r, n, &again);
    ck_assert_msg(again, "%lld rows were laid out anew", (long long)n);
    ck_assert_double_le(ratio, 1.1);
  }
  (void)arena_of(&r, 3000, &again);
  ck_assert(again);
  ratio = arena_of(&r, 1500, &again); /* less than half of the layouts */
  ck_assert(!again && ratio <= 1.1);
  (void)arena_of(&r, 3500, &again); /* the memo still has the larger layouts */
  ck_assert(again);
  uint32_t random = 7;
  int n_made = 0;
  for (int i = 0; i < 60; i++) {
    random = random * 1664525u + 1013904223u;
    int64_t n = 200 + (random >> 8) % 6000;
    ratio = arena_of(&r, n, &again);
    ck_assert_msg(ratio <= (again ? 2.2 : 1.1), "%lld rows: %f", (long long)n, ratio);
    n_made += !again;
  }
  ck_assert_int_le(n_made, 30);
  runner_close(&r);
}
END_TEST

/* The first layout is exact. In a small arena the second one has slots for twice the bytes. */
START_TEST(sizes_that_vary_are_laid_out_twice_in_a_small_arena) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,8]");
  build_int(b, build_node(b, "Softmax", "x", "s"), "axis", 0);
  build_int(b, build_node(b, "Concat", "s,x", "c"), "axis", 1);
  build_int(b, build_node(b, "Softmax", "c", "y"), "axis", 1);
  build_output(b, "y", "f32[n,16]");
  runner r = runner_open(b, &(reed_compile_options){0}, "host", "varying");
  build_close(&b);
  static const int64_t rows[] = {100, 110, 180, 150, 215, 120, 190, 205, 12};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    reed_tensor *in, *out;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){rows[i], 8}, &in), REED_OK);
    runner_run(&r, &in, 1, &out, 1, "a run");
    reed_tensor_close(&in);
    reed_tensor_close(&out);
    (void)arena_ratio(&r, rows[i]);
  }
  int64_t n_planned = figure(&r, "memo", "misses") - figure(&r, "memo", "variants");
  ck_assert_int_ge(n_planned, 3);
  ck_assert_int_le(n_planned - figure(&r, "memo", "plans_reused"), 2);
  runner_close(&r);
}
END_TEST

/* In an entry that has an earlier one's slots a tensor without elements has a slot, too, which may lie behind the bytes
 * that the arena needs. The device refuses a pointer that is not its memory. */
START_TEST(an_empty_part_of_a_join_lies_in_the_arena) {
  for (int64_t n = 40; n < 100; n++) {
    onnx_build *b = build_open(17);
    build_input(b, "p", "f32[2,n,2]");
    build_input(b, "x", "f32[2,m,2]");
    build_i64(b, "rows", "1", (int64_t[]){1});
    build_node(b, "Neg", "x", "less");
    build_int(b, build_node(b, "Concat", "p,p,less", "c"), "axis", 1);
    build_node(b, "ReduceSum", "c,rows", "y");
    build_output(b, "y", "f32[2,1,2]");
    runner r = runner_open(b, NULL, "sim", "empty");
    build_close(&b);
    for (int64_t i = 0; i < 2; i++) {
      reed_tensor *in[2], *out;
      ck_assert_int_eq(reed_tensor_open(REED_F32, 3, (int64_t[]){2, n - 10 + 10 * i, 2}, &in[0]), REED_OK);
      ck_assert_int_eq(reed_tensor_open(REED_F32, 3, (int64_t[]){2, 1 - i, 2}, &in[1]), REED_OK);
      runner_run(&r, in, 2, &out, 1, "a run");
      for (int k = 0; k < 2; k++) reed_tensor_close(&in[k]);
      reed_tensor_close(&out);
    }
    runner_close(&r);
  }
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* the sanitizers' memory has pages of its own */
/* The entry of each size takes some pages of the heap, and the memo keeps all of them, because each size comes twice.
 * The tensors are small. */
START_TEST(the_memos_new_entries_cost_no_page_fault) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,8]");
  char from[16] = "x", to[16];
  for (int i = 0; i < 200; i++) {
    snprintf(to, sizeof to, "t%d", i);
    build_int(b, build_node(b, "Softmax", from, to), "axis", i % 2);
    memcpy(from, to, sizeof from);
  }
  build_output(b, from, "f32[n,8]");
  runner r = runner_open(b, &(reed_compile_options){0}, "host", "entries");
  build_close(&b);
  int n_with_faults = 0;
  int64_t most = 0;
  for (int i = 0; i < 44; i++) {
    reed_tensor *in, *out;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){100 + i, 8}, &in), REED_OK);
    for (int again = 0; again < 2; again++) {
      int64_t before = page_faults();
      runner_run(&r, &in, 1, &out, 1, "a run");
      int64_t faults = page_faults() - before;
      n_with_faults += i >= 4 && faults > 0;
      if (i >= 4 && faults > most) most = faults;
      reed_tensor_close(&out);
    }
    reed_tensor_close(&in);
  }
  ck_assert_msg(n_with_faults <= 8, "%d of 80 runs had page faults, %lld at most", n_with_faults, (long long)most);
  runner_close(&r);
}
END_TEST

static int64_t resident_bytes(void) {
  long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fscanf(file, "%*d %lld", &pages), 1);
  fclose(file);
  return pages * 4096;
}

/* The places of a tensor of 4 Mi elements could take 64 MiB, but three of them are written. */
START_TEST(a_tensor_at_its_bound_takes_the_pages_that_are_written) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "bool[n,1024]");
  build_node(b, "NonZero", "x", "places");
  build_node(b, "Add", "places,places", "twice");
  build_output(b, "twice", "i64[2,m]");
  runner r = runner_open(b, &(reed_compile_options){0}, "host", "bound");
  build_close(&b);
  reed_tensor *in, *out;
  ck_assert_int_eq(reed_tensor_open(REED_BOOL, 2, (int64_t[]){4096, 1024}, &in), REED_OK);
  memset(reed_tensor_data(in), 0, (size_t)4096 * 1024);
  for (int i = 0; i < 3; i++) ((char *)reed_tensor_data(in))[i * 1024 + 5] = 1;
  int64_t before = resident_bytes();
  runner_run(&r, &in, 1, &out, 1, "a run");
  ck_assert_int_lt(resident_bytes() - before, (int64_t)16 << 20);
  reed_tensor_close(&in);
  reed_tensor_close(&out);
  runner_close(&r);
}
END_TEST

/* Blocks of less than a megabyte lie in the C library's heap, and small blocks above them keep it from shrinking. */
START_TEST(outputs_of_less_than_a_mapping_leave_resident_memory) {
  enum { N = 24, ROWS = 100, AFTER = 200, SETTLED = 400 };
  ck_assert_int_eq(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1); /* as it becomes by itself when such a block is freed */
  runner r = open_chain("n", NULL, 0, "host");
  reed_tensor *outputs[N];
  void *settled[SETTLED];
  for (int i = 0; i < N; i++) run_rows(&r, ROWS, &outputs[i]);
  for (int i = 0; i < SETTLED; i++) settled[i] = malloc(64 << 10); /* the last ones lie above, below are few gaps */
  int64_t before = resident_bytes();
  for (int i = 0; i < N; i++) reed_tensor_close(&outputs[i]);
  for (int i = 0; i < AFTER; i++) run_rows(&r, 1, NULL);
  ck_assert_int_gt(before - resident_bytes(), (int64_t)N / 2 * ROWS * 2048 * 4);
  for (int i = 0; i < SETTLED; i++) free(settled[i]);
  runner_close(&r);
}
END_TEST
#endif

/* The slot of a tensor without elements keeps its room, and may so begin behind the end of the arena that the run
 * needs. The tensor's address is in the arena all the same. */
START_TEST(a_tensor_without_elements_lies_in_the_arena) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,4]");
  build_input(b, "start", "i64[1]");
  build_i64(b, "end", "1", (int64_t[]){1 << 20});
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "two", "1", (int64_t[]){2});
  build_i64(b, "places", "3", (int64_t[]){0, 2, 1});
  build_node(b, "Abs", "x", "a");
  build_node(b, "Slice", "a,start,end,zero,two", "rows");
  build_int(b, build_node(b, "Gather", "rows,places", "y"), "axis", 1);
  build_output(b, "y", "f32[k,3]");
  runner r = runner_open(b, &(reed_compile_options){0}, devices[_i], "empty");
  build_close(&b);
  const int64_t runs[][2] = {{4, 0}, {4000, 4000}, {4, 0}, {400, 400}, {4000, 3990}};
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
    reed_tensor *in[2], *out;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){runs[k][0], 4}, &in[0]), REED_OK);
    ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){1}, &in[1]), REED_OK);
    ((int64_t *)reed_tensor_data(in[1]))[0] = runs[k][1];
    runner_run(&r, in, 2, &out, 1, "a run");
    ck_assert_int_eq(reed_tensor_dims(out)[0], (runs[k][0] - runs[k][1] + 1) / 2);
    reed_tensor_close(&in[0]), reed_tensor_close(&in[1]), reed_tensor_close(&out);
  }
  runner_close(&r);
}
END_TEST

int main(void) {
  Suite *s = suite_create("headroom");
  TCase *c = tcase_create("headroom");
  tcase_set_timeout(c, 60);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  tcase_add_loop_test(c, a_size_near_a_seen_one_costs_no_page_fault, 0,
                      2); /* the sanitizers' memory causes page faults, too */
  tcase_add_test(c, large_blocks_get_an_eighth_from_the_second_size_on);
  tcase_add_test(c, the_memos_new_entries_cost_no_page_fault);
  tcase_add_test(c, a_tensor_at_its_bound_takes_the_pages_that_are_written);
  tcase_add_test(c, outputs_of_less_than_a_mapping_leave_resident_memory);
#endif
  tcase_add_loop_test(c, memory_of_large_runs_goes_back_when_the_load_falls, 0, 2);
  tcase_add_test(c, a_declared_range_sizes_an_output_once);
  tcase_add_test(c, an_output_that_grows_keeps_its_block);
  tcase_add_loop_test(c, a_declared_range_is_no_more_than_a_bound, 0, 6);
  tcase_add_test(c, a_device_takes_the_largest_size_that_is_near);
  tcase_add_test(c, sizes_that_vary_are_laid_out_twice_in_a_small_arena);
  tcase_add_test(c, an_empty_part_of_a_join_lies_in_the_arena);
  tcase_add_test(c, an_arena_is_near_its_lower_bound_when_it_is_laid_out);
  tcase_add_test(c, a_model_of_fixed_extents_has_no_headroom);
  tcase_add_loop_test(c, a_tensor_without_elements_lies_in_the_arena, 0, 2);
  suite_add_tcase(s, c);
  return suite_run(s);
}
