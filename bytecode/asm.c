/* Text -> module bytes, in two passes over the words: directives first, so that functions may be called before they are written; then code. */
#include <stdio.h>
#include <string.h>

#include "bytecode/format.h"
#include "bytecode/insn.h"
#include "bytecode/lexer.h"

typedef enum symbol_kind { SYMBOL_TYPE, SYMBOL_CONST, SYMBOL_SITE, SYMBOL_FUNCTION, SYMBOL_LABEL, SYMBOL_KINDS } symbol_kind;
static const char *const kind_names[SYMBOL_KINDS] = {"type", "constant", "call site", "function", "label"};

typedef struct symbol {
  const char *name; /* owned */
  symbol_kind kind;
  uint32_t number;
  token at;     /* where it is defined, or for a label used first */
  bool defined, shared; /* shared: several functions have this name */
} symbol;

typedef struct asm_function {
  uint32_t n_r_params, n_s_params;
} asm_function;

typedef struct assembler {
  lexer lex;
  module_builder *b;
  VEC_OF(symbol) symbols; /* labels of the function at hand are at the end */
  uint32_t *buckets;      /* open addressing over symbols: number + 1 */
  size_t n_buckets;
  VEC_OF(module_type) types; /* what the symbols of types stand for */
  VEC_OF(asm_function) functions;
  VEC_OF(uint32_t) inputs;
  VEC_OF(uint32_t) outputs;
  bool has_module, has_io;
  VEC_OF(uint32_t) main_params;
  VEC_OF(uint32_t) main_results;
  uint32_t n_r, n_s;      /* registers used by the function at hand */
  VEC_OF(uint32_t) list;  /* scratch of one operand */
} assembler;

#define FAIL(a, ...) lexer_fail(&(a)->lex, &(a)->lex.now, __VA_ARGS__)
static bool failed(const assembler *a) { return a->lex.status != REED_OK; }

/* Appends to one of the assembler's lists. */
#define PUSH(a, list, item) \
  do {                      \
    if (!VEC_PUSH(list, item)) lexer_no_memory(&(a)->lex); \
  } while (0)

/* ---- names ---- */

static uint64_t name_hash(const char *name, size_t n, symbol_kind kind) { return format_hash(name, n, (uint64_t)kind); }

static bool is_symbol(const symbol *s, const char *name, size_t n, symbol_kind kind) {
  return s->kind == kind && strlen(s->name) == n && memcmp(s->name, name, n) == 0;
}

static symbol *symbol_find(assembler *a, const char *name, size_t n, symbol_kind kind) {
  if (!a->n_buckets) return NULL;
  for (size_t k = name_hash(name, n, kind) & (a->n_buckets - 1); a->buckets[k]; k = (k + 1) & (a->n_buckets - 1))
    if (is_symbol(&a->symbols.items[a->buckets[k] - 1], name, n, kind)) return &a->symbols.items[a->buckets[k] - 1];
  return NULL;
}

static void bucket_put(assembler *a, size_t number) {
  const symbol *s = &a->symbols.items[number];
  size_t k = name_hash(s->name, strlen(s->name), s->kind) & (a->n_buckets - 1);
  while (a->buckets[k]) k = (k + 1) & (a->n_buckets - 1);
  a->buckets[k] = (uint32_t)number + 1;
}

static bool buckets_rebuild(assembler *a, size_t n_buckets) {
  uint32_t *buckets = mem_calloc(n_buckets, sizeof *buckets);
  if (!buckets) return false;
  mem_free(a->buckets);
  a->buckets = buckets;
  a->n_buckets = n_buckets;
  for (size_t i = 0; i < a->symbols.n; i++) bucket_put(a, i);
  return true;
}

/* Takes the name. NULL after a failure. */
static symbol *symbol_add(assembler *a, char *name, symbol_kind kind, uint32_t number, const token *at, bool defined) {
  if (name) {
    symbol s = {.name = name, .kind = kind, .number = number, .at = *at, .defined = defined};
    bool room = (a->symbols.n + 1) * 2 < a->n_buckets || buckets_rebuild(a, a->n_buckets ? a->n_buckets * 2 : 64);
    if (room && VEC_PUSH(&a->symbols, s)) {
      bucket_put(a, a->symbols.n - 1);
      return &a->symbols.items[a->symbols.n - 1];
    }
  }
  mem_free(name);
  lexer_no_memory(&a->lex);
  return NULL;
}

static char *copy_name(const token *t) {
  char *name = mem_alloc(t->n + 1);
  if (name) memcpy(name, t->begin, t->n), name[t->n] = 0;
  return name;
}

typedef struct kind_names_context {
  const assembler *a;
  symbol_kind kind;
} kind_names_context;

