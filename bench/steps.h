/* The steps of a benchmark: extents of a model's open dims, given as words `SYMBOL=EXTENTS`, and pictures for
 * detectors. EXTENTS: 7 (the same in every step), 100+ (one more in each step), 32:640 (drawn at random for each step,
 * with a fixed seed). */
#ifndef BENCH_STEPS_H_
#define BENCH_STEPS_H_

#include "reed/reed.h"

enum { STEPS_WORDS = 32 };

typedef struct steps_extents {
  int n;
  char *words[STEPS_WORDS];
  int64_t drawn[STEPS_WORDS]; /* the extents of the present step, one for each word */
} steps_extents;

/* Reads the word of an open dim. Returns NULL, or why it is none, as the end of a sentence. */
const char *steps_fault(const char *word);
/* Ends the program with status 2 and a sentence if a word is malformed, or names no open dim of the program's inputs.
 */
void steps_check(const steps_extents *extents, const reed_program *program);
/* Draws the extents of a step, whose words have been checked. One thread. */
void steps_draw(steps_extents *extents, int64_t step);
/* The extent of a dim in the present step (an input_extent_fn of inputs.h; context: steps_extents). Ends the program
 * with status 2 if no word names the symbol; a dim without a name has the symbol "?". */
int64_t steps_extent(void *context, const char *symbol);

/* Draws a picture into a tensor [3,height,width] of f32, another one at each call; other tensors stay as they are. kind
 * 0: none. 1: up to 21 bright shapes on a dark ground, of which the shapes model finds each. 2: up to 40 shapes on a
 * shaded ground with any contrast, in which models with random weights find 0 to 100 boxes. */
void input_draw(reed_tensor *t, int kind);

#endif
