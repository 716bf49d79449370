/* The loop that finds keypoints in heat maps, as torchvision's exporter writes it but without its appending
 * (appending.h), and near misses, for the tests of the keypoints pass. */
#ifndef TESTS_COMPILER_PASSES_REWRITE_HEATMAPS_H_
#define TESTS_COMPILER_PASSES_REWRITE_HEATMAPS_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/onnx_build.h"

typedef enum heatmaps {
  HEATMAPS_AS_EXPORTED,
  HEATMAPS_SWAPPED, /* the values come before the points */
  HEATMAPS_TAKEN,
  HEATMAPS_LINEAR = HEATMAPS_TAKEN, /* maps are resized linearly */
  HEATMAPS_LAST,                    /* the last of equal elements */
  HEATMAPS_TURNED,                  /* rows for columns in the size */
  HEATMAPS_CORNER,                  /* points are pixels' corners, not their middles */
  HEATMAPS_OTHER_SCALE,             /* columns are scaled by the number of rows */
  HEATMAPS_VISIBLE,                 /* points have a third number of 2 */
  HEATMAPS_OFF_DIAGONAL,            /* the value of another map */
  HEATMAPS_OF_ROWS,                 /* the largest of each row of maps */
  N_HEATMAPS
} heatmaps;

/* Nodes "y=Op a,b" apart by ';'; Op may be followed by one attribute: Op[name=number]. */
static inline void heatmaps_nodes(onnx_build *b, const char *text) {
  char copy[2048], *rest = copy;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *line; (line = strsep(&rest, ";"));) {
    char *output = strsep(&line, "="), *op = line, *inputs = strrchr(line, ' ');
    *inputs++ = 0;
    char *attr = strchr(op, '['), *number = attr ? strchr(attr, '=') : NULL;
    if (attr) *attr++ = 0, *number++ = 0;
    build_node_t *n = build_node(b, op, inputs, output);
    if (attr) build_int(b, n, attr, strtoll(number, NULL, 10));
  }
}

static inline onnx_build *heatmaps_loop(heatmaps h) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "features", "f32[n,2,4,5]");
  build_f32(b, "head", "3,2,1,1", (float[]){1, 0.5f, -0.25f, 1, 0.75f, -1});
  build_node(b, "Conv", "features,head", "maps");
  static const char *const lists[] = {"left", "top", "width", "height"};
  for (int i = 0; i < 4; i++) build_input(b, lists[i], "f32[n]");
  build_f32(b, "half", "", (float[]){h == HEATMAPS_CORNER ? 0 : 0.5f});
  build_f32(b, "seven", "", (float[]){7});
  build_f32(b, "ones", "1,3", h == HEATMAPS_VISIBLE ? (float[]){2, 2, 2} : (float[]){1, 1, 1});
  build_f32(b, "least", "", (float[]){1});
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "one", "1", (int64_t[]){1});
  build_i64(b, "first", "", (int64_t[]){0});
  build_i64(b, "third", "", (int64_t[]){2});
  build_i64(b, "planes", "2", (int64_t[]){3, 1});
  build_i64(b, "lines", "2", h == HEATMAPS_OF_ROWS ? (int64_t[]){-1, 3} : (int64_t[]){3, -1});
  build_i64(b, "flat", "1", (int64_t[]){-1});
  build_i64(b, "diagonal", "3", h == HEATMAPS_OFF_DIAGONAL ? (int64_t[]){0, 13, 25} : (int64_t[]){0, 13, 26});
  heatmaps_nodes(
      b, "extents=Shape left;turns=Gather extents,first;broad=Mul width,seven;high=Mul height,seven;w=Clip broad,least;"
         "h=Clip high,least;columns=Ceil w;rows=Ceil h");
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  heatmaps_nodes(
      body,
      "d=Identity c;map=Gather maps,i;cw=Gather columns,i;rh=Gather rows,i;wi=Gather w,i;hi=Gather h,i;x1=Gather "
      "left,i;"
      "y1=Gather top,i;scale_y=Div hi,rh;stack=Unsqueeze map,one;rows1=Unsqueeze rh,zero;columns1=Unsqueeze cw,zero");
  heatmaps_nodes(body, h == HEATMAPS_OTHER_SCALE ? "scale_x=Div wi,rh" : "scale_x=Div wi,cw");
  heatmaps_nodes(body,
                 h == HEATMAPS_TURNED ? "size=Concat[axis=0] columns1,rows1" : "size=Concat[axis=0] rows1,columns1");
  heatmaps_nodes(body, "pixels=Cast[to=7] size;all=Concat[axis=0] planes,pixels");
  build_node_t *resize = build_node(body, "Resize", "stack,,,all", "resized");
  build_string(body, resize, "mode", h == HEATMAPS_LINEAR ? "linear" : "cubic");
  build_string(body, resize, "coordinate_transformation_mode", "half_pixel");
  heatmaps_nodes(body, "roi=Squeeze resized,one;dims=Shape roi;n_columns=Gather dims,third;line=Reshape roi,lines");
  bool of_rows = h == HEATMAPS_OF_ROWS;
  build_node_t *most = build_node(body, "ArgMax", "line", "place");
  build_int(body, most, "axis", !of_rows);
  build_int(body, most, "keepdims", 0);
  build_int(body, most, "select_last_index", h == HEATMAPS_LAST);
  heatmaps_nodes(
      body, "x=Mod place,n_columns;above=Sub place,x;y=Div above,n_columns;fy=Cast[to=1] y;fx=Cast[to=1] x;mx=Add "
            "half,fx;sx=Mul mx,scale_x;"
            "my=Add half,fy;sy=Mul my,scale_y;px=Add sx,x1;py=Add sy,y1;px1=Unsqueeze px,zero;py1=Unsqueeze py,zero;"
            "point=Concat[axis=0] px1,py1,ones;points=Unsqueeze point,zero");
  heatmaps_nodes(body, "iy=Cast[to=7] fy;at_rows=Gather[axis=1] roi,iy;at=Gather[axis=2] at_rows,x;each=Reshape "
                       "at,flat;own=Gather each,diagonal;"
                       "values=Unsqueeze own,zero");
  bool swapped = h == HEATMAPS_SWAPPED;
  build_output(body, "d", "bool");
  build_output(body, swapped ? "values" : "points", "f32");
  build_output(body, swapped ? "points" : "values", "f32");
  build_graph_attr(b, build_node(b, "Loop", "turns,", swapped ? "all_values,all_points" : "all_points,all_values"),
                   "body", body);
  heatmaps_nodes(b, "p=Flatten[axis=1] all_points;v=Flatten[axis=1] all_values;result=Concat[axis=1] p,v");
  build_output(b, "result", "f32");
  return b;
}

#endif
