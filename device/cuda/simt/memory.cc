/* Every load and store of a kernel, checked to the byte: the functions that g++ calls for them under
 * -fsanitize=kernel-address. Also a block's shared memory, and the search for races in it. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device/cuda/simt/state.hpp"

enum { SHARED_GAP = 64, SHARED_POISON = 0xff, SHARED_WORD = 4 };

/* ---- shared memory ---- */

bool shared_open(simt_block *block) {
  block->shared = static_cast<char *>(aligned_alloc(64, SIMT_SHARED_MOST + SHARED_GAP * (SIMT_ARRAYS + 1)));
  const size_t bytes = SIMT_SHARED_MOST + SHARED_GAP * (SIMT_ARRAYS + 1);
  block->uses = static_cast<shared_use *>(calloc(bytes, sizeof *block->uses));
  block->words = static_cast<shared_use *>(calloc(bytes / SHARED_WORD, sizeof *block->words));
  if (block->shared && block->uses && block->words) return true;
  free(block->shared);
  free(block->uses);
  free(block->words);
  return false;
}

void shared_begin(simt_block *block) {
  block->n_arrays = 0;
  block->shared_end = block->shared_taken = 0;
  block->interval++;
  for (uint16_t &syncs : block->warp_syncs) syncs = 0;
}

/* Arrays lie apart, so that an access beyond one does not hit the next. */
static void *take_shared(simt_block *block, const void *key, size_t bytes, size_t alignment) {
  const simt_launch *l = block->launch;
  const uint32_t limit = l->shared_limit ? l->shared_limit : static_cast<uint32_t>(SIMT_SHARED_DEFAULT);
  if (block->n_arrays == SIMT_ARRAYS) simt_fail("more than %d shared arrays", SIMT_ARRAYS);
  if (alignment > SHARED_GAP) simt_fail("a shared array aligned to %zu bytes", alignment);
  const size_t arrays = block->shared_taken + (key ? bytes : 0);
  if (arrays + l->shared_bytes > limit)
    simt_fail("%zu bytes of shared memory, but the launch may use only %u", arrays + l->shared_bytes, limit);
  char *data = block->shared + block->shared_end;
  block->arrays[block->n_arrays++] = {key, block->shared_end, bytes};
  block->shared_taken = arrays;
  block->shared_end = (block->shared_end + bytes + 2 * SHARED_GAP - 1) / SHARED_GAP * SHARED_GAP;
  /* not memset, which the thread sanitizer would take for a write of this thread */
  for (volatile char *at = data; at < data + bytes; at++) *at = static_cast<char>(SHARED_POISON);
  return data;
}

static shared_array *find_array(simt_block *block, const void *key) {
  for (int32_t i = 0; i < block->n_arrays; i++)
    if (block->arrays[i].key == key) return &block->arrays[i];
  return nullptr;
}

void *simt_shared(const void *key, size_t bytes, size_t alignment) {
  simt_block *block = simt_now;
  const shared_array *known = find_array(block, key);
  return known ? block->shared + known->at : take_shared(block, key, bytes, alignment);
}

void *simt_shared_dynamic(size_t alignment, size_t *out_bytes) {
  simt_block *block = simt_now;
  const shared_array *known = find_array(block, nullptr);
  if (out_bytes) *out_bytes = block->launch->shared_bytes;
  return known ? block->shared + known->at : take_shared(block, nullptr, block->launch->shared_bytes, alignment);
}

#if !SIMT_TSAN
/* ---- races in shared memory ---- */

[[noreturn]] static void fail_race(const simt_block *block, bool writes, uint32_t other, bool other_wrote, size_t at) {
  const dim3 index = block->threads[other].index;
  simt_fail("a race at byte %zu of shared memory: it %s what thread (%u,%u,%u) has %s since the last barrier", at,
            writes ? "writes" : "reads", index.x, index.y, index.z, other_wrote ? "written" : "read");
}

