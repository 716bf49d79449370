/* Packed weights (packed.h): choosing the order for a call, and copying plain weights to this order and back. The
 * kernels that read packed weights are in ops/cpu/product/. */
#include "ops/packed.h"

#include <string.h>

#include "base/desc.h"
#include "ops/properties.h"

#define WINDOWS_MOST \
  (1 << 22)                    /* elements under the windows of a tile, at most: at an image's edge kernels copy them \
                                */
#define GROUP_OUTPUTS_LEAST 16 /* in a group: of fewer, some columns of a panel would have no output */
#define CHANNELS_AT_A_TIME 16  /* channels per step, so that the written part stays in the cache */
#define CHANNELS_OF_STRETCH 8192 /* of a matrix: 2 MiB of f32; a multiple of CHANNELS_AT_A_TIME */

/* ---- which order ---- */

/* True if the list of a transposed convolution is `wanted`. */
static bool holds(const reed_attrs *attrs, const char *name, int64_t n, const int64_t *wanted) {
  int64_t given;
  const int64_t *ints = reed_attrs_ints(attrs, name, &given);
  for (int64_t i = 0; i < n; i++)
    if ((ints && given != n) || (ints ? ints[i] : op_attr_each(op_builtin(OP_ConvTranspose), name)) != wanted[i])
      return false;
  return true;
}

static bool all_are(const reed_attrs *attrs, const char *name, int64_t value) {
  int64_t n;
  const int64_t *ints = reed_attrs_ints(attrs, name, &n);
  for (int64_t i = 0; ints && i < n; i++)
    if (ints[i] != value) return false;
  return true;
}

/* Tap rows and columns. A call with one spatial axis is seen as one row with columns; the rows of all slabs of three
 * axes follow one another. */
static void read_taps(const reed_desc *plain, int64_t *out_taps) {
  out_taps[0] = 1;
  for (int32_t i = 2; i < plain->rank - 1; i++) out_taps[0] *= plain->dims[i];
  out_taps[1] = plain->dims[plain->rank - 1];
}

/* True if few enough elements lie under the windows of a tile of 8 pixels: columns times rows times channels. */
static bool windows_are_small(const reed_attrs *attrs, const reed_desc *plain) {
  int64_t taps[2], n_strides, n_dilations;
  const int64_t *strides = reed_attrs_ints(attrs, "strides", &n_strides),
                *dilations = reed_attrs_ints(attrs, "dilations", &n_dilations);
  read_taps(plain, taps);
  double stride = n_strides ? (double)strides[n_strides - 1] : 1,
         dilation = n_dilations ? (double)dilations[n_dilations - 1] : 1;
  return (8 * stride + ((double)taps[1] - 1) * dilation) * (double)taps[0] * (double)plain->dims[1] <= WINDOWS_MOST;
}

/* The order for one matrix of these weights, its extents and distances still to be set. */
static packed_order order_for(const reed_desc *plain) {
  return (packed_order){.plain = *plain, .n_parts = 1, .rows = 1, .columns = 1, .channels = 1, .taps = 1};
}

/* Reads the outputs and taps of a convolution's weights. */
static void read_windows(packed_order *o) {
  int64_t taps[2];
  read_taps(&o->plain, taps);
  o->outputs = o->plain.dims[0];
  o->rows = o->taps = taps[0];
  o->columns = taps[1];
  o->w_tap[0] = taps[1];
  o->w_tap[1] = 1;
  o->w_channel = taps[0] * taps[1];
  o->w_output = o->plain.dims[1] * o->w_channel;
}

bool packed_has_small_groups(const reed_desc *plain, int64_t groups) {
  int64_t inputs = plain->dims[1];
  return (inputs == 1 || inputs == 2 || inputs == 4 || inputs == 8) && groups > 1 && plain->dims[0] % groups == 0 &&
         plain->dims[0] / groups == inputs;
}

