/* Hits that run from a list of calls (vm/epoch/replay.h): the same elements, counts, memory and failures as in a
 * session that collects spans, in which the interpreter executes every run section. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"
#include "vm/epoch/replay_list.h"
#include "vm/state.h"

#define HEAD \
  ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n] \"x\"\n.type counts = i64[?, ?] \"counts\"\n" \
  ".const three = f32[1] {3}\n.const one = f32[1] {1}\n.site add = Add (2 -> 1) \"the add\"\n" \
  ".site mul = Mul (2 -> 1) \"the mul\"\n.site clip = Clip (3 -> 1) \"the clip\"\n.site neg = Neg (1 -> 1) \"neg\"\n" \
  ".site split = Split (1 -> 2) \"split\" {axis = 0, num_outputs = 2}\n.site soft = Softmax (1 -> 1) \"soft\"\n" \
  ".site nonzero = NonZero (1 -> 1) \"nonzero\"\n.inputs x\n"
#define GIVES(type) ".outputs " type "\n.function main (x) -> (" type ")\n"
#define ENTER(keys) "  epoch.enter 0, plan, [r0:shape], [" keys "]\n  shape.like r1, r0, device\n"
#define PLAN "plan: epoch.plan 0\n  copy r1, r0, input, add, 0\n"
#define RETURN(from) \
  "  epoch.end 0\n  readback r9, " from ", output, add, 0\n  kill " from "\n  sync\n  return [r9], []\n"

/* A loop. Behind the epoch's end a constant, a value that nothing reads and a kernel's result die, then the key. */
static const char dying[] =
    HEAD GIVES("x") "  s.const s0, 3\n  s.const s1, 1\nagain:\n  epoch.enter 0, plan, [r0:shape], []\n"
                    "  shape.like r1, r0, device\n  const r5, three, device\n  const r7, one, host\n"
                    "  shape add, device, [r2], [r1:shape, r5:shape]\n  shape neg, device, [r3], [r1:shape]\n" PLAN
                    "  invoke add, device, [r2], [r1, r5]\n  invoke neg, device, [r3], [r1]\n  kill r1\n"
                    "  epoch.end 0\n  kill r7\n  kill r5\n  kill r3\n  kill r0\n"
                    "  readback r0, r2, output, add, 0\n  kill r2\n  sync\n  s.sub s0, s0, s1\n"
                    "  branch.if s0, again\n  return [r0], []\n";

