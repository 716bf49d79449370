/* The layout of a `.reed` file: header, table of contents, sections; described in docs/module.md. Writing: writer.c.
 * Reading: loader/.
 *
 * Everything is little-endian. The structs below have the layout of the file (each field at its natural alignment, no
 * padding), so that writer and loader use them in place. A section is an array of one kind of item and begins at a
 * multiple of 64 bytes. */
#ifndef BYTECODE_FORMAT_H_
#define BYTECODE_FORMAT_H_

#include "bytecode/module.h"

#define FORMAT_MAJOR 2 /* other major versions are not read. Version 1 had one hash of the whole file in its header */
#define FORMAT_MINOR 2 /* minor versions only add: sections, rules, and the meanings of required feature bits */
#define FORMAT_MINOR_SHAPED 1 /* from this minor version on, modules keep rule V56 */
#define FORMAT_ALIGNMENT 64
#define FORMAT_BLOCK_BYTES ((size_t)1 << 20) /* size of the blocks whose hashes make the checksum */
#define FORMAT_KNOWN_FEATURES 0ull           /* required feature bits that this version knows */

/* The first eight bytes of a file. They are no valid UTF-8, so the file is not taken for text, and a transfer that
 * changes line ends damages them. */
#define FORMAT_MAGIC "\x8eREED\r\n\x1a"

/* The need for a section. ALWAYS: every module has the section. OPTIONAL: a reader may ignore it. BINDING: may be
 * absent or empty; a reader that does not know a section with items must refuse the file. */
typedef enum format_need { FORMAT_NEED_ALWAYS, FORMAT_NEED_OPTIONAL, FORMAT_NEED_BINDING } format_need;

/* X(name, number in the file, struct of an item, the need for the section) */
#define FORMAT_SECTION_LIST(X) \
  X(METADATA, 1, char, OPTIONAL) \
  X(INFO, 2, format_info, ALWAYS) \
  X(STRINGS, 3, uint32_t, ALWAYS) \
  X(TEXT, 4, char, ALWAYS) \
  X(TYPES, 5, format_type, ALWAYS) \
  X(SIGNATURES, 6, uint32_t, ALWAYS) \
  X(FUNCTIONS, 7, format_function, ALWAYS) \
  X(CODE, 8, uint32_t, ALWAYS) \
  X(EPOCHS, 9, module_epoch, ALWAYS) \
  X(SITES, 10, format_site, ALWAYS) \
  X(ATTRIBUTES, 11, format_attribute, ALWAYS) \
  X(CONSTANTS, 12, format_constant, ALWAYS) \
  X(DEBUG, 13, module_debug, OPTIONAL) \
  X(DATA, 14, char, ALWAYS) \
  X(TARGET, 15, uint32_t, OPTIONAL) \
  X(SITE_DTYPES, 16, uint8_t, OPTIONAL) \
  X(RANGES, 17, module_range, BINDING)

typedef enum format_section_id {
#define FORMAT_ENUM_(name, number, item, need) FORMAT_##name = number,
  FORMAT_SECTION_LIST(FORMAT_ENUM_)
#undef FORMAT_ENUM_
      FORMAT_SECTION_END
} format_section_id;
#define FORMAT_N_SECTIONS (FORMAT_SECTION_END - 1)

typedef struct format_header {
  uint8_t magic[8];
  uint16_t major, minor;
  uint32_t n_sections;
  uint64_t required_features, optional_features;
  uint64_t n_bytes; /* of the whole file */
  uint8_t reserved[24];
} format_header;

/* The file's last eight bytes: the checksum of all bytes before them. The checksum stands at the end, because the
 * writer knows it last. The checksum is the sum (modulo 2^64) of hash_bytes of all blocks, each with its number as the
 * seed: blocks are FORMAT_BLOCK_BYTES long, the last one shorter. */
typedef uint64_t format_trailer;

#define FORMAT_SECTION_REQUIRED 1u /* a reader that does not know the section must refuse the file */

typedef struct format_section {
  uint32_t id, flags;
  uint64_t offset, n_bytes;
} format_section;

/* Lists of type numbers lie in SIGNATURES; `x_at` is the index of a list's first item. */
typedef struct format_info {
  uint32_t model_name, producer, producer_version; /* strings */
  int32_t n_devices;
  uint32_t n_inputs, inputs_at, n_outputs, outputs_at;
} format_info;

#define FORMAT_TYPE_OBJECT 1u
typedef struct format_type {
  uint32_t flags, dtype;
  int32_t rank, device;
  uint32_t name, reserved;
  int64_t dims[REED_MAX_RANK];
} format_type;

typedef struct format_function {
  uint32_t name, code_at, n_code, n_r, n_s, n_r_params, n_s_params, n_r_results, n_s_results, params_at, results_at,
      reserved;
} format_function;

typedef struct format_site {
  uint32_t domain, op, node;
  int32_t n_inputs, n_outputs;
  uint32_t attributes_at, n_attributes, reserved;
} format_site;

/* `value`: the integer, the double's bits, the string, or the offset of the elements in DATA (ints and floats 8 byte
 * aligned, tensors 64). */
typedef struct format_attribute {
  uint32_t name, type;
  uint64_t value;
  int64_t n; /* of ints or floats */
  uint32_t dtype;
  int32_t rank; /* of a tensor */
  int64_t dims[REED_MAX_RANK];
} format_attribute;

typedef struct format_constant {
  uint32_t name, dtype;
  int32_t rank;
  uint32_t reserved;
  int64_t dims[REED_MAX_RANK];
  uint64_t data_at, n_bytes; /* in DATA, 64 byte aligned */
} format_constant;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "module files are used in place: little-endian hosts only");
_Static_assert(sizeof(format_header) == 64 && sizeof(format_section) == 24 && sizeof(format_info) == 32 &&
                   sizeof(format_type) == 88 && sizeof(format_function) == 48 && sizeof(format_site) == 32 &&
                   sizeof(format_attribute) == 96 && sizeof(format_constant) == 96 && sizeof(module_epoch) == 16 &&
                   sizeof(module_debug) == 12 && sizeof(module_range) == 32,
               "the structs are the file's layout");

/* Writes the module's file bytes into a sink. Deterministic: a module that was loaded gives the same bytes as its file.
 */
reed_status module_write(const module *m, const reed_module_sink *sink, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
