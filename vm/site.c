/* The table of prepared kernels (site.h). A call is a list of words, compared as a whole: a hash first, then every
 * word.
 */
#include "vm/site.h"

#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/fetch.h"
#include "base/hash.h"

enum {
  MAX_VALUE_BYTES = 4096, /* a call with more bytes of `value` elements is prepared every time */
  STATE_BYTES = 256,      /* assumed for a kernel that does not state its bytes */
  MOST_PREFETCHED = 512   /* bytes of a kernel */
};

reed_status site_kernels_open(site_kernels *kernels, const uint32_t *families, size_t n_sites,
                              reed_diagnosis *diagnosis) {
  kernels->families = families;
  kernels->n_sites = n_sites;
  kernels->last = mem_calloc(n_sites, sizeof *kernels->last);
  kernels->kept = mem_calloc(n_sites, sizeof *kernels->kept);
  return kernels->last && kernels->kept ? REED_OK : diag_no_memory(diagnosis, "a session's prepared kernels");
}

void site_kernels_close(site_kernels *kernels) {
  for (size_t i = 0; kernels->kept && i < kernels->n_sites; i++) site_release(kernels, kernels->kept[i]);
  mem_free(kernels->last);
  mem_free(kernels->kept);
  table_fini(&kernels->found);
  VEC_FREE(&kernels->items);
  VEC_FREE(&kernels->free);
  VEC_FREE(&kernels->words);
  rows_close(&kernels->states);
  rows_close(&kernels->states_aside);
}

/* ---- the words of a call ---- */

/* Room for one operand: head, extents, room, address or elements. */
static bool reserve(site_kernels *kernels, int64_t value_bytes) {
  size_t need = kernels->words.n + 5 + REED_MAX_RANK + (size_t)(value_bytes + 7) / 8;
  return VEC_RESERVE(&kernels->words, need);
}

static void add(site_kernels *kernels, int64_t word) { kernels->words.items[kernels->words.n++] = word; }

/* Flags in the head word of an operand, beside its dtype and rank. */
enum { HEAD_CONSTANT = 1 << 16, HEAD_VALUE = 1 << 17, HEAD_ROOM = 1 << 18, HEAD_COUNTED = 1 << 19 };

static void add_operand(site_kernels *kernels, const reed_desc *desc, const reed_room *room, int64_t flags) {
  if (!desc || desc->dtype == REED_NONE) {
    add(kernels, REED_NONE);
    return;
  }
  bool has_room = room && room->axis >= 0;
  if (has_room)
    flags |= HEAD_ROOM | (room->counted ? HEAD_COUNTED : 0) | (int64_t)room->axis << 24 | (int64_t)room->counted << 32;
  add(kernels, (int64_t)desc->dtype | (int64_t)desc->rank << 8 | flags);
  for (int32_t i = 0; i < desc->rank; i++) add(kernels, desc->dims[i]);
  if (has_room) add(kernels, room->capacity);
  if (has_room) add(kernels, room->factor);
}

static void add_elements(site_kernels *kernels, const void *data, int64_t bytes) {
  size_t n = (size_t)(bytes + 7) / 8;
  if (!n) return;
  kernels->words.items[kernels->words.n + n - 1] = 0;
  memcpy(kernels->words.items + kernels->words.n, data, (size_t)bytes);
  kernels->words.n += n;
}

