/* A program: a verified module with its operators resolved. Immutable, counted, shared by sessions and threads. */
#ifndef VM_PROGRAM_H_
#define VM_PROGRAM_H_

#include <stdatomic.h>
#include <uv.h>

#include "bytecode/module.h"
#include "ops/facts.h"
#include "ops/kernel.h"
#include "reed/reed.h"
#include "vm/growth.h"
#include "vm/residence.h"

/* A site, as its calls read it. The sites lie one behind the other, in the order in which most programs call them. */
typedef struct program_site {
  const reed_op *op;
  reed_attrs attrs; /* as in site_attrs */
  const char *node;
  const op_facts *facts; /* NULL: none */
  const void *read;      /* what a call reads of the attributes: the facts or the list */
  uint32_t n_read;       /* its bytes */
  bool values_fit;
} program_site;

struct reed_program {
  atomic_int n_references;
  module *module;
  const reed_registry *registry;
  const reed_op *const *site_ops; /* per site: the module's own list */
  reed_attrs *site_attrs;         /* per site: the module's attributes completed from the operator's row (ops/op.h) */
  program_site *sites;            /* per site */
  reed_attr *attrs;               /* the memory of the lists in site_attrs */
  uint32_t *families;             /* per site (vm/family.h) */
  bool *values_fit;               /* per site: the attributes' values need no check in a run (shapefn_values_fit) */
  op_facts_list facts;            /* of the sites' attributes, where values_fit */
  uint32_t *returned;             /* per r register of main: the output that its tensor may become, + 1; 0: none */
  residence residence;            /* which inputs and results the host reads */
  model_caches caches;            /* inputs that leave as outputs with rows joined to them */
  kernel_cache *cache;
  uv_mutex_t constants_lock;           /* guards the list `constants` */
  struct program_constants *constants; /* one item for each device with constants (vm/constants.h) */
};

/* Drops one reference; NULL is allowed. */
void program_release(reed_program *program);

/* The declared range of an axis of input i; NULL: none. */
const module_range *program_range(const reed_program *p, size_t i, int32_t axis);

#endif
