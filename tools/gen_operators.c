/* Prints docs/operators.md from the operator table (ops/op.def). With `--check FILE` it compares the document with the
 * file instead (exit status 1: not current). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ops/op.h"

static const char intro[] =
    "# Operators\n"
    "\n"
    "Made from `ops/op.def` by `gen_operators`; do not edit.\n"
    "\n"
    "The table lists every built-in operator, in the form of ONNX opset 23. The importer rewrites older forms, "
    "Einsum to products and sums, operators of quantised numbers to arithmetic, and sequences to their items "
    "(architecture.md). `vm ops` prints "
    "the same table, and the operators of plugins.\n"
    "\n"
    "- *inputs*: the name, what the operator's *shape function* reads of the input, and its dtypes. The shape function "
    "reads **none** of it, its **shape**, its **value** (the elements, on the host) or\n"
    "  **both**. After a name: `?` the input may be absent, `...` any number of inputs, `=` the dtype of the first "
    "input.\n"
    "- *outputs*: extents are exact, unless the output is marked **bounded**: then the shape function gives a bound, "
    "and the kernel reports the true extent.\n"
    "- *attributes*: an attribute with `= value` has that value if a model does not give it, or has it for each axis. "
    "Any other attribute that "
    "is not required may be absent, and its absence has a meaning of its own. Words after a colon are the valid ones; "
    "numbers after a comma are the range of\n"
    "  the valid ones. A call with any other word or number is refused before its shape function is called.\n"
    "- *memory*: `view`: the output is the first input's memory with other extents. `in place`: the output may "
    "overwrite an input. `joined in place`: an input may be computed at its place in the\n"
    "  output. `parts in place`: an output that is a contiguous part of the first input may share its memory.\n"
    "- *properties*: `light`: cheap, may run on the host where it feeds shape functions. `fusable`: element-wise, may "
    "be a step of Fused. `extents only`: the kernel reads extents and no elements.\n"
    "  `any rank`: the shape function accepts inputs of unknown rank. `packable`: a product whose constant weights may "
    "be packed. `impure`: two calls with equal inputs differ.\n"
    "\n"
    "| operator | inputs | outputs | attributes | memory | properties |\n"
    "|---|---|---|---|---|---|\n";

static const struct {
  reed_dtype_set set;
  const char *name;
} named_sets[] = {
#define BIT(dtype) (1u << REED_##dtype)
#define FLOATS (BIT(F32) | BIT(F64) | BIT(F16) | BIT(BF16))
#define SIGNEDS (FLOATS | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64))
#define NUMBERS (SIGNEDS | BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64))
    {FLOATS, "float"}, {SIGNEDS, "signed"}, {NUMBERS, "numeric"}, {NUMBERS | BIT(BOOL), "any"}};

static void put_dtypes(text_buffer *doc, reed_dtype_set set) {
  for (size_t i = 0; i < sizeof named_sets / sizeof *named_sets; i++)
    if (named_sets[i].set == set) {
      text_append(doc, "%s", named_sets[i].name);
      return;
    }
  const char *between = "";
  for (int dtype = REED_NONE + 1; dtype < REED_DTYPE_COUNT; dtype++) {
    if (!(set & 1u << dtype)) continue;
    text_append(doc, "%s%s", between, reed_dtype_name((reed_dtype)dtype));
    between = "/";
  }
}

static void put_inputs(text_buffer *doc, const reed_op *op) {
  static const char *const reads[] = {"none", "shape", "value", "both"};
  for (int32_t i = 0; i < op->n_inputs; i++) {
    const reed_op_input *in = &op->inputs[i];
    text_append(doc, "%s%s%s%s%s **%s** ", i ? "<br>" : "", in->name, in->variadic ? "..." : "",
                in->optional ? "?" : "", in->same_type ? " =" : "", reads[in->reads]);
    put_dtypes(doc, in->dtypes);
    if (in->reads_attr) text_append(doc, " (with %s = %s, else **none**)", in->reads_attr, in->reads_word);
  }
}

static void put_outputs(text_buffer *doc, const reed_op *op) {
  for (int32_t i = 0; i < op->n_outputs; i++) {
    const reed_op_output *out = &op->outputs[i];
    text_append(doc, "%s%s%s%s%s", i ? "<br>" : "", out->name, out->variadic ? "..." : "", out->optional ? "?" : "",
                out->bounded ? " **bounded**" : "");
    if (out->type_rule == REED_TYPE_FIXED) text_append(doc, " %s", reed_dtype_name((reed_dtype)out->type_arg));
    if (out->type_rule == REED_TYPE_LIKE && out->type_arg) text_append(doc, " as %s", op->inputs[out->type_arg].name);
    if (out->type_rule == REED_TYPE_ATTR) text_append(doc, " of %s", out->type_attr);
  }
}

/* Writes an attribute's default: " = 1e-05". */
static void put_value(text_buffer *doc, reed_attr_type type, const reed_attr *value) {
  switch (type) {
    case REED_ATTR_INT: text_append(doc, " = %lld", (long long)value->i); break;
    case REED_ATTR_FLOAT: text_append(doc, " = %g", value->f); break;
    case REED_ATTR_STRING: text_append(doc, " = %s", value->s); break;
    case REED_ATTR_TENSOR: text_append(doc, " = %s 0", reed_dtype_name(value->desc.dtype)); break;
    case REED_ATTR_INTS:
    case REED_ATTR_FLOATS: text_append(doc, " = %lld numbers", (long long)value->n); break;
  }
}

