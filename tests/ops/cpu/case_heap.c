/* The heap requests of preparing a kernel. The C library's functions are replaced in the test's program, so that the
 * blocks of a row (base/rows.h), in which a session prepares its kernels, are no requests. */
#include <stdlib.h>

#include "base/rows.h"
#include "tests/ops/cpu/case_parts.h"

static _Thread_local int64_t n_requests;

/* Nothing is counted where the build says so, with other C libraries, which have no such names, and with a sanitizer,
 * whose heap is its own and has no rows. */
#if defined(__GLIBC__) && !defined(CASES_COUNT_NO_HEAP) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
enum { COUNTS_REQUESTS = true };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

void *malloc(size_t bytes) {
  n_requests++;
  return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
  n_requests++;
  return __libc_calloc(n, bytes);
}

void *realloc(void *block, size_t bytes) {
  n_requests++;
  return __libc_realloc(block, bytes);
}
#else
enum { COUNTS_REQUESTS = false };
#endif

/* The requests of preparing the call in the row. */
static int64_t requests_of(const case_call *made, mem_row *row) {
  reed_kernel kernel = {0};
  mem_row *before = rows_use(row);
  const int64_t begin = n_requests;
  const reed_status status = op_call_prepare(&made->call, &kernel);
  const int64_t n = n_requests - begin;
  (void)rows_use(before);
  if (status == REED_OK && kernel.free) kernel.free(kernel.state);
  return n;
}

/* Operators whose states have tables of the extents, which may be larger than a row's blocks. */
static const op_id with_tables[] = {OP_Conv, OP_Pad, OP_Resize};

/* The most requests: of blocks that are larger than a row's, whose bytes the kernel tells. */
static int64_t most_requests(const case_call *made, const reed_kernel *kernel) {
  for (int i = 0; i < ROWS(with_tables); i++)
    if (made->call.op == op_builtin(with_tables[i])) return kernel->state_bytes / ROWS_BLOCK_MOST;
  return 0;
}

reed_status case_prepare(kernel_case *c, const case_call *made, bool is_reference, reed_kernel *out_kernel) {
  const reed_status status = op_call_prepare(&made->call, out_kernel);
  if (status != REED_OK || is_reference || !COUNTS_REQUESTS) return status;
  mem_row row = {0};
  (void)requests_of(made, &row); /* opens a page of the row */
  const int64_t n = requests_of(made, &row), most = most_requests(made, out_kernel);
  rows_close(&row);
  if (n > most) {
    const int64_t bytes = out_kernel->state_bytes;
    if (out_kernel->free) out_kernel->free(out_kernel->state);
    *out_kernel = (reed_kernel){0};
    case_fail(c, "to prepare it took %lld blocks from the heap, its state has %lld bytes", (long long)n,
              (long long)bytes);
  }
  return REED_OK;
}
