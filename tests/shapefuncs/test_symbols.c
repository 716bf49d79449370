/* The algebra of symbols: provable equality, ranges, texts, and failed allocations. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shapefuncs/shapefn.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static reed_symbols *open_symbols(void) {
  reed_symbols *s = NULL;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  return s;
}

static void expect_text(reed_symbols *s, reed_dim d, const char *expected) {
  char text[256];
  ck_assert_str_eq(symbols_text(s, d, text, sizeof text), expected);
}

START_TEST(equal_polynomials_are_one_symbol) {
  reed_symbols *s = open_symbols();
  reed_dim h = symbols_named(s, "h"), w = symbols_named(s, "w");
  ck_assert(symbols_equal(s, h, symbols_named(s, "h")));
  ck_assert(!symbols_equal(s, h, w));
  ck_assert(symbols_equal(s, symbols_add(s, h, w), symbols_add(s, w, h)));
  ck_assert(symbols_equal(s, symbols_sub(s, symbols_add(s, h, w), w), h));
  ck_assert(symbols_equal(s, symbols_sub(s, h, h), 0));
  ck_assert(symbols_equal(s, symbols_mul(s, h, 0), 0));
  reed_dim product = symbols_mul(s, symbols_add(s, h, 1), symbols_sub(s, w, 2));
  reed_dim expanded = symbols_add(s, symbols_sub(s, symbols_mul(s, h, w), symbols_mul(s, h, 2)), symbols_sub(s, w, 2));
  ck_assert(symbols_equal(s, product, expanded));
  expect_text(s, product, "h*w - h*2 + w - 2");
  symbols_close(&s);
}
END_TEST

START_TEST(floors_merge_and_whole_parts_move_out) {
  reed_symbols *s = open_symbols();
  reed_dim h = symbols_named(s, "h");
  /* two convolutions of stride 2 are one of stride 4 */
  reed_dim half = symbols_add(s, symbols_floordiv(s, symbols_sub(s, h, 1), 2), 1);
  expect_text(s, half, "floor((h + 1)/2)");
  expect_text(s, symbols_add(s, symbols_floordiv(s, symbols_sub(s, half, 1), 2), 1), "floor((h + 3)/4)");
  expect_text(s, symbols_mul(s, symbols_floordiv(s, symbols_add(s, h, 31), 32), 32), "floor((h + 31)/32)*32");
  ck_assert(symbols_equal(s, symbols_floordiv(s, symbols_mul(s, h, 6), 3), symbols_mul(s, h, 2)));
  expect_text(s, symbols_floordiv(s, symbols_add(s, symbols_mul(s, h, 4), 6), 8), "floor((h + 1)/2)");
  expect_text(s, symbols_floordiv(s, symbols_add(s, symbols_mul(s, h, 5), 3), 4), "h + floor((h + 3)/4)");
  ck_assert(symbols_equal(s, symbols_floordiv(s, symbols_min(s, h, 3), 4), 0));
  symbols_close(&s);
}
END_TEST

START_TEST(products_divide_by_their_factors) {
  reed_symbols *s = open_symbols();
  reed_dim h = symbols_named(s, "h"), w = symbols_named(s, "w");
  reed_dim a = symbols_add(s, symbols_floordiv(s, h, 2), 1), b = symbols_add(s, w, 3);
  reed_dim product = symbols_mul(s, symbols_mul(s, a, b), 12);
  ck_assert(symbols_equal(s, symbols_floordiv(s, product, a), symbols_mul(s, b, 12)));
  ck_assert(symbols_equal(s, symbols_floordiv(s, product, symbols_mul(s, b, 4)), symbols_mul(s, a, 3)));
  expect_text(s, symbols_floordiv(s, h, w), "floor(h/w)");
  symbols_close(&s);
}
END_TEST

