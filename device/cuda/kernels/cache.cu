/* Caches of decoders: rows of earlier and new keys and values joined in one tensor. */
#include "device/cuda/kernels/indices.cuh"

KERNEL(cache) {
  const int64_t i = thread_number();
  if (i >= a.n) return;
  int64_t at[4], from = 0, to = 0;
  split_index(i, 4, a.extents, at);
  for (int d = 0; d < 4; d++) {
    from += at[d] * a.from[d];
    to += at[d] * a.to[d];
  }
  copy_vector(a.size, a.unit, a.y, to, a.x, from);
}

/* The first row of the batch; false: a row of the update has no place in the cache. */
static __device__ inline bool find_place(const tensor_scatter_args &a, int64_t batch, bool notes, int64_t *out_place) {
  const int64_t place = a.places ? a.places[batch] : 0,
                last = place > INT64_MAX - a.rows ? INT64_MAX : place + a.rows - 1;
  if (place < 0 || (!a.circular && last >= a.room)) {
    if (notes)
      note_fault(a.fault, a.launch, a.circular ? REED_FAULT_NEGATIVE : REED_FAULT_ROW, 2, batch,
                 place < 0 ? place : last, a.circular ? 0 : a.room);
    return false;
  }
  *out_place = place % a.room;
  return true;
}

/* Notes the two pieces of a block that the update overwrites (overwritten_piece: block, row, rows). A block without a
 * place keeps its rows: its first ones are saved. */
static __device__ inline void note_pieces(const tensor_scatter_args &a, int64_t block) {
  int64_t place = 0, *pieces = a.saved + 1 + 6 * block;
  if (!find_place(a, block / a.blocks, false, &place)) place = 0;
  const int64_t first = a.rows < a.room - place ? a.rows : a.room - place;
  pieces[0] = pieces[3] = block;
  pieces[1] = place;
  pieces[2] = first;
  pieces[4] = 0;
  pieces[5] = a.rows - first;
}

/* Element i of the rows beyond the past, unless the update takes its row. */
static __device__ inline void clear_behind(const tensor_scatter_args &a, int64_t i) {
  const int64_t extents[4] = {a.batches, a.blocks, a.room - a.past, a.columns};
  int64_t at[4], place = 0;
  split_index(i, 4, extents, at);
  const int64_t row = a.past + at[2];
  const bool found = find_place(a, at[0], false, &place);
  if (found && row >= place && row < place + a.rows) return;
  zero_element(a.size, a.y, (at[0] * a.blocks + at[1]) * a.y_block + row * a.columns + at[3]);
}

KERNEL(tensor_scatter) {
  const int64_t i = thread_number(), extents[4] = {a.batches, a.blocks, a.rows, a.columns};
  int64_t at[4], place = 0;
  if (i < a.batches && a.places) (void)find_place(a, i, true, &place);
  if (a.saved && i == 0) a.saved[0]++;
  if (a.saved && i < a.batches * a.blocks) note_pieces(a, i);
  if (i < a.n_behind) clear_behind(a, i);
  if (i >= a.n) return;
  split_index(i, 4, extents, at);
  const bool found = find_place(a, at[0], false, &place);
  const int64_t block = at[0] * a.blocks + at[1], row = (found ? place + at[2] : at[2]) % a.room,
                to = block * a.y_block + row * a.columns + at[3];
  if (a.saved) copy_element(a.size, a.saved_rows, i, a.y, to);
  if (found) copy_element(a.size, a.y, to, a.update, block * a.update_block + at[2] * a.columns + at[3]);
}