/* Writes the valid words, ": none, tanh", or the range of the valid numbers, ", 1 to 3". */
static void put_valid(text_buffer *doc, const reed_op_attr *row) {
  char text[128];
  if (row->words) {
    const char *between = ": ";
    for (const char *word = row->words; op_attr_next_word(&word, text, sizeof text); between = ", ")
      text_append(doc, "%s%s", between, text);
  } else if (op_attr_has_range(row)) {
    text_append(doc, ", %lld", (long long)row->least);
    if (row->most == INT64_MAX) text_append(doc, " or more");
    else text_append(doc, " to %lld", (long long)row->most);
  }
}

static void put_attrs(text_buffer *doc, const reed_op *op) {
  static const char *const types[] = {"", "int", "float", "string", "ints", "floats", "tensor"};
  for (int32_t i = 0; i < op->n_attrs; i++) {
    text_append(doc, "%s%s %s%s", i ? "<br>" : "", op->attrs[i].name, types[op->attrs[i].type],
                op->attrs[i].required ? " (required)" : "");
    if (op->attrs[i].otherwise) put_value(doc, op->attrs[i].type, op->attrs[i].otherwise);
    if (op->attrs[i].each) text_append(doc, " = %lld for each axis", (long long)*op->attrs[i].each);
    put_valid(doc, &op->attrs[i]);
  }
}

static void put_properties(text_buffer *doc, const reed_op *op) {
  static const struct {
    uint32_t property;
    const char *words;
  } named[] = {{OP_PROPERTY_FUSABLE, "fusable"},
               {REED_OP_EXTENTS_ONLY, "extents only"},
               {REED_OP_ANY_RANK, "any rank"},
               {OP_PROPERTY_PACKABLE, "packable"},
               {OP_PROPERTY_IMPURE, "impure"}};
  const char *between = "";
  if (op->light) text_append(doc, "light"), between = ", ";
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    if (!op_has(op, named[i].property)) continue;
    text_append(doc, "%s%s", between, named[i].words);
    between = ", ";
  }
}

static void put_document(text_buffer *doc) {
  static const char *const memory[] = {[REED_ALIAS_NONE] = "",
                                       [REED_ALIAS_INPLACE] = "in place",
                                       [REED_ALIAS_INPLACE_FIRST] = "in place, first input",
                                       [REED_ALIAS_VIEW] = "view",
                                       [REED_ALIAS_JOIN] = "joined in place",
                                       [REED_ALIAS_PART] = "parts in place",
                                       [REED_ALIAS_INPLACE_LAST] = "in place, last input"};
  text_append(doc, "%s", intro);
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    text_append(doc, "| %s%s%s | ", op->domain, *op->domain ? "." : "", op->name); /* as `vm ops` has it */
    put_inputs(doc, op);
    text_append(doc, " | ");
    put_outputs(doc, op);
    text_append(doc, " | ");
    put_attrs(doc, op);
    text_append(doc, " | %s | ", op_is_control(op) ? "control flow" : memory[op->alias]);
    put_properties(doc, op);
    text_append(doc, " |\n");
  }
  text_append(doc, "\n%d operators.\n", (int)OP_COUNT);
}

/* Returns 0 if the file holds exactly this text. */
static int check(const char *path, const text_buffer *doc) {
  int different = 1;
  FILE *file = fopen(path, "rb");
  char *held = mem_alloc(doc->n + 1);
  if (file && held) different = fread(held, 1, doc->n + 1, file) != doc->n || memcmp(held, doc->data, doc->n) != 0;
  if (different) fprintf(stderr, "%s is not what ops/op.def says: run gen_operators > %s\n", path, path);
  if (file) fclose(file);
  mem_free(held);
  return different;
}

int main(int argc, char **argv) {
  text_buffer doc = {0};
  put_document(&doc);
  if (doc.failed) return 2;
  int status = 0;
  if (argc == 3 && strcmp(argv[1], "--check") == 0) status = check(argv[2], &doc);
  else if (argc == 1) status = fwrite(doc.data, 1, doc.n, stdout) == doc.n ? 0 : 2;
  else status = 2;
  text_fini(&doc);
  return status;
}