START_TEST(min_max_and_broadcast_drop_what_is_proved) {
  reed_symbols *s = open_symbols();
  reed_dim h = symbols_named(s, "h"), w = symbols_named(s, "w"), above = symbols_add(s, h, 2);
  ck_assert(symbols_equal(s, symbols_max(s, h, 0), h));
  ck_assert(symbols_equal(s, symbols_min(s, h, above), h));
  ck_assert(symbols_equal(s, symbols_max(s, h, above), above));
  ck_assert(symbols_equal(s, symbols_max(s, symbols_max(s, h, w), h), symbols_max(s, w, h)));
  ck_assert(symbols_equal(s, symbols_max(s, h, symbols_min(s, h, w)), h));
  expect_text(s, symbols_min(s, symbols_min(s, h, 7), 5), "min(h, 5)");
  ck_assert(symbols_equal(s, symbols_broadcast(s, h, 1), h));
  ck_assert(symbols_equal(s, symbols_broadcast(s, h, h), h));
  ck_assert(symbols_equal(s, symbols_broadcast(s, h, 7), 7));
  ck_assert(symbols_equal(s, symbols_broadcast(s, h, above), above));
  ck_assert(symbols_equal(s, symbols_broadcast(s, symbols_broadcast(s, h, w), h), symbols_broadcast(s, w, h)));
  symbols_close(&s);
}
END_TEST

START_TEST(ranges_follow_the_arithmetic) {
  reed_symbols *s = open_symbols();
  reed_dim h = symbols_named(s, "h"), v = symbols_fresh_value(s);
  const struct {
    reed_dim d;
    int64_t low, high;
  } cases[] = {{7, 7, 7},
               {h, 0, INT64_MAX},
               {v, INT64_MIN, INT64_MAX},
               {symbols_fresh_extent(s), 0, INT64_MAX},
               {symbols_sub(s, h, 3), -3, INT64_MAX},
               {symbols_sub(s, 5, h), INT64_MIN, 5},
               {symbols_min(s, h, 9), 0, 9},
               {symbols_mul(s, symbols_min(s, h, 9), symbols_min(s, symbols_named(s, "w"), 3)), 0, 27},
               {symbols_max(s, v, 2), 2, INT64_MAX},
               {symbols_floordiv(s, symbols_min(s, h, 9), 2), 0, 4},
               {symbols_floordiv(s, h, symbols_named(s, "w")), 0, INT64_MAX}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t low, high;
    symbols_range(s, cases[i].d, &low, &high);
    ck_assert_msg(low == cases[i].low && high == cases[i].high, "case %zu: %lld..%lld", i, (long long)low,
                  (long long)high);
  }
  symbols_close(&s);
}
END_TEST

START_TEST(unknowns_are_equal_to_nothing_else) {
  reed_symbols *s = open_symbols();
  reed_dim a = symbols_fresh_extent(s), b = symbols_fresh_extent(s);
  ck_assert(!symbols_equal(s, a, b));
  ck_assert(symbols_equal(s, a, a));
  expect_text(s, a, "?0");
  ck_assert(symbol_is(symbols_floordiv(s, a, 0)));
  ck_assert(symbol_is(symbols_mul(s, INT64_MAX, 2)));
  ck_assert(!symbols_equal(s, symbols_mul(s, INT64_MAX, 2), symbols_mul(s, INT64_MAX, 2)));
  symbols_close(&s);
}
END_TEST

/* Past the limits of the normal form: unknowns, no failure, in little time. */
START_TEST(what_grows_too_large_becomes_unknown) {
  reed_symbols *s = open_symbols();
  char name[16], text[64];
  reed_dim sum = 0, power = 1, nested = symbols_named(s, "h");
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "d%d", i);
    reed_dim d = symbols_named(s, name);
    sum = symbols_add(s, sum, d);
    power = symbols_mul(s, power, symbols_add(s, d, 1));
    nested =
        symbols_max(s, symbols_floordiv(s, symbols_add(s, symbols_mul(s, nested, 3), d), 7), symbols_sub(s, nested, d));
  }
  ck_assert_int_eq(symbols_status(s), REED_OK);
  ck_assert(symbol_is(sum) && symbol_is(power) && symbol_is(nested));
  ck_assert_uint_le(strlen(symbols_text(s, nested, text, sizeof text)), sizeof text - 1);
  symbols_close(&s);
}
END_TEST

/* Random expressions of three atoms: the symbol's value at a point is the value computed there. */
static uint64_t next_random(uint64_t *state) { /* xorshift64 (Marsaglia 2003) */
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }

START_TEST(symbols_evaluate_to_what_numbers_give) {
  static const char *const names[] = {"a", "b", "c"};
  uint64_t state = 88172645463325252ull;
  for (int round = 0; round < 400; round++) {
    reed_symbols *s = open_symbols();
    int64_t atoms[3], number[24];
    reed_dim symbol[24];
    int n = 0;
    for (; n < 3; n++) {
      number[n] = atoms[n] = (int64_t)(next_random(&state) % 9);
      symbol[n] = symbols_named(s, names[n]);
    }
    for (; n < 24; n++) {
      int i = (int)(next_random(&state) % (uint64_t)n), k = (int)(next_random(&state) % (uint64_t)n);
      int64_t constant = (int64_t)(next_random(&state) % 7) + 1;
      switch (next_random(&state) % 7) {
        case 0: number[n] = number[i] + number[k], symbol[n] = symbols_add(s, symbol[i], symbol[k]); break;
        case 1: number[n] = number[i] - number[k], symbol[n] = symbols_sub(s, symbol[i], symbol[k]); break;
        case 2:
          if (llabs(number[i]) > 100000 || llabs(number[k]) > 100000) number[n] = constant, symbol[n] = constant;
          else number[n] = number[i] * number[k], symbol[n] = symbols_mul(s, symbol[i], symbol[k]);
          break;
        case 3: number[n] = floor_of(number[i], constant), symbol[n] = symbols_floordiv(s, symbol[i], constant); break;
        case 4:
          number[n] = number[i] < number[k] ? number[i] : number[k], symbol[n] = symbols_min(s, symbol[i], symbol[k]);
          break;
        case 5:
          number[n] = number[i] > number[k] ? number[i] : number[k], symbol[n] = symbols_max(s, symbol[i], symbol[k]);
          break;
        default:
          if (number[k] > 0)
            number[n] = floor_of(number[i], number[k]), symbol[n] = symbols_floordiv(s, symbol[i], symbol[k]);
          else number[n] = number[i] + constant, symbol[n] = symbols_add(s, symbol[i], constant);
          break;
      }
      int64_t value, low, high;
      char text[512];
      if (symbols_evaluate(s, symbol[n], 3, names, atoms, &value))
        ck_assert_msg(value == number[n], "round %d: %s gives %lld, not %lld", round,
                      symbols_text(s, symbol[n], text, sizeof text), (long long)value, (long long)number[n]);
      symbols_range(s, symbol[n], &low, &high);
      ck_assert_msg(low <= number[n] && number[n] <= high, "round %d: %s is %lld, not in %lld..%lld", round,
                    symbols_text(s, symbol[n], text, sizeof text), (long long)number[n], (long long)low,
                    (long long)high);
    }
    symbols_close(&s);
  }
}
END_TEST

/* Whatever is made of a fresh symbol has an unknown, and so has an extent that is one of two. Else what is made of
 * names and numbers has none. */
START_TEST(unknowns_are_found_in_all_expressions) {
  reed_symbols *s;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  const reed_dim h = symbols_named(s, "h"), d = symbols_declared(s, "d"),
                 others[] = {symbols_named(s, "w"), symbols_fresh_extent(s), symbols_fresh_value(s)};
  ck_assert(!symbols_has_unknown(s, 7) && !symbols_has_unknown(s, h) && !symbols_has_unknown(s, d));
  for (int i = 0; i < 3; i++) {
    const reed_dim a = others[i], made[] = {a,
                                            symbols_add(s, a, 1),
                                            symbols_add(s, h, symbols_mul(s, 3, a)),
                                            symbols_mul(s, a, d),
                                            symbols_floordiv(s, symbols_add(s, a, h), 2),
                                            symbols_min(s, a, h),
                                            symbols_max(s, symbols_add(s, a, 2), d),
                                            symbols_broadcast(s, a, h)};
    for (size_t k = 0; k < sizeof made / sizeof *made; k++)
      ck_assert_msg(symbols_has_unknown(s, made[k]) == (i > 0), "%d, %zu", i, k);
    ck_assert(symbols_has_unknown(s, symbols_either(s, a, h)));
  }
  symbols_close(&s);
}
END_TEST