packed_order packed_small_groups(const reed_desc *plain) {
  packed_order o = order_for(plain);
  read_windows(&o);
  o.small_groups = true;
  o.channels = plain->dims[1];
  return o;
}

static bool convolution(const reed_attrs *attrs, packed_order *o) {
  const reed_desc *plain = &o->plain;
  bool first = op_attr_int(attrs, "channels_first_input") != 0;
  int64_t groups = op_attr_int(attrs, "group");
  if (plain->rank < 3 || plain->rank > 5 || !op_attr_int(attrs, "channels_last")) return false;
  if (plain->rank <= 4 && packed_has_small_groups(plain, groups)) {
    *o = packed_small_groups(plain);
    return !first;
  }
  read_windows(o);
  if (groups > 1) { /* each group is a part */
    if (plain->dims[0] % groups != 0 || plain->dims[0] / groups < GROUP_OUTPUTS_LEAST) return false;
    o->n_parts = groups;
    o->outputs = plain->dims[0] / groups;
    o->part = o->outputs * o->w_output;
  }
  if (first) o->rows *= plain->dims[1];
  else o->channels = plain->dims[1];
  return groups > 0 && windows_are_small(attrs, plain);
}

/* A transposed convolution whose windows do not overlap: each tap writes pixels of its own. */
static bool transposed_convolution(const reed_attrs *attrs, packed_order *o) {
  const reed_desc *plain = &o->plain;
  const char *pads = op_attr_string(attrs, "auto_pad");
  if (plain->rank < 3 || plain->rank > 4 || op_attr_int(attrs, "group") != 1 || !op_attr_int(attrs, "channels_last"))
    return false;
  if (!holds(attrs, "strides", plain->rank - 2, plain->dims + 2) || !all_are(attrs, "dilations", 1) ||
      !all_are(attrs, "pads", 0) || !all_are(attrs, "output_padding", 0) || reed_attrs_find(attrs, "output_shape") ||
      (strcmp(pads, "NOTSET") != 0 && strcmp(pads, "VALID") != 0))
    return false;
  int64_t taps[2];
  read_taps(plain, taps);
  o->n_parts = taps[0] * taps[1];
  o->part = 1;
  o->channels = plain->dims[0];
  o->outputs = plain->dims[1];
  o->w_output = o->n_parts;
  o->w_channel = o->outputs * o->n_parts;
  return true;
}

static bool matrix(const reed_attrs *attrs, bool gemm, packed_order *o) {
  bool transposed = gemm && op_attr_int(attrs, "transB");
  if (o->plain.rank != 2 || (gemm && (op_attr_int(attrs, "transA") || op_attr_float(attrs, "alpha") != 1)))
    return false;
  o->channels = o->plain.dims[transposed];
  o->outputs = o->plain.dims[!transposed];
  o->w_output = transposed ? o->channels : 1;
  o->w_channel = transposed ? 1 : o->outputs;
  return true;
}

static bool gemm(const reed_attrs *attrs, packed_order *o) { return matrix(attrs, true, o); }
static bool matmul(const reed_attrs *attrs, packed_order *o) { return matrix(attrs, false, o); }

/* The reader of each PACKABLE operator. */
#define READERS(X) X(Conv, convolution) X(ConvTranspose, transposed_convolution) X(Gemm, gemm) X(MatMul, matmul)
static bool (*const readers[OP_COUNT])(const reed_attrs *attrs, packed_order *o) = {
#define READER(op, read) [OP_##op] = read,
    READERS(READER)};

enum {
#define ONE_READER(op, read) +1
  N_READERS = READERS(ONE_READER),
  N_PACKABLE = 0
#define OP(name, shape, kernel, class, alias, properties, ...) +(((properties)&PACKABLE) != 0)
#include "ops/op.def"
};
_Static_assert((int)N_READERS == (int)N_PACKABLE, "a PACKABLE operator has no reader of its order");

