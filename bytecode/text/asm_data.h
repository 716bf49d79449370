/* Reads types, extents and elements of the assembler's text. */
#ifndef BYTECODE_TEXT_ASM_DATA_H_
#define BYTECODE_TEXT_ASM_DATA_H_

#include "base/text.h"
#include "bytecode/text/assembler.h"

reed_dtype asm_dtype(assembler *a);
int32_t asm_device(assembler *a);
/* Reads a type's description. The type is not added to the module. */
void asm_type_words(assembler *a, module_type *out_type);
/* Reads a type's description or name; returns its number in the module. */
uint32_t asm_type(assembler *a);
/* Reads dtype[extents], whose extents are all numbers. */
void asm_desc(assembler *a, reed_desc *out_desc);
/* Reads {1, 2, 3} or base64 {"..."}: exactly the desc's elements, or one number for all elements. */
void asm_elements(assembler *a, const reed_desc *desc, text_buffer *data);

#endif