/* True if a __syncwarp lies between the other thread's use and the thread that runs. */
static bool ordered(const simt_block *block, uint32_t other, uint16_t sync) {
  const uint32_t warp = block->current / SIMT_LANES;
  return other / SIMT_LANES == warp && sync != block->warp_syncs[warp];
}

static void note_use(simt_block *block, shared_use *use, size_t at, bool writes) {
  const uint16_t me = static_cast<uint16_t>(block->current + 1), sync = block->warp_syncs[block->current / SIMT_LANES];
  if (use->writer && use->writer != me && !ordered(block, use->writer - 1u, use->write_sync))
    fail_race(block, writes, use->writer - 1u, true, at);
  if (writes) {
    const bool others = use->readers_in_warp || use->readers_in_block || (use->reader && use->reader != me);
    if (others && (use->readers_in_block || !ordered(block, use->reader - 1u, use->read_sync)))
      fail_race(block, true, use->reader - 1u, false, at);
    use->writer = me;
    use->write_sync = sync;
    return;
  }
  if (use->reader && use->reader != me) {
    const bool same = (use->reader - 1u) / SIMT_LANES == block->current / SIMT_LANES;
    use->readers_in_warp |= same && sync == use->read_sync;
    use->readers_in_block |= !same;
  }
  if (!use->readers_in_block || !use->reader) {
    /* after a __syncwarp only the readers since then count */
    if (use->reader && sync != use->read_sync) use->readers_in_warp = false;
    use->reader = me;
    use->read_sync = sync;
  }
}

/* Notes an access word by word: a word that is only used whole has one record, another one a record for each byte. */
static void note_access(simt_block *block, size_t at, size_t bytes, bool writes) {
  const size_t end = at + bytes;
  for (size_t w = at / SHARED_WORD; w * SHARED_WORD < end; w++) {
    shared_use *word = &block->words[w];
    const size_t first = w * SHARED_WORD, from = std::max(at, first), to = std::min(end, first + SHARED_WORD);
    if (word->interval != block->interval) *word = {block->interval, 0, 0, false, false, false, 0, 0};
    if (to - from == SHARED_WORD && !word->in_bytes) {
      note_use(block, word, from, writes);
      continue;
    }
    if (!word->in_bytes) std::fill_n(&block->uses[first], static_cast<size_t>(SHARED_WORD), *word);
    word->in_bytes = true;
    for (size_t i = from; i < to; i++) note_use(block, &block->uses[i], i, writes);
  }
}

/* ---- accesses ---- */

[[noreturn]] static void fail_access(const simt_block *block, uintptr_t at, size_t bytes, bool writes) {
  const simt_launch *l = block->launch;
  const char *verb = writes ? "writes" : "reads";
  int32_t nearest = -1;
  uintptr_t least = UINTPTR_MAX;
  for (int32_t i = 0; i < l->n_operands; i++) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(l->operands[i].data),
                    end = first + static_cast<uintptr_t>(l->operands[i].bytes);
    const uintptr_t distance = at < first ? first - at : at + bytes > end ? at + bytes - end : 0;
    if (distance < least) {
      least = distance;
      nearest = i;
    }
  }
  for (int32_t i = 0; i < block->n_arrays; i++) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(block->shared) + block->arrays[i].at;
    if (at + SHARED_GAP > first && at < first + block->arrays[i].bytes + SHARED_GAP)
      simt_fail("%s %zu bytes at byte %lld of a shared array of %zu bytes", verb, bytes,
                static_cast<long long>(at - first), block->arrays[i].bytes);
  }
  if (nearest < 0)
    simt_fail("%s %zu bytes at %p; the launch has no operands", verb, bytes, reinterpret_cast<void *>(at));
  const simt_operand *o = &l->operands[nearest];
  simt_fail("%s %zu bytes at byte %lld of operand %d, which has %lld bytes%s", verb, bytes,
            static_cast<long long>(at - reinterpret_cast<uintptr_t>(o->data)), nearest,
            static_cast<long long>(o->bytes), o->writable ? "" : " and is not writable");
}

