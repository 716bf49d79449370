/* Reads the code of a function. Its directive: asm.c. */
#ifndef BYTECODE_TEXT_ASM_CODE_H_
#define BYTECODE_TEXT_ASM_CODE_H_

#include "bytecode/text/assembler.h"

/* Reads function `number` from its .function line to the next directive and emits its code. */
void asm_function_code(assembler *a, uint32_t number);

#endif
