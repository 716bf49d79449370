/* Header and table of contents of a module file: rules V01 to V04. The sections' items: sections.c. */
#include "loader/file.h"

#include <inttypes.h>
#include <string.h>

#include "loader/checksum.h"
#include "loader/rules.h"

typedef struct section_info {
  const char *name;
  size_t item_bytes;
  bool required;
} section_info;

static const section_info section_infos[FORMAT_SECTION_END] = {
#define INFO_ROW(name, number, item, need) [number] = {#name, sizeof(item), FORMAT_NEED_##need == FORMAT_NEED_ALWAYS},
    FORMAT_SECTION_LIST(INFO_ROW)
#undef INFO_ROW
};

static reed_status read_header(const uint8_t *bytes, size_t n_bytes, format_header *out_header,
                               reed_diagnosis *diagnosis) {
  format_header h;
  if (n_bytes < sizeof h + sizeof(format_trailer) || memcmp(bytes, FORMAT_MAGIC, sizeof h.magic) != 0)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_HEADER, "this is no module file (%zu bytes)", n_bytes);
  memcpy(&h, bytes, sizeof h);
  if (h.major != FORMAT_MAJOR)
    return verify_reject(diagnosis, REED_ERROR_VERSION, RULE_VERSION,
                         "the module's format is version %u.%u, this reader's %d.%d", h.major, h.minor, FORMAT_MAJOR,
                         FORMAT_MINOR);
  if (h.n_bytes != n_bytes)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_HEADER,
                         "the header says %" PRIu64 " bytes, the file has %zu", h.n_bytes, n_bytes);
  uint64_t unknown = h.required_features & ~FORMAT_KNOWN_FEATURES;
  if (unknown)
    return verify_reject(
        diagnosis, REED_ERROR_VERSION, RULE_VERSION,
        "the module (format %u.%u) requires feature bit %d, which this version does not know (required bits: 0x%" PRIx64
        ")",
        h.major, h.minor, __builtin_ctzll(unknown), h.required_features);
  *out_header = h;
  return REED_OK;
}

static reed_status read_section(module_file *file, const format_section *s, uint32_t entry, bool *seen,
                                reed_diagnosis *diagnosis) {
  if (s->id == 0 || s->id >= FORMAT_SECTION_END) {
    if (!(s->flags & FORMAT_SECTION_REQUIRED)) return REED_OK;
    return verify_reject(diagnosis, REED_ERROR_VERSION, RULE_SECTIONS,
                         "section %u (entry %u) is required, and unknown to this version", s->id, entry);
  }
  const section_info *info = &section_infos[s->id];
  if (seen[s->id])
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS, "section %s is there twice", info->name);
  seen[s->id] = true;
  if (s->offset > file->n_bytes || s->n_bytes > file->n_bytes - s->offset)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS,
                         "section %s (%" PRIu64 " bytes at %" PRIu64 ") does not fit into %zu bytes", info->name,
                         s->n_bytes, s->offset, file->n_bytes);
  if (s->offset % FORMAT_ALIGNMENT || s->n_bytes % info->item_bytes)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS,
                         "section %s (%" PRIu64 " bytes at %" PRIu64
                         ") is not aligned, or no whole number of items of %zu bytes",
                         info->name, s->n_bytes, s->offset, info->item_bytes);
  if (s->n_bytes / info->item_bytes >= UINT32_MAX && s->id != FORMAT_DATA)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS, "section %s has too many items", info->name);
  file->sections[s->id] = (module_file_section){file->bytes + s->offset, (size_t)s->n_bytes / info->item_bytes};
  return REED_OK;
}

reed_status module_file_read_header(const uint8_t *bytes, size_t n_bytes, module_file *out_file,
                                    reed_diagnosis *diagnosis) {
  format_header h = {0};
  reed_status status = read_header(bytes, n_bytes, &h, diagnosis);
  if (status != REED_OK) return status;
  *out_file = (module_file){.bytes = bytes, .n_bytes = n_bytes - sizeof(format_trailer), .minor = h.minor};
  return REED_OK;
}

reed_status module_file_check(const module_file *file, const checksum_beside *beside, const int *cancel,
                              reed_diagnosis *diagnosis) {
  format_trailer trailer;
  uint64_t checksum = 0;
  memcpy(&trailer, file->bytes + file->n_bytes, sizeof trailer);
  bool whole = module_file_checksum(file->bytes, file->n_bytes, beside, cancel, &checksum);
  if (whole && checksum == trailer) return REED_OK;
  if (diagnosis) reed_diagnosis_clear(diagnosis); /* damage explains any other fault that was found */
  if (!whole) return diag_cancelled(diagnosis);
  return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_CHECKSUM,
                       "the file is damaged: checksum %016" PRIx64 ", expected %016" PRIx64, checksum, trailer);
}

reed_status module_file_read_sections(module_file *file, reed_diagnosis *diagnosis) {
  format_header h;
  memcpy(&h, file->bytes, sizeof h);
  if (h.n_sections > (file->n_bytes - sizeof h) / sizeof(format_section))
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS,
                         "the table of contents (%u sections) does not fit into %zu bytes", h.n_sections,
                         file->n_bytes + sizeof(format_trailer));
  bool seen[FORMAT_SECTION_END] = {false};
  for (uint32_t i = 0; i < h.n_sections; i++) {
    format_section s;
    memcpy(&s, file->bytes + sizeof h + i * sizeof s, sizeof s);
    reed_status status = read_section(file, &s, i, seen, diagnosis);
    if (status != REED_OK) return status;
  }
  for (int i = 1; i < FORMAT_SECTION_END; i++)
    if (section_infos[i].required && !seen[i])
      return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SECTIONS, "section %s is missing", section_infos[i].name);
  return REED_OK;
}
