/* Reading whole files, and replacing files in one step. */
#ifndef TOOLS_FILES_H_
#define TOOLS_FILES_H_

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "tools/complaint.h"

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
/* Says before the work that the path will be written with the flag's result. MISUSE if another target is the same file,
 * or standard output as well, BAD_FILE if the path's folder is missing or must not be written. `flag` is kept. */
int target_announce(const char *path, const char *flag, complaint *c);
/* True if a result goes to standard output, which then has nothing else. */
bool target_is_printed(void);
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

#endif
