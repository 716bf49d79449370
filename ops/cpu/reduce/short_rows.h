/* The work of rows that are so short that their elements are the smaller part of it. */
#ifndef OPS_CPU_REDUCE_SHORT_ROWS_H_
#define OPS_CPU_REDUCE_SHORT_ROWS_H_

/* Of a row beside its elements, in cpu_team_for's count: some 10 ns. */
#define WORK_PER_ROW 96

/* Elements at most of rows that loops take many of at a time (turned_rows.h). */
#define SHORT_ROW 16

#endif
