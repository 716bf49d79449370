/* Drawing detections into a picture: boxes, masks, labels with scores. */
#ifndef TOOLS_DRAW_H_
#define TOOLS_DRAW_H_

#include "tools/picture.h"
#include "tools/tool.h"

/* A detector's outputs, borrowed. All except boxes may be NULL. */
typedef struct detections {
  const reed_tensor *boxes;  /* floats [n,4]: x1 y1 x2 y2 in pixels */
  const reed_tensor *labels; /* integers [n] */
  const reed_tensor *scores; /* floats [n] */
  const reed_tensor *masks;  /* floats [n,1,height,width] or [n,height,width]: probabilities, over the whole picture */
} detections;

/* Finds the detections among a model's outputs: by name, if a name contains box, label or class, score, mask; else by
 * shape and dtype. MISUSE if there are no boxes, or if parts do not fit the boxes or the picture. */
int detections_find(const char *const *names, reed_tensor *const *tensors, size_t n, const rgb_picture *picture,
                    detections *out_found, complaint *c);
/* Draws into *picture, which is first enlarged `scale` times (1: not at all). Detection i has colour i of a palette; a
 * detection is drawn if its score is min_score or more. Label k is called names[k], or by its number past the end. */
void draw_detections(rgb_picture *picture, const detections *found, const char *const *names, size_t n_names, int scale,
                     double min_score);

#endif