/* The number of elements of all parts; -1: more than memory can have. */
static int64_t count(const packed_order *o) {
  int64_t columns = o->small_groups ? o->outputs : (o->outputs + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP,
          n = o->n_parts;
  const int64_t factors[] = {columns, o->rows, o->columns, o->channels};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
    if (__builtin_mul_overflow(n, factors[i], &n)) return -1;
  return n > INT64_MAX / 8 ? -1 : n;
}

bool packed_order_of(const reed_op *op, const reed_attrs *attrs, const reed_desc *plain, packed_order *out_order) {
  packed_order o = order_for(plain);
  if (plain->dtype != REED_F32 && plain->dtype != REED_F16 && plain->dtype != REED_BF16) return false;
  if (desc_bytes(plain) <= 0) return false;
  if (!op_has(op, OP_PROPERTY_PACKABLE)) return false;
  if (!readers[op_id_of(op)](attrs, &o) || count(&o) < 0) return false;
  o.pairs = packed_has_pairs(op, attrs);
  if (o.pairs && (plain->dtype != REED_BF16 || o.small_groups || o.channels % 2 != 0)) return false;
  *out_order = o;
  return true;
}

bool packed_is(const reed_op *op, const reed_attrs *attrs) {
  return op_has(op, OP_PROPERTY_PACKABLE) && reed_attrs_find(attrs, PACKED_ATTR);
}

bool packed_has_pairs(const reed_op *op, const reed_attrs *attrs) {
  const reed_attr *pairs = op_has(op, OP_PROPERTY_PACKABLE) ? reed_attrs_find(attrs, PACKED_PAIRS_ATTR) : NULL;
  return pairs && pairs->i;
}

bool packed_order_read(const reed_op *op, const reed_attrs *attrs, const reed_desc *packed, packed_order *out_order) {
  int64_t n;
  const int64_t *dims = reed_attrs_ints(attrs, PACKED_ATTR, &n);
  reed_desc plain = {.dtype = packed->dtype, .rank = (int32_t)n};
  if (!dims || n < 0 || n > REED_MAX_RANK) return false;
  memcpy(plain.dims, dims, (size_t)n * sizeof *dims);
  return packed_order_of(op, attrs, &plain, out_order) && packed->rank == 1 && packed->dims[0] == count(out_order);
}

int64_t packed_part_elements(const packed_order *order) { return count(order) / order->n_parts; }

reed_desc packed_desc(const packed_order *order) {
  return (reed_desc){.dtype = order->plain.dtype, .rank = 1, .dims = {count(order)}};
}

/* ---- moving ---- */

/* One row of a panel, and its weights, which may lie at any address. */
typedef struct panel_row {
  char *panel, *plain;
  int64_t n, width, step; /* outputs; columns; distance of outputs in the plain weights */
  int64_t apart;          /* of columns in the panel: 2 if the weights of another channel lie between */
} panel_row;

#define PANEL_ROW(type) \
  static void pack_row_##type(const panel_row *r) { \
    type *panel = (type *)(void *)r->panel; \
    for (int64_t i = 0; i < r->n; i++) \
      memcpy(&panel[i * r->apart], r->plain + (size_t)(i * r->step) * sizeof *panel, sizeof *panel); \
    for (int64_t i = r->n; i < r->width; i++) panel[i * r->apart] = 0; \
  } \
  static void unpack_row_##type(const panel_row *r) { \
    const type *panel = (const type *)(const void *)r->panel; \
    for (int64_t i = 0; i < r->n; i++) \
      memcpy(r->plain + (size_t)(i * r->step) * sizeof *panel, &panel[i * r->apart], sizeof *panel); \
  }
PANEL_ROW(uint16_t)
PANEL_ROW(uint32_t)

typedef void (*row_fn)(const panel_row *r);

/* A stretch of packed rows: of one matrix and one panel, channels begin..end. `at`: its first element in the packed
 * weights. Its rows are all taps of these channels, so that the stretch is contiguous if it has all channels of the
 * panel, or if there is one tap. */
