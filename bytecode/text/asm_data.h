/* The assembler's types, extents and elements. */
#ifndef BYTECODE_TEXT_ASM_DATA_H_
#define BYTECODE_TEXT_ASM_DATA_H_

#include "base/text.h"
#include "bytecode/text/assembler.h"

reed_dtype asm_dtype(assembler *a);
int32_t asm_device(assembler *a);
/* A type as it is described; not yet one of the module. */
void asm_type_words(assembler *a, module_type *out_type);
/* The number of a type that is described or named here. */
uint32_t asm_type(assembler *a);
/* dtype[extents], all numbers. */
void asm_desc(assembler *a, reed_desc *out_desc);
/* {1, 2, 3} or base64 {"..."}: exactly the desc's elements; one number stands for all of them. */
void asm_elements(assembler *a, const reed_desc *desc, text_buffer *data);

#endif