static const char *symbol_candidate(const void *context, size_t i) {
  const kind_names_context *c = context;
  if (i >= c->a->symbols.n) return NULL;
  return c->a->symbols.items[i].kind == c->kind ? c->a->symbols.items[i].name : "";
}

/* The number of the thing of that kind whose name stands here. */
static uint32_t use_symbol(assembler *a, symbol_kind kind) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "the name of a %s is expected here", kind_names[kind]);
    return 0;
  }
  const symbol *s = symbol_find(a, t.begin, t.n, kind);
  if (!s) {
    char hint[96];
    kind_names_context context = {a, kind};
    FAIL(a, "there is no %s '%.*s'%s", kind_names[kind], (int)t.n, t.begin, lexer_suggest(t.begin, t.n, symbol_candidate, &context, hint, sizeof hint));
    return 0;
  }
  lexer_next(&a->lex);
  return s->number;
}

/* ---- types and data ---- */

static void end_line(assembler *a) {
  if (a->lex.now.kind == TOKEN_NEWLINE)
    lexer_next(&a->lex);
  else if (a->lex.now.kind != TOKEN_END)
    FAIL(a, "'%.*s' is too much on this line", (int)a->lex.now.n, a->lex.now.begin);
}

static reed_dtype dtype_of(const token *t) {
  char name[8];
  if (t->kind != TOKEN_NAME || t->n >= sizeof name) return REED_NONE;
  memcpy(name, t->begin, t->n);
  name[t->n] = 0;
  return reed_dtype_parse(name);
}

static reed_dtype parse_dtype(assembler *a) {
  reed_dtype dtype = dtype_of(&a->lex.now);
  if (dtype == REED_NONE) FAIL(a, "a dtype is expected here: f32, i64, bool ...");
  lexer_next(&a->lex);
  return dtype;
}

/* One extent of a type: a number, a symbol, or ? */
static int64_t parse_dim(assembler *a) {
  if (a->lex.now.kind == TOKEN_INTEGER) return lexer_integer(&a->lex, "an extent", 0, INT64_MAX);
  if (lexer_take(&a->lex, '?')) return ~(int64_t)module_add_string(a->b, "");
  char *symbol = lexer_name_or_string(&a->lex, "an extent or its name");
  int64_t dim = symbol ? ~(int64_t)module_add_string(a->b, symbol) : 0;
  mem_free(symbol);
  return dim;
}

static int32_t parse_device(assembler *a) {
  static const char *const names[] = TEXT_DEVICES;
  for (int32_t i = 0; i < 2; i++)
    if (lexer_is_name(&a->lex, names[i])) {
      lexer_next(&a->lex);
      return i;
    }
  return (int32_t)lexer_integer(&a->lex, "host, device or a device's number", 0, INT32_MAX);
}

/* f32[1, height, ?], any[...], f32[*], object, or the name of a type. */
static void parse_type_form(assembler *a, module_type *t) {
  bool any = lexer_is_name(&a->lex, "any"), object = lexer_is_name(&a->lex, "object");
  if (!object && !any && dtype_of(&a->lex.now) == REED_NONE) {
    uint32_t number = use_symbol(a, SYMBOL_TYPE);
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

/* A type's form, then perhaps its name and where it lives: row "x" device. */
static void parse_type_words(assembler *a, module_type *t) {
  parse_type_form(a, t);
  if (a->lex.now.kind == TOKEN_STRING) {
    char *name = lexer_string(&a->lex, "a name");
    t->name = name ? module_add_string(a->b, name) : 0;
    mem_free(name);
  }
  if (lexer_is_name(&a->lex, "host") || lexer_is_name(&a->lex, "device")) t->device = parse_device(a);
}

static uint32_t parse_type(assembler *a) {
  module_type t = {0};
  parse_type_words(a, &t);
  return failed(a) ? 0 : module_add_type(a->b, &t);
}

/* dtype[extents], all numbers. */
static void parse_desc(assembler *a, reed_desc *out_desc) {
  *out_desc = (reed_desc){.dtype = parse_dtype(a)};
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

/* The strings of a base64 block, each of whole groups of four. */
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
  if (text_digits(dtype)) {
    double value = a->lex.now.kind == TOKEN_INTEGER ? (double)a->lex.now.i : a->lex.now.f;
    if (a->lex.now.kind != TOKEN_INTEGER && a->lex.now.kind != TOKEN_FLOAT) FAIL(a, "an element is expected here, a number");
    reed_dtype_write(dtype, element, value);
    lexer_next(&a->lex);
  } else {
    write_integer(a, dtype, element);
  }
  text_append_bytes(data, element, reed_dtype_bytes(dtype));
}

/* {1, 2, 3} or base64 {"..."}: exactly the desc's elements; one number stands for all of them. */
static void parse_elements(assembler *a, const reed_desc *desc, text_buffer *data) {
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
  if (!failed(a) && data->n != want) lexer_fail(&a->lex, &at, "%zu elements are given, the type has %zu", data->n / item, want / item);
}

/* ---- directives ---- */

/* The name being defined, and the `=` behind it. */
static symbol *parse_definition(assembler *a, symbol_kind kind, uint32_t number) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "the name of a %s is expected here", kind_names[kind]);
    return NULL;
  }
  const symbol *old = symbol_find(a, t.begin, t.n, kind);
  if (old) FAIL(a, "%s '%.*s' has been defined in line %u", kind_names[kind], (int)t.n, t.begin, old->at.line);
  if (failed(a)) return NULL;
  lexer_next(&a->lex);
  return symbol_add(a, copy_name(&t), kind, number, &t, true);
}

