/* NumPy's .npy files (format versions 1 to 3, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
 */
#ifndef TOOLS_NPY_H_
#define TOOLS_NPY_H_

#include "tools/tool.h"

/* Reads the array in `bytes`: every dtype of Reed in either byte order; Fortran order becomes row-major. Two bytes of
 * unknown kind (V2), the form in which bf16 extensions save, are read as bf16. Structured, complex, string and object
 * arrays are refused by name. BAD_FILE; `name` is for messages. */
int npy_read(const char *name, const void *bytes, size_t n, reed_tensor **out_tensor, complaint *c);
/* The tensor as file contents, format version 1; free()d by the caller. NumPy has no bf16: such a tensor is written as
 * f32, which holds every value exactly. */
void npy_write(const reed_tensor *tensor, char **out_bytes, size_t *out_n);

#endif
