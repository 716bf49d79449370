/* The parts of an Attention kernel that do not depend on the number of queries: its prepared state, rows of its
 * operands as f32, masks, results, and the outputs present_key and present_value. Many queries: attention.c; few:
 * attention_few.c. */
#ifndef OPS_CPU_SEQUENCE_ATTENTION_STATE_H_
#define OPS_CPU_SEQUENCE_ATTENTION_STATE_H_

#include "ops/cpu/calls/attention.h"
#include "ops/cpu/common/convert.h"

#define LANES_MOST 16 /* columns are a multiple of it: of the loops' vectors at every level */

typedef struct attention_state {
  attention a;
  convert_fn load_q, load_k, load_v, load_mask, store; /* to and from f32; NULL: as it is */
  int64_t value_columns;                               /* value_size, up to a multiple of LANES_MOST */
  int64_t scratch_floats;                              /* of a thread */
  int64_t block_queries, block_keys, step_blocks;      /* of attention.c */
  int64_t sharing; /* of attention_few.c, and what follows: heads of Q for each head of K and V */
  int64_t rows, parts, part_floats;
  bool masked, plain, direct; /* scores are capped or masked; one key, or one row and no mask; one key, rows of f32 */
} attention_state;

/* Row number `row` of a head in memory. */
static inline const char *attention_row(const attention_view *v, const void *data, int64_t batch, int64_t head,
                                        int64_t row) {
  return (const char *)data + (batch * v->batch + head * v->head + row * v->row) * v->element;
}

/* n rows of `size` elements that lie as those of v, as f32, at least `width` floats apart: in place, or converted into
 * `to`. *out_row: the floats from row to row. */
const float *attention_rows(const char *from, const attention_view *v, convert_fn load, int64_t n, int64_t size,
                            int64_t width, float *to, int64_t *out_row);
/* The values of some keys as rows of value_columns floats: the first n_whole ones are `row` floats apart, `rest` are
 * the others, value_columns floats apart. */
typedef struct value_rows {
  const float *whole, *rest;
  int64_t n, n_whole, row;
} value_rows;
/* n rows of V. They are read in place as far as they are f32 and lie far enough in front of the tensor's end; columns
 * from value_size on then hold the elements behind the row. `to`: n * value_columns floats. */
value_rows attention_values(const attention_state *s, const attention_view *v, const char *from, int64_t n, float *to);
/* Adds the products of weights, whose row i and key j is weights[i * row + j * column], and values to `rows` rows of
 * sums. */
void attention_weigh_values(const attention_state *s, float *sums, const float *weights, int64_t row, int64_t column,
                            int64_t rows, const value_rows *values);
/* Caps n scores: c tanh(score / c), where the call has a softcap c. */
void attention_cap(const attention *a, float *scores, int64_t n);
/* Masks the scores column[0], column[columns], ... of n keys; place: batch, head, query, first key. line: n floats. */
void attention_mask_query(const attention_state *s, const void *mask, const int64_t *place, int64_t n, float *column,
                          int64_t columns, float *line);
/* As attention_mask_query, for n_queries queries from place[2] on: score k * columns + i is key k's and query i's. */
void attention_mask_queries(const attention_state *s, const void *mask, const int64_t *place, int64_t n_queries,
                            int64_t n, float *scores, int64_t columns, float *line);
/* Writes sums / sum to row `place` (batch, head, query) of Y. line: value_size floats. */
void attention_give(const attention_state *s, const reed_kernel_buffers *buffers, const int64_t *place,
                    const float *sums, float sum, float *line);
/* Writes earlier and new keys and values to present_key and present_value, if these are outputs. Earlier rows that lie
 * at their places already, because an output has the memory of the earlier rows, are not written. */
reed_status attention_write_present(const attention *a, const reed_kernel_buffers *buffers) REED_MUST_CHECK;

/* Computes the rows anew in which no key within the windows has a mask above ATTENTION_LOW, if keys outside of the
 * windows have a score (attention.outside): then all keys count by their masks alone. spare: attention_spare_floats.
 * Call after all other rows are there. */
void attention_give_hidden(const attention_state *s, const reed_kernel_buffers *buffers, float *spare);
int64_t attention_spare_floats(const attention_state *s);

/* Completes a state whose operands are set, for any number of queries, and for few. The kernel owns
 * the state. */
reed_status attention_prepare_blocks(attention_state *s, reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status attention_prepare_few(attention_state *s, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
