/* The table of measured rates, and the time of direct products (rates.h). */
#include "ops/cpu/product/rates.h"

#include "ops/packed.h"

#define TILE 7 /* pixels of a tile at level AVX512 (panel_loops.c) */

static const product_rates narrow[CPU_AVX512] = {
    [CPU_BASE] = {80, 80, 0, 0, 85, 400, 110, 150, 400, 200, 200, 0, 0, 0, 400, 130, 640},
    [CPU_AVX2] = {22, 22, 0, 0, 23, 300, 90, 135, 260, 200, 200, 0, 0, 0, 400, 130, 640},
};

/* From level AVX512 on, by the kind of units (cpu.h). Zen 5, which computes whole vectors, takes two fifths of the time
 * of Zen 4 for products and fixed point, and for transforms of X and into Y; transforms of weights, which are loads and
 * stores as much, take 0.6 to 0.7. Intel (Emerald Rapids) takes two thirds for products, in transforms as long as Zen
 * 4, and longer for weights from memory; pairs take nearly twice as long as f32. Pairs of AMX are an assumption: a
 * sixth of the time of f32. */
static const product_rates wide[CPU_UNITS_COUNT][CPU_LEVEL_COUNT] =
    {
        [CPU_UNITS_HALF] =
            {
                [CPU_AVX512] = {19, 19, 0, 0, 20, 230, 85, 125, 200, 200, 200, 0, 0, 0, 400, 130, 220},
                [CPU_AVX512_BF16] = {19, 9.5, 160, 500, 20, 230, 85, 125, 200, 200, 200, 10, 280, 200, 400, 130, 220},
                [CPU_AMX] = {19, 3, 160, 500, 20, 230, 85, 125, 200, 200, 200, 10, 280, 200, 400, 130, 220},
            },
        [CPU_UNITS_WHOLE] =
            {
                [CPU_AVX512] = {7.6, 7.6, 0, 0, 7.9, 95, 50, 90, 85, 70, 150, 0, 0, 0, 240, 60, 180},
                [CPU_AVX512_BF16] = {7.6, 3.8, 64, 200, 7.9, 95, 50, 90, 85, 70, 150, 4, 112, 80, 240, 60, 180},
                [CPU_AMX] = {7.6, 1.2, 64, 200, 7.9, 95, 50, 90, 85, 70, 150, 4, 112, 80, 240, 60, 180},
            },
        [CPU_UNITS_INTEL] =
            {
                [CPU_AVX512] = {12.3, 12.3, 0, 0, 13.6, 230, 145, 260, 200, 140, 200, 0, 0, 0, 400, 130, 220},
                [CPU_AVX512_BF16] = {12.3, 22.4, 160, 500, 13.6, 230, 145, 260, 200, 140, 200, 7.4, 280, 200, 400, 130,
                                     220},
                [CPU_AMX] = {12.3, 2, 160, 500, 13.6, 230, 145, 260, 200, 140, 200, 7.4, 280, 200, 400, 130, 220},
            },
};

const product_rates *product_rates_of(cpu_level level) {
  return level < CPU_AVX512 ? &narrow[level] : &wide[cpu_units_now()][level];
}

double direct_time(const direct_product *d, cpu_level level, bool pairs) {
  const product_rates *r = product_rates_of(level);
  const double outputs = (double)(((int64_t)d->outputs + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP),
               products = d->pixels * d->depth * outputs;
  if (!pairs) return products * r->direct;
  return products * r->pairs + d->pixels * d->rounded_pixels * (d->channels * r->rounded + r->rounded_pixel);
}

bool product_pairs_are_fast(cpu_level level) {
  const product_rates *r = product_rates_of(level);
  return level >= CPU_AVX512_BF16 && r->pairs < r->direct;
}

bool direct_pairs_are_faster(const direct_product *d, cpu_level level) {
  return direct_time(d, level, true) <= direct_time(d, level, false);
}

double rounded_pixels(double rows, double columns, double stride, double dilation) {
  return rows * ((TILE - 1) * stride + (columns - 1) * dilation + 1) / TILE;
}
