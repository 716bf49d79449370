/* PasteMasks: each mask resized (Resize, mode linear) to its box in a picture of zeros. Rows of all pictures are shared
 * out to the threads; a row is written once: zeros, the mask's row if the box has one there, zeros. A mask's rows are
 * mixed first and then its columns, by the loops of Resize, so that the elements are Resize's own. The reference:
 * reference/paste.c. */
#include "ops/cpu/calls/paste.h"
#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/rows_loops.h"

#define ALIGNMENT 64

/* ---- one picture ---- */

typedef struct paste_job {
  const paste *p;
  const float *masks;
  const int64_t *boxes; /* x1, y1, x2, y2 */
  float *pictures;
  char *scratch; /* per range of rows */
} paste_job;

/* A thread's scratch: the taps of a picture's columns, and a mixed row of the mask. */
static int64_t scratch_bytes(const paste *p) {
  return (p->width * 2 * (int64_t)(sizeof(int32_t) + sizeof(float)) + p->columns * 4 + ALIGNMENT - 1) &
         ~(int64_t)(ALIGNMENT - 1);
}

static void zero(float *y, int64_t n) { memset(y, 0, (size_t)n * sizeof *y); }

/* Rows begin..end-1 of picture k. */
static void paste_rows(const paste_job *job, int64_t k, int64_t begin, int64_t end, char *scratch) {
  const paste *p = job->p;
  const int64_t *box = job->boxes + 4 * k;
  const float *mask = job->masks + k * p->rows * p->columns;
  float *y = job->pictures + (k * p->height + begin) * p->width, *weight = (float *)scratch,
        *mixed = weight + 2 * p->width;
  int32_t *index = (int32_t *)(mixed + p->columns);
  paste_span across = paste_visible(box[0], box[2], p->width), down = paste_visible(box[1], box[3], p->height);
  int64_t n = across.end - across.begin, first = cpu_clamp(down.begin, begin, end),
          last = n ? cpu_clamp(down.end, first, end) : first;
  zero(y, (first - begin) * p->width);
  y += (first - begin) * p->width;
  if (first < last)
    resize_taps(p->mapping, NULL, p->columns, across.extent, across.begin - across.origin, across.end - across.origin,
                index, weight);
  for (int64_t row = first; row < last; row++, y += p->width) {
    int32_t at[2];
    float share[2];
    resize_taps(p->mapping, NULL, p->rows, down.extent, row - down.origin, row - down.origin + 1, at, share);
    CPU_PICK(p->level, mix_rows)(mask, at, share, 2, p->columns, mixed, 1);
    zero(y, across.begin);
    CPU_PICK(p->level, gather_taps)(mixed, index, weight, 2, y + across.begin, n);
    zero(y + across.end, p->width - across.end);
  }
  zero(y, (end - last) * p->width);
}

/* Rows begin..end-1, counted over all pictures. */
static void paste_range(void *context, int64_t begin, int64_t end, int32_t worker) {
  const paste_job *job = context;
  int64_t height = job->p->height, past;
  for (int64_t row = begin; row < end && !cpu_cancelled(&job->p->team); row = past) {
    int64_t k = row / height;
    past = cpu_clamp((k + 1) * height, row, end);
    paste_rows(job, k, row - k * height, past - k * height, job->scratch + worker * job->p->scratch_bytes);
  }
}

static reed_status run_paste(const void *state, const reed_kernel_buffers *buffers) {
  const paste *p = state;
  int64_t total = p->masks * p->height;
  cpu_team team = cpu_team_for(p->team, total * p->width * 4);
  paste_job job = {.p = p,
                   .masks = buffers->inputs[0],
                   .boxes = buffers->inputs[1],
                   .pictures = buffers->outputs[0],
                   .scratch = buffers->workspace};
  return cpu_parallel_scratch(team, total, 1, paste_range, &job);
}

reed_status cpu_prepare_paste_masks(const reed_kernel_call *call, reed_kernel *out_kernel) {
  paste p;
  reed_status status = paste_read(call, &p);
  if (status != REED_OK) return status;
  p.scratch_bytes = scratch_bytes(&p);
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_paste, state);
  out_kernel->workspace_bytes = p.scratch_bytes * p.team.threads;
  return REED_OK;
}
