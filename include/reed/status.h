/* Status codes and the diagnosis object.
 *
 * Every function that can fail returns a `reed_status` (0 or negative). Functions that take a `reed_diagnosis *` also
 * report the error's text and place: the caller opens one diagnosis, passes it to as many calls as it likes (NULL: not
 * wanted), and reads it after a failure. There is no global or thread-local error state. */
#ifndef REED_STATUS_H_
#define REED_STATUS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REED_MUST_CHECK __attribute__((warn_unused_result))
#define REED_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))
#define REED_API __attribute__((visibility("default")))
#else
#define REED_MUST_CHECK
#define REED_PRINTF(format_index, first_arg)
#define REED_API
#endif

/* name, value, text for a person */
#define REED_STATUS_LIST(X) \
  X(OK, 0, "ok") \
  X(ERROR_ARGUMENT, -1, "the calling program misused a function") \
  X(ERROR_IO, -2, "a file could not be read or written") \
  X(ERROR_FORMAT, -3, "a file is damaged or not what it says it is") \
  X(ERROR_VERSION, -4, "a file needs a newer version or a feature not known here") \
  X(ERROR_UNSUPPORTED, -5, "an operator, attribute or dtype is not supported") \
  X(ERROR_TYPE, -6, "dtypes or kinds do not agree") \
  X(ERROR_SHAPE, -7, "shapes do not agree") \
  X(ERROR_VALUE, -8, "an element's value is not allowed") \
  X(ERROR_MEMORY, -9, "out of memory, or over the memory cap") \
  X(ERROR_DEVICE, -10, "a device failed or is not there") \
  X(ERROR_LIMIT, -11, "over a limit: call depth or instruction budget") \
  X(ERROR_CANCELLED, -12, "cancelled by the caller") \
  X(ERROR_FAILED, -13, "the program executed a fail instruction")

typedef enum reed_status {
#define REED_STATUS_ENUM_(name, value, text) REED_##name = value,
  REED_STATUS_LIST(REED_STATUS_ENUM_)
#undef REED_STATUS_ENUM_
} reed_status;

/* The status's name, such as "REED_ERROR_SHAPE"; "REED_ERROR_?" for a number that is no status. Static storage. */
REED_API const char *reed_status_name(reed_status status);
/* One sentence about the status for a person. Static storage. */
REED_API const char *reed_status_text(reed_status status);

typedef struct reed_diagnosis reed_diagnosis;

/* Gives an empty diagnosis, to be closed with reed_diagnosis_close. ERROR_MEMORY when there is no memory. */
REED_API REED_MUST_CHECK reed_status reed_diagnosis_open(reed_diagnosis **out_diagnosis);
/* Closes the diagnosis and sets the pointer to NULL. */
REED_API void reed_diagnosis_close(reed_diagnosis **diagnosis);
/* Empties the diagnosis, for reuse. */
REED_API void reed_diagnosis_clear(reed_diagnosis *diagnosis);

/* The parts of the last error. Strings live until the next clear, failing call or close; an unknown part is "" (or -1).
 */
REED_API reed_status reed_diagnosis_status(const reed_diagnosis *diagnosis);
REED_API const char *reed_diagnosis_message(const reed_diagnosis *diagnosis);
REED_API const char *reed_diagnosis_function(const reed_diagnosis *diagnosis); /* bytecode function */
REED_API int64_t reed_diagnosis_pc(const reed_diagnosis *diagnosis); /* offset in code units within the function */
REED_API const char *reed_diagnosis_operator(const reed_diagnosis *diagnosis); /* "Reshape" */
REED_API const char *reed_diagnosis_node(const reed_diagnosis *diagnosis);     /* ONNX node name */
REED_API const char *reed_diagnosis_input(const reed_diagnosis *diagnosis);    /* operator's or model's input */

#ifdef __cplusplus
}
#endif
#endif