static const char *const programs[] = {
    /* a constant, a view of an intermediate, a result in the place of an input */
    HEAD GIVES("x") ENTER("") "  const r5, three, device\n  shape add, device, [r2], [r1:shape, r5:shape]\n"
                              "  shape.like r3, r2, device\n  shape mul, device, [r4], [r3:shape, r2:shape]\n" PLAN
                              "  invoke add, device, [r2], [r1, r5]\n  kill r1\n  kill r5\n  view r3, r2\n"
                              "  invoke mul, device, [r4], [r3, r2]\n  kill r2\n  kill r3\n" RETURN("r4"),
    /* absent operands, and a constant that the epoch leaves alive */
    HEAD GIVES("x") ENTER("") "  const r5, three, device\n  shape clip, device, [r2], [r1:shape, _, r5:shape]\n" PLAN
                              "  invoke clip, device, [r2], [r1, _, r5]\n  kill r1\n" RETURN("r2"),
    /* branches on a scalar key */
    HEAD GIVES("x") "  s.dim s0, r0, 0\n  s.const s1, 2\n  s.mod s0, s0, s1\n" ENTER(
        "s0") "  branch.ifnot s0, even\n  shape add, device, [r2], [r1:shape, r1:shape]\n  shape.like r3, r1, device\n"
              "  jump plan\neven:\n  shape.like r2, r1, device\n  shape mul, device, [r3], [r1:shape, r1:shape]\n" PLAN
              "  branch.ifnot s0, other\n  invoke add, device, [r2], [r1, r1]\n  view r3, r2\n  jump join\nother:\n"
              "  invoke mul, device, [r3], [r1, r1]\n  view r2, r1\njoin:\n  kill r1\n  kill r2\n" RETURN("r3"),
    /* the input itself, by way of a view that outlives the epoch */
    HEAD GIVES("x") ENTER("") "  shape.like r2, r1, device\n" PLAN "  view r2, r1\n  kill r1\n" RETURN("r2"),
    /* parts, one of which outlives the epoch */
    HEAD GIVES("x") ENTER("") "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                              "  shape split, device, [r3, r4], [r2:shape]\n" PLAN
                              "  invoke add, device, [r2], [r1, r1]\n  kill r1\n"
                              "  invoke split, device, [r3, r4], [r2]\n  kill r2\n  kill r3\n" RETURN("r4"),
    /* an epoch in a loop, whose registers hold the last round's tensors when the epoch is entered again */
    HEAD GIVES(
        "x") "  s.const s0, 5\n  s.const s1, 1\n  const r5, one, host\nagain:\n"
             "  epoch.enter 0, plan, [r0:shape, r5:shape], []\n  shape.like r1, r0, device\n  shape.like r6, r5, "
             "device\n  shape add, device, [r2], [r1:shape, r6:shape]\n  shape soft, device, [r3], "
             "[r2:shape]\n  shape mul, device, [r4], [r3:shape, r2:shape]\n" PLAN
             "  copy r6, r5, input, add, 1\n  invoke add, device, [r2], [r1, r6]\n  kill r1\n  kill r6\n  invoke soft, "
             "device, [r3], [r2]\n  invoke mul, device, [r4], [r3, r2]\n  kill r2\n  kill r3\n  epoch.end 0\n"
             "  readback r0, r4, output, add, 0\n  sync\n  s.sub s0, s0, s1\n  branch.if s0, again\n  return [r0], "
             "[]\n",
    /* a count that the next epoch knows; its run section kills the key */
    HEAD GIVES("counts") ENTER("") "  shape nonzero, device, [r2], [r1:shape]\n" PLAN
                                   "  invoke nonzero, device, [r2], [r1]\n  kill r1\n  epoch.end 0\n  extent r2\n"
                                   "  sync\n  epoch.enter 1, after, [r2:shape], []\n"
                                   "  shape add, device, [r3], [r2:shape, r2:shape]\nafter: epoch.plan 1\n"
                                   "  invoke add, device, [r3], [r2, r2]\n  kill r2\n  epoch.end 1\n"
                                   "  readback r9, r3, output, add, 0\n  sync\n  return [r9], []\n",
    /* a count that the next kernel reads on the device */
    HEAD GIVES("counts")
        ENTER("") "  shape nonzero, device, [r2], [r1:shape]\n  shape neg, device, [r3], [r2:shape]\n" PLAN
                  "  invoke nonzero, device, [r2], [r1]\n  kill r1\n"
                  "  invoke neg, device, [r3], [r2]\n  kill r2\n  epoch.end 0\n  extent r3\n  sync\n"
                  "  readback r9, r3, output, add, 0\n  sync\n  return [r9], []\n",
    dying,
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static reed_tensor *input_of(int64_t n, int turn) {
  reed_tensor *input;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &input), REED_OK);
  for (int64_t i = 0; i < n; i++) ((float *)reed_tensor_data(input))[i] = (float)((i * 7 + turn) % 5 - 2);
  return input;
}

static reed_tensor *result_of(reed_session *session, int64_t n, int turn) {
  reed_tensor *input = input_of(n, turn), *output;
  reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_tensor_close(&input);
  return output;
}

/* Sizes come back, and the arena of 1 << 19 floats is so large that smaller sizes get another one. */
START_TEST(a_list_gives_what_the_interpreter_gives) {
  static const int64_t sizes[] = {8, 8, 8, 5, 1, 8, 5, 1 << 19, 8, 1 << 19, 8, 5, 1 << 19, 2, 2, 0, 0, 8};
  reed_session *listed = opened(programs[_i], NULL),
               *stepped = opened(programs[_i], &(reed_session_options){.profile = true});
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    reed_tensor *got = result_of(listed, sizes[i], (int)i / 2), *want = result_of(stepped, sizes[i], (int)i / 2);
    ck_assert_int_eq(reed_tensor_rank(got), reed_tensor_rank(want));
    for (int32_t d = 0; d < reed_tensor_rank(got); d++)
      ck_assert_int_eq(reed_tensor_dims(got)[d], reed_tensor_dims(want)[d]);
    ck_assert_int_eq(memcmp(reed_tensor_data(got), reed_tensor_data(want), (size_t)reed_tensor_bytes(want)), 0);
    reed_tensor_close(&got);
    reed_tensor_close(&want);
    ck_assert_int_eq(reed_session_kernel_count(listed), reed_session_kernel_count(stepped));
    ck_assert_double_eq(figure(listed, "memory", "host", "peak_bytes"),
                        figure(stepped, "memory", "host", "peak_bytes"));
    ck_assert_double_eq(figure(listed, "memory", "host", "live_bytes"),
                        figure(stepped, "memory", "host", "live_bytes"));
  }
  ck_assert_double_eq(memo_figure(listed, "replays"), memo_figure(listed, "hits"));
  ck_assert_double_eq(memo_figure(stepped, "replays"), 0);
  ck_assert_double_eq(memo_figure(stepped, "hits"), memo_figure(listed, "hits"));
  ck_assert_double_gt(memo_figure(listed, "bytes"), memo_figure(stepped, "bytes"));
  reed_session_close(&listed);
  reed_session_close(&stepped);
}
END_TEST

