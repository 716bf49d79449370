/* Reads types, extents and elements. Directives that hold them: asm.c. */
#include "bytecode/text/asm_data.h"

#include <string.h>

#include "base/number.h"

static reed_dtype dtype_of(const token *t) {
  char name[8];
  if (t->kind != TOKEN_NAME || t->n >= sizeof name) return REED_NONE;
  memcpy(name, t->begin, t->n);
  name[t->n] = 0;
  return reed_dtype_parse(name);
}

reed_dtype asm_dtype(assembler *a) {
  reed_dtype dtype = dtype_of(&a->lex.now);
  if (dtype == REED_NONE) FAIL(a, "a dtype is expected here: f32, i64, bool ...");
  lexer_next(&a->lex);
  return dtype;
}

/* Reads one extent of a type: a number, a symbol, or ? */
static int64_t parse_dim(assembler *a) {
  if (a->lex.now.kind == TOKEN_INTEGER) return lexer_integer(&a->lex, "an extent", 0, INT64_MAX);
  if (lexer_take(&a->lex, '?')) return ~(int64_t)module_add_string(a->b, "");
  char *symbol = lexer_name_or_string(&a->lex, "an extent or its name");
  int64_t dim = symbol ? ~(int64_t)module_add_string(a->b, symbol) : 0;
  mem_free(symbol);
  return dim;
}

int32_t asm_device(assembler *a) {
  for (int32_t i = 0; i < MODULE_MAX_DEVICES; i++) {
    char name[TEXT_DEVICE_BYTES];
    if (!lexer_is_name(&a->lex, text_device(i, name))) continue;
    lexer_next(&a->lex);
    return i;
  }
  return (int32_t)lexer_integer(&a->lex, "host, device or a device's number", 0, INT32_MAX);
}

/* Reads f32[1, height, ?], any[...], f32[*], object, or the name of a type. */
static void parse_type_form(assembler *a, module_type *t) {
  bool any = lexer_is_name(&a->lex, "any"), object = lexer_is_name(&a->lex, "object");
  if (!object && !any && dtype_of(&a->lex.now) == REED_NONE) {
    uint32_t number = asm_use(a, SYMBOL_TYPE);
    if (!failed(a) && number >= a->types.n)
      FAIL(a, "a type can not be made of itself"); /* the type's own name is known already, its form is not */
    if (!failed(a)) *t = a->types.items[number];
    return;
  }
  *t = (module_type){.object = object, .dtype = dtype_of(&a->lex.now), .rank = -1, .name = module_add_string(a->b, "")};
  lexer_next(&a->lex);
  if (object) return;
  lexer_expect(&a->lex, '[');
  if (!lexer_take(&a->lex, '*')) {
    t->rank = 0;
    while (!lexer_at(&a->lex, ']') && !failed(a)) {
      if (t->rank == REED_MAX_RANK) FAIL(a, "a type has at most %d axes", REED_MAX_RANK);
      if (!failed(a)) t->dims[t->rank++] = parse_dim(a);
      if (!lexer_at(&a->lex, ']')) lexer_expect(&a->lex, ',');
    }
  }
  lexer_expect(&a->lex, ']');
}

/* Reads a type's form, then optionally its name and its device: row "x" device. */
void asm_type_words(assembler *a, module_type *t) {
  parse_type_form(a, t);
  if (a->lex.now.kind == TOKEN_STRING) {
    char *name = lexer_string(&a->lex, "a name");
    t->name = name ? module_add_string(a->b, name) : 0;
    mem_free(name);
  }
  char name[TEXT_DEVICE_BYTES];
  for (int32_t i = 0; i < MODULE_MAX_DEVICES; i++)
    if (lexer_is_name(&a->lex, text_device(i, name))) {
      t->device = asm_device(a);
      return;
    }
}

uint32_t asm_type(assembler *a) {
  module_type t = {0};
  asm_type_words(a, &t);
  return failed(a) ? 0 : module_add_type(a->b, &t);
}

