/* A counting heap for tests: installs itself as Reed's allocator, counts blocks and calls, and makes the n-th request
 * fail.
 *
 *   alloc_hook_begin();
 *   ... make things; close them ...
 *   ck_assert_int_eq(alloc_hook_end(), 0);            nothing leaked
 *
 * Failing every allocation of an operation once, which is how a test shows that each failure is reported and leaks
 * nothing:
 *
 *   for (int64_t n = 1;; n++) {
 *     alloc_hook_begin();
 *     alloc_hook_fail_at(n);
 *     reed_status status = ... the operation, closed again if it succeeded ...
 *     bool reached = alloc_hook_failed();
 *     ck_assert_int_eq(alloc_hook_end(), 0);
 *     if (!reached) break;                            the operation makes fewer than n requests: it must have succeeded
 *     ck_assert_int_eq(status, REED_ERROR_MEMORY);
 *   }
 *
 * begin and end are called while no Reed object lives; the counters may be read at any time, and blocks come and go on
 * any thread. */
#ifndef TESTS_ALLOC_HOOK_H_
#define TESTS_ALLOC_HOOK_H_

#include <stdbool.h>
#include <stdint.h>

/* Installs the hook with all counters at zero and nothing set to fail. */
void alloc_hook_begin(void);
/* Restores the C library's heap; the number of blocks that were never released. */
int64_t alloc_hook_end(void);

/* The n-th request from now (counting from 1) fails, once; 0: none. */
void alloc_hook_fail_at(int64_t n);
/* The n-th request from now raises *flag, once; flag NULL: none. */
void alloc_hook_raise_at(int64_t n, int *flag);
/* True once the request that was to fail has been made. */
bool alloc_hook_failed(void);

/* Requests (allocations and resizes, failed ones too) since begin: a stretch that takes nothing from the heap leaves it
 * unchanged. */
int64_t alloc_hook_requests(void);
/* Bytes of the largest request since begin. */
int64_t alloc_hook_largest(void);
/* Blocks handed out and not released. */
int64_t alloc_hook_live(void);

#endif
