/* The words of op.def's column `properties`, for sources that expand the column. */
#ifndef OPS_PROPERTIES_H_
#define OPS_PROPERTIES_H_

#include "ops/op.h"

enum {
  PLAIN = 0,
  EXTENTS_ONLY = REED_OP_EXTENTS_ONLY,
  ANY_RANK = REED_OP_ANY_RANK,
  FUSABLE = OP_PROPERTY_FUSABLE,
  PACKABLE = OP_PROPERTY_PACKABLE,
  WINDOW_OF_W = OP_PROPERTY_WINDOW_OF_W,
  IMPURE = OP_PROPERTY_IMPURE,
  TORCHVISION = OP_PROPERTY_TORCHVISION
};

#endif