START_TEST(every_failed_allocation_is_reported) {
  for (int64_t n = 1;; n++) {
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    reed_symbols *s = NULL;
    reed_status status = symbols_open(&s);
    if (!status) {
      reed_dim h = symbols_named(s, "h"), sum = 0;
      for (int64_t i = 1; i < 200; i++)
        sum = symbols_max(s, symbols_floordiv(s, symbols_add(s, h, i), i + 2), symbols_named(s, "w"));
      ck_assert(symbol_is(sum));
      ck_assert(!symbols_status(s) || !symbols_equal(s, SYMBOL_FIRST, SYMBOL_FIRST));
      status = symbols_status(s);
      symbols_close(&s);
    }
    bool reached = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_int_eq(status, reached ? REED_ERROR_MEMORY : REED_OK);
    if (!reached) break;
  }
}
END_TEST

START_TEST(declared_names_are_equal_once_assumed) {
  reed_symbols *s;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  reed_dim x = symbols_declared(s, "n"), y = symbols_declared(s, "n"), z = symbols_declared(s, "n"),
           other = symbols_declared(s, "k"), first;
  ck_assert(x != y && !symbols_equal(s, x, y) && !symbols_equal_if_declared(s, x, other));
  ck_assert(symbols_equal_if_declared(s, x, y) && !symbols_equal(s, x, y));
  ck_assert_uint_eq(symbols_assumptions(s), 0);
  /* expressions over declared dims */
  reed_dim of_x = symbols_floordiv(s, symbols_add(s, symbols_mul(s, x, other), 3), 2),
           of_y = symbols_floordiv(s, symbols_add(s, symbols_mul(s, y, other), 3), 2);
  ck_assert(!symbols_equal(s, of_x, of_y) && symbols_equal_if_declared(s, of_x, of_y));
  ck_assert(symbols_equal_if_declared(s, symbols_broadcast(s, x, y), z));
  ck_assert(symbols_equal_if_declared(s, symbols_sub(s, x, y), 0));
  ck_assert(!symbols_equal_if_declared(s, of_x, symbols_add(s, of_y, 1)));
  ck_assert(symbols_assume_equal(s, of_x, of_y));
  ck_assert_uint_eq(symbols_assumptions(s), 1);
  ck_assert(symbols_equal(s, x, y) && symbols_equal(s, of_x, of_y) && !symbols_equal(s, x, z));
  ck_assert(symbols_is_assumed(s, y, &first) && first == x);
  ck_assert(symbols_is_assumed(s, x, &first) && first == x);
  ck_assert(!symbols_is_assumed(s, z, &first) && first == z);
  /* arithmetic does not use the assumption, so that the assumption can be taken back */
  ck_assert(symbols_sub(s, x, y) != 0);
  symbols_take_back(s, 0);
  ck_assert(!symbols_equal(s, x, y) && !symbols_equal(s, of_x, of_y));
  ck_assert(!symbols_is_assumed(s, y, &first) && first == y);
  symbols_close(&s);
}
END_TEST

START_TEST(as_little_is_assumed_as_is_needed) {
  reed_symbols *s;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  reed_dim n[3], m[2], first;
  for (int i = 0; i < 3; i++) n[i] = symbols_declared(s, "n");
  for (int i = 0; i < 2; i++) m[i] = symbols_declared(s, "m");
  ck_assert(symbols_assume_equal(s, symbols_add(s, n[0], n[2]), symbols_add(s, n[1], n[2])));
  ck_assert(symbols_equal(s, n[0], n[1]) && !symbols_equal(s, n[0], n[2]));
  ck_assert(symbols_assume_equal(s, symbols_mul(s, n[0], m[0]), symbols_mul(s, n[1], m[1])));
  ck_assert(symbols_equal(s, m[0], m[1]));
  ck_assert(!symbols_is_assumed(s, n[2], &first));
  ck_assert(symbols_assume_equal(s, n[2], n[1]));
  ck_assert(symbols_equal(s, n[2], n[0]));
  symbols_close(&s);
}
END_TEST

