/* Kernel cases on devices other than the host (kernel_case.h): each device of ops/targets.def whose module is there,
 * for the calls that its list of capabilities has. A new kind of device needs no edit here. */
#include "tests/ops/cpu/case_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "ops/fault.h"
#include "reed/device.h"

#define MOST_DEVICES 8
#define LAUNCH 7 /* number of the launch that a failure must name */

/* Elements of a case on an emulated device, at most. Larger ones run in tests/device, without the device's driver. With
 * REED_ALL_EMULATED in the environment all cases run here too. REED_CASE_ELEMENTS is the bound for every device. */
#define EMULATED_ELEMENTS 200

static int64_t most_elements(const char *device) {
  const char *most = getenv("REED_CASE_ELEMENTS");
  if (most) return strtoll(most, NULL, 10);
  return strstr(device, "emulated") && !getenv("REED_ALL_EMULATED") ? EMULATED_ELEMENTS : INT64_MAX;
}

/* The option `late` makes the simulated accelerator run nothing before a host thread waits. */
static const char *name_of(const char *kind) { return strcmp(kind, "sim") == 0 ? "sim?late=1" : kind; }

bool case_devices_only(void) { return getenv("REED_CASE_DEVICE") != NULL; }

static bool opens_here(const char *name, device **out_dev) {
  reed_diagnosis why = {0};
  const bool open = device_open(name, out_dev, &why) == REED_OK;
  if (!open) fprintf(stderr, "%s\n", reed_diagnosis_message(&why));
  return open;
}

/* A device that stays open while all tests run in this process, because each start of a GPU's driver takes a while. */
static device *kept;
static void close_kept(void) { device_close(&kept); }

/* True if the device opens; else its sentence is on stderr. A process of its own opens the device, because the
 * processes of the tests are forked from this one, and a GPU's driver that was started before a fork does not work in
 * the child. With CK_FORK=no nothing is forked: a tool that watches the process (compute-sanitizer) need not follow a
 * fork. */
