/* The table of prepared kernels by call site (site.h). A call is a list of words, compared as a whole: a hash first,
 * then every word. */
#include "vm/site.h"

#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/hash.h"

enum {
  MAX_VALUE_BYTES = 4096, /* a call with more bytes of `value` elements is prepared every time */
  STATE_BYTES = 256       /* assumed for a kernel that does not state its bytes */
};

reed_status site_kernels_open(site_kernels *kernels, size_t n_sites, reed_diagnosis *diagnosis) {
  kernels->n_sites = n_sites;
  kernels->latest = mem_calloc(n_sites, sizeof *kernels->latest);
  kernels->kept = mem_calloc(n_sites, sizeof *kernels->kept);
  return kernels->latest && kernels->kept ? REED_OK : diag_no_memory(diagnosis, "a session's prepared kernels");
}

void site_kernels_close(site_kernels *kernels) {
  for (size_t i = 0; kernels->kept && i < kernels->n_sites; i++) site_release(kernels, kernels->kept[i]);
  mem_free(kernels->latest);
  mem_free(kernels->kept);
  VEC_FREE(&kernels->words);
}

/* ---- the words of a call ---- */

/* Room for one operand: head, extents, room, address or elements. */
static bool reserve(site_kernels *kernels, int64_t value_bytes) {
  size_t need = kernels->words.n + 4 + REED_MAX_RANK + (size_t)(value_bytes + 7) / 8;
  return VEC_RESERVE(&kernels->words, need);
}

static void add(site_kernels *kernels, int64_t word) { kernels->words.items[kernels->words.n++] = word; }

/* What an operand's head says besides dtype and rank. */
enum { HEAD_CONSTANT = 1 << 16, HEAD_VALUE = 1 << 17, HEAD_ROOM = 1 << 18, HEAD_COUNTED = 1 << 19 };

static void add_operand(site_kernels *kernels, const reed_desc *desc, const reed_room *room, int64_t flags) {
  if (!desc || desc->dtype == REED_NONE) {
    add(kernels, REED_NONE);
    return;
  }
  bool has_room = room && room->axis >= 0;
  if (has_room) flags |= HEAD_ROOM | (room->counted ? HEAD_COUNTED : 0) | (int64_t)room->axis << 24;
  add(kernels, (int64_t)desc->dtype | (int64_t)desc->rank << 8 | flags);
  for (int32_t i = 0; i < desc->rank; i++) add(kernels, desc->dims[i]);
  if (has_room) add(kernels, room->capacity);
}

static void add_elements(site_kernels *kernels, const void *data, int64_t bytes) {
  size_t n = (size_t)(bytes + 7) / 8;
  if (!n) return;
  kernels->words.items[kernels->words.n + n - 1] = 0;
  memcpy(kernels->words.items + kernels->words.n, data, (size_t)bytes);
  kernels->words.n += n;
}

/* Writes the call into kernels->words. *out_listed false: the call has too many `value` elements to be compared. */
static bool form(site_kernels *kernels, const op_call *call, int32_t device, bool *out_listed) {
  int64_t value_bytes = 0;
  kernels->words.n = 0;
  if (!reserve(kernels, 0)) return false;
  add(kernels, (int64_t)device | (int64_t)call->n_inputs << 16 | (int64_t)call->n_outputs << 32);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const op_call_input *in = &call->inputs[i];
    bool constant = in->desc && in->constant;
    const void *value = constant ? NULL : op_call_value(call, i);
    int64_t bytes = value && in->data ? desc_bytes(in->desc) : 0;
    value_bytes += bytes;
    if (bytes < 0 || value_bytes > MAX_VALUE_BYTES) {
      *out_listed = false;
      return true;
    }
    if (!reserve(kernels, bytes)) return false;
    add_operand(kernels, in->desc, call->input_rooms ? &call->input_rooms[i] : NULL,
                (constant ? HEAD_CONSTANT : 0) | (bytes ? HEAD_VALUE : 0));
    if (constant) add(kernels, (int64_t)(intptr_t)in->data);
    else add_elements(kernels, value, bytes);
  }
  for (int32_t i = 0; i < call->n_outputs; i++) {
    if (!reserve(kernels, 0)) return false;
    add_operand(kernels, &call->outputs[i], call->output_rooms ? &call->output_rooms[i] : NULL, 0);
  }
  *out_listed = true;
  return true;
}