START_TEST(demands_of_what_may_not_run_are_not_noted) {
  reed_symbols *s;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  reed_dim x = symbols_declared(s, "n"), y = symbols_declared(s, "n"), a, b;
  symbols_set_certain(s, false);
  symbols_demand_equal(s, x, y);
  symbols_demand_broadcast(s, x, y);
  ck_assert(!symbols_equal(s, x, y) && !symbols_broadcast_pair(s, 0, &a, &b));
  symbols_set_certain(s, true);
  symbols_demand_broadcast(s, y, x);
  symbols_demand_broadcast(s, x, symbols_broadcast(s, x, y));
  ck_assert(symbols_broadcast_pair(s, 0, &a, &b) && a == x && b == y && !symbols_broadcast_pair(s, 1, &a, &b));
  ck_assert(!symbols_equal(s, x, y));
  symbols_demand_equal(s, x, y);
  ck_assert(symbols_equal(s, x, y));
  symbols_close(&s);
}
END_TEST

START_TEST(one_of_two_extents_is_both_where_they_are_equal) {
  reed_symbols *s;
  ck_assert_int_eq(symbols_open(&s), REED_OK);
  reed_dim x = symbols_declared(s, "n"), y = symbols_declared(s, "n"), k = symbols_declared(s, "k");
  reed_dim either = symbols_either(s, x, y), again = symbols_either(s, x, y), none = symbols_either(s, x, k);
  ck_assert(!symbols_equal(s, either, again) && !symbols_equal_if_declared(s, none, x));
  ck_assert(symbols_equal_if_declared(s, either, again) && symbols_equal_if_declared(s, either, y));
  ck_assert(symbols_assume_equal(s, either, x));
  ck_assert(symbols_equal(s, x, y) && symbols_equal(s, either, again));
  symbols_close(&s);
}
END_TEST

START_TEST(the_last_rows_broadcast_to_their_number) {
  reed_symbols *s = open_symbols();
  reed_dim n = symbols_declared(s, "n"), m = symbols_declared(s, "m"), p = symbols_declared(s, "p");
  reed_dim last = symbols_last(s, m, n), longer = symbols_last(s, symbols_add(s, n, p), n), extent, whole;
  static const char *const names[] = {"n", "m"};
  for (int64_t i = 0; i < 5; i++)
    for (int64_t k = 0; k < 5; k++) {
      int64_t value, low, high;
      ck_assert(symbols_evaluate(s, last, 2, names, (int64_t[]){i, k}, &value));
      ck_assert_int_eq(value, i == 0 || i > k ? k : i); /* Python: len(rows[-i:]) */
      symbols_range(s, last, &low, &high);
      ck_assert_int_eq(low, 0);
    }
  ck_assert(symbols_equal(s, symbols_broadcast(s, longer, n), n)); /* n + p >= n: all n rows */
  ck_assert(symbols_equal(s, symbols_broadcast(s, symbols_min(s, n, 9), n), n));
  ck_assert(symbols_equal(s, symbols_broadcast(s, symbols_last(s, 9, n), n), n));
  symbols_set_certain(s, false);
  symbols_demand_broadcast(s, n, last);
  ck_assert(!symbols_equal(s, symbols_broadcast(s, last, n), n) && !symbols_broadcast_part(s, 0, &extent, &whole));
  symbols_set_certain(s, true);
  symbols_demand_broadcast(s, n, last);
  symbols_demand_broadcast(s, last, n);
  symbols_demand_broadcast(s, n, longer);
  ck_assert(symbols_broadcast_part(s, 0, &extent, &whole) && extent == n && whole == m);
  ck_assert(!symbols_broadcast_part(s, 1, &extent, &whole));
  ck_assert(symbols_equal(s, symbols_broadcast(s, last, n), n));
  ck_assert(symbols_equal(s, symbols_broadcast(s, symbols_min(s, n, m), n), n));
  ck_assert(!symbols_equal(s, symbols_broadcast(s, symbols_last(s, p, n), n), n));
  symbols_close(&s);
}
END_TEST

