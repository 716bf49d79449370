/* Shuffles, votes and __syncwarp: lanes wait until all lanes that the mask names wait with the same mask, at the same
 * place. */
#include <cstdio>

#include "device/cuda/simt/state.hpp"

static const char *kind_name(int kind) {
  switch (static_cast<simt_warp_kind>(kind)) {
    case SIMT_WARP_SYNC: return "__syncwarp";
    case SIMT_SHFL: return "__shfl_sync";
    case SIMT_SHFL_UP: return "__shfl_up_sync";
    case SIMT_SHFL_DOWN: return "__shfl_down_sync";
    case SIMT_SHFL_XOR: return "__shfl_xor_sync";
    case SIMT_BALLOT: return "__ballot_sync";
    case SIMT_ANY: return "__any_sync";
    case SIMT_ALL: return "__all_sync";
    case SIMT_MATCH: return "__match_any_sync";
    case SIMT_MMA: return "mma.sync";
  }
  return "?";
}

uint64_t simt_warp(simt_warp_kind kind, unsigned mask, uint64_t value, int argument, int width, const char *file,
                   int line) {
  simt_block *block = simt_now;
  simt_thread *me = &block->threads[block->current];
  if (!(mask >> block->current % SIMT_LANES & 1))
    simt_fail("%s of %s:%d: the mask 0x%x does not name the caller, lane %u", kind_name(kind), file, line, mask,
              block->current % SIMT_LANES);
  if (width < 1 || width > SIMT_LANES || (width & (width - 1)))
    simt_fail("%s of %s:%d: a width of %d", kind_name(kind), file, line, width);
  me->state = THREAD_AT_WARP;
  me->kind = kind;
  me->mask = mask;
  me->value = value;
  me->argument = argument;
  me->width = width;
  me->file = file;
  me->line = line;
  const uint32_t w = block->current / SIMT_LANES;
  simt_wait(block, &block->warp_places[w][block->warp_waits[w] % 2]);
  return me->result;
}

void simt_exchange(const uint32_t *words, int n, uint32_t *all, const char *file, int line) {
  simt_thread *me = &simt_now->threads[simt_now->current];
  me->words = words;
  me->all = all;
  simt_warp(SIMT_MMA, ~0u, 0, n, SIMT_LANES, file, line);
}

/* The lane that a shuffle reads; the lane itself where the source is outside of its part of the warp. */
static int source_of(const simt_thread *t, int lane) {
  const int first = lane / t->width * t->width, end = first + t->width;
  int source = lane;
  if (t->kind == SIMT_SHFL) return first + (t->argument & (t->width - 1));
  if (t->kind == SIMT_SHFL_UP) source = lane - t->argument;
  if (t->kind == SIMT_SHFL_DOWN) source = lane + t->argument;
  if (t->kind == SIMT_SHFL_XOR) source = lane ^ t->argument;
  /* xor may read from parts before its own (CUDA programming guide, "Warp Shuffle Functions") */
  const bool inside = source < end && (t->kind == SIMT_SHFL_XOR ? source >= 0 : source >= first);
  return inside ? source : lane;
}

static bool shuffle(simt_block *block, simt_thread *warp, int lane) {
  const int source = source_of(&warp[lane], lane);
  if (!(warp[lane].mask >> source & 1))
    return simt_note(block, "%s of %s:%d: lane %d reads lane %d, which the mask 0x%x does not name",
                     kind_name(warp[lane].kind), warp[lane].file, warp[lane].line, lane, source, warp[lane].mask),
           false;
  warp[lane].result = warp[source].value;
  return true;
}