/* ---- finding and freeing ---- */

/* Puts the kernel first, in the place of the one at `at`; those before it move down by one. */
static void put_first(site_latest *latest, int at, site_kernel *k) {
  for (int i = at; i > 0; i--) {
    latest->hashes[i] = latest->hashes[i - 1];
    latest->kernels[i] = latest->kernels[i - 1];
  }
  latest->hashes[0] = k->hash;
  latest->kernels[0] = k;
}

static site_kernel *find(site_kernels *kernels, uint32_t site, uint64_t hash) {
  site_latest *latest = &kernels->latest[site];
  size_t n_words = kernels->words.n;
  for (int i = 0; i < SITE_LAST_CALLS; i++) {
    site_kernel *k = latest->kernels[i];
    if (!k || latest->hashes[i] != hash || k->n_words != n_words) continue;
    if (memcmp(k->words, kernels->words.items, n_words * sizeof(int64_t)) != 0) continue;
    put_first(latest, i, k);
    return k;
  }
  return NULL;
}

/* The site's latest kernels without k. */
static void forget(site_kernels *kernels, const site_kernel *k) {
  site_latest *latest = kernels->latest ? &kernels->latest[k->site] : NULL;
  for (int i = 0; latest && i < SITE_LAST_CALLS; i++)
    if (latest->kernels[i] == k) latest->kernels[i] = NULL;
}

reed_status site_prepare(site_kernels *kernels, const op_call *call, uint32_t site, int32_t device,
                         site_kernel **out_kernel, bool *out_made) {
  bool listed = false;
  if (!form(kernels, call, device, &listed)) return diag_no_memory(call->diagnosis, "a prepared kernel");
  size_t n_words = listed ? kernels->words.n : 0;
  uint64_t hash = listed ? hash_bytes(kernels->words.items, n_words * sizeof(int64_t), 0) : 0;
  site_kernel *k = listed ? find(kernels, site, hash) : NULL;
  *out_made = !k;
  if (k) {
    site_retain(k);
    kernels->figures.found++;
    *out_kernel = k;
    return REED_OK;
  }
  k = mem_alloc(sizeof *k + n_words * sizeof(int64_t));
  if (!k) return diag_no_memory(call->diagnosis, "a prepared kernel");
  *k = (site_kernel){.site = site, .n_references = 1, .hash = hash, .n_words = n_words};
  if (n_words) memcpy(k->words, kernels->words.items, n_words * sizeof(int64_t));
  reed_status status = op_call_prepare(call, &k->kernel);
  if (status != REED_OK) {
    mem_free(k);
    return status;
  }
  k->bytes = (int64_t)(sizeof *k + n_words * sizeof(int64_t)) + STATE_BYTES + k->kernel.state_bytes;
  if (listed) put_first(&kernels->latest[site], SITE_LAST_CALLS - 1, k);
  kernels->figures.made++;
  kernels->figures.live++;
  *out_kernel = k;
  return REED_OK;
}

void site_release(site_kernels *kernels, site_kernel *k) {
  if (!k || --k->n_references > 0) return;
  forget(kernels, k);
  if (k->kernel.free) k->kernel.free(k->kernel.state);
  mem_free(k);
  kernels->figures.live--;
}

void site_keep(site_kernels *kernels, site_kernel *k) {
  site_kernel *old = kernels->kept[k->site];
  kernels->kept[k->site] = k;
  site_release(kernels, old);
}
