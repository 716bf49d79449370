/* vm plan: a run at given shapes, epoch by epoch: shape functions, kernels, read-backs and their reasons, arena bytes.
 * Opening the model: model.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/files.h"
#include "tools/json_reader.h"
#include "tools/model.h"
#include "tools/plain.h"
#include "tools/print.h"

static const flag flags[] = {
    {"--shape", "-s", FLAG_WORDS, offsetof(options, shapes), "NAME=3x256x320",
     "an input's extents (a dtype may follow: 3x8xi64); its elements are random"},
    FLAG_OF_INPUTS,
    FLAG_OF_DEVICE,
    {"--card", NULL, FLAG_TEXT, offsetof(options, card), "NAME",
     "plans for the card of that name (H100, A100, L4, A10, T4) from its data sheet; needs no card"},
    FLAG_OF_THREADS,
    FLAG_OF_JSON,
    FLAG_OF_PICTURES,
    FLAG_OF_COUNTS,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

/* "of Slice 'rpn/slice' input ends", as far as known; of an extent also "for Shape 'n': its result depends on the
 * count" */
static void cause_text(const cJSON *readback, char *out, size_t capacity) {
  const char *op = json_text_of(readback, "operator"), *node = json_text_of(readback, "node"),
             *input = json_text_of(readback, "input"), *why = json_text_of(readback, "why");
  const bool known = *op || !*why;
  snprintf(out, capacity, "%s%s%s%s%s%s%s%s%s", known ? "of " : "", known && !*op ? "the model" : op, *node ? " '" : "",
           node, *node ? "'" : "", *input ? " " : "", input,
           !*why   ? ""
           : known ? " for "
                   : "for ",
           why);
}

/* One line per cause: its number and bytes, since a batched detector reads the same kind of count many times. */
static void print_readbacks(const cJSON *readbacks) {
  words causes = {0};
  const cJSON *r, *other;
  cJSON_ArrayForEach(r, readbacks) {
    char cause[600], line[700];
    cause_text(r, cause, sizeof cause);
    snprintf(line, sizeof line, "%s %s", json_text_of(r, "reason"), cause);
    bool seen = false;
    for (size_t i = 0; i < causes.n; i++) seen = seen || strcmp(causes.items[i], line) == 0;
    if (seen) continue;
    words_add(&causes, need_text(line));
    int count = 0;
    double bytes = 0;
    cJSON_ArrayForEach(other, readbacks) {
      char again[600];
      cause_text(other, again, sizeof again);
      if (strcmp(again, cause) == 0 && strcmp(json_text_of(other, "reason"), json_text_of(r, "reason")) == 0)
        count++, bytes += json_number_of(other, "bytes");
    }
    printf("        reads back %s (%.0f bytes%s", plain(line), bytes, count > 1 ? "" : ")\n");
    if (count > 1) printf(" in %d)\n", count);
  }
  for (size_t i = 0; i < causes.n; i++) free((char *)causes.items[i]);
  free(causes.items);
}

/* The number of times that the epoch ran before `end` (NULL: in all). */
static int count_epoch(const cJSON *epochs, const cJSON *end, double id) {
  int n = 0;
  for (const cJSON *e = epochs ? epochs->child : NULL; e != end; e = e->next) n += json_number_of(e, "id") == id;
  return n;
}

/* One line per operator and variant, with its number of calls. */
static void print_variants(const cJSON *variants) {
  const cJSON *v, *other;
  cJSON_ArrayForEach(v, variants) {
    int n = 0;
    bool first = true;
    cJSON_ArrayForEach(other, variants) {
      if (strcmp(json_text_of(other, "variant"), json_text_of(v, "variant")) ||
          strcmp(json_text_of(other, "operator"), json_text_of(v, "operator")))
        continue;
      first = first && (n > 0 || other == v);
      n++;
    }
    if (first) printf("%4d %s: %s\n", n, plain(json_text_of(v, "operator")), json_text_of(v, "variant"));
  }
}

