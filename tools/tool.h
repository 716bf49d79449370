/* What every part of the `vm` command shares: exit statuses, complaints, files, suggestions, progress. Of the libraries
 * tools/ sees include/reed/ only, so that the command proves that the public API is enough; JSON is written with
 * base/json.h as everywhere. */
#ifndef TOOLS_TOOL_H_
#define TOOLS_TOOL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "reed/reed.h"

/* What the process ends with; scripts rely on the numbers. */
enum {
  DONE = 0,         /* and everything as expected */
  DIFFERENT = 1,    /* results differ, or a case failed */
  MISUSE = 2,       /* the command line is wrong */
  BAD_FILE = 3,     /* a file or model that can not be used, or not be written */
  FAILED_RUN = 4,   /* shapes, memory, device */
  INTERRUPTED = 130 /* by a signal */
};

/* Why a command stops. Built once, at the fault, and printed by main. */
typedef struct complaint {
  int exit_status;
  char text[4096];
} complaint;

/* Fills *c and returns exit_status. */
int complain(complaint *c, int exit_status, const char *format, ...) REED_PRINTF(3, 4);
/* Complains with a library call's diagnosis: "<what>: <message>" and the place. `exit_status` says which kind of call
 * failed (BAD_FILE or FAILED_RUN); memory and devices are always FAILED_RUN. Returns the status chosen. */
int complain_diagnosis(complaint *c, int exit_status, const char *what, reed_status status,
                       const reed_diagnosis *diagnosis);
/* Appends to the text. */
void complain_more(complaint *c, const char *format, ...) REED_PRINTF(2, 3);

_Noreturn void no_memory(void);
/* Zeroed memory for n items; a tool without memory says so and ends with FAILED_RUN. */
void *need(size_t n, size_t bytes);
char *need_text(const char *text);
reed_diagnosis *need_diagnosis(void);

/* ", did you mean 'x'?" into out for the candidate nearest to `word`, or "" where none is near. candidates: n of them.
 * Returns out. */
char *suggestion(const char *word, const char *const *candidates, size_t n, char *out, size_t capacity);

/* The whole file; *out_bytes is free()d by the caller and has a NUL behind its n bytes. It is a regular file that fits
 * into the machine's memory, or "-": standard input, whatever it is, up to a gigabyte. BAD_FILE. */
int file_read(const char *path, char **out_bytes, size_t *out_n, complaint *c);
/* A file being written. It is replaced in one step when it is closed, and then it is on the disk: readers see the old
 * or the new contents, never half, and whatever ends the command leaves no other file. "-" and things that are no
 * regular file (/dev/null) are written to as they are. */
typedef struct target_file {
  const char *path; /* borrowed */
  char *temporary;  /* NULL: written in place */
  int fd, failed;   /* failed: errno of the first failure */
} target_file;
/* BAD_FILE, and nothing to close. */
int target_open(target_file *t, const char *path, complaint *c);
/* False once something has failed, which closing says. */
bool target_write(target_file *t, const void *bytes, size_t n);
/* A path that must not be replaced by what is made of it: once this has been told of it, a target that is the same
 * file, under this or another name, is refused when it is closed. */
void target_protect(const char *source);
/* BAD_FILE; keep false: the file stays as it was. */
int target_close(target_file *t, bool keep, complaint *c);
/* All of it at once. BAD_FILE. */
int file_write(const char *path, const void *bytes, size_t n, complaint *c);
/* The finished document, which is gone afterwards. BAD_FILE, FAILED_RUN. */
int file_write_json(const char *path, json_writer *json, complaint *c);
/* Ends with ".<extension>", upper or lower case. */
bool has_extension(const char *path, const char *extension);

/* Microseconds of a clock that only runs forward. */
double now_us(void);
/* What the process has used so far: the most memory that was resident at once, and pages that were given to it (page
 * faults without disk). */
typedef struct usage {
  int64_t peak_resident_bytes, page_faults;
} usage;
usage usage_now(void);
/* "1.25 ms" */
char *text_us(double us, char *out, size_t capacity);
/* "3.4 MiB" */
char *text_bytes(double bytes, char *out, size_t capacity);

/* A line on standard error that the next one overwrites, on a terminal only. done 0..1. */
void progress(const char *what, double done);
/* Wipes it. */
void progress_end(void);

/* A growing list of words, borrowed. */
typedef struct words {
  const char **items;
  size_t n;
} words;
void words_add(words *w, const char *word);
void words_fini(words *w);

#endif