/* A dim that atoms broadcast to is an extent that a program can compute from its inputs, as an atom is. */
START_TEST(rows_and_limits_of_what_inputs_broadcast_to) {
  reed_symbols *s = open_symbols();
  reed_dim a = symbols_declared(s, "a"), b = symbols_declared(s, "b"), p = symbols_declared(s, "p"), extent, whole;
  reed_dim n = symbols_broadcast(s, a, b), sum = symbols_add(s, n, p), term;
  int64_t most, coefficient;
  ck_assert(symbols_broadcast_argument(s, n, 0, &term) && term == a);
  ck_assert(symbols_broadcast_argument(s, n, 1, &term) && term == b && !symbols_broadcast_argument(s, n, 2, &term));
  ck_assert(symbols_broadcast_argument(s, p, 0, &term) && term == p && !symbols_broadcast_argument(s, p, 1, &term));
  symbols_demand_broadcast(s, n, symbols_min(s, n, p));
  ck_assert(symbols_broadcast_part(s, 0, &extent, &whole) && extent == n && whole == p);
  symbols_demand_broadcast(s, symbols_min(s, sum, 40), sum);
  ck_assert(symbols_limited(s, 0, &extent, &most) && extent == sum && most == 40);
  bool has = false;
  for (int32_t i = 0; symbols_linear_term(s, sum, i, &coefficient, &term); i++) has |= term == n && coefficient == 1;
  ck_assert(has && symbols_min(s, sum, 40) == sum && symbols_min(s, n, symbols_sub(s, 40, p)) == n);
  ck_assert(!symbols_limit(s, symbols_broadcast(s, symbols_min(s, a, p), b), 40)); /* of no inputs' extents alone */
  symbols_close(&s);
}
END_TEST

/* Dims with names of their own that a rule needs equal: the names count as one, and a second rule assumes it. */
START_TEST(names_that_must_be_equal_count_as_one) {
  reed_symbols *s = open_symbols();
  reed_dim n = symbols_declared(s, "n"), m = symbols_declared(s, "m"), other = symbols_declared(s, "m"), first;
  symbols_set_certain(s, false);
  symbols_demand_equal(s, n, m);
  ck_assert(!symbols_equal_if_declared(s, n, m) && symbols_rules(s) == 0);
  symbols_set_certain(s, true);
  symbols_demand_equal(s, n, 3);
  symbols_demand_equal(s, symbols_mul(s, n, 2), symbols_mul(s, m, 3));
  ck_assert(!symbols_equal_if_declared(s, n, m) && symbols_rules(s) == 0);
  symbols_demand_equal(s, symbols_add(s, n, 2), symbols_add(s, m, 2));
  ck_assert(symbols_equal_if_declared(s, n, m) && symbols_equal_if_declared(s, n, other) && symbols_rules(s) > 0);
  ck_assert(!symbols_equal(s, n, m) && !symbols_is_assumed(s, m, &first));
  symbols_demand_equal(s, n, m);
  ck_assert(symbols_equal(s, n, m) && symbols_is_assumed(s, m, &first) && first == n && !symbols_equal(s, n, other));
  symbols_close(&s);
}
END_TEST

/* A dim must not decide what it broadcasts to with another one, which is needed itself. */
START_TEST(a_dim_widens_to_another_one) {
  reed_symbols *s = open_symbols();
  reed_dim t = symbols_declared(s, "t"), p = symbols_declared(s, "p"), past = symbols_declared(s, "past"),
           other = symbols_declared(s, "past"), from, to;
  reed_dim n = symbols_broadcast(s, t, p), sum = symbols_add(s, past, n), keys = symbols_add(s, past, t);
  symbols_demand_broadcast(s, n, t);
  symbols_demand_broadcast(s, n, symbols_add(s, n, 1));
  symbols_demand_equal(s, n, past);
  ck_assert(!symbols_widened(s, 0, &from, &to) && symbols_broadcast(s, t, p) == n);
  if (_i == 0) symbols_demand_equal(s, sum, symbols_add(s, other, t)); /* values of as many rows as keys have */
  if (_i == 1) symbols_demand_broadcast(s, keys, sum);                 /* a mask beside scores */
  if (_i == 2) symbols_demand_broadcast(s, sum, symbols_add(s, other, t));
  ck_assert(symbols_widened(s, 0, &from, &to) && from == p && to == t && !symbols_widened(s, 1, &from, &to));
  ck_assert(symbols_broadcast(s, p, t) == t && symbols_broadcast(s, p, symbols_declared(s, "t")) != t);
  ck_assert(symbols_equal_if_declared(s, sum, symbols_add(s, other, t)) && symbols_assume_equal(s, sum, keys));
  symbols_close(&s);
}
END_TEST

