/* The assembler: makes module bytes of text, in two passes over the words. The first pass reads the directives, so that
 * a function may be called before its text; the second reads the code. Types and elements: asm_data.c. Instructions:
 * asm_code.c. */
#include <string.h>

#include "bytecode/format.h"
#include "bytecode/text/asm_code.h"
#include "bytecode/text/asm_data.h"
#include "bytecode/text/text.h"

/* ---- directives ---- */

/* Reads the name being defined and the `=` after it. */
static symbol *parse_definition(assembler *a, symbol_kind kind, uint32_t number) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "the name of a %s is expected here", asm_kind_names[kind]);
    return NULL;
  }
  const symbol *old = asm_find(a, t.begin, t.n, kind);
  if (old) FAIL(a, "%s '%.*s' has been defined in line %u", asm_kind_names[kind], (int)t.n, t.begin, old->at.line);
  if (failed(a)) return NULL;
  lexer_next(&a->lex);
  return asm_add(a, asm_copy_name(&t), kind, number, &t, true);
}

/* .module "name" producer "reed" "0.1" devices 2 target "host,sim" */
static void parse_module(assembler *a) {
  if (a->has_module) FAIL(a, "a second .module");
  a->has_module = true;
  char *name = lexer_string(&a->lex, "the model's name"), *producer = NULL, *version = NULL, *target = NULL;
  int32_t n_devices = 1;
  if (lexer_is_name(&a->lex, "producer")) {
    lexer_next(&a->lex);
    producer = lexer_string(&a->lex, "the producer");
    version = lexer_string(&a->lex, "the producer's version");
  }
  if (lexer_is_name(&a->lex, "devices")) {
    lexer_next(&a->lex);
    n_devices = (int32_t)lexer_integer(&a->lex, "the number of devices", 1, MODULE_MAX_DEVICES);
  }
  if (lexer_is_name(&a->lex, "target")) {
    lexer_next(&a->lex);
    target = lexer_string(&a->lex, "what the module was compiled for");
  }
  if (!failed(a)) module_set_names(a->b, name, producer ? producer : "", version ? version : "", n_devices);
  if (!failed(a) && target) module_set_target(a->b, target);
  mem_free(name), mem_free(producer), mem_free(version), mem_free(target);
}

/* .type NAME = f32[2] "x" */
static void parse_type_directive(assembler *a) {
  parse_definition(a, SYMBOL_TYPE, (uint32_t)a->types.n);
  lexer_expect(&a->lex, '=');
  module_type t = {0};
  asm_type_words(a, &t);
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
  asm_desc(a, &desc);
  text_buffer data = {0};
  asm_elements(a, &desc, &data);
  if (!failed(a))
    a->symbols.items[i].number = module_add_constant(a->b, &desc, data.n ? data.data : "", name ? name : "", false);
  text_fini(&data);
  mem_free(name);
}

/* An attribute while it is read. It owns its parts until attribute_fini. */
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

/* [1, 2]: floats if the word `floats` stands before the bracket or the first element is a float, else integers. */
static void parse_numbers(assembler *a, attribute *t, bool floats) {
  lexer_expect(&a->lex, '[');
  floats = floats || a->lex.now.kind == TOKEN_FLOAT;
  t->attr.type = floats ? REED_ATTR_FLOATS : REED_ATTR_INTS;
  while (!lexer_at(&a->lex, ']') && !failed(a)) {
    if (floats) PUSH(a, &t->floats, parse_float(a));
    else PUSH(a, &t->ints, lexer_integer(&a->lex, "an element", INT64_MIN, INT64_MAX));
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
      asm_desc(a, &t->attr.desc);
      asm_elements(a, &t->attr.desc, &t->data);
      t->attr.n = failed(a) ? 0 : desc_elements(&t->attr.desc);
      break;
    case TOKEN_MARK: parse_numbers(a, t, false); break;
    case TOKEN_END:
    case TOKEN_NEWLINE:
    case TOKEN_DIRECTIVE:
    case TOKEN_ARROW: FAIL(a, "an attribute's value is expected here");
  }
}

/* The attribute with pointers to its parts, which must not grow afterwards. */
static reed_attr attribute_value(const attribute *t) {
  reed_attr r = t->attr;
  r.name = t->name, r.s = t->s;
  if (r.type == REED_ATTR_INTS)
    r.n = (int64_t)t->ints.n, r.ints = t->ints.n ? t->ints.items : (const int64_t *)"\0\0\0\0\0\0\0";
  if (r.type == REED_ATTR_FLOATS) r.n = (int64_t)t->floats.n, r.floats = t->floats.items;
  if (r.type == REED_ATTR_TENSOR) r.data = t->data.n ? t->data.data : "";
  return r;
}

/* [f32, _, i64]: exactly n dtypes; `_`: an absent operand, or an unknown dtype. */
static void parse_dtypes(assembler *a, reed_dtype *dtypes, int32_t n) {
  lexer_expect(&a->lex, '[');
  for (int32_t i = 0; i < n && !failed(a); i++) {
    if (i) lexer_expect(&a->lex, ',');
    if (lexer_is_name(&a->lex, "_")) lexer_next(&a->lex);
    else dtypes[i] = asm_dtype(a);
  }
  lexer_expect(&a->lex, ']');
}

