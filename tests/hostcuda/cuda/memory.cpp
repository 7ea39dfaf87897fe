// Device memory is the host's, and copies are at once, but for those of pinned memory, which are read late, as a GPU
// may read them. Fresh memory is filled with 0xC7, so that reading it shows.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>
#include "host.h"

struct Range {
  size_t size;
  int device;
  cudaMemoryType type;
};
static std::mutex mutex;
static std::map<uintptr_t, Range> ranges;
static std::vector<std::function<void()>> late;  // copies of pinned memory
extern thread_local int current_device;

static cudaError_t allocate(void** p, size_t n, cudaMemoryType type) {
  hostcuda_enter();
  *p = aligned_alloc(512, (n + 511) / 512 * 512);
  if (!*p) return cudaErrorMemoryAllocation;
  memset(*p, 0xC7, n);
  std::lock_guard<std::mutex> lock(mutex);
  ranges[(uintptr_t)*p] = {n, current_device, type};
  return cudaSuccess;
}

void hostcuda_settle() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& work : late) work();
  late.clear();
}
bool hostcuda_is_done() {
  std::lock_guard<std::mutex> lock(mutex);
  return late.empty();
}

static cudaError_t release(void* p) {
  hostcuda_settle();
  {
    std::lock_guard<std::mutex> lock(mutex);
    ranges.erase((uintptr_t)p);
  }
  free(p);
  return cudaSuccess;
}

static bool found(const void* p, std::pair<const uintptr_t, Range>* out) {
  std::lock_guard<std::mutex> lock(mutex);
  auto next = ranges.upper_bound((uintptr_t)p);
  if (next == ranges.begin()) return false;
  --next;
  if ((uintptr_t)p >= next->first + next->second.size) return false;
  new (out) std::pair<const uintptr_t, Range>(*next);
  return true;
}

static bool on_device(const void* p) {
  std::pair<const uintptr_t, Range> range{};
  return found(p, &range) && range.second.type != cudaMemoryTypeHost;
}
static bool pinned(const void* p) {
  std::pair<const uintptr_t, Range> range{};
  return found(p, &range) && range.second.type == cudaMemoryTypeHost;
}

static cudaError_t copy(void* to, const void* from, size_t n, cudaMemcpyKind kind, bool is_async = false) {
  hostcuda_enter();
  if (kind == cudaMemcpyDefault)
    kind = !on_device(from) ? cudaMemcpyHostToDevice : on_device(to) ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  bool in = kind == cudaMemcpyHostToDevice, out = kind == cudaMemcpyDeviceToHost, is_late = in && is_async && pinned(from);
  char line[64];
  snprintf(line, sizeof line, "copy %s %zu", in ? "to device" : out ? "to host" : "on device", n);
  hostcuda_count(in ? TO_DEVICE : out ? TO_HOST : ON_DEVICE, line);
  // A dry run computes nothing: a loop on the host would count to what happens to be in memory.
  if (out && !hostcuda_execute) return memset(to, 0, n), cudaSuccess;
  if (!is_late) return memmove(to, from, n), cudaSuccess;
  std::lock_guard<std::mutex> lock(mutex);
  return late.push_back([=] { memmove(to, from, n); }), cudaSuccess;
}

static cudaError_t fill(void* p, int value, size_t n) {
  hostcuda_enter();
  hostcuda_count(FILLS, "fill");
  memset(p, value, n);
  return cudaSuccess;
}

extern "C" {
cudaError_t cudaMalloc(void** p, size_t n) {
  hostcuda_count(ALLOCATIONS, "allocate");
  return allocate(p, n, cudaMemoryTypeDevice);
}
cudaError_t cudaMallocManaged(void** p, size_t n, unsigned) { return allocate(p, n, cudaMemoryTypeManaged); }
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) { return allocate(p, n, cudaMemoryTypeHost); }
cudaError_t cudaFree(void* p) { return release(p); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return release(p); }
cudaError_t cudaFreeHost(void* p) { return release(p); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  hostcuda_enter();
  *free = *total = (size_t)8 << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) { return copy(to, from, n, kind); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!hostcuda_capturing(stream)) return copy(to, from, n, kind, true);
  for (const void* p : {from, (const void*)to})  // a graph copies from and to pinned memory, whatever is there by then
    if (!on_device(p) && !pinned(p)) return hostcuda_invalidate(stream), cudaErrorStreamCaptureUnsupported;
  return hostcuda_capture(stream, [=] { memmove(to, from, n); }), cudaSuccess;
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t n) {
  return copy(to, from, n, cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t n, cudaStream_t) {
  return copy(to, from, n, cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemset(void* p, int value, size_t n) { return fill(p, value, n); }
cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t stream) {
  if (!hostcuda_capturing(stream)) return fill(p, value, n);
  return hostcuda_capture(stream, [=] { memset(p, value, n); }), cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  memset(a, 0, sizeof *a);
  std::pair<const uintptr_t, Range> range{};
  if (found(p, &range)) {
    a->type = range.second.type;
    a->device = range.second.device;
    a->devicePointer = a->hostPointer = (void*)p;
  }
  return cudaSuccess;
}
}
