/* Geometry of convolutions with channels second (planes.h), and the copy of X that their windows read. */
#include "ops/cpu/product/planes.h"

#include "ops/cpu/product/whole.h"

#define COPY_FACTOR 8                  /* a copy of X may have this many times its elements, */
#define COPY_ANYWAY ((int64_t)1 << 22) /* or a channel of it so many */
#define PHASES_MOST 4096               /* of an axis */
#define PIECE_FLOATS 16384             /* of a row that are copied at a time, about, */
#define PIECE_GRAIN 16                 /* in lanes of whole vectors */

static int64_t greatest_divisor(int64_t a, int64_t b) { return b ? greatest_divisor(b, a % b) : a; }

plane_axis planes_axis(const planes *p, int axis, int64_t phase) {
  int64_t stride = p->stride[axis], dilation = p->dilation[axis], pad = p->pad[axis];
  if (!p->transposed) return (plane_axis){p->out[axis], stride, 0, 1, p->kernel[axis], 0, 1, -pad, dilation};
  /* output `phase` is the phase's first; taps t with (phase + pad - t * dilation) % stride == 0 reach it */
  plane_axis a = {.n = (p->out[axis] - phase + stride - 1) / stride, .step = 1, .y_first = phase, .y_step = stride};
  int64_t divisor = greatest_divisor(stride, dilation);
  a.tap_step = stride / divisor;
  a.distance = -(dilation / divisor);
  while (a.tap < p->kernel[axis] && a.tap < a.tap_step && (phase + pad - a.tap * dilation) % stride != 0) a.tap++;
  if (a.tap < p->kernel[axis] && a.tap < a.tap_step) {
    a.n_taps = (p->kernel[axis] - a.tap + a.tap_step - 1) / a.tap_step;
    a.first = (phase + pad - a.tap * dilation) / stride;
  }
  return a;
}

/* Positions of X that some window reads along an axis. */
static void find_span(planes *p, int axis) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t phase = 0; phase < p->n_phases[axis]; phase++) {
    plane_axis a = planes_axis(p, axis, phase);
    int64_t reach = (a.n_taps - 1) * a.distance, end = a.first + (a.n - 1) * a.step;
    if (a.n_taps == 0) continue;
    if (a.first + (reach < 0 ? reach : 0) < low) low = a.first + (reach < 0 ? reach : 0);
    if (end + (reach > 0 ? reach : 0) > high) high = end + (reach > 0 ? reach : 0);
  }
  p->low[axis] = low > high ? 0 : low;
  p->span[axis] = low > high ? 1 : high - low + 1;
}

bool planes_init(const window *w, bool transposed, int64_t groups, int64_t channels, int64_t outputs, planes *p) {
  *p = (planes){.transposed = transposed, .groups = groups, .channels = channels, .outputs = outputs};
  if (w->n > PLANE_AXES) return false;
  for (int i = 0; i < PLANE_AXES; i++) p->in[i] = p->out[i] = p->kernel[i] = p->stride[i] = p->dilation[i] = 1;
  for (int32_t i = 0; i < w->n; i++) {
    int32_t axis = PLANE_AXES - w->n + i;
    p->in[axis] = w->in[i];
    p->out[axis] = w->out[i];
    p->kernel[axis] = w->kernel[i];
    p->stride[axis] = w->stride[i];
    p->dilation[axis] = w->dilation[i];
    p->pad[axis] = w->pad_begin[i];
  }
  p->in_place = true;
  double elements = 1, of_x = 1;
  for (int i = 0; i < PLANE_AXES; i++) {
    p->n_phases[i] = !transposed ? 1 : p->stride[i] < p->out[i] ? p->stride[i] : p->out[i];
    if (p->n_phases[i] > PHASES_MOST) return false;
    find_span(p, i);
    p->lanes[i] = transposed ? 1 : p->stride[i];
    p->each[i] = (p->span[i] + p->lanes[i] - 1) / p->lanes[i];
    p->in_place = p->in_place && p->low[i] >= 0 && p->low[i] + p->span[i] <= p->in[i];
    elements *= (double)p->lanes[i] * (double)p->each[i];
    of_x *= (double)p->in[i];
  }
  p->in_place = p->in_place && p->lanes[2] == 1;
  if (p->in_place) {
    p->window[2] = 1;
    p->window[1] = p->lanes[1] * p->in[2];
    p->window[0] = p->lanes[0] * p->in[1] * p->in[2];
    p->channel = p->in[0] * p->in[1] * p->in[2];
    return true;
  }
  if (elements > COPY_ANYWAY && elements > COPY_FACTOR * of_x) return false;
  p->window[2] = 1;
  p->window[1] = p->each[2];
  p->window[0] = p->lanes[1] * p->lanes[2] * p->each[1] * p->each[2];
  p->channel = p->lanes[0] * p->each[0] * p->window[0];
  return true;
}