/* .module "name" producer "reed" "0.1" devices 2 */
static void parse_module(assembler *a) {
  if (a->has_module) FAIL(a, "a second .module");
  a->has_module = true;
  char *name = lexer_string(&a->lex, "the model's name"), *producer = NULL, *version = NULL;
  int32_t n_devices = 1;
  if (lexer_is_name(&a->lex, "producer")) {
    lexer_next(&a->lex);
    producer = lexer_string(&a->lex, "the producer");
    version = lexer_string(&a->lex, "the producer's version");
  }
  if (lexer_is_name(&a->lex, "devices")) {
    lexer_next(&a->lex);
    n_devices = (int32_t)lexer_integer(&a->lex, "the number of devices", 1, 2);
  }
  if (!failed(a)) module_set_names(a->b, name, producer ? producer : "", version ? version : "", n_devices);
  mem_free(name), mem_free(producer), mem_free(version);
}

/* .type NAME = f32[2] "x" */
static void parse_type_directive(assembler *a) {
  parse_definition(a, SYMBOL_TYPE, (uint32_t)a->types.n);
  lexer_expect(&a->lex, '=');
  module_type t = {0};
  parse_type_words(a, &t);
  if (failed(a)) return;
  PUSH(a, &a->types, t);
  module_add_type(a->b, &t); /* in the order of the text */
}

/* .const NAME "its name" = f32[2] {1, 2} */
static void parse_const(assembler *a) {
  const symbol *s = parse_definition(a, SYMBOL_CONST, 0);
  size_t i = s ? (size_t)(s - a->symbols.items) : 0;
  char *name = a->lex.now.kind == TOKEN_STRING ? lexer_string(&a->lex, "a name") : NULL;
  lexer_expect(&a->lex, '=');
  reed_desc desc;
  parse_desc(a, &desc);
  text_buffer data = {0};
  parse_elements(a, &desc, &data);
  if (!failed(a)) a->symbols.items[i].number = module_add_constant(a->b, &desc, data.n ? data.data : "", name ? name : "", false);
  text_fini(&data);
  mem_free(name);
}

/* An attribute's value, its parts owned by the attribute (attribute_fini). */
typedef struct attribute {
  reed_attr attr;
  char *name, *s;
  VEC_OF(int64_t) ints;
  VEC_OF(double) floats;
  text_buffer data;
} attribute;

static void attribute_fini(attribute *t) {
  mem_free(t->name), mem_free(t->s);
  VEC_FREE(&t->ints), VEC_FREE(&t->floats);
  text_fini(&t->data);
}

static double parse_float(assembler *a) {
  double value = a->lex.now.kind == TOKEN_INTEGER ? (double)a->lex.now.i : a->lex.now.f;
  if (a->lex.now.kind != TOKEN_FLOAT && a->lex.now.kind != TOKEN_INTEGER) FAIL(a, "a number is expected here");
  lexer_next(&a->lex);
  return value;
}

/* [1, 2] of integers or floats; `floats` before it, or a float in its first place, tells. */
static void parse_numbers(assembler *a, attribute *t, bool floats) {
  lexer_expect(&a->lex, '[');
  floats = floats || a->lex.now.kind == TOKEN_FLOAT;
  t->attr.type = floats ? REED_ATTR_FLOATS : REED_ATTR_INTS;
  while (!lexer_at(&a->lex, ']') && !failed(a)) {
    if (floats)
      PUSH(a, &t->floats, parse_float(a));
    else
      PUSH(a, &t->ints, lexer_integer(&a->lex, "an element", INT64_MIN, INT64_MAX));
    if (!lexer_at(&a->lex, ']')) lexer_expect(&a->lex, ',');
  }
  lexer_expect(&a->lex, ']');
}

