/* Rounding of weights to half precision with errors that cancel.
 *
 * An output of a product is a sum of weights times inputs, and its error the sum of the weights' errors e times the
 * inputs. Of inputs with the mean m and the deviation s it is (m * sum e)^2 + (s^2 * sum e^2) on average. Rounding to
 * nearest has the least sum of squares, but its sum of errors is that of so many random numbers, and inputs behind a
 * Relu have a mean. So some weights of each output are then moved to the half on their other side: the idea of SQuant
 * (Guo et al., ICLR 2022), which does so for integers, with no data but the weights. Weights that lie next to the
 * middle of two halves go first, because moving them adds least to the sum of squares; one is moved if the expected
 * error becomes less. The order of weights and all sums are fixed, so that the same weights give the same halves. */
#include "compiler/passes/layout/round_weights.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"

/* m^2 / s^2 of the inputs. A normal distribution has 0.47 behind a Relu, and neighbouring channels go together, which
 * has the effect of a larger mean. */
#define MEAN_SHARE 1.0

/* Weights are taken in the order of their errors' share of the distance of two halves, in this many classes. */
#define CLASSES 128

typedef struct rounding {
  const char *plain;
  uint16_t *halves;
  bool bf16, exceeded;
  int64_t *places; /* of one output's weights in the tensor */
  uint8_t *classes;
  int64_t *sorted; /* weights of one output that may be moved, the first class first */
} rounding;

static float weight_at(const rounding *r, int64_t place) {
  float x;
  memcpy(&x, r->plain + (size_t)place * sizeof x, sizeof x);
  return x;
}

static double value_of(const rounding *r, uint16_t half) {
  return (double)(r->bf16 ? bf16_to_f32(half) : f16_to_f32(half));
}

/* The half on the other side of x; `half` itself if there is none, or if it is no finite number. */
static uint16_t other_side(const rounding *r, float x, uint16_t half) {
  const double error = value_of(r, half) - (double)x;
  if (error == 0 || !isfinite(error)) return half;
  const bool outward = (error < 0) == (x > 0); /* the half is nearer to 0 than x */
  const uint16_t other = (uint16_t)(outward ? half + 1 : half - 1);
  return isfinite(value_of(r, other)) ? other : half;
}

/* Lists the weights whose errors have the sign of `sum`, class after class. */
static int64_t list_movable(rounding *r, int64_t n, double sum) {
  int64_t begins[CLASSES + 2] = {0};
  for (int64_t i = 0; i < n; i++) {
    const float x = weight_at(r, r->places[i]);
    const uint16_t half = r->halves[r->places[i]], other = other_side(r, x, half);
    const double error = value_of(r, half) - (double)x;
    r->classes[i] = CLASSES; /* none */
    if (other == half || (error > 0) != (sum > 0)) continue;
    const double share = error / (value_of(r, half) - value_of(r, other)); /* above 0, at most 1/2 */
    const double at = (0.5 - share) * 2 * CLASSES;
    r->classes[i] = (uint8_t)(at < 0 ? 0 : at < CLASSES - 1 ? at : CLASSES - 1);
    begins[r->classes[i] + 1]++;
  }
  for (int k = 0; k < CLASSES; k++) begins[k + 1] += begins[k];
  const int64_t n_movable = begins[CLASSES];
  for (int64_t i = 0; i < n; i++)
    if (r->classes[i] < CLASSES) r->sorted[begins[r->classes[i]]++] = i;
  return n_movable;
}

static void round_output(rounding *r, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const float x = weight_at(r, r->places[i]);
    const uint16_t half = r->bf16 ? bf16_from_f32(x) : f16_from_f32(x);
    const double error = value_of(r, half) - (double)x;
    r->halves[r->places[i]] = half;
    r->exceeded = r->exceeded || (!r->bf16 && isfinite(x) && !isfinite(error));
    sum += error;
  }
  if (!isfinite(sum)) return;
  const int64_t n_movable = list_movable(r, n, sum);
  for (int64_t k = 0; k < n_movable; k++) {
    const int64_t place = r->places[r->sorted[k]];
    const uint16_t half = r->halves[place], other = other_side(r, weight_at(r, place), half);
    const double error = value_of(r, half) - (double)weight_at(r, place),
                 moved = value_of(r, other) - (double)weight_at(r, place), left = sum + moved - error;
    if (MEAN_SHARE * (left * left - sum * sum) + moved * moved - error * error >= 0) continue;
    r->halves[place] = other;
    sum = left;
  }
}

static void find_places(const packed_order *o, int64_t part, int64_t output, int64_t *places) {
  int64_t n = 0;
  for (int64_t c = 0; c < o->channels; c++)
    for (int64_t tap = 0; tap < o->rows * o->columns; tap++) places[n++] = packed_plain_place(o, part, output, tap, c);
}

reed_status round_weights(ir_module *m, const packed_order *order, const void *plain, uint16_t *halves,
                          bool *out_exceeded) {
  const int64_t depth = order->rows * order->columns * order->channels;
  rounding r = {.plain = plain, .halves = halves, .bf16 = order->plain.dtype == REED_BF16};
  r.places = mem_calloc((size_t)depth, sizeof *r.places);
  r.sorted = mem_calloc((size_t)depth, sizeof *r.sorted);
  r.classes = mem_calloc((size_t)depth, sizeof *r.classes);
  reed_status status = r.places && r.sorted && r.classes ? REED_OK : diag_no_memory(m->diagnosis, "rounded weights");
  for (int64_t i = 0; i < order->n_parts * order->outputs && status == REED_OK; i++) {
    find_places(order, i / order->outputs, i % order->outputs, r.places);
    round_output(&r, depth);
    status = ir_check_cancel(m);
  }
  mem_free(r.places);
  mem_free(r.sorted);
  mem_free(r.classes);
  *out_exceeded = r.exceeded;
  return status;
}
