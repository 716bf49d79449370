/* A program: a verified module with its operators resolved. Immutable, counted, shared by sessions and threads. */
#ifndef VM_PROGRAM_H_
#define VM_PROGRAM_H_

#include <stdatomic.h>
#include <uv.h>

#include "bytecode/module.h"
#include "ops/kernel.h"
#include "reed/reed.h"

struct reed_program {
  atomic_int n_references;
  module *module;
  const reed_registry *registry;
  const reed_op **site_ops; /* per site, resolved at opening */
  reed_attrs *site_attrs;   /* per site: the module's attributes completed from the operator's row (ops/op.h) */
  reed_attr *attrs;         /* the memory of the lists in site_attrs */
  bool *returned;           /* per r register of main: its tensor may become an output */
  kernel_cache *cache;
  uv_mutex_t constants_lock;           /* guards the list `constants` */
  struct program_constants *constants; /* one item for each device with constants (vm/constants.h) */
};

/* Drops one reference; NULL is allowed. */
void program_release(reed_program *program);

#endif