static void parse_attribute(assembler *a, attribute *t) {
  t->name = lexer_name_or_string(&a->lex, "an attribute's name");
  lexer_expect(&a->lex, '=');
  switch (a->lex.now.kind) {
    case TOKEN_INTEGER:
      t->attr.type = REED_ATTR_INT;
      t->attr.i = lexer_integer(&a->lex, "an integer", INT64_MIN, INT64_MAX);
      break;
    case TOKEN_FLOAT:
      t->attr.type = REED_ATTR_FLOAT;
      t->attr.f = parse_float(a);
      break;
    case TOKEN_STRING:
      t->attr.type = REED_ATTR_STRING;
      t->s = lexer_string(&a->lex, "a text");
      break;
    case TOKEN_NAME:
      if (lexer_is_name(&a->lex, "floats")) {
        lexer_next(&a->lex);
        parse_numbers(a, t, true);
        break;
      }
      t->attr.type = REED_ATTR_TENSOR;
      parse_desc(a, &t->attr.desc);
      parse_elements(a, &t->attr.desc, &t->data);
      t->attr.n = failed(a) ? 0 : desc_elements(&t->attr.desc);
      break;
    case TOKEN_MARK:
      parse_numbers(a, t, false);
      break;
    case TOKEN_END:
    case TOKEN_NEWLINE:
    case TOKEN_DIRECTIVE:
    case TOKEN_ARROW:
      FAIL(a, "an attribute's value is expected here");
  }
}

/* Pointers of the finished parts: the lists no longer move. */
static reed_attr attribute_value(const attribute *t) {
  reed_attr r = t->attr;
  r.name = t->name, r.s = t->s;
  if (r.type == REED_ATTR_INTS) r.n = (int64_t)t->ints.n, r.ints = t->ints.n ? t->ints.items : (const int64_t *)"\0\0\0\0\0\0\0";
  if (r.type == REED_ATTR_FLOATS) r.n = (int64_t)t->floats.n, r.floats = t->floats.items;
  if (r.type == REED_ATTR_TENSOR) r.data = t->data.n ? t->data.data : "";
  return r;
}

/* .site NAME = Conv in "domain" (2 -> 1) "node" {strides = [1, 1]} */
static void parse_site(assembler *a) {
  const symbol *s = parse_definition(a, SYMBOL_SITE, 0);
  size_t number = s ? (size_t)(s - a->symbols.items) : 0;
  lexer_expect(&a->lex, '=');
  char *op = lexer_name_or_string(&a->lex, "an operator"), *domain = NULL, *node = NULL;
  if (lexer_is_name(&a->lex, "in")) {
    lexer_next(&a->lex);
    domain = lexer_string(&a->lex, "a domain");
  }
  lexer_expect(&a->lex, '(');
  int32_t n_inputs = (int32_t)lexer_integer(&a->lex, "the number of inputs", 0, REED_MAX_OPERANDS);
  if (a->lex.now.kind != TOKEN_ARROW) FAIL(a, "'->' is expected here");
  lexer_next(&a->lex);
  int32_t n_outputs = (int32_t)lexer_integer(&a->lex, "the number of outputs", 0, REED_MAX_OPERANDS);
  lexer_expect(&a->lex, ')');
  if (a->lex.now.kind == TOKEN_STRING) node = lexer_string(&a->lex, "a node's name");
  VEC_OF(attribute) attributes = {0};
  VEC_OF(reed_attr) values = {0};
  if (lexer_take(&a->lex, '{')) {
    while (!lexer_at(&a->lex, '}') && !failed(a)) {
      PUSH(a, &attributes, (attribute){0});
      if (!failed(a)) parse_attribute(a, &attributes.items[attributes.n - 1]);
      if (!lexer_at(&a->lex, '}')) lexer_expect(&a->lex, ',');
    }
    lexer_expect(&a->lex, '}');
  }
  for (size_t i = 0; !failed(a) && i < attributes.n; i++) PUSH(a, &values, attribute_value(&attributes.items[i]));
  if (!failed(a))
    a->symbols.items[number].number =
        module_add_site(a->b, domain ? domain : "", op, node ? node : "", values.items, (int32_t)values.n, n_inputs, n_outputs);
  for (size_t i = 0; i < attributes.n; i++) attribute_fini(&attributes.items[i]);
  VEC_FREE(&attributes);
  VEC_FREE(&values);
  mem_free(op), mem_free(domain), mem_free(node);
}

/* Types one after another, into the scratch list. */
static void parse_types(assembler *a) {
  a->list.n = 0;
  while (a->lex.now.kind == TOKEN_NAME && !failed(a)) {
    uint32_t type = parse_type(a);
    PUSH(a, &a->list, type);
    if (!lexer_take(&a->lex, ',')) break;
  }
}