/* Reads dtype[extents], whose extents are all numbers. */
void asm_desc(assembler *a, reed_desc *out_desc) {
  *out_desc = (reed_desc){.dtype = asm_dtype(a)};
  token at = a->lex.now;
  lexer_expect(&a->lex, '[');
  while (!lexer_at(&a->lex, ']') && !failed(a)) {
    if (out_desc->rank == REED_MAX_RANK) FAIL(a, "a tensor has at most %d axes", REED_MAX_RANK);
    int64_t dim = lexer_integer(&a->lex, "an extent", 0, INT64_MAX);
    if (!failed(a)) out_desc->dims[out_desc->rank++] = dim;
    if (!lexer_at(&a->lex, ']')) lexer_expect(&a->lex, ',');
  }
  lexer_expect(&a->lex, ']');
  if (!failed(a) && desc_bytes(out_desc) < 0) lexer_fail(&a->lex, &at, "these extents are more than 64 bits can count");
}

static int base64_digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* Reads the strings of a base64 block. Each string holds whole groups of four characters. */
static void parse_base64(assembler *a, text_buffer *data) {
  lexer_next(&a->lex);
  lexer_expect(&a->lex, '{');
  while (a->lex.now.kind == TOKEN_STRING) {
    const char *p = a->lex.now.begin + 1, *end = a->lex.now.begin + a->lex.now.n - 1;
    bool ok = (end - p) % 4 == 0;
    for (; ok && p < end; p += 4) {
      int more = p[3] != '=' ? 3 : p[2] != '=' ? 2 : 1;
      uint32_t triple = 0;
      for (int i = 0; i < 4; i++) {
        int digit = i <= more ? base64_digit(p[i]) : 0;
        ok = ok && digit >= 0;
        triple = triple << 6 | (uint32_t)(digit & 63);
      }
      uint8_t bytes[3] = {(uint8_t)(triple >> 16), (uint8_t)(triple >> 8), (uint8_t)triple};
      text_append_bytes(data, bytes, (size_t)more);
    }
    if (!ok) FAIL(a, "this is no base64");
    lexer_next(&a->lex);
  }
  lexer_expect(&a->lex, '}');
}

static void write_integer(assembler *a, reed_dtype dtype, uint8_t *element) {
  size_t n = reed_dtype_bytes(dtype);
  bool is_unsigned = dtype == REED_U8 || dtype == REED_U16 || dtype == REED_U32 || dtype == REED_BOOL;
  int64_t low = is_unsigned ? 0 : n == 8 ? INT64_MIN : -((int64_t)1 << (8 * n - 1));
  int64_t high = n == 8 ? INT64_MAX : is_unsigned ? ((int64_t)1 << (8 * n)) - 1 : ((int64_t)1 << (8 * n - 1)) - 1;
  int64_t value = lexer_integer(&a->lex, "an element", low, high);
  memcpy(element, &value, n);
}

static void parse_element(assembler *a, reed_dtype dtype, text_buffer *data) {
  uint8_t element[8];
  if (number_digits(dtype)) {
    double value = a->lex.now.kind == TOKEN_INTEGER ? (double)a->lex.now.i : a->lex.now.f;
    if (a->lex.now.kind != TOKEN_INTEGER && a->lex.now.kind != TOKEN_FLOAT)
      FAIL(a, "an element is expected here, a number");
    reed_dtype_write(dtype, element, value);
    lexer_next(&a->lex);
  } else {
    write_integer(a, dtype, element);
  }
  text_append_bytes(data, element, reed_dtype_bytes(dtype));
}

/* Reads {1, 2, 3} or base64 {"..."}: exactly the desc's elements, or one number for all elements. */
void asm_elements(assembler *a, const reed_desc *desc, text_buffer *data) {
  token at = a->lex.now;
  size_t want = failed(a) ? 0 : (size_t)desc_bytes(desc), item = reed_dtype_bytes(desc->dtype);
  if (lexer_is_name(&a->lex, "base64")) {
    parse_base64(a, data);
  } else {
    lexer_expect(&a->lex, '{');
    while (!lexer_at(&a->lex, '}') && !failed(a)) {
      parse_element(a, desc->dtype, data);
      if (!lexer_at(&a->lex, '}')) lexer_expect(&a->lex, ',');
    }
    lexer_expect(&a->lex, '}');
    if (data->n == item && want > item) {
      uint8_t element[8];
      memcpy(element, data->data, item);
      while (data->n < want && !data->failed) text_append_bytes(data, element, item);
    }
  }
  if (data->failed) lexer_no_memory(&a->lex);
  if (!failed(a) && data->n != want)
    lexer_fail(&a->lex, &at, "%zu elements are given, the type has %zu", data->n / item, want / item);
}
