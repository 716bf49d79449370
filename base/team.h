/* The process's helper threads for work in chunks, shared by all callers. The caller takes chunks itself until none is
 * left, and helpers that are awake take others meanwhile. So a caller never waits for a thread that has taken no chunk:
 * on a machine whose CPUs are busy with other processes the caller just does more of the work.
 *
 * Helpers are started when they are first asked for, poll for work for a short time after their last chunk, and sleep
 * then. They keep off the CPU on which their caller runs. In the child of a fork they are started again. */
#ifndef BASE_TEAM_H_
#define BASE_TEAM_H_

#include <stdbool.h>
#include <stdint.h>

#include "reed/status.h"

#define TEAM_MAX_WORKERS 128

/* Runs chunk number `chunk`. worker: 0..n_workers-1, 0 for the caller; no two threads have one worker number in one
 * call of team_run at a time, so it may number scratch memory. */
typedef void team_fn(void *context, int64_t chunk, int32_t worker);

/* Calls fn once for each of the chunks 0..n_chunks-1, on the calling thread and up to n_workers - 1 helpers; returns
 * when all calls have returned. A chunk may call team_run itself. */
void team_run(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context);
/* As team_run, for chunks of some 10 us that need no other thread: while all helpers sleep, the caller runs jobs of a
 * few chunks alone, until those of one burst have taken as long as waking a helper is worth. A program whose jobs are
 * all short, and which pauses between them, wakes nobody. */
void team_run_lazy(int32_t n_workers, int64_t n_chunks, team_fn *fn, void *context);

/* Work that a helper does while the calling thread does other work. */
typedef void team_aside_fn(void *context);
typedef struct team_aside {
  team_aside_fn *fn;
  void *context;
  struct job *job;
  uint64_t generation; /* of the job */
} team_aside;
/* Gives fn to a helper that polls for work. Until team_end_aside returns true *out_aside is borrowed. False: there is
 * no such helper, or none has a CPU. */
bool team_begin_aside(team_aside *out_aside, team_aside_fn *fn, void *context) REED_MUST_CHECK;
/* Withdraws fn if no helper has come yet. True: fn has returned, or will not be called. False, unless `waits`: a helper
 * is in the middle of it. In the child of a fork fn of the parent ends at once. */
bool team_end_aside(team_aside *aside, bool waits) REED_MUST_CHECK;

/* Around work of the calling thread of which jobs are a part, such as a session's run: from team_enter on the thread
 * has a CPU of its own, which other callers' helpers leave to it, also while it has no job. Calls nest. */
void team_enter(void);
void team_leave(void);

/* Says that the calling thread will have a job soon: helpers that poll for work go on as if they had just run a chunk,
 * so that they are awake when the job comes. Wakes nobody. */
void team_expect(void);
/* Wakes up to n_workers - 1 helpers for a job that comes as soon as one of them can be awake, some 50 us later. */
void team_wake(int32_t n_workers);
/* The number of the calling thread's jobs so far that were worth waking helpers: those of team_run with several workers
 * and chunks, and those of team_run_lazy that did not run on the caller alone and would not have. */
uint64_t team_n_jobs(void);

/* The calling thread's jobs between team_measure_begin and team_measure_end, whose calls do not nest. A chunk's
 * time has no part in which its thread had no CPU, so that other processes make it no longer (base/chunk_clock.h).
 * Elapsed time else. */
typedef struct team_measure {
  int64_t n_chunks;
  int64_t longest_ns; /* of the longest chunk, by whichever thread */
  int64_t jobs_ns;    /* of the calling thread, its own chunks and its waiting included */
} team_measure;
void team_measure_begin(team_measure *out_measure); /* zeroes it, and borrows it until the end */
void team_measure_end(void);

/* From now on the team takes the process to have n CPUs (for tests). */
void team_assume_processors(int32_t n);

#endif