int64_t planes_at(const planes *p, const int64_t *position) {
  if (p->in_place) return (position[0] * p->in[1] + position[1]) * p->in[2] + position[2];
  int64_t lane[PLANE_AXES], place[PLANE_AXES];
  for (int i = 0; i < PLANE_AXES; i++) {
    place[i] = p->lanes[i] == 1 ? position[i] - p->low[i] : (position[i] - p->low[i]) / p->lanes[i];
    lane[i] = position[i] - p->low[i] - place[i] * p->lanes[i];
  }
  return (lane[0] * p->each[0] + place[0]) * p->window[0] +
         (lane[1] * p->lanes[2] + lane[2]) * p->each[1] * p->each[2] + place[1] * p->each[2] + place[2];
}

/* Places of a lane in a piece of a row, and the pieces of a row. */
static int64_t piece_places(const planes *p) { return round_up(divided(PIECE_FLOATS, p->lanes[2]), PIECE_GRAIN); }
static int64_t row_pieces(const planes *p) { return divided(p->each[2], piece_places(p)); }

int64_t planes_pieces(const planes *p) { return p->lanes[0] * p->each[0] * p->lanes[1] * p->each[1] * row_pieces(p); }

void planes_copy(const planes *p, cpu_level level, const float *x, int64_t begin, int64_t end, float *to) {
  const int64_t rows = p->lanes[1] * p->each[1], lanes = p->lanes[2], most = piece_places(p), pieces = row_pieces(p);
  plane_row r = {.lanes = lanes, .apart = p->each[1] * p->each[2]};
  int64_t piece = begin % pieces, z = begin / pieces / rows, y = begin / pieces % rows, lane = y % p->lanes[1],
          place = y / p->lanes[1], slab_at = (z % p->lanes[0] * p->each[0] + z / p->lanes[0]) * p->window[0];
  for (int64_t i = begin; i < end; i++) {
    const int64_t slab = p->low[0] + z, row = p->low[1] + y, first = piece * most,
                  column = p->low[2] + first * lanes; /* the piece's first */
    /* rows behind the span make lanes equally long */
    const bool is_inside =
        z < p->span[0] && y < p->span[1] && slab >= 0 && slab < p->in[0] && row >= 0 && row < p->in[1];
    r.places = smaller(p->each[2] - first, most);
    r.begin = cpu_clamp(-column, 0, lanes * r.places);
    r.end = cpu_clamp(p->in[2] - column, r.begin, lanes * r.places);
    CPU_PICK(level, part_row)
    (&r, is_inside ? x + (slab * p->in[1] + row) * p->in[2] + column : NULL,
     to + slab_at + lane * lanes * r.apart + place * p->each[2] + first);
    if (++piece < pieces) continue;
    piece = 0;
    y++;
    if (++lane == p->lanes[1]) lane = 0, place++;
    if (y < rows) continue;
    z++, y = lane = place = 0;
    slab_at = (z % p->lanes[0] * p->each[0] + z / p->lanes[0]) * p->window[0];
  }
}