/* (types | n scalars), the types into the scratch list. */
static uint32_t parse_signature(assembler *a) {
  uint32_t n_scalars = 0;
  lexer_expect(&a->lex, '(');
  parse_types(a);
  if (lexer_take(&a->lex, '|')) n_scalars = (uint32_t)lexer_integer(&a->lex, "the number of scalars", 0, MODULE_MAX_REGISTERS);
  lexer_expect(&a->lex, ')');
  return n_scalars;
}

#define COPY_LIST(a, from, to) \
  for (size_t i_ = 0; i_ < (from)->n; i_++) PUSH(a, to, (from)->items[i_])

/* .function NAME (types | n) -> (types | n) registers 12 4: declared in the first pass. */
static void parse_function(assembler *a) {
  token at = a->lex.now;
  char *name = lexer_name_or_string(&a->lex, "the function's name");
  VEC_OF(uint32_t) params = {0};
  uint32_t n_s_params = parse_signature(a), n_s_results = 0;
  COPY_LIST(a, &a->list, &params);
  a->list.n = 0;
  if (a->lex.now.kind == TOKEN_ARROW) {
    lexer_next(&a->lex);
    n_s_results = parse_signature(a);
  }
  if (lexer_is_name(&a->lex, "registers")) {
    lexer_next(&a->lex);
    lexer_integer(&a->lex, "the number of r registers", 0, MODULE_MAX_REGISTERS);
    lexer_integer(&a->lex, "the number of s registers", 0, MODULE_MAX_REGISTERS);
  }
  if (!failed(a)) {
    if (a->functions.n == 0) {
      COPY_LIST(a, &params, &a->main_params);
      COPY_LIST(a, &a->list, &a->main_results);
    }
    uint32_t number = module_declare_function(a->b, name, params.items, (uint32_t)params.n, n_s_params, a->list.items, (uint32_t)a->list.n, n_s_results);
    PUSH(a, &a->functions, ((asm_function){(uint32_t)params.n, n_s_params}));
    symbol *old = symbol_find(a, name, strlen(name), SYMBOL_FUNCTION);
    if (old)
      old->shared = true;
    else
      symbol_add(a, mem_copy_text(name), SYMBOL_FUNCTION, number, &at, true);
  }
  VEC_FREE(&params);
  mem_free(name);
}

static void parse_inputs(assembler *a) {
  parse_types(a);
  COPY_LIST(a, &a->list, &a->inputs);
  a->has_io = true;
}

static void parse_outputs(assembler *a) {
  parse_types(a);
  COPY_LIST(a, &a->list, &a->outputs);
  a->has_io = true;
}

static const struct {
  const char *name;
  void (*parse)(assembler *a);
} directives[] = {{".module", parse_module}, {".type", parse_type_directive}, {".const", parse_const},     {".site", parse_site},
                  {".inputs", parse_inputs}, {".outputs", parse_outputs},     {".function", parse_function}};
#define N_DIRECTIVES (sizeof directives / sizeof *directives)

static const char *directive_candidate(const void *context, size_t i) {
  (void)context;
  return i < N_DIRECTIVES ? directives[i].name : NULL;
}

static void skip_line(assembler *a) {
  while (a->lex.now.kind != TOKEN_NEWLINE && a->lex.now.kind != TOKEN_END) lexer_next(&a->lex);
  if (a->lex.now.kind == TOKEN_NEWLINE) lexer_next(&a->lex);
}

static void parse_directive(assembler *a) {
  token t = a->lex.now;
  for (size_t i = 0; i < N_DIRECTIVES; i++)
    if (t.n == strlen(directives[i].name) && memcmp(t.begin, directives[i].name, t.n) == 0) {
      lexer_next(&a->lex);
      directives[i].parse(a);
      end_line(a);
      return;
    }
  char hint[96];
  FAIL(a, "there is no directive '%.*s'%s", (int)t.n, t.begin, lexer_suggest(t.begin, t.n, directive_candidate, NULL, hint, sizeof hint));
}

static void first_pass(assembler *a) {
  while (a->lex.now.kind != TOKEN_END) {
    if (a->lex.now.kind == TOKEN_DIRECTIVE)
      parse_directive(a);
    else
      skip_line(a);
  }
}

/* ---- code ---- */

static uint32_t parse_register(assembler *a, char bank) {
  token t = a->lex.now;
  if (lexer_is_name(&a->lex, "_") && bank == 'r') {
    lexer_next(&a->lex);
    return MODULE_ABSENT;
  }
  uint64_t number = 0;
  bool ok = t.kind == TOKEN_NAME && t.n >= 2 && t.n <= 8 && *t.begin == bank;
  for (size_t i = 1; ok && i < t.n; i++) {
    ok = t.begin[i] >= '0' && t.begin[i] <= '9';
    number = number * 10 + (uint64_t)(t.begin[i] - '0');
  }
  if (!ok || number >= MODULE_MAX_REGISTERS) {
    FAIL(a, "a register is expected here: %c0, %c1 ...", bank, bank);
    return 0;
  }
  lexer_next(&a->lex);
  uint32_t *n = bank == 'r' ? &a->n_r : &a->n_s;
  if (number >= *n) *n = (uint32_t)number + 1;
  return (uint32_t)number;
}