/* All lanes of the mask are at the same place. */
static bool complete(simt_block *block, simt_thread *warp, unsigned mask) {
  unsigned ballot = 0;
  for (int lane = 0; lane < SIMT_LANES; lane++)
    if ((mask >> lane & 1) && warp[lane].value) ballot |= 1u << lane;
  for (int lane = 0; lane < SIMT_LANES; lane++) {
    if (!(mask >> lane & 1)) continue;
    simt_thread *t = &warp[lane];
    switch (static_cast<simt_warp_kind>(t->kind)) {
      case SIMT_WARP_SYNC: break;
      case SIMT_BALLOT: t->result = ballot; break;
      case SIMT_ANY: t->result = ballot != 0; break;
      case SIMT_ALL: t->result = ballot == mask; break;
      case SIMT_MATCH:
        t->result = 0;
        for (int other = 0; other < SIMT_LANES; other++)
          if ((mask >> other & 1) && warp[other].value == t->value) t->result |= 1u << other;
        break;
      case SIMT_MMA:
        /* not memcpy, which the thread sanitizer would take for an access of this thread */
        for (int k = 0; k < SIMT_LANES * t->argument; k++)
          const_cast<volatile uint32_t *>(t->all)[k] = warp[k / t->argument].words[k % t->argument];
        break;
      case SIMT_SHFL:
      case SIMT_SHFL_UP:
      case SIMT_SHFL_DOWN:
      case SIMT_SHFL_XOR:
        if (!shuffle(block, warp, lane)) return false;
        break;
    }
  }
  for (int lane = 0; lane < SIMT_LANES; lane++)
    if (mask >> lane & 1) warp[lane].state = THREAD_READY;
  return true;
}

/* The first lane of t's mask that is not where t is; -1: all are. */
static int missing(const simt_thread *warp, int n_lanes, const simt_thread *t) {
  for (int lane = 0; lane < SIMT_LANES; lane++) {
    if (!(t->mask >> lane & 1)) continue;
    const simt_thread *other = &warp[lane];
    if (lane >= n_lanes || other->state != THREAD_AT_WARP || other->mask != t->mask || other->kind != t->kind ||
        other->line != t->line || !same_file(other->file, t->file))
      return lane;
  }
  return -1;
}

static void say_missing(simt_block *block, const simt_thread *warp, int n_lanes, const simt_thread *t, int lane) {
  const simt_thread *other = &warp[lane];
  char where[256] = "is not there";
  if (lane < n_lanes && other->state == THREAD_LEFT) snprintf(where, sizeof where, "has left");
  else if (lane < n_lanes)
    snprintf(where, sizeof where, "waits at %s of %s:%d%s",
             other->state == THREAD_AT_BARRIER ? "__syncthreads" : kind_name(other->kind), other->file, other->line,
             other->state == THREAD_AT_WARP && other->mask != t->mask ? " with another mask" : "");
  simt_note(block, "thread (%u,%u,%u) waits at %s of %s:%d with the mask 0x%x, but lane %d %s", t->index.x, t->index.y,
            t->index.z, kind_name(t->kind), t->file, t->line, t->mask, lane, where);
}

bool warp_resolve(simt_block *block, uint32_t first, uint32_t end) {
  uint32_t begin = block->thread_order[first];
  begin = begin / SIMT_LANES * SIMT_LANES;
  simt_thread *warp = &block->threads[begin];
  const int n_lanes = static_cast<int>(end - first);
  bool resolved = false;
  for (int lane = 0; lane < n_lanes; lane++) {
    const simt_thread *t = &warp[lane];
    if (t->state != THREAD_AT_WARP || missing(warp, n_lanes, t) >= 0) continue;
    block->warp_waits[begin / SIMT_LANES]++;
    if (t->kind == SIMT_WARP_SYNC) block->warp_syncs[begin / SIMT_LANES]++;
    if (!complete(block, warp, t->mask)) return false;
    resolved = true;
  }
  for (int lane = 0; lane < n_lanes && !resolved; lane++)
    if (warp[lane].state == THREAD_AT_WARP)
      return say_missing(block, warp, n_lanes, &warp[lane], missing(warp, n_lanes, &warp[lane])), false;
  return true;
}
