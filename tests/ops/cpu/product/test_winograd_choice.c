/* The choice between the forms of a Winograd convolution and the direct one, by CPU level and kind of units, and how
 * plans use memory. */
#include "ops/cpu/product/winograd.h"
#include "tests/ops/cpu/product/winograd_case.h"
#include "tests/suite.h"

/* Weights whose transform would take more than WINOGRAD_STORED_MOST bytes are not kept. */
START_TEST(large_weights_are_not_stored) {
  winograd_problem p = {.images = 1,
                        .channels = 512,
                        .outputs = 512,
                        .in = {14, 14},
                        .out = {14, 14},
                        .pad = {1, 1},
                        .stride = {1, 1},
                        .dilation = {1, 1},
                        .slices = winograd_one_slice};
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    p.activation.level = level;
    winograd_form form;
    if (winograd_choose(&p, true, &form)) ck_assert(!form.stored);
  }
}
END_TEST

/* Units that compute whole vectors multiply twice as fast, but read and transform weights at the same rate: a map of
 * few pixels is computed directly. A map of 14x14 keeps transformed weights, larger ones need none, but one of 28x28
 * where transforms of weights take longer still. */
START_TEST(whole_units_transform_fewer_weights) {
  for (cpu_units kind = 0; kind < CPU_UNITS_COUNT; kind++) {
    cpu_units_use(cpu_units_name(kind));
    ck_assert(cpu_units_now() == kind);
    for (int32_t side = 7; side <= 56; side *= 2) {
      const int32_t channels = 3584 / side;
      winograd_problem p = {.images = 1,
                            .channels = channels,
                            .outputs = channels,
                            .in = {side, side},
                            .out = {side, side},
                            .pad = {1, 1},
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .slices = winograd_one_slice,
                            .activation = {.level = CPU_AVX512}};
      winograd_form form;
      ck_assert(winograd_choose(&p, true, &form) == (side > 7 || kind == CPU_UNITS_HALF));
      if (side > 7) ck_assert(form.stored == (side == 14 || (side == 28 && kind == CPU_UNITS_INTEL)));
    }
  }
  cpu_units_use(NULL);
}
END_TEST

/* A word that names no kind leaves the machine's own. */
START_TEST(other_words_leave_the_machines_units) {
  cpu_units_use(NULL);
  const cpu_units own = cpu_units_now();
  cpu_units_use("quarter");
  ck_assert(cpu_units_now() == own);
}
END_TEST

/* One thread keeps the transformed weights of a small convolution in its caches; those of large ones, and those that
 * several threads read, are written past the caches. */
START_TEST(large_or_shared_weights_are_written_past_the_caches) {
  for (int kind = 0; kind < 4; kind++) {
    const bool large = kind % 2, shared = kind / 2;
    int64_t channels = large ? 256 : 32;
    winograd_problem p = {.images = 1,
                          .channels = channels,
                          .outputs = channels,
                          .in = {96, 96},
                          .out = {96, 96},
                          .pad = {1, 1},
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .slices = winograd_one_slice,
                          .activation = {.level = CPU_BASE, .kind = ACTIVATION_SIGMOID}}; /* no panels of a thread */
    winograd_form form = {.n = {{16}, {16}}};
    winograd_plan plan;
    winograd_plan_init(&plan, &p, &form, (cpu_team){.threads = 1 + shared, .chunks = 1});
    ck_assert_int_eq(plan.sections[0].past, large || shared);
  }
}
END_TEST

/* With many outputs, a panel's part of the transformed weights and values is in memory for each thread, not all of
 * them. Threads too many for the panels share all of them; with an activation whose last bits depend on its vectors,
 * every number of threads does. */
START_TEST(many_outputs_take_the_memory_of_some) {
  winograd_problem p = {.images = 1,
                        .channels = 64,
                        .outputs = 256,
                        .in = {48, 64},
                        .out = {48, 64},
                        .pad = {1, 1},
                        .stride = {1, 1},
                        .dilation = {1, 1},
                        .slices = winograd_one_slice};
  const winograd_form form = {.n = {{8}, {11}}};
  const int64_t all = (int64_t)(64 * sizeof(float)) * p.channels * p.outputs;
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++)
    for (int32_t threads = 1; threads <= 64; threads *= 2)
      for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        p.activation = (activation){.level = level, .kind = sigmoid ? ACTIVATION_SIGMOID : ACTIVATION_RELU};
        winograd_plan plan;
        winograd_plan_init(&plan, &p, &form, (cpu_team){.threads = threads, .chunks = 1});
        bool narrow = !sigmoid && p.outputs / plan.width >= 4 * threads;
        ck_assert_int_eq(plan.sections[0].narrow, narrow);
        ck_assert_int_eq(winograd_plan_workspace_bytes(&plan) < all, narrow);
      }
}
END_TEST
/* Transformed weights that are much larger than a map's tiles are computed in parts, whatever the number of threads, so
 * that many threads need little more memory than two. _i: the kind of units. */
START_TEST(many_threads_need_little_more_memory) {
  static const int64_t volumes[][5] = {{512, 512, 16, 16, 16}, {256, 256, 8, 28, 28}, {512, 512, 8, 28, 28}};
  cpu_units_use(cpu_units_name((cpu_units)_i));
  for (size_t k = 0; k < sizeof volumes / sizeof *volumes; k++)
    for (cpu_level level = CPU_AVX2; level <= cpu_level_best(); level++) {
      const int64_t *v = volumes[k];
      winograd_problem p = {
          .images = 1,
          .channels = v[0],
          .outputs = v[1],
          .in = {v[3], v[4]},
          .out = {v[3], v[4]},
          .pad = {1, 1},
          .stride = {1, 1},
          .dilation = {1, 1},
          .slices = {.in = v[2], .out = v[2], .taps = 3, .stride = 1, .dilation = 1, .pad = 1},
          .activation = {.kind = ACTIVATION_RELU, .level = level},
      };
      problem_lay_out(&p, false);
      winograd_form form;
      ck_assert(winograd_choose(&p, false, &form));
      int64_t bytes[33] = {0};
      for (int32_t threads = 2; threads <= 32; threads *= 2) {
        winograd_plan plan;
        winograd_plan_init(&plan, &p, &form, (cpu_team){.threads = threads, .chunks = 1});
        bytes[threads] = winograd_plan_workspace_bytes(&plan);
        ck_assert_msg((double)bytes[threads] <= 1.8 * (double)bytes[2],
                      "%s, volume %d: %lld bytes with %d threads, %lld with two", cpu_level_name(level), (int)k,
                      (long long)bytes[threads], (int)threads, (long long)bytes[2]);
      }
    }
  cpu_units_use(NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("winograd choice");
  TCase *t = tcase_create("all");
  tcase_add_test(t, large_weights_are_not_stored);
  tcase_add_test(t, whole_units_transform_fewer_weights);
  tcase_add_test(t, other_words_leave_the_machines_units);
  tcase_add_test(t, large_or_shared_weights_are_written_past_the_caches);
  tcase_add_test(t, many_outputs_take_the_memory_of_some);
  tcase_add_loop_test(t, many_threads_need_little_more_memory, 0, CPU_UNITS_COUNT);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
