/* Tensors and JSON as text for people. */
#ifndef TOOLS_PRINT_H_
#define TOOLS_PRINT_H_

#include <stdio.h>

#include "tools/tool.h"

/* "f32[2,3]" */
char *tensor_type_text(const reed_tensor *tensor, char *out, size_t capacity);
/* "f32[3,height,width]": of a model's input or output. */
char *info_type_text(const reed_value_info *info, char *out, size_t capacity);
/* Element i with as many digits as its dtype holds. */
char *element_text(const reed_tensor *tensor, int64_t i, char *out, size_t capacity);
/* "name f32[2,3]" and the elements, the middle of long axes left out. */
void print_tensor(FILE *out, const char *name, const reed_tensor *tensor);

/* A table whose columns are as wide as they must be. Rows are added cell by cell; the first row is the heading. */
typedef struct table {
  int n_columns;
  char **cells; /* owned */
  size_t n_cells;
} table;
void table_add(table *t, const char *format, ...) REED_PRINTF(2, 3);
/* Prints the table and frees its cells. Columns whose cells (below the heading) are all numbers or empty are
 * right-aligned. */
void table_print(FILE *out, table *t);

#endif
