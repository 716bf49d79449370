/* Kernels' resources by the compilers. Each kernel has rows in ptxas.tsv, for every compute capability of the table but
 * at most one, because tensor cores begin with 8.0. The registers and the shared memory there leave room for a block of
 * the threads of kernels.def, whose number is the emulation's limit, too; and in the PTX that the module embeds the
 * args struct has the size and alignment that the host's compiler gives it.
 *
 * usage: test_resources PTXAS.tsv [FILE.ptx...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/kernels/kernel.h"

/* CUDA programming guide, "Technical specifications per compute capability": registers of a block, dealt to a warp's
 * threads by eights. */
enum { REGISTERS = 65536, REGISTER_UNIT = 8, WARP = 32, STATIC_SHARED = 49152 };

static int n_faults;

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static const cuda_kernel_info *info_of(const char *name) {
  for (int k = 0; k < CUDA_KERNELS; k++)
    if (strcmp(cuda_kernel_infos[k].name, name) == 0) return &cuda_kernel_infos[k];
  printf("%s is not in kernels.def\n", name);
  n_faults++;
  return NULL;
}

static FILE *open_text(const char *path) {
  FILE *file = fopen(path, "r");
  if (file) return file;
  printf("%s cannot be read\n", path);
  exit(1);
}

static void check_table(const char *path) {
  FILE *file = open_text(path);
  char line[1024], name[256], capability[16];
  int registers, spilled, shared, n_rows = 0, of_kernel[CUDA_KERNELS] = {0}, most = 0;
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#' || sscanf(line, "%255s %15s %d %d %d", name, capability, &registers, &spilled, &shared) != 5)
      continue;
    const cuda_kernel_info *info = info_of(name);
    if (!info) continue;
    const int64_t all = up(registers, REGISTER_UNIT) * up(info->threads, WARP);
    n_rows++;
    int *const rows = &of_kernel[info - cuda_kernel_infos];
    if (++*rows > most) most = *rows;
    if (all <= REGISTERS && shared <= STATIC_SHARED) continue;
    printf("%s for %s: %u threads of %d registers, %d bytes of shared memory\n", name, capability, info->threads,
           registers, shared);
    n_faults++;
  }
  fclose(file);
  printf("%d kernels and capabilities fit a block\n", n_rows - n_faults);
  for (int k = 0; k < CUDA_KERNELS; k++) {
    if (most > 1 && of_kernel[k] >= most - 1) continue;
    printf("%s has %d rows, another kernel %d\n", cuda_kernel_infos[k].name, of_kernel[k], most);
    n_faults++;
  }
}

/* Reads the lines of an entry before its body: its name, the parameter, the greatest block. The number of parameters.
 */
static int check_ptx(const char *path) {
  FILE *file = open_text(path);
  char line[4096], name[256];
  const cuda_kernel_info *info = NULL;
  unsigned align, bytes, threads;
  int n = 0;
  while (fgets(line, sizeof line, file)) {
    const char *entry = strstr(line, ".entry ");
    if (entry && sscanf(entry, ".entry %255[^( ]", name) == 1) info = info_of(name);
    if (line[0] == '{') info = NULL;
    if (!info) continue;
    if (sscanf(line, " .param .align %u .b8 %255[^[][%u]", &align, name, &bytes) == 3) {
      n++;
      if (align != info->args_align || bytes != info->args_bytes) {
        printf("%s: args of %u bytes aligned to %u, the host has %u and %u\n", info->name, bytes, align,
               info->args_bytes, info->args_align);
        n_faults++;
      }
    }
    if (sscanf(line, " .maxntid %u", &threads) == 1 && threads != info->threads) {
      printf("%s: blocks of %u threads, kernels.def has %u\n", info->name, threads, info->threads);
      n_faults++;
    }
  }
  fclose(file);
  return n;
}

int main(int argc, char **argv) {
  int n = 0;
  if (argc < 2) return 1;
  check_table(argv[1]);
  for (int i = 2; i < argc; i++) n += check_ptx(argv[i]);
  if (argc > 2) printf("%d of %d structs in PTX\n", n, (int)CUDA_KERNELS);
  return n_faults > 0 || (argc > 2 && n != CUDA_KERNELS);
}
