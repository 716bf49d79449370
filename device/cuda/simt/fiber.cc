/* Switching stacks (fiber.hpp): a few instructions on x86-64, ucontext elsewhere. */
#include "device/cuda/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#if SIMT_TSAN
extern "C" {
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void *__tsan_get_current_fiber();
}
#endif

bool fiber_open(simt_fiber *fiber) {
  if (!fiber->stack) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *all = mmap(nullptr, FIBER_STACK_BYTES + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    mprotect(all, page, PROT_NONE);
    fiber->stack = static_cast<char *>(all) + page;
  }
#if SIMT_TSAN
  if (!fiber->sanitizer) fiber->sanitizer = __tsan_create_fiber(0);
#endif
  return true;
}

void fiber_close(simt_fiber *fiber) {
  if (!fiber->stack) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(fiber->stack - page, FIBER_STACK_BYTES + page);
#if SIMT_TSAN
  __tsan_destroy_fiber(fiber->sanitizer);
#endif
  fiber->stack = nullptr;
}

#if defined(__x86_64__)
/* Saves the registers that a call preserves (System V ABI), and takes the other stack's. */
extern "C" void simt_switch(void **save, void *to);
asm(".text\n"
    ".globl simt_switch\n"
    ".hidden simt_switch\n"
    ".type simt_switch, @function\n"
    "simt_switch:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size simt_switch, . - simt_switch\n");

void fiber_begin(simt_fiber *fiber, void (*entry)()) {
  enum { SAVED = 6 };
  void **top = reinterpret_cast<void **>(fiber->stack + FIBER_STACK_BYTES); /* 16-byte aligned */
  *--top = nullptr; /* the address that `entry` would return to: the stack is aligned as after a call */
  *--top = reinterpret_cast<void *>(entry);
  for (int i = 0; i < SAVED; i++) *--top = nullptr;
  fiber->place = top;
}
#else
void fiber_begin(simt_fiber *fiber, void (*entry)()) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = FIBER_STACK_BYTES;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, entry, 0);
}
#endif

void fiber_switch(simt_fiber *from, simt_fiber *to) {
#if SIMT_TSAN
  if (!from->stack) from->sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to->sanitizer, 1); /* 1: the switch itself orders nothing */
#endif
#if defined(__x86_64__)
  simt_switch(&from->place, to->place);
#else
  swapcontext(&from->context, &to->context);
#endif
}