/* Reads .site NAME = Conv in "domain" (2 -> 1) "node" of [f32, f32, f32] {strides = [1, 1]} */
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
  reed_dtype dtypes[2 * REED_MAX_OPERANDS] = {REED_NONE};
  if (lexer_is_name(&a->lex, "of")) {
    lexer_next(&a->lex);
    parse_dtypes(a, dtypes, failed(a) ? 0 : n_inputs + n_outputs);
  }
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
  if (!failed(a)) {
    uint32_t site = module_add_site(a->b, domain ? domain : "", op, node ? node : "", values.items, (int32_t)values.n,
                                    n_inputs, n_outputs);
    module_set_site_dtypes(a->b, site, dtypes);
    a->symbols.items[number].number = site;
  }
  for (size_t i = 0; i < attributes.n; i++) attribute_fini(&attributes.items[i]);
  VEC_FREE(&attributes);
  VEC_FREE(&values);
  mem_free(op), mem_free(domain), mem_free(node);
}

/* Reads types, separated by commas, into the scratch list. */
static void parse_types(assembler *a) {
  a->list.n = 0;
  while (a->lex.now.kind == TOKEN_NAME && !failed(a)) {
    uint32_t type = asm_type(a);
    PUSH(a, &a->list, type);
    if (!lexer_take(&a->lex, ',')) break;
  }
}

/* Reads (types | n), the types into the scratch list; returns n, the number of scalars. */
static uint32_t parse_signature(assembler *a) {
  uint32_t n_scalars = 0;
  lexer_expect(&a->lex, '(');
  parse_types(a);
  if (lexer_take(&a->lex, '|'))
    n_scalars = (uint32_t)lexer_integer(&a->lex, "the number of scalars", 0, MODULE_MAX_REGISTERS);
  lexer_expect(&a->lex, ')');
  return n_scalars;
}

#define COPY_LIST(a, from, to) \
  for (size_t i_ = 0; i_ < (from)->n; i_++) PUSH(a, to, (from)->items[i_])

/* Reads .function NAME (types | n) -> (types | n) registers 12 4 in the first pass and declares the function. */
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
    uint32_t number = module_declare_function(a->b, name, params.items, (uint32_t)params.n, n_s_params, a->list.items,
                                              (uint32_t)a->list.n, n_s_results);
    PUSH(a, &a->functions, ((asm_function){(uint32_t)params.n, n_s_params}));
    symbol *old = asm_find(a, name, strlen(name), SYMBOL_FUNCTION);
    if (old) old->shared = true;
    else asm_add(a, mem_copy_text(name), SYMBOL_FUNCTION, number, &at, true);
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

/* .range NAME (input, axis) = [low, high], or [low, *] */
static void parse_range(assembler *a) {
  char *name = lexer_name_or_string(&a->lex, "the name of a dim");
  module_range r = {0};
  lexer_expect(&a->lex, '(');
  r.input = (uint32_t)lexer_integer(&a->lex, "the number of an input", 0, UINT32_MAX);
  lexer_expect(&a->lex, ',');
  r.axis = (uint32_t)lexer_integer(&a->lex, "an axis", 0, REED_MAX_RANK - 1);
  lexer_expect(&a->lex, ')');
  lexer_expect(&a->lex, '=');
  lexer_expect(&a->lex, '[');
  r.low = lexer_integer(&a->lex, "the lower bound", 0, INT64_MAX);
  lexer_expect(&a->lex, ',');
  r.high = REED_UNBOUNDED;
  if (!lexer_take(&a->lex, '*')) r.high = lexer_integer(&a->lex, "the upper bound", 0, INT64_MAX);
  lexer_expect(&a->lex, ']');
  if (!failed(a)) {
    r.name = module_add_string(a->b, name);
    module_add_range(a->b, &r);
  }
  mem_free(name);
}

static const struct {
  const char *name;
  void (*parse)(assembler *a);
} directives[] = {{".module", parse_module}, {".type", parse_type_directive}, {".const", parse_const},
                  {".site", parse_site},     {".inputs", parse_inputs},       {".outputs", parse_outputs},
                  {".range", parse_range},   {".function", parse_function}};
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
      asm_end_line(a);
      return;
    }
  char hint[96];
  FAIL(a, "there is no directive '%.*s'%s", (int)t.n, t.begin,
       lexer_suggest(t.begin, t.n, directive_candidate, NULL, hint, sizeof hint));
}

static void first_pass(assembler *a) {
  while (a->lex.now.kind != TOKEN_END) {
    if (a->lex.now.kind == TOKEN_DIRECTIVE) parse_directive(a);
    else skip_line(a);
  }
}

/* ---- the two passes ---- */

static void second_pass(assembler *a) {
  uint32_t n_functions = 0;
  while (a->lex.now.kind != TOKEN_END) {
    if (a->lex.now.kind == TOKEN_NEWLINE) {
      lexer_next(&a->lex);
    } else if (a->lex.now.kind != TOKEN_DIRECTIVE) {
      FAIL(a, "code stands behind a .function only");
    } else if (a->lex.now.n == strlen(".function") && memcmp(a->lex.now.begin, ".function", a->lex.now.n) == 0) {
      asm_function_code(a, n_functions++);
    } else {
      skip_line(a);
    }
  }
}

static void assembler_fini(assembler *a) {
  for (size_t i = 0; i < a->symbols.n; i++) mem_free((void *)a->symbols.items[i].name);
  VEC_FREE(&a->symbols), VEC_FREE(&a->types), VEC_FREE(&a->functions), VEC_FREE(&a->inputs), VEC_FREE(&a->outputs);
  VEC_FREE(&a->main_params), VEC_FREE(&a->main_results), VEC_FREE(&a->list);
  table_fini(&a->symbol_table);
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
    if (a.has_io) module_set_io(a.b, a.inputs.items, (uint32_t)a.inputs.n, a.outputs.items, (uint32_t)a.outputs.n);
    else
      module_set_io(a.b, a.main_params.items, (uint32_t)a.main_params.n, a.main_results.items,
                    (uint32_t)a.main_results.n);
    status = module_builder_finish(a.b, out_bytes, out_n_bytes, diagnosis);
  }
  assembler_fini(&a);
  return status;
}