/* Only results of kernels are written for what comes behind the epoch, and the kills of all else are passed over; but
 * they count as executed. */
START_TEST(registers_that_die_behind_the_end_have_no_content) {
  reed_session *session = opened(dying, NULL);
  for (int i = 0; i < 2; i++) {
    reed_tensor *got = result_of(session, 4, i);
    reed_tensor_close(&got);
  }
  const replay *list = memo_latest(&session->memo, 0)->replay;
  const module *m = session->run.program->module;
  const uint32_t *end = m->code + m->functions[0].code_offset + list->end;
  ck_assert_uint_eq(list->kept.n, 2);        /* r2, r3 */
  ck_assert_uint_eq(list->dead_writes.n, 3); /* r1, r5, r7 */
  ck_assert_uint_eq(list->next, list->end + insn_length_at(end) + 2 * insn_length_at(insn_next(end)));
  reed_session_close(&session);
  int64_t enough[2] = {0};
  for (int profile = 0; profile < 2; profile++)
    for (int64_t most = 1; enough[profile] == 0; most++) {
      session = opened(dying, &(reed_session_options){.profile = profile == 1, .max_instructions = most});
      reed_status status = REED_OK;
      for (int i = 0; i < 2 && status == REED_OK; i++) {
        reed_tensor *input = input_of(4, i), *output = NULL;
        status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
        reed_tensor_close(&input);
        reed_tensor_close(&output);
      }
      if (status == REED_OK) enough[profile] = most;
      reed_session_close(&session);
    }
  ck_assert_int_eq(enough[0], enough[1]);
}
END_TEST

/* A bound output is computed in the memory that is bound now, not in that of the run which made the list. */
START_TEST(a_list_follows_the_memory_of_outputs) {
  reed_session *session = opened(programs[0], NULL);
  reed_tensor *memory[2];
  for (int i = 0; i < 2; i++) memory[i] = input_of(8, 0);
  for (int i = 0; i < 8; i++) {
    ck_assert_int_eq(reed_session_bind_output(session, 0, i == 5 ? NULL : memory[i % 2], -1, diagnosis), REED_OK);
    reed_tensor *got = result_of(session, 8, i), *input = input_of(8, i);
    ck_assert_int_eq(reed_tensor_data(got) == reed_tensor_data(memory[i % 2]), i != 5);
    for (int k = 0; k < 8; k++) {
      float sum = ((float *)reed_tensor_data(input))[k] + 3;
      ck_assert_float_eq(((float *)reed_tensor_data(got))[k], sum * sum);
    }
    reed_tensor_close(&got);
    reed_tensor_close(&input);
  }
  ck_assert_double_eq(figure(session, "memo", NULL, "replays"), 7);
  reed_session_close(&session);
  for (int i = 0; i < 2; i++) reed_tensor_close(&memory[i]);
}
END_TEST

/* ---- failures ---- */

static const char gather[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = i64[n] \"x\"\n.type y = f32[n] \"y\"\n"
    ".const table = f32[3] {10, 20, 30}\n.site neg = Neg (1 -> 1) \"the neg\"\n"
    ".site gather = Gather (2 -> 1) \"the gather\" {axis = 0}\n.inputs x\n.outputs y\n.function main (x) -> (y)\n"
    "  epoch.enter 0, plan, [r0:shape], []\n  shape.like r1, r0, device\n  const r2, table, device\n"
    "  shape neg, device, [r3], [r2:shape]\n  shape gather, device, [r4], [r3:shape, r1:shape]\nplan: epoch.plan 0\n"
    "  copy r1, r0, input, gather, 1\n  invoke neg, device, [r3], [r2]\n  kill r2\n"
    "  invoke gather, device, [r4], [r3, r1]\n  kill r1\n  kill r3\n  epoch.end 0\n"
    "  readback r5, r4, output, gather, 0\n  kill r4\n  sync\n  return [r5], []\n";

static reed_status look_up(reed_session *session, int64_t index) {
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){1}, &input), REED_OK);
  *(int64_t *)reed_tensor_data(input) = index;
  reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
  if (status == REED_OK) {
    ck_assert_float_eq(*(float *)reed_tensor_data(output), -10.0f * (float)(index + 1));
    reed_tensor_close(&output);
  }
  reed_tensor_close(&input);
  return status;
}

