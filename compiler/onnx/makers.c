/* The lists of operators that Reed reads as several others. */
#include <string.h>

#include "compiler/onnx/reader.h"

static const onnx_maker *maker_of(const char *domain, const char *type) {
  static const struct {
    const char *domain;
    const onnx_maker *makers;
  } lists[] = {{"", onnx_quantized_makers},
               {"", onnx_random_makers},
               {"", onnx_norm_makers},
               {"", onnx_fourier_makers},
               {"", onnx_composed_makers},
               {"", onnx_loss_makers},
               {"", onnx_simplified_makers},
               {"com.microsoft", onnx_contrib_makers},
               {"com.microsoft", onnx_attention_makers},
               {"com.microsoft", onnx_bits_makers},
               {"com.microsoft", onnx_contrib_quantized_makers}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const onnx_maker *m = lists[i].makers; strcmp(domain, lists[i].domain) == 0 && m->name; m++)
      if (strcmp(type, m->name) == 0) return m;
  return NULL;
}

bool onnx_has_maker(const char *domain, const char *type) { return maker_of(domain, type) != NULL; }

reed_status onnx_read_made(onnx_reading *z) {
  const onnx_maker *m = maker_of(onnx_plain_domain(z->node->domain), z->node->op_type);
  if (z->n_inputs > m->most_inputs || z->node->n_output > (size_t)m->most_outputs)
    return diag_fail(z->r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (%s) has %d inputs and %zu outputs, at most %d and %d are allowed", z->name, m->name,
                     z->n_inputs, z->node->n_output, m->most_inputs, m->most_outputs);
  for (int32_t i = 0; i < m->least_inputs; i++)
    if (!z->inputs[i])
      return diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): input %d is missing", z->name, m->name, i);
  const size_t first = z->g->nodes.n;
  m->make(z);
  return onnx_end_reading(z, first);
}
