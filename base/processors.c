/* Counts CPUs (processors.h): the affinity mask, and the CPU time that control groups, version 1 or 2, allow the
 * process. */
#include "base/processors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t processors_in_affinity(void) {
  for (int n = 1024; n <= 1 << 20; n *= 2) { /* a mask that is too small for the system is refused */
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) break;
    int count = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;
    CPU_FREE(set);
    if (count) return count;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < INT32_MAX ? (int32_t)online : 1;
}

void processors_leave(int32_t cpu, processors_off *off) {
  cpu_set_t whole;
  if (off->refused || cpu < 0 || cpu >= CPU_SETSIZE) return;
  off->refused = sched_getaffinity(0, sizeof whole, &whole) != 0; /* a system of more CPUs than the mask has */
  if (off->refused) return;
  if (off->left && CPU_EQUAL(&whole, &off->rest)) whole = off->whole;
  cpu_set_t rest = whole;
  CPU_CLR(cpu, &rest);
  if (CPU_COUNT(&rest) == 0) return;
  off->refused = sched_setaffinity(0, sizeof rest, &rest) != 0;
  if (off->refused) return;
  off->left = true;
  off->whole = whole;
  off->rest = rest;
}

/* The first line of a file, or false. */
static bool read_line(const char *path, char *line, size_t n_bytes) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fgets(line, (int)n_bytes, file) != NULL;
  fclose(file);
  return ok;
}

/* CPUs of a quota of `quota` microseconds per `period`, rounded up; 0: no limit. */
static int32_t of_quota(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0; /* also for NaN */
  double n = quota / period;
  return n >= INT32_MAX ? 0 : (int32_t)n + (n > (double)(int32_t)n);
}

/* The limit that one control group sets itself; 0: none. */
static int32_t group_limit(const char *folder, bool second) {
  char path[8400], line[128], word[64];
  double quota = 0, period = 0;
  if (second) {
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%63s %lf", word, &period) != 2) return 0;
    return strcmp(word, "max") == 0 ? 0 : of_quota(strtod(word, NULL), period);
  }
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!read_line(path, line, sizeof line)) return 0;
  quota = strtod(line, NULL);
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  if (!read_line(path, line, sizeof line)) return 0;
  period = strtod(line, NULL);
  return of_quota(quota, period);
}

static int32_t lower(int32_t a, int32_t b) { return !a ? b : !b || a < b ? a : b; }

/* The least limit of the group `folder` and those around it, up to `root`. A container sees its own group as the root.
 */
static int32_t least_limit(char *folder, size_t n_root, bool second) {
  int32_t least = 0;
  for (;;) {
    least = lower(least, group_limit(folder, second));
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < n_root) return least;
    *slash = 0;
  }
}

/* True if the comma-separated list has the word "cpu". */
static bool lists_cpu(const char *list) {
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ",");
    if (n == 3 && strncmp(at, "cpu", 3) == 0) return true;
    at += n + (at[n] == ',');
  }
  return false;
}

int32_t processors_of_groups(const char *root) {
  char path[4096], line[4096];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  int32_t least = 0;
  while (file && fgets(line, sizeof line, file)) { /* number:controllers:path */
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    controllers++;
    bool second = *controllers == 0;
    if (!second && !lists_cpu(controllers)) continue;
    /* where systems mount them: version 2 alone or beside version 1; the controller under its name or under the list's
     */
    const char *mounts[2] = {second ? "" : "cpu", second ? "unified" : controllers};
    for (int i = 0; i < 2; i++) {
      char folder[8300];
      int n = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root, *mounts[i] ? "/" : "", mounts[i]);
      snprintf(folder + n, sizeof folder - (size_t)n, "%s", strcmp(group, "/") == 0 ? "" : group);
      least = lower(least, least_limit(folder, (size_t)n, second));
    }
  }
  if (file) fclose(file);
  return least;
}

int32_t processors_count(void) { return lower(processors_in_affinity(), processors_of_groups("")); }
