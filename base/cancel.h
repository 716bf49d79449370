/* A flag that asks long work to end: 0, or anything else from another thread or a signal handler. Work polls the flag
 * and ends with ERROR_CANCELLED; the code that raises the flag lowers it again. */
#ifndef BASE_CANCEL_H_
#define BASE_CANCEL_H_

#include <stdbool.h>

/* True if the flag is raised. NULL: never. */
static inline bool cancel_asked(const int *flag) { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED); }
/* Work without natural steps polls once for so many bytes or elements, which take some milliseconds. */
#define CANCEL_BYTES ((int64_t)16 << 20)
#define CANCEL_ELEMENTS ((int64_t)1 << 20)
static inline void cancel_set(int *flag, bool asked) { __atomic_store_n(flag, asked, __ATOMIC_RELAXED); }

#endif