START_TEST(the_first_rows_of_a_table_limit_their_number) {
  reed_symbols *s = open_symbols();
  reed_dim n = symbols_declared(s, "n"), p = symbols_declared(s, "p"), q = symbols_declared(s, "p"), extent;
  reed_dim sum = symbols_add(s, n, p), cut = symbols_min(s, sum, 40), rows = symbols_max(s, symbols_sub(s, cut, p), 0);
  int64_t most;
  ck_assert(cut != sum && rows != n);
  symbols_demand_broadcast(s, sum, symbols_min(s, sum, 1)); /* one row fits to any number */
  symbols_demand_broadcast(s, symbols_min(s, sum, symbols_declared(s, "m")), sum);
  symbols_demand_broadcast(s, symbols_add(s, n, q), cut); /* equal by names only */
  symbols_set_certain(s, false);
  symbols_demand_broadcast(s, sum, cut);
  ck_assert(!symbols_limited(s, 0, &extent, &most));
  ck_assert(!symbols_equal_if_declared(s, symbols_min(s, symbols_add(s, n, q), 40), sum));
  symbols_set_certain(s, true);
  symbols_demand_broadcast(s, cut, sum);
  symbols_demand_broadcast(s, sum, cut);
  ck_assert(symbols_limited(s, 0, &extent, &most) && extent == sum && most == 40);
  ck_assert(!symbols_limited(s, 1, &extent, &most));
  ck_assert(symbols_limit_of(s, sum) == 40 && symbols_limit_of(s, n) == 0);
  ck_assert(symbols_min(s, sum, 40) == sum && symbols_min(s, 41, sum) == sum && symbols_min(s, sum, 39) != sum);
  ck_assert(symbols_min(s, symbols_add(s, sum, 2), 42) == symbols_add(s, sum, 2));
  ck_assert(symbols_min(s, symbols_add(s, sum, 2), 41) != symbols_add(s, sum, 2));
  ck_assert(symbols_max(s, symbols_sub(s, symbols_min(s, sum, 40), p), 0) == n);
  ck_assert(symbols_max(s, symbols_sub(s, 40, sum), 0) == symbols_sub(s, 40, sum));
  ck_assert(symbols_max(s, symbols_sub(s, 39, sum), 0) != symbols_sub(s, 39, sum));
  ck_assert(symbols_min(s, n, symbols_sub(s, 40, p)) == n);
  ck_assert(symbols_min(s, p, 40) != p); /* no bound of a part of the sum */
  ck_assert(symbols_equal_if_declared(s, symbols_min(s, symbols_add(s, n, q), 40), sum)); /* not so before the limit */
  symbols_close(&s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("symbols");
  TCase *tests = tcase_create("algebra");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, equal_polynomials_are_one_symbol);
  tcase_add_test(tests, floors_merge_and_whole_parts_move_out);
  tcase_add_test(tests, products_divide_by_their_factors);
  tcase_add_test(tests, min_max_and_broadcast_drop_what_is_proved);
  tcase_add_test(tests, ranges_follow_the_arithmetic);
  tcase_add_test(tests, unknowns_are_equal_to_nothing_else);
  tcase_add_test(tests, what_grows_too_large_becomes_unknown);
  tcase_add_test(tests, symbols_evaluate_to_what_numbers_give);
  tcase_add_test(tests, unknowns_are_found_in_all_expressions);
  tcase_add_test(tests, every_failed_allocation_is_reported);
  tcase_add_test(tests, declared_names_are_equal_once_assumed);
  tcase_add_test(tests, as_little_is_assumed_as_is_needed);
  tcase_add_test(tests, demands_of_what_may_not_run_are_not_noted);
  tcase_add_test(tests, one_of_two_extents_is_both_where_they_are_equal);
  tcase_add_test(tests, the_last_rows_broadcast_to_their_number);
  tcase_add_test(tests, names_that_must_be_equal_count_as_one);
  tcase_add_loop_test(tests, a_dim_widens_to_another_one, 0, 3);
  tcase_add_test(tests, the_first_rows_of_a_table_limit_their_number);
  tcase_add_test(tests, rows_and_limits_of_what_inputs_broadcast_to);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
