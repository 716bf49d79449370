/* Kernels into which `fault` plants one fault of each kind. */
#include "device/cuda/simt/device.hpp"
#include "tests/device/cuda/simt/kernels.h"

#define KERNEL(name, bounds) \
  static void run_##name(const test_args &a); \
  static void start_##name(const void *args) { run_##name(*static_cast<const test_args *>(args)); } \
  const simt_kernel kernel_##name = {#name, sizeof(test_args), alignof(test_args), bounds, start_##name}; \
  static void run_##name(const test_args &a)

/* y is x reversed, through shared memory. 1: no barrier. 2: a barrier more for half of the block. 3: two barriers, each
 * for a half. 4: a thread leaves before the barrier. 5: too much shared memory. 6: a barrier of one warp where the
 * block needs one. 7: an index beyond the shared array. 8: a thread writes nothing to the shared array. 9: a pointer
 * goes one element beyond the shared array. */
KERNEL(reverse, 256) {
  SHARED_ARRAY(float, all, [256]);
  const unsigned t = threadIdx.x, n = blockDim.x;
  if (a.fault == 4 && t == 5) return;
  if (a.fault == 5) {
    SHARED_ARRAY(float, more, [20000]);
    more[t] = 0;
  }
  float *const first = all;
  if (a.fault == 9) first[t + 1] = a.x[t];
  else if (a.fault != 8 || t != 3) all[a.fault == 7 ? t + 1 : t] = a.x[t];
  switch (a.fault) {
    case 1: break;
    case 2:
      if (t < n / 2) __syncthreads();
      __syncthreads();
      break;
    case 3:
      if (t % 2) __syncthreads();
      else __syncthreads_count(1);
      break;
    case 6: __syncwarp(); break;
    default: __syncthreads();
  }
  a.y[t] = all[n - 1 - t];
}

/* y[lane] is x of the next lane. 1: the mask names lanes that have left. 2: the mask names lanes that wait at another
 * shuffle. 3: it names lanes that wait at __syncthreads. 4: it does not name the caller. 5: it does not name the lane
 * that is read. 6: it names lanes that are not there (a block of 24 threads). 7: lanes at one place with other masks.
 * The mask names lanes that have left at 8: a __syncwarp, 9: a ballot; lanes that wait at __syncthreads at 10: a
 * __syncwarp, 11: a ballot. 12: a shuffle of five lanes. */
KERNEL(lanes, 32) {
  const int lane = static_cast<int>(threadIdx.x);
  const float x = a.x[lane];
  float y = 0;
  if ((a.fault == 1 || a.fault == 8 || a.fault == 9) && lane >= 16) return;
  if (a.fault == 2 && lane >= 16) y = __shfl_sync(~0u, x, 0);
  else if ((a.fault == 3 || a.fault == 10 || a.fault == 11) && lane >= 16) __syncthreads();
  else if (a.fault == 8 || a.fault == 10) __syncwarp();
  else if (a.fault == 9 || a.fault == 11) y = static_cast<float>(__ballot_sync(~0u, 1));
  else if (a.fault == 4) y = __shfl_sync(0xffff0000u, x, 20);
  else if (a.fault == 5 && lane < 16) y = __shfl_sync(0xffffu, x, 16);
  else if (a.fault == 12) y = __shfl_sync(~0u, x, 0, 5);
  else if (a.fault == 6) y = static_cast<float>(__ballot_sync(~0u, 1));
  else if (a.fault == 7) y = static_cast<float>(__ballot_sync(lane < 16 ? ~0u : ~1u, 1));
  else y = __shfl_sync(a.fault == 5 ? 0xffff0000u : ~0u, x, (lane + 1) % 32 | (a.fault == 5 ? 16 : 0));
  a.y[lane] = y;
}

/* y is x. 1: reads one element beyond x. 2: one before. 3: writes one beyond y. 4: writes to x. 5: a float4 from an
 * address that is a multiple of 4 only. 6: one byte beyond. 7: overflow of an int. 8: an index beyond a local array.
 * 9: a float that fits no int. 10: the sum of addresses leaves all operands. 11: an atomic at an odd address. 12: a
 * null pointer. */
KERNEL(memory, 32) {
  const int t = static_cast<int>(threadIdx.x), last = a.n - 1;
  if (t >= a.n) return;
  switch (a.fault) {
    case 1: a.y[t] = a.x[t + 1]; break;
    case 2: a.y[t] = a.x[t - 1]; break;
    case 3: a.y[t + 1] = a.x[t]; break;
    case 4: const_cast<float *>(a.x)[t] = 1; break;
    case 5: {
      const float4 four = *reinterpret_cast<const float4 *>(a.x + 1);
      a.y[t] = four.x + four.w;
      break;
    }
    case 6: {
      uint32_t bits;
      memcpy(&bits, reinterpret_cast<const char *>(a.x + last) + 1, 4);
      a.y[t] = static_cast<float>(bits);
      break;
    }
    case 7: a.y[t] = static_cast<float>(a.n + 0x7ffffff0); break;
    case 8: {
      float local[4] = {1, 2, 3, 4};
      a.y[t] = local[a.n];
      break;
    }
    case 9: a.y[t] = static_cast<float>(static_cast<int>(a.x[t] * 1e30f)); break;
    case 10: a.y[t + 1000000] = 1; break;
    case 11: atomicAdd(reinterpret_cast<int *>(reinterpret_cast<char *>(a.y) + 1), 1); break;
    case 12: {
      const float *volatile nothing = nullptr;
      a.y[t] = *nothing;
      break;
    }
    default: a.y[t] = a.x[t];
  }
}
