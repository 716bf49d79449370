/* Printing tensors in short form, and tables (print.h). */
#include "tools/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plain.h"

/* Of an axis longer than LONGEST only the first and last EDGE elements are shown; of large tensors' outer axes only the
 * first. */
enum { EDGE = 3, LONGEST = 12, LARGE = 300 };

char *tensor_type_text(const reed_tensor *tensor, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, "%s[", reed_dtype_name(reed_tensor_dtype(tensor)));
  for (int32_t i = 0; i < reed_tensor_rank(tensor) && n < capacity; i++)
    n += (size_t)snprintf(out + n, capacity - n, i ? ",%" PRId64 : "%" PRId64, reed_tensor_dims(tensor)[i]);
  if (n < capacity) snprintf(out + n, capacity - n, "]");
  return out;
}

char *info_type_text(const reed_value_info *info, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, "%s[", info->dtype == REED_NONE ? "any" : reed_dtype_name(info->dtype));
  if (info->rank < 0 && n < capacity) n += (size_t)snprintf(out + n, capacity - n, "...");
  for (int32_t i = 0; i < info->rank && n < capacity; i++) {
    const char *comma = i ? "," : "";
    if (info->dims[i] >= 0) n += (size_t)snprintf(out + n, capacity - n, "%s%" PRId64, comma, info->dims[i]);
    else
      n += (size_t)snprintf(out + n, capacity - n, "%s%s", comma,
                            info->symbols[i] && *info->symbols[i] ? plain(info->symbols[i]) : "?");
  }
  if (n < capacity) snprintf(out + n, capacity - n, "]");
  return out;
}

char *element_text(const reed_tensor *tensor, int64_t i, char *out, size_t capacity) {
  reed_dtype dtype = reed_tensor_dtype(tensor);
  const char *element = (const char *)reed_tensor_data(tensor) + (size_t)i * reed_dtype_bytes(dtype);
  switch (dtype) {
    case REED_BOOL: snprintf(out, capacity, "%s", *element ? "true" : "false"); return out;
    case REED_F64: snprintf(out, capacity, "%.10g", reed_dtype_read(dtype, element)); return out;
    case REED_F32: snprintf(out, capacity, "%.7g", reed_dtype_read(dtype, element)); return out;
    case REED_F16:
    case REED_BF16: snprintf(out, capacity, "%.4g", reed_dtype_read(dtype, element)); return out;
    case REED_I64: snprintf(out, capacity, "%" PRId64, *(const int64_t *)element); return out;
    case REED_U64: snprintf(out, capacity, "%" PRIu64, *(const uint64_t *)element); return out;
    default: snprintf(out, capacity, "%.0f", reed_dtype_read(dtype, element)); return out;
  }
}

static void print_axis(FILE *out, const reed_tensor *t, int32_t axis, int64_t begin, int64_t span, int indent) {
  int64_t extent = reed_tensor_dims(t)[axis], step = extent ? span / extent : 0;
  int32_t inner = reed_tensor_rank(t) - axis;
  bool innermost = inner == 1, outer = inner > 2 && reed_tensor_elements(t) > LARGE;
  int64_t head = outer ? 1 : extent > LONGEST ? EDGE : extent, tail = outer || head == extent ? 0 : EDGE;
  fputc('[', out);
  for (int64_t i = 0; i < extent; i++) {
    if (i == head && head + tail < extent) {
      fprintf(out, innermost ? " ..." : "\n%*s...", indent + 1, "");
      i = extent - tail;
      if (tail == 0) break;
    }
    if (innermost) {
      char text[64];
      fprintf(out, "%s%s", i ? " " : "", element_text(t, begin + i, text, sizeof text));
    } else {
      if (i) fprintf(out, "\n%*s", indent + 1, "");
      print_axis(out, t, axis + 1, begin + i * step, step, indent + 1);
    }
  }
  fputc(']', out);
}

void print_tensor(FILE *out, const char *name, const reed_tensor *tensor) {
  char text[200];
  fprintf(out, "%s %s", plain(name), tensor_type_text(tensor, text, sizeof text));
  if (reed_tensor_rank(tensor) == 0) fprintf(out, " %s", element_text(tensor, 0, text, sizeof text));
  else if (reed_tensor_elements(tensor) > 0) {
    fputs("\n  ", out);
    print_axis(out, tensor, 0, 0, reed_tensor_elements(tensor), 2);
  }
  fputc('\n', out);
}

/* ---- tables ---- */

void table_add(table *t, const char *format, ...) {
  char *cell = NULL, **cells = realloc(t->cells, (t->n_cells + 1) * sizeof *cells);
  va_list arguments;
  va_start(arguments, format);
  if (!cells || vasprintf(&cell, format, arguments) < 0) exit(FAILED_RUN);
  va_end(arguments);
  t->cells = cells;
  t->cells[t->n_cells++] = cell;
}

static bool is_number(const char *text) {
  char *end;
  strtod(text, &end);
  return end == text + strlen(text) || strcmp(text, "-") == 0;
}

void table_print(FILE *out, table *t) {
  size_t columns = (size_t)t->n_columns, rows = t->n_cells / columns;
  size_t *width = need(columns, sizeof *width);
  bool *right = need(columns, sizeof *right);
  for (size_t k = 0; k < columns; k++) {
    right[k] = rows > 1;
    for (size_t i = 0; i < rows; i++) {
      const char *cell = plain(t->cells[i * columns + k]);
      if (strlen(cell) > width[k]) width[k] = strlen(cell);
      if (i && !is_number(cell)) right[k] = false;
    }
  }
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < columns; k++) {
      bool last = k + 1 == columns;
      const char *cell = plain(t->cells[i * columns + k]);
      if (right[k]) fprintf(out, "%*s", (int)width[k], cell);
      else fprintf(out, "%-*s", last ? 0 : (int)width[k], cell);
      fputs(last ? "\n" : "  ", out);
    }
  for (size_t i = 0; i < t->n_cells; i++) free(t->cells[i]);
  free(t->cells);
  free(width);
  free(right);
  *t = (table){.n_columns = t->n_columns};
}
