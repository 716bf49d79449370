/* Fibers: stacks that are switched by hand. The scheduler of a block (block.cc) runs each thread on one. */
#ifndef DEVICE_CUDA_SIMT_FIBER_HPP_
#define DEVICE_CUDA_SIMT_FIBER_HPP_

#include <cstddef>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { FIBER_STACK_BYTES = 64 * 1024 };

/* A fiber, or the scheduler's own place, which has no stack of its own. */
struct simt_fiber {
  void *place; /* x86-64: the saved stack pointer */
#if !defined(__x86_64__)
  ucontext_t context;
#endif
  char *stack;     /* FIBER_STACK_BYTES, behind a closed page; NULL: none yet */
  void *sanitizer; /* the thread sanitizer's fiber */
};

/* Gives the fiber a stack, unless it has one. False: no memory. */
bool fiber_open(simt_fiber *fiber);
void fiber_close(simt_fiber *fiber);
/* Makes the fiber begin in `entry`, which must not return. */
void fiber_begin(simt_fiber *fiber, void (*entry)());
/* Leaves `from` and continues `to`. */
void fiber_switch(simt_fiber *from, simt_fiber *to);

#endif
