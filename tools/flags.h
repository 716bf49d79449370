/* Declarative flags: a command lists its flags, and parsing, help and "did you mean" follow from the list. */
#ifndef TOOLS_FLAGS_H_
#define TOOLS_FLAGS_H_

#include "tools/tool.h"

typedef enum flag_type {
  FLAG_SWITCH,  /* bool */
  FLAG_TEXT,    /* const char * */
  FLAG_TARGET,  /* const char *: the path of a file that the command writes (target_announce) */
  FLAG_CHOICE,  /* const char *, one of `choices` */
  FLAG_DEVICES, /* const char *: devices with commas between: each one of `choices`, perhaps with :NUMBER or ?OPTIONS,
                   or a module's path */
  FLAG_WORDS,   /* words: may be given any number of times */
  FLAG_INT,     /* int64_t, minimum .. maximum */
  FLAG_BYTES,   /* int64_t from 0 on; k, M or G (powers of 1024) may follow */
  FLAG_REAL,    /* double, finite, not negative */
  FLAG_TRIPLE,  /* double[3], finite: "a,b,c" or one number for all three */
  FLAG_DIVISORS /* the same, none of them 0 */
} flag_type;

typedef struct flag {
  const char *name, *short_name; /* "--input" and "-i"; either may be NULL, not both */
  flag_type type;
  size_t offset;              /* of the field in the struct that flags_parse fills */
  const char *argument;       /* the value's name in the help; NULL for switches */
  const char *help;           /* NULL: not shown in the help */
  const char *const *choices; /* the choices that help shows, NULL, the hidden choices, NULL */
  int64_t minimum, maximum;
} flag;

/* Fills the fields of *target from the flags among the arguments, and appends all other arguments to *positional.
 * `flags` ends with a row of NULL names. Forms: "--flag=value", "--flag value", "-f value", and "--" before arguments
 * that start with a dash. MISUSE. */
int flags_parse(const flag *flags, int n_arguments, const char *const *arguments, void *target, words *positional,
                complaint *c);

/* The flag's name in messages. */
const char *flag_name(const flag *f);

/* Frees the memory of FLAG_WORDS fields. */
void flags_fini(const flag *flags, void *target);

/* Strict numbers: the whole text must be a number. Messages are the caller's. */
bool parse_int(const char *text, int64_t *out_value);
bool parse_real(const char *text, double *out_value);

#endif