/* One of the words of a small set; its number. */
static uint32_t parse_word(assembler *a, const char *what, const char *const *words, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (lexer_is_name(&a->lex, words[i])) {
      lexer_next(&a->lex);
      return i;
    }
  FAIL(a, "%s is expected here: one of %s, %s ...", what, words[0], words[1]);
  return 0;
}

static uint32_t parse_flagged_register(assembler *a) {
  static const char *const reads[] = TEXT_READS;
  uint32_t item = parse_register(a, 'r');
  if (lexer_take(&a->lex, ':')) item |= parse_word(a, "what is read", reads, 4) << 24;
  return item;
}

static uint32_t parse_function_name(assembler *a) {
  token t = a->lex.now;
  if (lexer_take(&a->lex, '#')) return (uint32_t)lexer_integer(&a->lex, "a function's number", 0, (int64_t)a->functions.n - 1);
  char *name = lexer_name_or_string(&a->lex, "a function's name");
  if (!name) return 0;
  const symbol *s = symbol_find(a, name, strlen(name), SYMBOL_FUNCTION);
  char hint[96];
  kind_names_context context = {a, SYMBOL_FUNCTION};
  if (!s)
    lexer_fail(&a->lex, &t, "there is no function '%s'%s", name, lexer_suggest(name, strlen(name), symbol_candidate, &context, hint, sizeof hint));
  else if (s->shared)
    lexer_fail(&a->lex, &t, "several functions are called '%s': name one by its number, #0 ...", name);
  mem_free(name);
  return s ? s->number : 0;
}

/* The label named here, made on its first use. */
static uint32_t parse_label(assembler *a) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "a label is expected here");
    return 0;
  }
  symbol *s = symbol_find(a, t.begin, t.n, SYMBOL_LABEL);
  if (!s) s = symbol_add(a, copy_name(&t), SYMBOL_LABEL, emit_new_label(a->b), &t, false);
  lexer_next(&a->lex);
  return s ? s->number : 0;
}

static uint32_t parse_string_operand(assembler *a) {
  char *text = lexer_string(&a->lex, "a text");
  uint32_t number = text ? module_add_string(a->b, text) : 0;
  mem_free(text);
  return number;
}

/* One item of an operand of that role. */
static uint32_t parse_item(assembler *a, insn_role role) {
#define REASON_NAME(name, text) text,
  static const char *const reasons[] = {COPY_REASON_LIST(REASON_NAME)};
#undef REASON_NAME
  switch (role) {
    case INSN_ROLE_RD_SHAPED:
    case INSN_ROLE_RD_STORED:
    case INSN_ROLE_RD_OBJECT:
    case INSN_ROLE_RD_ANY:
    case INSN_ROLE_RD_NONE:
    case INSN_ROLE_RD_FETCH:
    case INSN_ROLE_RX_ALLOC:
    case INSN_ROLE_RX_FILL:
    case INSN_ROLE_RX_EXTENT:
    case INSN_ROLE_RX_KILL:
    case INSN_ROLE_RX_PUSH:
    case INSN_ROLE_RU_ANY:
    case INSN_ROLE_RU_SHAPE:
    case INSN_ROLE_RU_TENSOR:
    case INSN_ROLE_RU_HOST:
    case INSN_ROLE_RU_OBJECT:
    case INSN_ROLE_RU_MAYBE:
    case INSN_ROLE_RDS_SHAPED:
    case INSN_ROLE_RDS_ANY:
    case INSN_ROLE_RUS_ANY:
    case INSN_ROLE_RUS_KERNEL:
    case INSN_ROLE_RXS_KERNEL:
      return parse_register(a, 'r');
    case INSN_ROLE_RFS_IN:
      return parse_flagged_register(a);
    case INSN_ROLE_SD:
    case INSN_ROLE_SU:
    case INSN_ROLE_SDS:
    case INSN_ROLE_SUS:
      return parse_register(a, 's');
    case INSN_ROLE_INDEX:
    case INSN_ROLE_EPOCH:
      return (uint32_t)lexer_integer(&a->lex, "an index", 0, UINT32_MAX);
    case INSN_ROLE_DTYPE:
      return parse_dtype(a);
    case INSN_ROLE_LABEL:
    case INSN_ROLE_LABELS:
      return parse_label(a);
    case INSN_ROLE_FUNC:
      return parse_function_name(a);
    case INSN_ROLE_TYPE:
      return parse_type(a);
    case INSN_ROLE_CONST:
      return use_symbol(a, SYMBOL_CONST);
    case INSN_ROLE_SITE:
      return use_symbol(a, SYMBOL_SITE);
    case INSN_ROLE_STR:
      return parse_string_operand(a);
    case INSN_ROLE_DEV:
      return (uint32_t)parse_device(a);
    case INSN_ROLE_REASON:
      return parse_word(a, "a copy's reason", reasons, COPY_REASON_COUNT);
    case INSN_ROLE_IMM: /* two words: parse_operand */
    case INSN_ROLE_COUNT:
      break;
  }
  return 0;
}

