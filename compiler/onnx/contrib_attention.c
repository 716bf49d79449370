/* Attentions of onnxruntime (domain com.microsoft) -> ONNX's Attention, with products, biases and masks before it.
 * Source of the meanings: onnxruntime's list of contrib operators and the kernels of its CPU provider. A mask adds
 * attribute mask_filter_value to the scores of hidden keys, which are not lost where a row hides all keys. With
 * `unidirectional` and other numbers of keys than of queries and past together, the last query is at the last key, as
 * in the CUDA provider; the CPU provider counts queries from the past on. */
#include <math.h>

#include "compiler/onnx/reader.h"

typedef struct attention {
  ir_value *q, *k, *v; /* [batch, places, all heads' elements]; k and v also [batch, heads, places, elements] */
  ir_value *mask, *past_key, *past_value; /* NULL: absent */
  bool has_heads;                         /* k and v have an axis of heads */
} attention;

/* ---- parts; each returns NULL without memory ---- */

static ir_value *integers(const onnx_reading *z, int64_t n, const int64_t *numbers) {
  return ir_constant_i64(z->g->module, numbers, n, NULL);
}
#define INTEGERS(z, ...) \
  integers(z, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* x[begin:end] along the axis. */
static ir_value *part(const onnx_reading *z, ir_value *x, int64_t axis, int64_t begin, int64_t end) {
  return onnx_slice(z->g, x, INTEGERS(z, begin), INTEGERS(z, end), axis);
}

/* Exchanges the axes of heads and places. */
static ir_value *exchanged(const onnx_reading *z, ir_value *x) {
  return onnx_transposed(z->g, x, (int64_t[]){0, 2, 1, 3}, 4, NULL);
}

static ir_value *extent(const onnx_reading *z, ir_value *x, int64_t axis) {
  return onnx_part(z->g, onnx_unary(z->g, OP_Shape, x), axis, axis + 1);
}

/* The keys that the attention sees, a vector of one number. */
static ir_value *keys_of(const onnx_reading *z, const attention *a) {
  ir_value *n = extent(z, a->k, a->has_heads ? 2 : 1);
  return a->past_key ? onnx_binary(z->g, OP_Add, n, extent(z, a->past_key, 2)) : n;
}

/* The numbers that input i, a mask, adds to the scores. The mask is [batch], how many keys are shown, or has 0 at the
 * hidden keys of [batch, keys] or [batch, queries, keys]. */
static ir_value *mask_of(onnx_reading *z, int32_t i, const attention *a) {
  ir_value *mask = onnx_cast(z->g, z->inputs[i], REED_I64), *shown, *zero = INTEGERS(z, 0);
  if (z->ranks[i] == 1) {
    ir_value *lengths = onnx_binary(z->g, OP_Reshape, mask, INTEGERS(z, -1, 1, 1, 1));
    shown = onnx_binary(z->g, OP_Less, onnx_range(z->g, onnx_single(z->g, keys_of(z, a), 0)), lengths);
  } else if (z->ranks[i] == 2 || z->ranks[i] == 3) {
    ir_value *axes = z->ranks[i] == 2 ? INTEGERS(z, 1, 2) : INTEGERS(z, 1);
    shown = onnx_binary(z->g, OP_Greater, onnx_binary(z->g, OP_Unsqueeze, mask, axes), zero);
  } else {
    return onnx_refuse(z, "a mask whose rank is not 1, 2 or 3, or not declared");
  }
  return onnx_chosen(z->g, shown, onnx_number_like(z->g, a->q, 0),
                     onnx_number_like(z->g, a->q, onnx_float(z, "mask_filter_value", -10000)));
}

/* Makes the node; its outputs are [batch, places, all heads' elements], the keys and the values with those before. */
static void attend(onnx_reading *z, const attention *a, ir_value *out_values[3]) {
  const int64_t heads = onnx_int(z, "num_heads", 0);
  ir_value *q = a->q;
  if (heads < 1) {
    (void)onnx_refuse(z, "an attention without 'num_heads'");
    return;
  }
  if (a->has_heads) q = exchanged(z, onnx_binary(z->g, OP_Reshape, q, INTEGERS(z, 0, 0, heads, -1)));
  if (!q || !a->k || !a->v) return;
  ir_value *operands[] = {q, a->k, a->v, a->mask, a->past_key, a->past_value};
  ir_node *n = ir_node_new(z->g, NULL, op_builtin(OP_Attention), NULL, operands, 6, NULL, 3);
  if (!n) return;
  const float scale = onnx_float(z, "scale", 0);
  const bool is_causal = onnx_int(z, "unidirectional", 0) != 0;
  bool is_set = ir_set_attr_int(n, "is_causal", is_causal) && ir_set_attr_int(n, "to_last_key", is_causal);
  if (is_set && scale != 0) is_set = ir_set_attr_float(n, "scale", scale);
  if (is_set && !a->has_heads)
    is_set = ir_set_attr_int(n, "q_num_heads", heads) && ir_set_attr_int(n, "kv_num_heads", heads);
  if (!is_set) return;
  for (int i = 0; i < 3; i++) n->outputs[i]->type.dtype = a->q->type.dtype, out_values[i] = n->outputs[i];
  if (a->has_heads) out_values[0] = onnx_binary(z->g, OP_Reshape, exchanged(z, out_values[0]), INTEGERS(z, 0, 0, -1));
}

/* The scores' bias, input i, added to the mask. */
static void add_bias(onnx_reading *z, int32_t i, attention *a) {
  if (!z->inputs[i]) return;
  a->mask = a->mask ? onnx_binary(z->g, OP_Add, a->mask, z->inputs[i]) : z->inputs[i];
}

/* ---- operators ---- */

/* Part i of an operand whose last axis but one has queries, keys and values, or two of them. */
static ir_value *packed(const onnx_reading *z, ir_value *x, int64_t i) {
  ir_value *y = onnx_made(z->g, NULL, OP_Gather, (ir_value *[]){x, onnx_integer(z->g, i)}, 2, "axis", 3, NULL);
  return onnx_binary(z->g, OP_Reshape, y, INTEGERS(z, 0, 0, -1));
}

/* query, key, value, bias of all three?, mask?, bias of scores?, past keys?, past values? */
static void multi_head_attention(onnx_reading *z) {
  attention a = {.q = z->inputs[0],
                 .k = z->inputs[1],
                 .v = z->inputs[2],
                 .past_key = z->inputs[6],
                 .past_value = z->inputs[7],
                 .has_heads = z->inputs[1] && z->ranks[1] == 4};
  if (z->ranks[0] == 5 && !a.k && !a.v) { /* [batch, places, heads, 3, elements] */
    a.q = packed(z, z->inputs[0], 0), a.k = packed(z, z->inputs[0], 1), a.v = packed(z, z->inputs[0], 2);
  } else if (a.k && z->ranks[1] == 5 && !a.v) { /* [batch, places, heads, 2, elements] */
    a.k = packed(z, z->inputs[1], 0), a.v = packed(z, z->inputs[1], 1);
  } else if (!a.k || !a.v) (void)onnx_refuse(z, "an attention without keys or values");
  if (z->inputs[8] || z->inputs[9]) (void)onnx_refuse(z, "a cache longer than its tokens");
  if (z->inputs[3] && a.has_heads) (void)onnx_refuse(z, "a bias of keys that have an axis of heads");
  if (z->unsupported) return;
  if (z->inputs[3]) {
    ir_value *width = extent(z, a.q, 2), *twice = onnx_binary(z->g, OP_Add, width, width),
             *end = INTEGERS(z, INT64_MAX);
    ir_value *begins[] = {INTEGERS(z, 0), width, twice}, *ends[] = {width, twice, end}, **parts[] = {&a.q, &a.k, &a.v};
    for (int i = 0; i < 3; i++) {
      ir_value *operands[] = {z->inputs[3], begins[i], ends[i]};
      *parts[i] = onnx_binary(z->g, OP_Add, *parts[i], onnx_made(z->g, NULL, OP_Slice, operands, 3, NULL, 0, NULL));
    }
  }
  if (z->inputs[4]) a.mask = mask_of(z, 4, &a);
  add_bias(z, 5, &a);
  if (!z->inputs[4] || a.mask) attend(z, &a, z->outputs);
}

/* x, weights of queries, keys and values side by side, their bias?, mask?, past [2, batch, heads, places, elements]?,
 * bias of scores? */
static void packed_attention(onnx_reading *z) {
  const ir_type *w = &z->inputs[1]->type;
  const Onnx__AttributeProto *sizes = onnx_find_attribute(z->f, z->node, "qkv_hidden_sizes");
  if (w->rank != 2 || symbol_is(w->dims[1])) (void)onnx_refuse(z, "weights of an Attention of unknown extents");
  if (onnx_int(z, "do_rotary", 0) || z->inputs[6] || onnx_int(z, "past_present_share_buffer", 0))
    (void)onnx_refuse(z, "attribute 'do_rotary', or a cache longer than its tokens");
  if (sizes && sizes->n_ints != 3) (void)onnx_refuse(z, "'qkv_hidden_sizes' that are not three");
  if (z->unsupported) return;
  ir_value *all = onnx_binary(z->g, OP_MatMul, z->inputs[0], z->inputs[1]);
  if (z->inputs[2]) all = onnx_binary(z->g, OP_Add, all, z->inputs[2]);
  const int64_t nq = sizes ? sizes->ints[0] : w->dims[1] / 3, nk = sizes ? sizes->ints[1] : w->dims[1] / 3;
  attention a = {
      .q = part(z, all, 2, 0, nq), .k = part(z, all, 2, nq, nq + nk), .v = part(z, all, 2, nq + nk, INT64_MAX)};
  if (z->inputs[4]) {
    a.past_key = onnx_binary(z->g, OP_Squeeze, part(z, z->inputs[4], 0, 0, 1), INTEGERS(z, 0));
    a.past_value = onnx_binary(z->g, OP_Squeeze, part(z, z->inputs[4], 0, 1, 2), INTEGERS(z, 0));
  }
  if (!a.q || !a.k || !a.v || (z->inputs[4] && (!a.past_key || !a.past_value))) return;
  if (z->inputs[3]) a.mask = mask_of(z, 3, &a);
  if (z->inputs[3] && !a.mask) return;
  add_bias(z, 5, &a);
  ir_value *made[3] = {NULL};
  attend(z, &a, made);
  z->outputs[0] = made[0];
  ir_value *present[] = {onnx_binary(z->g, OP_Unsqueeze, made[1], INTEGERS(z, 0)),
                         onnx_binary(z->g, OP_Unsqueeze, made[2], INTEGERS(z, 0))};
  z->outputs[1] = onnx_joined(z->g, present, 2, 0);
}

/* x, places i64[1] of the first one or [batch, places], cosines, sines. */
static void rotary_embedding(onnx_reading *z) {
  ir_value *x = z->inputs[0], *places = z->inputs[1], *shape = onnx_unary(z->g, OP_Shape, x);
  const int64_t heads = onnx_int(z, "num_heads", 0);
  if (onnx_float(z, "scale", 1) != 1 || onnx_int(z, "is_packed_batching", 0))
    (void)onnx_refuse(z, "attribute 'scale' or 'is_packed_batching'");
  if (z->ranks[1] != 1 && z->ranks[1] != 2) (void)onnx_refuse(z, "places whose rank is not 1 or 2, or not declared");
  if (z->ranks[0] != 4 && z->ranks[0] != 3) (void)onnx_refuse(z, "operands whose rank is not 3 or 4, or not declared");
  if (z->unsupported) return;
  if (z->ranks[1] == 1) {
    const int64_t axis = z->ranks[0] == 4 ? 2 : 1;
    places = onnx_binary(z->g, OP_Add, onnx_range(z->g, onnx_extent(z->g, x, axis)), places);
    ir_value *extents[] = {onnx_part(z->g, shape, 0, 1), onnx_part(z->g, shape, axis, axis + 1)};
    places = onnx_binary(z->g, OP_Expand, places, onnx_joined(z->g, extents, 2, 0));
  }
  const bool is_split = z->ranks[0] == 3 && heads == 0; /* the heads have as many elements as two rows of angles */
  if (is_split) {
    ir_value *pairs = extent(z, z->inputs[2], 1);
    ir_value *extents[] = {INTEGERS(z, 0, 0, -1), onnx_binary(z->g, OP_Add, pairs, pairs)};
    ir_value *parted = onnx_joined(z->g, extents, 2, 0);
    x = exchanged(z, onnx_binary(z->g, OP_Reshape, x, parted));
  }
  ir_value *operands[] = {x, z->inputs[2], z->inputs[3], places};
  ir_value *y =
      onnx_made(z->g, NULL, OP_RotaryEmbedding, operands, 4, "interleaved", onnx_int(z, "interleaved", 0), NULL);
  const int64_t dim = onnx_int(z, "rotary_embedding_dim", 0);
  if (y && ((heads && !ir_set_attr_int(y->producer, "num_heads", heads)) ||
            (dim && !ir_set_attr_int(y->producer, "rotary_embedding_dim", dim))))
    return;
  z->outputs[0] = is_split ? onnx_binary(z->g, OP_Reshape, exchanged(z, y), shape) : y;
}

/* ---- attention with fewer heads of keys than of queries ---- */

/* x with the places' angles, by operands 7 and 8. */
static ir_value *turned(onnx_reading *z, ir_value *x, int64_t heads, ir_value *places) {
  const ir_type *cosines = &z->inputs[7]->type;
  ir_value *operands[] = {x, z->inputs[7], z->inputs[8], places};
  ir_value *y =
      onnx_made(z->g, NULL, OP_RotaryEmbedding, operands, 4, "interleaved", onnx_int(z, "rotary_interleaved", 0), NULL);
  return y && ir_set_attr_int(y->producer, "num_heads", heads) &&
                 ir_set_attr_int(y->producer, "rotary_embedding_dim", 2 * cosines->dims[1])
             ? y
             : NULL;
}

/* The keys or values x [batch, places, all heads' elements] in the cache, operand i, from the row `past` on. The cache
 * has room for `total` rows, or gets it. Without a cache x itself. */
static ir_value *cached(const onnx_reading *z, ir_value *x, int64_t heads, int32_t i, ir_value *past, ir_value *total) {
  ir_value *rows = exchanged(z, onnx_binary(z->g, OP_Reshape, x, INTEGERS(z, 0, 0, heads, -1)));
  ir_value *operands[] = {z->inputs[i], rows, past, total};
  return z->inputs[i] ? onnx_made(z->g, NULL, OP_TensorScatter, operands, 4, NULL, 0, NULL) : rows;
}

/* queries, or with keys and values behind them; keys?, values?, caches?, keys of each sequence less one, keys of the
 * longest one, cosines and sines?, places?, bias of scores?. Sequences of a first run begin at row 0, otherwise their
 * rows end at their number of keys. */
static void group_query_attention(onnx_reading *z) {
  const int64_t heads = onnx_int(z, "num_heads", 0), key_heads = onnx_int(z, "kv_num_heads", 0);
  const bool rotary = onnx_int(z, "do_rotary", 0) != 0, has_past = z->inputs[3] && z->inputs[4];
  ir_value *q = z->inputs[0], *k = z->inputs[1], *v = z->inputs[2];
  if (heads < 1 || key_heads < 1) (void)onnx_refuse(z, "an attention without 'num_heads' or 'kv_num_heads'");
  if (!z->inputs[5] || !z->inputs[6]) (void)onnx_refuse(z, "an attention without numbers of keys");
  if ((k && !v) || (!k && v) || (z->inputs[3] && !z->inputs[4])) (void)onnx_refuse(z, "keys without values");
  if (onnx_int(z, "smooth_softmax", 0) > 0 || onnx_int(z, "qk_output", 0) > 0)
    (void)onnx_refuse(z, "attribute 'smooth_softmax' or 'qk_output'");
  for (int32_t i = 11; i < z->n_inputs; i++)
    if (z->inputs[i]) (void)onnx_refuse(z, "operands behind the bias of scores");
  if (rotary &&
      (!z->inputs[7] || !z->inputs[8] || z->inputs[7]->type.rank != 2 || symbol_is(z->inputs[7]->type.dims[1])))
    (void)onnx_refuse(z, "cosines and sines whose number is not declared");
  if (z->unsupported) return;
  if (!k) {
    ir_value *size = onnx_binary(z->g, OP_Div, extent(z, q, 2), INTEGERS(z, heads + 2 * key_heads));
    ir_value *q_end = onnx_binary(z->g, OP_Mul, size, INTEGERS(z, heads)),
             *k_end = onnx_binary(z->g, OP_Mul, size, INTEGERS(z, heads + key_heads));
    k = onnx_slice(z->g, q, q_end, k_end, 2), v = onnx_slice(z->g, q, k_end, INTEGERS(z, INT64_MAX), 2);
    q = onnx_slice(z->g, q, INTEGERS(z, 0), q_end, 2);
  }
  ir_value *n = extent(z, z->inputs[0], 1), *total = onnx_single(z->g, z->inputs[6], 1);
  ir_value *lengths = onnx_cast(z->g, onnx_binary(z->g, OP_Reshape, z->inputs[5], INTEGERS(z, -1)), REED_I64);
  ir_value *past = onnx_chosen(z->g, onnx_binary(z->g, OP_Equal, n, total), INTEGERS(z, 0),
                               onnx_binary(z->g, OP_Sub, onnx_binary(z->g, OP_Add, lengths, INTEGERS(z, 1)), n));
  ir_value *end = onnx_binary(z->g, OP_Add, past, n); /* keys of each sequence, with those of this call */
  ir_value *places = onnx_binary(z->g, OP_Add, onnx_binary(z->g, OP_Unsqueeze, past, INTEGERS(z, 1)),
                                 onnx_range(z->g, onnx_single(z->g, n, 0)));
  if (rotary) {
    ir_value *angles = z->inputs[9] ? onnx_cast(z->g, z->inputs[9], REED_I64) : places;
    q = turned(z, q, heads, angles), k = turned(z, k, key_heads, angles);
  }
  q = exchanged(z, onnx_binary(z->g, OP_Reshape, q, INTEGERS(z, 0, 0, heads, -1)));
  z->outputs[1] = cached(z, k, key_heads, 3, past, total), z->outputs[2] = cached(z, v, key_heads, 4, past, total);
  /* the last query is at the last key, of which each sequence has its number; rows of the cache behind it are hidden */
  ir_value *operands[] = {q, z->outputs[1], z->outputs[2], z->inputs[10], NULL, NULL, has_past ? end : NULL};
  if (!q || !operands[1] || !operands[2] || !end) return;
  ir_node *attention = ir_node_new(z->g, NULL, op_builtin(OP_Attention), NULL, operands, 7, NULL, 1);
  const float scale = onnx_float(z, "scale", 0), softcap = onnx_float(z, "softcap", 0);
  const int64_t window = onnx_int(z, "local_window_size", -1);
  if (!attention || !ir_set_attr_int(attention, "is_causal", 1) ||
      (scale != 0 && !ir_set_attr_float(attention, "scale", scale)) ||
      !ir_set_attr_float(attention, "softcap", softcap) ||
      (window > 0 && !ir_set_attr_int(attention, "left_window_size", window - 1)))
    return;
  attention->outputs[0]->type.dtype = q->type.dtype;
  z->outputs[0] = onnx_binary(z->g, OP_Reshape, exchanged(z, attention->outputs[0]), INTEGERS(z, 0, 0, -1));
}

const onnx_maker onnx_attention_makers[] = {
    {"MultiHeadAttention", 1, 10, 3, multi_head_attention},
    {"Attention", 2, 7, 2, packed_attention},
    {"RotaryEmbedding", 4, 4, 1, rotary_embedding},
    {"GroupQueryAttention", 1, REED_MAX_OPERANDS, 4, group_query_attention},
    {0},
};