bool site_form(site_kernels *kernels, const op_call *call, uint32_t site, int32_t device, site_call *out_call) {
  int64_t value_bytes = 0;
  bool listed = true;
  const size_t first = kernels->words.n;
  if (!reserve(kernels, 0)) return false;
  add(kernels, kernels->families[site]);
  add(kernels, (int64_t)device | (int64_t)call->n_inputs << 16 | (int64_t)call->n_outputs << 32);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    const op_call_input *in = &call->inputs[i];
    bool constant = in->desc && in->constant;
    const void *value = constant ? NULL : op_call_value(call, i);
    int64_t bytes = value && in->data ? desc_bytes(in->desc) : 0;
    value_bytes += bytes;
    if (bytes < 0 || value_bytes > MAX_VALUE_BYTES) {
      listed = false;
      value = NULL;
      bytes = value_bytes = 0;
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
  const size_t n = kernels->words.n - first;
  *out_call = (site_call){.first = first, .n = n, .listed = listed};
  if (listed) out_call->hash = hash_bytes(kernels->words.items + first, n * sizeof(int64_t), 0);
  return true;
}

/* Reads an operand that add_operand and add_elements wrote, and returns the place of the next. */
static const int64_t *read_operand(const int64_t *words, reed_desc *out_desc) {
  const int64_t head = *words++;
  *out_desc = (reed_desc){.dtype = (reed_dtype)(head & 0xff)};
  if (out_desc->dtype == REED_NONE) return words;
  out_desc->rank = (int32_t)(head >> 8 & 0xff);
  for (int32_t i = 0; i < out_desc->rank; i++) out_desc->dims[i] = *words++;
  if (head & HEAD_ROOM) words += 2;
  if (head & HEAD_CONSTANT) words++;
  return head & HEAD_VALUE ? words + (desc_bytes(out_desc) + 7) / 8 : words;
}

int32_t site_kernel_inputs(const site_kernel *k, reed_desc out_inputs[REED_MAX_OPERANDS]) {
  const int32_t n = (int32_t)(k->words[1] >> 16 & 0xffff);
  const int64_t *words = k->words + 2;
  for (int32_t i = 0; i < n; i++) words = read_operand(words, &out_inputs[i]);
  return n;
}

static const int64_t *read_input(const int64_t *words, op_call_input *out_input, reed_desc *out_desc) {
  const int64_t head = *words, *next = read_operand(words, out_desc), *after = words + 1 + out_desc->rank;
  *out_input = (op_call_input){.desc = out_desc->dtype == REED_NONE ? NULL : out_desc};
  if (head & HEAD_CONSTANT) {
    out_input->data = (const void *)(intptr_t)*after;
    out_input->constant = true;
  } else if (head & HEAD_VALUE) {
    out_input->data = after;
  }
  return next;
}

void site_describe(const int64_t *words, op_call *call, op_call_input *in, reed_desc *descs, reed_desc *out) {
  call->n_inputs = (int32_t)(words[1] >> 16 & 0xffff);
  call->n_outputs = (int32_t)(words[1] >> 32);
  call->inputs = in;
  call->outputs = out;
  words += 2;
  for (int32_t i = 0; i < call->n_inputs; i++) words = read_input(words, &in[i], &descs[i]);
  for (int32_t i = 0; i < call->n_outputs; i++) words = read_operand(words, &out[i]);
}

/* ---- finding and freeing ---- */

typedef struct wanted_words {
  const int64_t *words;
  size_t n;
} wanted_words;

static bool has_words(const void *context, uint32_t number, const void *wanted) {
  const site_kernel *k = ((const site_kernels *)context)->items.items[number];
  const wanted_words *w = wanted;
  return k->n_words == w->n && memcmp(k->words, w->words, w->n * sizeof(int64_t)) == 0;
}

/* Gives the kernel a number, and lets a listed one be found; false: no memory. */
static bool enlist(site_kernels *kernels, site_kernel *k) {
  bool recycled = kernels->free.n > 0;
  if (!recycled && (!VEC_RESERVE(&kernels->free, kernels->items.n + 1) || !VEC_PUSH(&kernels->items, NULL)))
    return false;
  uint32_t number = recycled ? kernels->free.items[kernels->free.n - 1] : (uint32_t)kernels->items.n - 1;
  if (k->listed && !table_add(&kernels->found, k->hash, number)) {
    if (!recycled) kernels->items.n--;
    return false;
  }
  if (recycled) kernels->free.n--;
  kernels->items.items[number] = k;
  k->number = number;
  return true;
}

static void forget(site_kernels *kernels, const site_kernel *k) {
  if (k->number == TABLE_NONE) return;
  if (k->listed) table_remove(&kernels->found, k->hash, k->number);
  kernels->items.items[k->number] = NULL;
  kernels->free.items[kernels->free.n++] = k->number;
}

static void note_last(site_kernels *kernels, uint32_t site, const site_kernel *k) {
  kernels->last[site] = (site_last){k->listed ? k->number + 1 : 0, k->hash};
}

const site_kernel *site_last_kernel(const site_kernels *kernels, size_t site) {
  const site_last *last = &kernels->last[site];
  const site_kernel *k = last->number ? kernels->items.items[last->number - 1] : NULL;
  return k && k->listed && k->hash == last->hash ? k : NULL;
}

/* Kernels from 1, then sites: a number beyond 32 bits leaves the kernel out. */
uint32_t site_launch_number(const site_kernels *kernels, uint32_t site, const site_kernel *k) {
  const uint64_t number = ((uint64_t)k->number + 1) * kernels->n_sites + site;
  return number < UINT32_MAX ? (uint32_t)number : site;
}

uint32_t site_of_launch(const site_kernels *kernels, uint32_t number, const site_kernel **out_kernel) {
  const size_t kernel = number / kernels->n_sites; /* 0: none */
  *out_kernel = kernel > 0 && kernel <= kernels->items.n ? kernels->items.items[kernel - 1] : NULL;
  return (uint32_t)(number % kernels->n_sites);
}

site_kernel *site_find(site_kernels *kernels, const site_call *formed, uint32_t site) {
  const wanted_words wanted = {kernels->words.items + formed->first, formed->n};
  uint32_t number =
      formed->listed ? table_find(&kernels->found, formed->hash, has_words, kernels, &wanted) : TABLE_NONE;
  if (number == TABLE_NONE) return NULL;
  site_kernel *k = kernels->items.items[number];
  site_retain(k);
  note_last(kernels, site, k);
  kernels->figures.found++;
  return k;
}

void site_prefetch_slot(const site_kernels *kernels, const site_call *formed) {
  if (formed->listed) table_prefetch(&kernels->found, formed->hash);
}

bool site_is_likely(const site_kernels *kernels, const site_call *formed) {
  return table_first(&kernels->found, formed->hash) != TABLE_NONE;
}

void site_prefetch_number(const site_kernels *kernels, const site_call *formed, uint32_t *out_number) {
  *out_number = formed->listed ? table_first(&kernels->found, formed->hash) : TABLE_NONE;
  if (*out_number != TABLE_NONE) __builtin_prefetch(&kernels->items.items[*out_number]);
}

void site_prefetch_kernel(const site_kernels *kernels, const site_call *formed, uint32_t number) {
  if (number == TABLE_NONE) return;
  const size_t bytes = sizeof(site_kernel) + formed->n * sizeof(int64_t);
  fetch_bytes(kernels->items.items[number], bytes < MOST_PREFETCHED ? bytes : MOST_PREFETCHED);
}

/* A kernel for the formed call, not prepared yet; NULL: no memory. */
static site_kernel *kernel_new(const site_kernels *kernels, const site_call *formed, uint32_t site) {
  const size_t n_words = formed->n;
  site_kernel *k = mem_alloc(sizeof *k + n_words * sizeof(int64_t));
  if (!k) return NULL;
  *k = (site_kernel){.family = kernels->families[site],
                     .number = TABLE_NONE,
                     .listed = formed->listed,
                     .n_references = 1,
                     .hash = formed->hash,
                     .n_words = n_words};
  memcpy(k->words, kernels->words.items + formed->first, n_words * sizeof(int64_t));
  return k;
}

/* Lets a prepared kernel be found; false: no memory. */
static bool begin_kernel(site_kernels *kernels, site_kernel *k, uint32_t site) {
  if (!enlist(kernels, k)) return false;
  k->bytes = (int64_t)(sizeof *k + k->n_words * sizeof(int64_t)) + STATE_BYTES + k->kernel.state_bytes;
  note_last(kernels, site, k);
  kernels->figures.made++;
  kernels->figures.live++;
  return true;
}

reed_status site_make(site_kernels *kernels, const op_call *call, const site_call *formed, uint32_t site,
                      site_kernel **out_kernel) {
  const bool host = (kernels->words.items[formed->first + 1] & 0xffff) == 0;
  mem_row *before = rows_use(host ? &kernels->states : NULL);
  site_kernel *k = kernel_new(kernels, formed, site);
  reed_status status = k ? op_call_prepare(call, &k->kernel) : diag_no_memory(call->diagnosis, "a prepared kernel");
  (void)rows_use(before);
  if (status == REED_OK && !begin_kernel(kernels, k, site)) {
    if (k->kernel.free) k->kernel.free(k->kernel.state);
    status = diag_no_memory(call->diagnosis, "a prepared kernel");
  }
  if (status == REED_OK) *out_kernel = k;
  else mem_free(k);
  return status;
}

reed_status site_adopt(site_kernels *kernels, const site_call *formed, uint32_t site, const reed_kernel *made,
                       site_kernel **out_kernel, reed_diagnosis *diagnosis) {
  mem_row *before = rows_use(&kernels->states);
  site_kernel *k = kernel_new(kernels, formed, site);
  (void)rows_use(before);
  if (k) k->kernel = *made;
  if (!k || !begin_kernel(kernels, k, site)) {
    mem_free(k);
    return diag_no_memory(diagnosis, "a prepared kernel");
  }
  *out_kernel = k;
  return REED_OK;
}

reed_status site_prepare(site_kernels *kernels, const op_call *call, uint32_t site, int32_t device,
                         site_kernel **out_kernel, bool *out_made) {
  const size_t n = kernels->words.n;
  site_call formed;
  if (!site_form(kernels, call, site, device, &formed)) {
    site_cut(kernels, n);
    return diag_no_memory(call->diagnosis, "a prepared kernel");
  }
  site_kernel *k = site_find(kernels, &formed, site);
  *out_made = !k;
  reed_status status = k ? REED_OK : site_make(kernels, call, &formed, site, &k);
  site_cut(kernels, n);
  if (status == REED_OK) *out_kernel = k;
  return status;
}

void site_release(site_kernels *kernels, site_kernel *k) {
  if (!k || --k->n_references > 0) return;
  forget(kernels, k);
  if (k->kernel.free) k->kernel.free(k->kernel.state);
  mem_free(k);
  kernels->figures.live--;
}

void site_keep(site_kernels *kernels, uint32_t site, site_kernel *k) {
  site_kernel *old = kernels->kept[site];
  kernels->kept[site] = k;
  site_release(kernels, old);
}