static void parse_operand(assembler *a, insn_role role) {
  bool label = role == INSN_ROLE_LABEL || role == INSN_ROLE_LABELS;
  switch (insn_role_form(role)) {
    case INSN_FORM_WORD: {
      uint32_t item = parse_item(a, role);
      if (label)
        emit_label(a->b, item);
      else
        emit_u32(a->b, item);
      break;
    }
    case INSN_FORM_LONG:
      emit_i64(a->b, lexer_integer(&a->lex, "an integer", INT64_MIN, INT64_MAX));
      break;
    case INSN_FORM_LIST:
      a->list.n = 0;
      lexer_expect(&a->lex, '[');
      while (!lexer_at(&a->lex, ']') && !failed(a)) {
        uint32_t item = parse_item(a, role);
        PUSH(a, &a->list, item);
        if (!lexer_at(&a->lex, ']')) lexer_expect(&a->lex, ',');
      }
      lexer_expect(&a->lex, ']');
      if (label)
        emit_labels(a->b, a->list.items, (uint32_t)a->list.n);
      else
        emit_list(a->b, a->list.items, (uint32_t)a->list.n);
      break;
  }
}

static const char *mnemonic_candidate(const void *context, size_t i) {
  (void)context;
  return i < INSN_COUNT ? insn_table[i].mnemonic : NULL;
}

static int find_mnemonic(const token *t) {
  for (int i = 0; i < INSN_COUNT; i++)
    if (strlen(insn_table[i].mnemonic) == t->n && memcmp(insn_table[i].mnemonic, t->begin, t->n) == 0) return i;
  return -1;
}

/* The node behind `@` at the end of the line that begins here, as a text to be freed, or NULL; it must be known when the instruction begins. */
static char *peek_node(assembler *a) {
  lexer here = a->lex;
  while (a->lex.now.kind != TOKEN_NEWLINE && a->lex.now.kind != TOKEN_END && !lexer_at(&a->lex, '@')) lexer_next(&a->lex);
  char *node = lexer_take(&a->lex, '@') ? lexer_string(&a->lex, "a node's name") : NULL;
  reed_status status = a->lex.status;
  if (status == REED_OK) a->lex = here;
  return node;
}

/* mnemonic operand, operand ... @ "node" */
static void parse_insn(assembler *a) {
  token t = a->lex.now;
  int id = find_mnemonic(&t);
  if (id < 0) {
    char hint[96];
    FAIL(a, "there is no instruction '%.*s'%s", (int)t.n, t.begin, lexer_suggest(t.begin, t.n, mnemonic_candidate, NULL, hint, sizeof hint));
    return;
  }
  char *node = peek_node(a);
  lexer_next(&a->lex);
  const insn_info *info = &insn_table[id];
  emit_begin(a->b, id, node);
  mem_free(node);
  for (int i = 0; i < info->n_operands && !failed(a); i++) {
    if (i && !lexer_take(&a->lex, ',')) FAIL(a, "'%s' wants another operand, '%s'", info->mnemonic, info->names[i]);
    if (!failed(a)) parse_operand(a, info->roles[i]);
  }
  if (lexer_take(&a->lex, '@')) lexer_next(&a->lex);
  if (failed(a)) return;
  emit_end(a->b);
  end_line(a);
}

/* name: */
static bool parse_label_definition(assembler *a) {
  lexer here = a->lex;
  token t = a->lex.now;
  lexer_next(&a->lex);
  if (!lexer_at(&a->lex, ':')) {
    a->lex = here;
    return false;
  }
  lexer_next(&a->lex);
  symbol *s = symbol_find(a, t.begin, t.n, SYMBOL_LABEL);
  if (s && s->defined) lexer_fail(&a->lex, &t, "label '%.*s' has been defined in line %u", (int)t.n, t.begin, s->at.line);
  if (!s) s = symbol_add(a, copy_name(&t), SYMBOL_LABEL, emit_new_label(a->b), &t, true);
  if (failed(a)) return true;
  s->defined = true;
  s->at = t;
  emit_bind_label(a->b, s->number);
  if (a->lex.now.kind == TOKEN_NEWLINE) lexer_next(&a->lex);
  return true;
}