static bool inside(uintptr_t at, size_t bytes, const void *data, size_t size) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(data);
  return at >= first && bytes <= size && at - first <= size - bytes;
}

static bool inside_operand(const simt_operand *o, uintptr_t at, size_t bytes, bool writes) {
  return inside(at, bytes, o->data, static_cast<size_t>(o->bytes)) && (o->writable || !writes);
}

static void note_touched(const simt_block *block, size_t bytes) {
  const simt_launch *l = block->launch;
  if (l->touched) l->touched[block->last - l->operands] += static_cast<int64_t>(bytes);
}

/* True for threadIdx and its like: clang reports their loads, g++ does not. */
static bool inside_built_in(uintptr_t at, size_t bytes) {
  for (const dim3 *variable : {&simt_thread_idx, &simt_block_idx, &simt_block_dim, &simt_grid_dim})
    if (inside(at, bytes, variable, sizeof *variable)) return true;
  return false;
}

[[gnu::noinline]] static void check_elsewhere(simt_block *block, uintptr_t at, size_t bytes, bool writes, bool atomic) {
  const simt_launch *l = block->launch;
  if (inside(at, bytes, block->threads[block->current].fiber->stack, FIBER_STACK_BYTES)) return;
  if (inside(at, bytes, block->shared, block->shared_end)) {
    const size_t from = at - reinterpret_cast<uintptr_t>(block->shared);
    for (int32_t i = 0; i < block->n_arrays; i++) {
      const shared_array *a = &block->arrays[i];
      if (from < a->at || from + bytes > a->at + a->bytes) continue;
      if (!atomic) note_access(block, from, bytes, writes);
      return;
    }
    fail_access(block, at, bytes, writes);
  }
  for (int32_t i = 0; i < l->n_operands; i++) {
    if (!inside_operand(&l->operands[i], at, bytes, writes)) continue;
    block->last = &l->operands[i];
    note_touched(block, bytes);
    return;
  }
  if (!writes && (inside(at, bytes, l->args, l->kernel->args_bytes) || inside_built_in(at, bytes))) return;
  fail_access(block, at, bytes, writes);
}

/* Most accesses lie in the operand of the one before. */
static void check(uintptr_t at, size_t bytes, bool writes, bool atomic) {
  simt_block *block = simt_now;
  if (!block || !bytes) return;
  if (inside_operand(block->last, at, bytes, writes)) note_touched(block, bytes);
  else check_elsewhere(block, at, bytes, writes, atomic);
}

#define HOOK extern "C" __attribute__((visibility("hidden")))
#define SIZED(bytes) \
  HOOK void __asan_load##bytes##_noabort(uintptr_t at) { check(at, bytes, false, false); } \
  HOOK void __asan_store##bytes##_noabort(uintptr_t at) { check(at, bytes, true, false); }
HOOK void __asan_load1_noabort(uintptr_t at);
HOOK void __asan_loadN_noabort(uintptr_t at, size_t bytes);
HOOK void __asan_storeN_noabort(uintptr_t at, size_t bytes);
HOOK void __asan_handle_no_return();
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
void __asan_loadN_noabort(uintptr_t at, size_t bytes) { check(at, bytes, false, false); }
void __asan_storeN_noabort(uintptr_t at, size_t bytes) { check(at, bytes, true, false); }
void __asan_handle_no_return() {}
#endif

void simt_atomic(const volatile void *data, size_t bytes) {
#if !SIMT_TSAN
  const uintptr_t at = reinterpret_cast<uintptr_t>(data);
  if (at % bytes) simt_fail("an atomic of %zu bytes at an address that is not aligned to them", bytes);
  check(at, bytes, true, true);
#endif
  (void)data;
  (void)bytes;
}
