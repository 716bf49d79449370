/* Helpers of the whole `vm` command: exit statuses, complaints, files, suggestions, progress. tools/ uses only
 * include/reed/ of the libraries, so that the command proves that the public API is enough; JSON is written with
 * base/json.h as everywhere. */
#ifndef TOOLS_TOOL_H_
#define TOOLS_TOOL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "reed/reed.h"

/* Exit statuses of the process; scripts rely on the numbers. */
enum {
  DONE = 0,         /* and everything as expected */
  DIFFERENT = 1,    /* results differ, or a case failed */
  MISUSE = 2,       /* the command line is wrong */
  BAD_FILE = 3,     /* a file or model that can not be used, or not be written */
  FAILED_RUN = 4,   /* shapes, memory, device */
  INTERRUPTED = 130 /* by a signal */
};

/* The reason why a command stops. Built once, at the fault; main prints it. */
typedef struct complaint {
  int exit_status;
  char text[4096];
} complaint;

/* Fills *c and returns exit_status. */
int complain(complaint *c, int exit_status, const char *format, ...) REED_PRINTF(3, 4);
/* Complains with a library call's diagnosis: "<what>: <message>" and the place. `exit_status` is that of the kind of
 * call (BAD_FILE or FAILED_RUN); failures of memory and devices are always FAILED_RUN. Returns the status chosen. */
int complain_diagnosis(complaint *c, int exit_status, const char *what, reed_status status,
                       const reed_diagnosis *diagnosis);
/* Appends to the text. */
void complain_more(complaint *c, const char *format, ...) REED_PRINTF(2, 3);

_Noreturn void no_memory(void);
/* Zeroed memory for n items; without memory the command reports this and ends with FAILED_RUN. */
void *need(size_t n, size_t bytes);
char *need_text(const char *text);
reed_diagnosis *need_diagnosis(void);

/* ", did you mean 'x'?" into out for the candidate nearest to `word`, or "" if none is near. candidates: n of them.
 * Returns out. */
char *suggestion(const char *word, const char *const *candidates, size_t n, char *out, size_t capacity);

/* Reads a whole file; the caller frees *out_bytes, which has a NUL after its n bytes. The path names a regular file
 * that fits into the machine's memory, or is "-": standard input of any kind, up to a gigabyte. A file that was read
 * is protected (target_protect). BAD_FILE. */
int file_read(const char *path, char **out_bytes, size_t *out_n, complaint *c);
/* A file that is being written. Closing replaces the file in one step and on the disk: readers see the old or the new
 * contents, never a mixture, and no end of the command leaves another file. "-" and paths that are no regular file
 * (/dev/null) are written in place. */
typedef struct target_file {
  const char *path; /* borrowed */
  char *temporary;  /* NULL: written in place */
  int fd, failed;   /* failed: errno of the first failure */
} target_file;
/* On failure BAD_FILE, and there is nothing to close. */
int target_open(target_file *t, const char *path, complaint *c);
/* False after any failure; target_close reports the first one. */
bool target_write(target_file *t, const void *bytes, size_t n);
/* Protects a path that the output must not replace: a target that is the same file, under this or another name, is then
 * refused when it is closed. A regular file that this process has written is protected as well, so that two results
 * never share one file. */
void target_protect(const char *source);
/* BAD_FILE on failure. keep false: the file stays as it was. */
int target_close(target_file *t, bool keep, complaint *c);
/* Writes the whole file. BAD_FILE. */
int file_write(const char *path, const void *bytes, size_t n, complaint *c);
/* Writes the finished document and frees it. BAD_FILE, FAILED_RUN. */
int file_write_json(const char *path, json_writer *json, complaint *c);
/* Ends with ".<extension>", upper or lower case. */
bool has_extension(const char *path, const char *extension);

/* Microseconds of a clock that only runs forward. */
double now_us(void);
/* Resources used by the process so far: the most memory that was resident at once, and the page faults without disk. */
typedef struct usage {
  int64_t peak_resident_bytes, page_faults;
} usage;
usage usage_now(void);
/* "1.25 ms" */
char *text_us(double us, char *out, size_t capacity);
/* "3.4 MiB" */
char *text_bytes(double bytes, char *out, size_t capacity);

/* Shows a line on standard error, on a terminal only; the next one overwrites it. done 0..1. */
void progress(const char *what, double done);
/* Wipes the progress line. */
void progress_end(void);

/* A growing list of words, borrowed. */
typedef struct words {
  const char **items;
  size_t n;
} words;
void words_add(words *w, const char *word);
void words_fini(words *w);

#endif