/* Forgets the function's labels; one that was used must have been defined. */
static void end_labels(assembler *a, size_t first) {
  for (size_t i = first; i < a->symbols.n; i++) {
    const symbol *s = &a->symbols.items[i];
    char hint[96];
    kind_names_context context = {a, SYMBOL_LABEL};
    if (s->defined || failed(a)) continue;
    ((symbol *)s)->kind = SYMBOL_KINDS; /* no suggestion of itself */
    lexer_fail(&a->lex, &s->at, "there is no label '%s' in this function%s", s->name, lexer_suggest(s->name, strlen(s->name), symbol_candidate, &context, hint, sizeof hint));
  }
  size_t n = a->symbols.n;
  while (a->symbols.n > first) mem_free((void *)a->symbols.items[--a->symbols.n].name);
  if (n > first && !buckets_rebuild(a, a->n_buckets)) lexer_no_memory(&a->lex);
}

/* The line of .function, read again for its number of registers, then the code. */
static void assemble_function(assembler *a, uint32_t number) {
  uint32_t n_r = 0, n_s = 0;
  bool stated = false;
  while (a->lex.now.kind != TOKEN_NEWLINE && a->lex.now.kind != TOKEN_END) {
    stated |= lexer_is_name(&a->lex, "registers");
    bool here = lexer_is_name(&a->lex, "registers");
    lexer_next(&a->lex);
    if (!here) continue;
    n_r = (uint32_t)lexer_integer(&a->lex, "the number of r registers", 0, MODULE_MAX_REGISTERS);
    n_s = (uint32_t)lexer_integer(&a->lex, "the number of s registers", 0, MODULE_MAX_REGISTERS);
  }
  a->n_r = a->functions.items[number].n_r_params, a->n_s = a->functions.items[number].n_s_params;
  size_t first_label = a->symbols.n;
  module_begin_function(a->b, number);
  while (a->lex.now.kind != TOKEN_END && a->lex.now.kind != TOKEN_DIRECTIVE) {
    if (a->lex.now.kind == TOKEN_NEWLINE)
      lexer_next(&a->lex);
    else if (a->lex.now.kind != TOKEN_NAME)
      FAIL(a, "an instruction or a label is expected here");
    else if (!parse_label_definition(a))
      parse_insn(a);
  }
  end_labels(a, first_label);
  if (!failed(a)) module_end_function(a->b, stated ? n_r : a->n_r, stated ? n_s : a->n_s);
}

static void second_pass(assembler *a) {
  uint32_t n_functions = 0;
  while (a->lex.now.kind != TOKEN_END) {
    if (a->lex.now.kind == TOKEN_NEWLINE) {
      lexer_next(&a->lex);
    } else if (a->lex.now.kind != TOKEN_DIRECTIVE) {
      FAIL(a, "code stands behind a .function only");
    } else if (a->lex.now.n == strlen(".function") && memcmp(a->lex.now.begin, ".function", a->lex.now.n) == 0) {
      assemble_function(a, n_functions++);
    } else {
      skip_line(a);
    }
  }
}

static void assembler_fini(assembler *a) {
  for (size_t i = 0; i < a->symbols.n; i++) mem_free((void *)a->symbols.items[i].name);
  VEC_FREE(&a->symbols), VEC_FREE(&a->types), VEC_FREE(&a->functions), VEC_FREE(&a->inputs), VEC_FREE(&a->outputs);
  VEC_FREE(&a->main_params), VEC_FREE(&a->main_results), VEC_FREE(&a->list);
  mem_free(a->buckets);
  module_builder_close(&a->b);
}

reed_status text_assemble(const char *text, void **out_bytes, size_t *out_n_bytes, reed_diagnosis *diagnosis) {
  assembler a = {0};
  if (module_builder_open(&a.b) != REED_OK) return diag_no_memory(diagnosis, "assembling a module");
  lexer_begin(&a.lex, text, diagnosis);
  first_pass(&a);
  reed_status status = a.lex.status;
  if (status == REED_OK) {
    lexer_begin(&a.lex, text, diagnosis);
    second_pass(&a);
    status = a.lex.status;
  }
  if (status == REED_OK) {
    if (!a.has_module) module_set_names(a.b, "", "", "", 1);
    if (a.has_io)
      module_set_io(a.b, a.inputs.items, (uint32_t)a.inputs.n, a.outputs.items, (uint32_t)a.outputs.n);
    else
      module_set_io(a.b, a.main_params.items, (uint32_t)a.main_params.n, a.main_results.items, (uint32_t)a.main_results.n);
    status = module_builder_finish(a.b, out_bytes, out_n_bytes, diagnosis);
  }
  assembler_fini(&a);
  return status;
}
