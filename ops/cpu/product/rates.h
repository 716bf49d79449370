/* Measured rates of products at each CPU level and kind of units, for estimates of time on one core: one table for all
 * choices between forms of a product. An estimate does not depend on the number of threads, so that results do not
 * either. */
#ifndef OPS_CPU_PRODUCT_RATES_H_
#define OPS_CPU_PRODUCT_RATES_H_

#include "ops/cpu/common/cpu.h"

/* Picoseconds (bench_conv). Direct: a product in f32, and of pairs of bf16 whose X is rounded before; the rounding of a
 * value of X, and what it takes for each pixel besides. Winograd: a product of transformed values; the transform of a
 * value of X, of a weight whose transforms stay in caches and of one whose transforms do not, and of a value for Y; the
 * reading of a stored weight, which is fetched while others are multiplied, from caches and from memory. Fixed: the
 * same products, transforms of X and of weights in fixed point. Strassen (strassen.h): what a weight, a value of X and
 * a value of Y take besides the products. */
typedef struct product_rates {
  double direct, pairs, rounded, rounded_pixel;
  double product, input, weight, far_weight, output, read, far_read;
  double fixed_product, fixed_input, fixed_weight;
  double sum_weight, sum_value, sum_product;
} product_rates;

const product_rates *product_rates_of(cpu_level level);

/* A direct product: Y has `pixels` pixels of `outputs` outputs each, which are sums over `depth` values. */
typedef struct direct_product {
  double pixels, outputs, depth;
  double rounded_pixels,
      channels; /* pixels of X that are rounded for a pixel of Y if weights are pairs; their values */
} direct_product;

/* Picoseconds of a direct product in f32, or with weights in pairs. */
double direct_time(const direct_product *d, cpu_level level, bool pairs);
/* True if this CPU multiplies pairs, and faster than f32. */
bool product_pairs_are_fast(cpu_level level);
bool direct_pairs_are_faster(const direct_product *d, cpu_level level);
/* Pixels of X that a tile of neighbouring pixels of Y rounds, for each of these: `rows` tap rows of `columns` taps. */
double rounded_pixels(double rows, double columns, double stride, double dilation);

#endif