static void print_plan(const cJSON *root) {
  const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(root, "epochs"), *e, *arena;
  double shape_functions = 0, kernels = 0;
  int n = 0, n_readbacks = 0;
  cJSON_ArrayForEach(e, epochs) {
    const cJSON *readbacks = cJSON_GetObjectItemCaseSensitive(e, "readbacks");
    shape_functions += json_number_of(e, "shape_functions");
    kernels += json_number_of(e, "kernels");
    n_readbacks += cJSON_GetArraySize(readbacks);
    n++;
    int earlier = count_epoch(epochs, e, json_number_of(e, "id")),
        times = count_epoch(epochs, NULL, json_number_of(e, "id"));
    if (earlier) continue; /* an epoch of a loop is shown once, as it was the first time */
    const char *function = json_text_of(e, "function");
    printf("epoch %-3.0f %4.0f shape functions, %4.0f kernels%s%s", json_number_of(e, "id"),
           json_number_of(e, "shape_functions"), json_number_of(e, "kernels"), *function ? "  in " : "",
           plain(function));
    if (times > 1) printf(", run %d times", times);
    putchar('\n');
    cJSON_ArrayForEach(arena, cJSON_GetObjectItemCaseSensitive(e, "arena")) {
      char a[32], b[32], l[32];
      if (json_number_of(arena, "without_reuse") > 0)
        printf("        arena on %s: %s (%s without reuse, lower bound %s)\n", plain(arena->string),
               text_bytes(json_number_of(arena, "bytes"), a, sizeof a),
               text_bytes(json_number_of(arena, "without_reuse"), b, sizeof b),
               text_bytes(json_number_of(arena, "lower_bound"), l, sizeof l));
    }
    print_readbacks(readbacks);
  }
  print_variants(cJSON_GetObjectItemCaseSensitive(root, "variants"));
  printf("%d epochs run, %.0f shape functions, %.0f kernels, %d read-backs\n", n, shape_functions, kernels,
         n_readbacks);
}

/* True if the first `n` bytes of `text`, up to a number or options, are that kind of device. */
static bool names_kind(const char *text, size_t n, const char *kind) {
  const size_t n_kind = strcspn(text, ",:?");
  return n_kind == strlen(kind) && n_kind <= n && strncmp(text, kind, n_kind) == 0;
}

static bool kind_present(const char *name) {
  reed_device_info kind;
  for (size_t i = 0; reed_device_kind(i, &kind); i++)
    if (strcmp(kind.name, name) == 0) return kind.present;
  return false;
}

/* Writes a device's name, of n > 0 bytes, with one more option at the end of `made`. */
static void append_with(char *made, const char *name, int n, const char *key, const char *value) {
  const char *between = !memchr(name, '?', (size_t)n) ? "?" : name[n - 1] == '?' ? "" : "&";
  sprintf(made + strlen(made), "%.*s%s%s=%s", n, name, between, key, value);
}

/* The list of devices with every `cuda` replaced by the emulated GPU of that number and these options, described as
 * `card`; NULL: the list has no `cuda`. Released with free. */
static char *as_described(const char *devices, const char *card) {
  static const char emulation[] = "-emulated", key[] = "card";
  const size_t n_more = sizeof emulation + sizeof key + strlen(card) + 3; /* for one name */
  char *made = need(1, (strlen(devices) + 1) * n_more), *name = need(1, strlen(devices) + sizeof emulation);
  bool any = false;
  for (const char *at = devices; at;) {
    const int n = (int)strcspn(at, ",");
    if (names_kind(at, (size_t)n, "cuda")) {
      const int n_name = sprintf(name, "%.4s%s%.*s", at, emulation, n - 4, at + 4);
      append_with(made, name, n_name, key, card);
      any = true;
    } else {
      sprintf(made + strlen(made), "%.*s", n, at);
    }
    if (at[n]) strcat(made, ",");
    at = at[n] ? at + n + 1 : NULL;
  }
  free(name);
  if (any) return made;
  free(made);
  return NULL;
}

static bool names_cuda(const char *devices) {
  char *described = devices ? as_described(devices, "") : NULL;
  const bool named = described != NULL;
  free(described);
  return named;
}

