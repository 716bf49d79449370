/* Comparing tensors with tolerances (compare.h). Integers are compared as integers, because doubles cannot hold all of
 * them. */
#include "tools/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/flags.h"
#include "tools/plain.h"
#include "tools/print.h"

enum { SHOWN_MISMATCHES = 5 };

static bool is_float(reed_dtype d) { return d == REED_F32 || d == REED_F64 || d == REED_F16 || d == REED_BF16; }

static void print_type(FILE *out, const reed_tensor *t) {
  char text[200];
  fputs(tensor_type_text(t, text, sizeof text), out);
}

static void print_index(FILE *out, const reed_tensor *t, int64_t i) {
  int64_t index[REED_MAX_RANK];
  for (int32_t k = reed_tensor_rank(t) - 1; k >= 0; k--) {
    index[k] = i % reed_tensor_dims(t)[k];
    i /= reed_tensor_dims(t)[k];
  }
  fputc('[', out);
  for (int32_t k = 0; k < reed_tensor_rank(t); k++) fprintf(out, k ? ",%" PRId64 : "%" PRId64, index[k]);
  fputc(']', out);
}

static bool same_shape(const reed_tensor *a, const reed_tensor *b) {
  return reed_tensor_rank(a) == reed_tensor_rank(b) &&
         memcmp(reed_tensor_dims(a), reed_tensor_dims(b), sizeof(int64_t) * (size_t)reed_tensor_rank(a)) == 0;
}

/* Compares one pair of elements: the absolute error, and whether the pair is within the tolerance. */
static bool agrees(const reed_tensor *got, const reed_tensor *want, int64_t i, tolerance t, double *out_error,
                   double *out_want) {
  reed_dtype gd = reed_tensor_dtype(got), wd = reed_tensor_dtype(want);
  const char *g = (const char *)reed_tensor_data(got) + (size_t)i * reed_dtype_bytes(gd);
  const char *w = (const char *)reed_tensor_data(want) + (size_t)i * reed_dtype_bytes(wd);
  double a = reed_dtype_read(gd, g), b = reed_dtype_read(wd, w);
  *out_want = b;
  *out_error = 0;
  if (isinf(t.atol)) return true;
  if (a == b && is_float(wd)) return true;
  if (!is_float(wd) && memcmp(g, w, reed_dtype_bytes(wd)) == 0) return true;
  if (isnan(a) && isnan(b)) return true;
  *out_error = isnan(a) || isnan(b) || isinf(a) || isinf(b) ? INFINITY : fabs(a - b);
  if (*out_error == 0) *out_error = 1; /* 64-bit integers nearer to each other than a double can tell */
  return !isinf(*out_error) && *out_error <= t.atol + t.rtol * fabs(b);
}

bool compare_tensors(const char *name, const reed_tensor *got, const reed_tensor *want, tolerance t, FILE *out) {
  reed_dtype gd = reed_tensor_dtype(got), wd = reed_tensor_dtype(want);
  if (!same_shape(got, want) || (gd != wd && !(is_float(gd) && is_float(wd)))) {
    if (out) {
      fprintf(out, "%s: got ", plain(name));
      print_type(out, got);
      fputs(", want ", out);
      print_type(out, want);
      fputc('\n', out);
    }
    return false;
  }
  int64_t n = reed_tensor_elements(got), n_wrong = 0, first[SHOWN_MISMATCHES], worst = 0;
  double largest = 0, largest_relative = 0;
  for (int64_t i = 0; i < n; i++) {
    double error, reference;
    bool ok = agrees(got, want, i, t, &error, &reference);
    if (!ok && n_wrong < SHOWN_MISMATCHES) first[n_wrong] = i;
    if (!ok) n_wrong++;
    if (error > largest) largest = error, worst = i;
    double relative = error / fabs(reference);
    if (error > 0 && reference != 0 && relative > largest_relative) largest_relative = relative;
  }
  if (!out) return n_wrong == 0;
  char note[80] = "";
  if (gd != wd) snprintf(note, sizeof note, "; %s reference compared by value", reed_dtype_name(wd));
  if (n_wrong == 0) {
    fprintf(out, "%s: as expected, ", plain(name));
    print_type(out, got);
    fprintf(out, " (largest error %.3g absolute, %.3g relative%s)\n", largest, largest_relative, note);
    return true;
  }
  fprintf(out, "%s: %" PRId64 " of %" PRId64 " elements differ, ", plain(name), n_wrong, n);
  print_type(out, got);
  fprintf(out, " (rtol %g, atol %g%s)\n", t.rtol, t.atol, note);
  for (int64_t k = 0; k < n_wrong && k < SHOWN_MISMATCHES; k++) {
    char a[64], b[64];
    fprintf(out, "  at ");
    print_index(out, got, first[k]);
    fprintf(out, "  got %s  want %s\n", element_text(got, first[k], a, sizeof a),
            element_text(want, first[k], b, sizeof b));
  }
  if (n_wrong > SHOWN_MISMATCHES) fprintf(out, "  and %" PRId64 " more\n", n_wrong - SHOWN_MISMATCHES);
  fprintf(out, "  largest error %.6g absolute at ", largest);
  print_index(out, got, worst);
  fprintf(out, ", %.6g relative\n", largest_relative);
  return false;
}

/* Finds the last entry for this name, else the last for all names. */
static int find_number(const words *w, const char *flag, const char *name, double *out_value, complaint *c) {
  size_t n = strlen(name);
  int best = 0; /* 1: for all, 2: for this name */
  for (size_t i = 0; i < w->n; i++) {
    const char *number = strrchr(w->items[i], '='), *text = number ? number + 1 : w->items[i];
    bool mine = number && (size_t)(number - w->items[i]) == n && strncmp(w->items[i], name, n) == 0;
    double value;
    if (!parse_real(text, &value) || !(value >= 0) || isinf(value))
      return complain(c, MISUSE, "%s takes a number from 0 up, or NAME=number, not '%s'", flag, w->items[i]);
    if ((number && !mine) || (!mine && best == 2)) continue;
    best = mine ? 2 : 1;
    *out_value = value;
  }
  return DONE;
}

int tolerance_find(const words *rtol, const words *atol, const char *name, tolerance *out_tolerance, complaint *c) {
  *out_tolerance = (tolerance){1e-3, 1e-5};
  int status = find_number(rtol, "--rtol", name, &out_tolerance->rtol, c);
  return status ? status : find_number(atol, "--atol", name, &out_tolerance->atol, c);
}