START_TEST(a_failed_call_of_a_list_names_its_node) {
  char *said[2];
  int64_t pcs[2];
  for (int i = 0; i < 2; i++) {
    reed_session *session = opened(gather, &(reed_session_options){.profile = i == 1});
    for (int k = 0; k < 3; k++) ck_assert_int_eq(look_up(session, k), REED_OK);
    ck_assert_int_eq(look_up(session, 7), REED_ERROR_VALUE);
    ck_assert_str_eq(reed_diagnosis_node(diagnosis), "the gather");
    said[i] = strdup(reed_diagnosis_message(diagnosis));
    pcs[i] = reed_diagnosis_pc(diagnosis);
    ck_assert_int_eq(reed_session_kernel_count(session), 2);
    ck_assert_int_eq(look_up(session, 1), REED_OK);
    reed_session_close(&session);
  }
  ck_assert_str_eq(said[0], said[1]);
  ck_assert_int_eq(pcs[0], pcs[1]);
  for (int i = 0; i < 2; i++) free(said[i]);
}
END_TEST

/* Kernel n of all runs cancels its run: in a miss, in the hit that makes the list, and in later hits. */
START_TEST(a_list_is_cancelled_at_each_kernel) {
  enum { KERNELS = 3, RUNS = 4 };
  static const char text[] = HEAD GIVES("x")
      ENTER("") "  shape add, device, [r2], [r1:shape, r1:shape]\n  shape neg, device, [r3], [r2:shape]\n"
                "  shape mul, device, [r4], [r3:shape, r2:shape]\n" PLAN
                "  invoke add, device, [r2], [r1, r1]\n  invoke neg, device, [r3], [r2]\n"
                "  invoke mul, device, [r4], [r3, r2]\n  kill r1\n  kill r2\n  kill r3\n" RETURN("r4");
  for (int64_t n = 1; n <= KERNELS * RUNS; n++) {
    int n_cancelled[2] = {0};
    char *said[2] = {NULL};
    for (int profile = 0; profile < 2; profile++) {
      reed_session *session = opened(text, &(reed_session_options){.cancel_at_kernel = n, .profile = profile == 1});
      for (int run = 0; run < RUNS + 1; run++) {
        reed_tensor *input = input_of(4, run), *output;
        reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
        if (status == REED_OK) {
          for (int i = 0; i < 4; i++) {
            float x = ((float *)reed_tensor_data(input))[i];
            ck_assert_float_eq(((float *)reed_tensor_data(output))[i], -4 * x * x);
          }
          reed_tensor_close(&output);
        } else {
          ck_assert_int_eq(status, REED_ERROR_CANCELLED);
          n_cancelled[profile] += 1 + run;
          said[profile] = strdup(reed_diagnosis_message(diagnosis));
        }
        reed_tensor_close(&input);
      }
      reed_session_close(&session);
    }
    /* the run that ends with the kernel is over before the flag is polled, and the next run has a flag of its own */
    ck_assert_int_eq(n_cancelled[0], n % KERNELS == 0 ? 0 : 1 + (int)(n / KERNELS));
    ck_assert_int_eq(n_cancelled[0], n_cancelled[1]);
    if (said[0]) ck_assert_str_eq(said[0], said[1]);
    for (int i = 0; i < 2; i++) free(said[i]);
  }
}
END_TEST

/* Evicted entries take their lists along, and a session of many keys makes new lists. */
START_TEST(lists_go_with_their_entries) {
  reed_session *session = opened(programs[0], &(reed_session_options){.memo_entries = 2});
  for (int turn = 0; turn < 3; turn++)
    for (int64_t n = 1; n <= 4; n++)
      for (int i = 0; i < 3; i++) {
        reed_tensor *got = result_of(session, n, i);
        reed_tensor_close(&got);
      }
  ck_assert_double_eq(memo_figure(session, "misses"), 12);
  ck_assert_double_eq(memo_figure(session, "replays"), 24);
  ck_assert_double_eq(memo_figure(session, "entries"), 2);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("replay");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_loop_test(cases, a_list_gives_what_the_interpreter_gives, 0, N_PROGRAMS);
  tcase_add_test(cases, registers_that_die_behind_the_end_have_no_content);
  tcase_add_test(cases, a_list_follows_the_memory_of_outputs);
  tcase_add_test(cases, a_failed_call_of_a_list_names_its_node);
  tcase_add_test(cases, a_list_is_cancelled_at_each_kernel);
  tcase_add_test(cases, lists_go_with_their_entries);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
