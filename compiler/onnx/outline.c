/* The outline of a model's bytes: the same protobuf message without its large parts. protobuf-c copies everything that
 * it unpacks, and parses messages by recursion without a limit. So the outline replaces every tensor's raw data by
 * their place in the model's bytes (onnx_place), and deep nesting is refused.
 *
 * A message's length precedes it and changes in the outline: five bytes are reserved for the length and filled when the
 * message has been written.
 *
 * Reading the message: read.c. Tensors in other files: external.c. */
#include <string.h>

#include "bytecode/format.h"
#include "compiler/onnx/reader.h"

/* Messages inside messages: a body inside a body adds three levels (graph, node, attribute). */
#define MAX_MESSAGE_DEPTH 192

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, LENGTH_BYTES = 5 };

typedef struct wire {
  const uint8_t *at, *end;
} wire;

typedef struct outline {
  const uint8_t *begin; /* the model's bytes */
  text_buffer *out;
} outline;

static bool read_varint(wire *w, uint64_t *out_value) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
    uint8_t byte = *w->at++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out_value = value;
      return true;
    }
  }
  return false;
}

static bool skip(wire *w, uint64_t n) {
  if (n > (uint64_t)(w->end - w->at)) return false;
  w->at += n;
  return true;
}

/* Writes n in exactly LENGTH_BYTES: protobuf allows a varint to be longer than necessary. */
static void put_length(char *at, uint64_t n) {
  for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7) at[i] = (char)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

static bool write_message(const outline *o, const ProtobufCMessageDescriptor *type, wire w, int depth);

/* Writes a field of bytes, text, numbers or a message; `key` points to the field's first byte. */
static bool write_bytes_field(const outline *o, const ProtobufCMessageDescriptor *type, const uint8_t *key,
                              uint64_t number, wire *w, int depth) {
  uint64_t n;
  const uint8_t *length = w->at;
  if (!read_varint(w, &n) || n > (uint64_t)(w->end - w->at)) return false;
  const uint8_t *content = w->at;
  w->at += n;
  const ProtobufCFieldDescriptor *field =
      number <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)number) : NULL;
  if (!field) return true; /* a field that this version does not know is left out */
  if (field->type == PROTOBUF_C_TYPE_STRING && !utf8_valid((const char *)content, n)) return false;
  bool message = field->type == PROTOBUF_C_TYPE_MESSAGE;
  bool raw = type == &onnx__tensor_proto__descriptor && strcmp(field->name, "raw_data") == 0;
  if (!message && !raw) {
    text_append_bytes(o->out, key, (size_t)(w->at - key));
    return true;
  }
  text_append_bytes(o->out, key, (size_t)(length - key));
  size_t at = o->out->n;
  char room[LENGTH_BYTES] = {0};
  text_append_bytes(o->out, room, sizeof room);
  if (raw) text_append_bytes(o->out, &(onnx_place){(uint64_t)(content - o->begin), n}, sizeof(onnx_place));
  else if (!write_message(o, field->descriptor, (wire){content, content + n}, depth + 1)) return false;
  uint64_t written = o->out->n - at - LENGTH_BYTES;
  if (!o->out->failed) put_length(o->out->data + at, written);
  return written < INT32_MAX; /* protobuf's own limit */
}

/* Appends one message by its descriptor. False: the bytes are no such message, nest too deep, or have a text that is
 * not UTF-8. */
static bool write_message(const outline *o, const ProtobufCMessageDescriptor *type, wire w, int depth) {
  if (depth > MAX_MESSAGE_DEPTH) return false;
  while (w.at < w.end) {
    const uint8_t *begin = w.at;
    uint64_t key, n;
    bool ok = false;
    if (!read_varint(&w, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
    switch (key & 7) {
      case WIRE_VARINT: ok = read_varint(&w, &n); break;
      case WIRE_64: ok = skip(&w, 8); break;
      case WIRE_32: ok = skip(&w, 4); break;
      case WIRE_BYTES:
        if (!write_bytes_field(o, type, begin, key >> 3, &w, depth)) return false;
        continue;
      default: break;
    }
    if (!ok) return false;
    text_append_bytes(o->out, begin, (size_t)(w.at - begin));
  }
  return true;
}

bool onnx_outline(const void *bytes, size_t n_bytes, text_buffer *out) {
  const uint8_t *begin = bytes;
  return write_message(&(outline){begin, out}, &onnx__model_proto__descriptor, (wire){begin, begin + n_bytes}, 0);
}
