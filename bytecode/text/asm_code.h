/* The assembler's instructions and labels. */
#ifndef BYTECODE_TEXT_ASM_CODE_H_
#define BYTECODE_TEXT_ASM_CODE_H_

#include "bytecode/text/assembler.h"

/* A function's code, from its line's .function to the next directive. */
void asm_function_code(assembler *a, uint32_t number);

#endif