typedef struct stretch {
  int64_t part, panel, begin, end;
  int64_t at, width; /* width: columns of the panel */
} stretch;

static int64_t stretch_elements(const packed_order *o, const stretch *s) {
  return o->rows * o->columns * (s->end - s->begin) * s->width;
}

/* The stretch at place `at` of the packed weights, where one begins: all channels of a panel, or of a large matrix some
 * of them. */
static stretch stretch_at(const packed_order *o, int64_t at) {
  int64_t depth = o->rows * o->columns * o->channels, part_elements = packed_part_elements(o);
  stretch s = {.part = at / part_elements, .end = o->channels, .at = at};
  int64_t in_part = at % part_elements;
  if (!o->small_groups) s.panel = in_part / (depth * PACKED_WIDTH);
  s.width = o->small_groups ? o->outputs : packed_width(o->outputs, s.panel);
  if (o->rows * o->columns > 1) return s;
  s.begin = (in_part - s.panel * depth * PACKED_WIDTH) / s.width;
  if (s.end - s.begin > CHANNELS_OF_STRETCH) s.end = s.begin + CHANNELS_OF_STRETCH;
  return s;
}

/* Calls fn for the rows of a stretch. `packed`: the place of the stretch's first element. */
static void for_rows(const packed_order *o, const stretch *s, char *packed, char *plain, row_fn fn) {
  size_t size = reed_dtype_bytes(o->plain.dtype);
  int64_t output = s->panel * PACKED_WIDTH, channels = s->end - s->begin, n = o->outputs - output;
  panel_row row = {.n = n < s->width ? n : s->width, .width = s->width, .step = o->w_output, .apart = o->pairs ? 2 : 1};
  for (int64_t c0 = s->begin; c0 < s->end; c0 += CHANNELS_AT_A_TIME)
    for (int64_t tap = 0; tap < o->rows * o->columns; tap++)
      for (int64_t c = c0; c < c0 + CHANNELS_AT_A_TIME && c < s->end; c++) {
        int64_t from = packed_plain_place(o, s->part, output, tap, c);
        int64_t place = tap * channels + c - s->begin; /* pairs: the odd channel's weights begin one element later */
        row.panel = packed + (size_t)(o->pairs ? (place & ~1) * s->width + (place & 1) : place * s->width) * size;
        row.plain = plain + (size_t)from * size;
        fn(&row);
      }
}

static void for_all_rows(const packed_order *o, char *packed, char *plain, row_fn fn) {
  size_t size = reed_dtype_bytes(o->plain.dtype);
  stretch s;
  for (int64_t at = 0, n = count(o); at < n; at += stretch_elements(o, &s)) {
    s = stretch_at(o, at);
    for_rows(o, &s, packed + (size_t)at * size, plain, fn);
  }
}

static row_fn pack_row(const packed_order *o) {
  return reed_dtype_bytes(o->plain.dtype) == 2 ? pack_row_uint16_t : pack_row_uint32_t;
}

void packed_pack(const packed_order *order, const void *plain, void *packed) {
  for_all_rows(order, packed, (char *)(uintptr_t)plain, pack_row(order));
}

void packed_unpack(const packed_order *order, const void *packed, void *plain) {
  for_all_rows(order, (char *)(uintptr_t)packed, plain,
               reed_dtype_bytes(order->plain.dtype) == 2 ? unpack_row_uint16_t : unpack_row_uint32_t);
}

size_t packed_pack_part(const packed_order *order, const void *plain, size_t at, void *packed) {
  size_t size = reed_dtype_bytes(order->plain.dtype);
  stretch s = stretch_at(order, (int64_t)(at / size));
  if (packed) for_rows(order, &s, packed, (char *)(uintptr_t)plain, pack_row(order));
  return (size_t)stretch_elements(order, &s) * size;
}