static bool opens(const char *name) {
  const char *forks = getenv("CK_FORK");
  if (forks && strcmp(forks, "no") == 0) {
    device *dev = NULL;
    const bool open = opens_here(name, &dev);
    if (open && !kept) {
      kept = dev;
      atexit(close_kept);
    } else {
      device_close(&dev);
    }
    return open;
  }
  int status = 1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    device *dev = NULL;
    const bool open = opens_here(name, &dev);
    device_close(&dev);
    _exit(!open);
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* REED_CASE_DEVICE, "cuda" or "cuda-emulated?order=1": that device alone, which must open. */
const char *const *case_devices(void) {
  static const char *names[MOST_DEVICES];
  static bool known;
  const char *only = getenv("REED_CASE_DEVICE");
  if (only && !known) {
    if (!opens(only)) exit(1);
    names[0] = only;
    known = true;
  }
  int n = 0;
  reed_device_info kind;
  for (size_t i = 0; !known && reed_device_kind(i, &kind); i++) {
    if (strcmp(kind.name, "host") == 0) continue;
    if (n + 1 < MOST_DEVICES && opens(name_of(kind.name))) names[n++] = name_of(kind.name);
    else if (strcmp(kind.name, "sim") == 0) abort(); /* every build has sim, so a failure to open it is an error */
  }
  known = true;
  return names;
}

typedef struct device_run {
  device *dev;
  const device_interface *on;
  device_queue *queue;
  capability *target;
  void *inputs[CASE_INPUTS], *outputs[CASE_OUTPUTS], *workspace, *extents;
} device_run;

static void must(kernel_case *c, reed_status status) {
  if (status) case_fail(c, "%s", reed_diagnosis_message(&c->diagnosis));
}

static void *block(kernel_case *c, device_run *run, int64_t bytes) {
  void *data = NULL;
  must(c, run->on->allocate(run->dev, bytes, 0, &data, &c->diagnosis));
  return data;
}

/* A device stays open to the end of its process, as a session's does over many runs. */
static struct opened {
  const char *name;
  device *dev;
  device_queue *queue;
  capability *target;
} opened[MOST_DEVICES];

static void close_all(void) {
  for (int i = 0; i < MOST_DEVICES && opened[i].name; i++) {
    opened[i].dev->interface->queue_close(opened[i].queue);
    capability_close(&opened[i].target);
    device_close(&opened[i].dev);
  }
}

static void open_run(kernel_case *c, const char *name, device_run *run) {
  int i = 0;
  while (i < MOST_DEVICES && opened[i].name && strcmp(opened[i].name, name) != 0) i++;
  if (i == MOST_DEVICES) case_fail(c, "too many devices");
  struct opened *o = &opened[i];
  if (!o->name) {
    if (i == 0) atexit(close_all);
    must(c, device_open(name, &o->dev, &c->diagnosis));
    must(c, o->dev->interface->queue_open(o->dev, DEVICE_COMPUTE, &o->queue, &c->diagnosis));
    must(c, capability_open(o->dev->interface->target(o->dev), NULL, &o->target, &c->diagnosis));
    o->name = name;
  }
  *run = (device_run){.dev = o->dev, .on = o->dev->interface, .queue = o->queue, .target = o->target};
}

static void close_run(device_run *run) {
  for (int i = 0; i < CASE_INPUTS; i++)
    if (run->inputs[i]) run->on->release(run->dev, run->inputs[i], NULL);
  for (int i = 0; i < CASE_OUTPUTS; i++)
    if (run->outputs[i]) run->on->release(run->dev, run->outputs[i], NULL);
  if (run->workspace) run->on->release(run->dev, run->workspace, NULL);
  if (run->extents) run->on->release(run->dev, run->extents, NULL);
}

/* Copies operands in, launches, copies results out, waits. */
static reed_status launch(kernel_case *c, device_run *run, const case_call *made, const reed_kernel *kernel) {
  const device_interface *on = run->on;
  for (int32_t i = 0; i < c->n_inputs; i++) {
    int64_t bytes = desc_bytes(&c->inputs[i].desc);
    if (c->inputs[i].desc.dtype == REED_NONE || !bytes) continue;
    run->inputs[i] = block(c, run, bytes);
    must(c, on->copy_in(run->queue, run->inputs[i], c->inputs[i].data, bytes, NULL, &c->diagnosis));
  }
  for (int32_t i = 0; i < c->n_outputs; i++) {
    if (c->unwanted[i]) continue;
    case_open_output(c, i, &made->out[i]);
    if (c->outputs[i].data) run->outputs[i] = block(c, run, desc_bytes(&made->out[i]));
  }
  memset(c->extents, 0xff, sizeof c->extents);
  run->extents = block(c, run, sizeof c->extents);
  if (kernel->workspace_bytes) run->workspace = block(c, run, kernel->workspace_bytes);
  reed_kernel_buffers buffers = {.inputs = (const void *const *)run->inputs,
                                 .outputs = run->outputs,
                                 .workspace = run->workspace,
                                 .extents = run->extents};
  must(c, on->launch(run->queue, kernel, &buffers, c->n_inputs, c->n_outputs, LAUNCH, NULL, &c->diagnosis));
  device_error error = {0};
  reed_status status = on->synchronize(run->queue, &error, &c->diagnosis);
  if (status) {
    if (error.launch != LAUNCH) case_fail(c, "the failure is of launch %u", error.launch);
    return error.fault.code ? fault_say(&error.fault, &made->call) : status;
  }
  for (int32_t i = 0; i < c->n_outputs; i++)
    if (run->outputs[i])
      must(c, on->copy_out(run->queue, c->outputs[i].data, run->outputs[i], desc_bytes(&made->out[i]), NULL,
                           &c->diagnosis));
  must(c, on->copy_out(run->queue, c->extents, run->extents, sizeof c->extents, NULL, &c->diagnosis));
  must(c, on->synchronize(run->queue, &error, &c->diagnosis));
  case_take_extents(c, made);
  return REED_OK;
}

reed_status case_run_on(kernel_case *c, const char *name, bool *out_has) {
  case_call made;
  device_run run;
  reed_kernel kernel = {0};
  c->device = name;
  *out_has = true;
  reed_status status = case_call_init(c, cpu_level_name(cpu_level_best()), &made);
  if (status) return status;
  open_run(c, name, &run);
  *out_has = case_call_listed(&made, run.target, false) && case_elements(c, &made) <= most_elements(name);
  made.call.device = run.dev->name;
  made.call.target = run.target;
  made.call.prepare = run.on->kernel(run.dev, made.call.op);
  if (*out_has) status = op_call_prepare(&made.call, &kernel);
  if (*out_has && status == REED_OK) status = launch(c, &run, &made, &kernel);
  close_run(&run);
  if (kernel.free) kernel.free(kernel.state);
  case_call_fini(&made);
  return status;
}