/* The list of devices with option `values=1` for every emulated GPU whose name says nothing about it: the plan is the
 * card's, and the host's kernels compute the results that shapes come from. Released with free. */
static char *with_host_values(const char *devices) {
  static const char kind[] = "cuda-emulated", key[] = "values", value[] = "1";
  char *made = need(1, (strlen(devices) + 1) * (sizeof key + sizeof value + 2)); /* one option a name */
  for (const char *at = devices; at;) {
    const int n = (int)strcspn(at, ",");
    const char *given = strstr(at, key);
    if (names_kind(at, (size_t)n, kind) && !(given && given < at + n)) append_with(made, at, n, key, value);
    else sprintf(made + strlen(made), "%.*s", n, at);
    if (at[n]) strcat(made, ",");
    at = at[n] ? at + n + 1 : NULL;
  }
  return made;
}

static int run_on(const options *o, complaint *c) {
  model m = {0};
  reed_tensor **inputs = NULL, **outputs = NULL;
  char *text = NULL;
  int status = model_open(o, o->arguments.items[0], &m, c);
  if (!status) status = model_make_inputs(o, &m, true, &inputs, c);
  if (!status) status = model_open_session(o, false, &m, c);
  if (!status) {
    outputs = need(m.n_outputs, sizeof *outputs);
    progress("running", 0.5);
    status = model_run(&m, inputs, outputs, c);
    progress_end();
  }
  if (!status) status = model_json(&m, reed_session_plan_json, "the plan", &text, c);
  if (!status && !target_is_printed()) {
    cJSON *root = json_parse(text, c);
    if (root) print_plan(root);
    else status = c->exit_status;
    cJSON_Delete(root);
  }
  if (!status && o->json) status = file_write(o->json, text, strlen(text), c);
  if (text) reed_text_free(text);
  tensors_close(outputs, m.n_outputs);
  tensors_close(inputs, m.n_inputs);
  model_fini(&m);
  return status;
}

static int run(const options *o, complaint *c) {
  options own = *o;
  const bool emulation = kind_present("cuda-emulated"), no_card = emulation && !kind_present("cuda");
  const char *asked = o->device ? o->device
                      : o->card ? "cuda"
                                : NULL,
             *card = o->card   ? o->card
                     : no_card ? "H100"
                               : NULL;
  char *described = asked && card ? as_described(asked, card) : NULL, *device = NULL;
  if (o->card && !described) return complain(c, MISUSE, "--card describes a device 'cuda', and --device names none");
  if (!emulation && (o->card || (!kind_present("cuda") && names_cuda(o->device)))) {
    free(described);
    return complain(c, FAILED_RUN, "a plan by a card's description needs libreed-cuda-emulated.so beside libreed");
  }
  if (described && !o->card)
    fprintf(stderr, "vm plan: no NVIDIA GPU on this machine; planned for an H100 from its data sheet (--card NAME)\n");
  if (asked) own.device = device = with_host_values(described ? described : asked);
  if (asked && !strchr(asked, '/')) own.target = asked; /* the user's words, for complaints of the compiler */
  if (o->card) own.device_flags = o->device ? "--device with --card" : "--card";
  const int status = run_on(&own, c);
  free(device);
  free(described);
  return status;
}

static const char notes[] =
    "Shapes that come from data come from random data here; -i gives real inputs. Inputs of fixed shape need no -s.\n"
    "The model is run once, because shapes may come from results. On a machine without an NVIDIA GPU, --device cuda "
    "plans for\nan H100 (--card: another card): launches are planned for the card, whose limits of memory and of a "
    "block's shared memory\ncount, and the host's kernels compute the results. The figures name it 'cuda-emulated'.";

const command command_plan = {
    "plan",
    "M -s|--shape NAME=3x256x320... [-i NAME=VALUE]... [--device D] [--card NAME] [--json FILE]",
    "prints the epochs of a run: shape functions, kernels, arenas, read-backs",
    notes,
    flags,
    1,
    1,
    run};
