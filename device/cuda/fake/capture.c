/* The fake driver's captures, graphs and modules of kernels. A capture in global mode is broken by a potentially unsafe
 * call of any thread, one in thread-local mode by such a call of its own thread only. */
#include <string.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"

cu_result fake_unsafe(fake_world *world, const char *function) {
  uv_thread_t here = uv_thread_self();
  cu_result result = CU_SUCCESS;
  for (cu_stream stream = world->streams; stream; stream = stream->next) {
    if (!stream->capture || (stream->mode == CU_CAPTURE_THREAD && !uv_thread_equal(&stream->thread, &here))) continue;
    stream->invalidated = true;
    result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "%s is not allowed while a stream is captured", function);
  }
  return result;
}

cu_result fake_legacy_work(fake_world *world, cu_stream legacy, const char *function) {
  cu_result result = CU_SUCCESS;
  for (cu_stream stream = world->streams; stream; stream = stream->next) {
    if (!stream->capture || stream->non_blocking || stream->card != legacy->card) continue;
    stream->invalidated = true;
    result = fake_say(world, CU_CAPTURE_IMPLICIT,
                      "%s: work on the default stream would wait for a blocking stream that is captured", function);
  }
  return result;
}

void fake_graph_release(fake_world *world, cu_graph graph) {
  if (--graph->n_references) return;
  for (fake_work *work = graph->first, *next; work; work = next) {
    next = work->next;
    fake_work_free(world, work);
  }
  mem_free(graph);
}

cu_result fake_capture_state(cu_stream stream, int *out_state) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuStreamIsCapturing");
  if (result) return result;
  result = fake_find_stream(world, "cuStreamIsCapturing", &stream);
  if (!result && stream->kind == FAKE_LEGACY) result = fake_legacy_work(world, stream, "cuStreamIsCapturing");
  if (!result) *out_state = stream->capture ? CU_CAPTURE_ACTIVE : CU_CAPTURE_NONE;
  fake_leave(world);
  return result;
}

cu_result fake_capture_begin(cu_stream stream, int mode) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuStreamBeginCapture");
  if (result) return result;
  result = fake_find_stream(world, "cuStreamBeginCapture", &stream);
  if (!result && stream->kind == FAKE_LEGACY)
    result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "cuStreamBeginCapture: the default stream cannot be captured");
  if (result) {
    fake_leave(world);
    return result;
  }
  const bool free_stream = !stream->capture;
  cu_graph made = free_stream ? mem_calloc(1, sizeof *made) : NULL;
  if (made) {
    *made = (struct CUgraph_st){.last = &made->first, .n_references = 1};
    stream->capture = made;
    stream->thread = uv_thread_self();
    stream->mode = mode;
    stream->invalidated = false;
  }
  fake_leave(world);
  return made ? CU_SUCCESS : free_stream ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
}

cu_result fake_capture_end(cu_stream stream, cu_graph *out_graph) {
  fake_world *world;
  uv_thread_t here = uv_thread_self();
  cu_result told, result = fake_enter_undo(&world, "cuStreamEndCapture", &told);
  if (result) return result;
  result = fake_find_stream(world, "cuStreamEndCapture", &stream);
  if (result) {
    fake_leave(world);
    return result;
  }
  cu_graph graph = stream->capture;
  if (!graph) result = fake_say(world, CU_INVALID_VALUE, "cuStreamEndCapture: the stream is not captured");
  else if (!uv_thread_equal(&stream->thread, &here))
    result = fake_say(world, CU_CAPTURE_WRONG_THREAD, "cuStreamEndCapture: another thread began the capture");
  else if (stream->invalidated)
    result = fake_say(world, CU_CAPTURE_INVALIDATED, "cuStreamEndCapture: a call has broken the capture");
  if (!result) result = told;
  if (graph && result != CU_CAPTURE_WRONG_THREAD) {
    stream->capture = NULL;
    if (result) {
      fake_graph_release(world, graph);
    } else {
      world->n_live[FAKE_GRAPH]++;
      *out_graph = graph;
    }
  }
  fake_leave(world);
  return result;
}

cu_result fake_graph_destroy(cu_graph graph) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuGraphDestroy", &told);
  if (result) return result;
  world->n_live[FAKE_GRAPH]--;
  fake_graph_release(world, graph);
  fake_leave(world);
  return told;
}

cu_result fake_graph_instantiate(cu_graph_exec *out_exec, cu_graph graph, unsigned long long flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuGraphInstantiate");
  if (result) return result;
  cu_graph_exec made = flags ? NULL : mem_calloc(1, sizeof *made);
  if (made) {
    made->graph = graph;
    graph->n_references++;
    world->n_live[FAKE_EXEC]++;
    *out_exec = made;
  }
  fake_leave(world);
  return made ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

cu_result fake_graph_exec_destroy(cu_graph_exec exec) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuGraphExecDestroy", &told);
  if (result) return result;
  world->n_live[FAKE_EXEC]--;
  fake_graph_release(world, exec->graph);
  mem_free(exec);
  fake_leave(world);
  return told;
}

/* ---- modules of kernels ---- */

cu_result fake_module_load(cu_module *out_module, const void *image) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuModuleLoadData");
  if (result) return result;
  const fake_image *kernels = image;
  result = fake_unsafe(world, "cuModuleLoadData");
  cu_module made = result || (size_t)kernels->n > sizeof made->functions / sizeof *made->functions
                       ? NULL
                       : mem_calloc(1, sizeof *made);
  if (made) {
    made->image = kernels;
    for (int32_t i = 0; i < kernels->n; i++)
      made->functions[i] = (struct CUfunc_st){&kernels->kernels[i], SIMT_SHARED_DEFAULT};
    world->n_live[FAKE_MODULE]++;
    *out_module = made;
  } else if (!result) {
    result = CU_OUT_OF_MEMORY;
  }
  fake_leave(world);
  return result;
}

cu_result fake_module_unload(cu_module module) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuModuleUnload", &told);
  if (result) return result;
  world->n_live[FAKE_MODULE]--;
  mem_free(module);
  fake_leave(world);
  return told;
}

cu_result fake_module_function(cu_function *out_function, cu_module module, const char *name) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuModuleGetFunction");
  if (result) return result;
  int32_t i = 0;
  while (i < module->image->n && strcmp(module->image->kernels[i].name, name) != 0) i++;
  if (i < module->image->n) *out_function = &module->functions[i];
  else result = fake_say(world, CU_NOT_FOUND, "the image has no kernel %s", name);
  fake_leave(world);
  return result;
}

cu_result fake_function_parameter(cu_function function, size_t index, size_t *out_offset, size_t *out_bytes) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuFuncGetParamInfo");
  if (result) return result;
  *out_offset = 0;
  *out_bytes = function->kernel->args_bytes;
  fake_leave(world);
  return index ? CU_INVALID_VALUE : CU_SUCCESS;
}

cu_result fake_function_set(cu_function function, int attribute, int value) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuFuncSetAttribute");
  if (result) return result;
  if (attribute != CU_DYNAMIC_SHARED_BYTES || value < 0 || value > world->options.card->shared_bytes)
    result = fake_say(world, CU_INVALID_VALUE, "cuFuncSetAttribute: %d bytes of shared memory", value);
  else function->shared_limit = (uint32_t)value;
  fake_leave(world);
  return result;
}
