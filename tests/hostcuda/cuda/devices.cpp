// Two devices, whose streams and events are past as soon as they are asked for.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include "host.h"

thread_local int current_device = 0;
static thread_local bool entered = false;
static const int DEVICES = 2;

void hostcuda_enter() { entered = true; }
bool hostcuda_entered() { return entered; }

static cudaError_t waited(const char* what) {
  hostcuda_enter();
  hostcuda_count(WAITS, what);
  return cudaSuccess;
}

// Refuses what a stream that is captured cannot do, which ends its capture.
static bool refused(cudaStream_t stream) {
  bool is_captured = hostcuda_capturing(stream);
  if (is_captured) hostcuda_invalidate(stream);
  return is_captured;
}

// Events that were recorded in a capture, which only that capture may wait for.
static std::mutex mutex;
static std::set<cudaEvent_t> captured;
static cudaError_t usable(cudaEvent_t e) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!captured.count(e)) return cudaSuccess;
  hostcuda_invalidate(nullptr);
  return cudaErrorCapturedEvent;
}

extern "C" {
const char* cudaGetErrorName(cudaError_t e) { return e == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice" : "cudaError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of tests/hostcuda"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) { return *n = DEVICES, cudaSuccess; }
cudaError_t cudaGetDevice(int* d) { return *d = current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int d) {
  if (d < 0 || d >= DEVICES) return cudaErrorInvalidDevice;
  current_device = d;
  hostcuda_enter();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr attribute, int) {
  switch (attribute) {  // of an H100
    case cudaDevAttrComputeCapabilityMajor: return *v = 9, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *v = 132, cudaSuccess;
    case cudaDevAttrCooperativeLaunch: return *v = 1, cudaSuccess;
    case cudaDevAttrWarpSize: return *v = 32, cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock: return *v = 1024, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: return *v = 49152, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return *v = 232448, cudaSuccess;
    case cudaDevAttrL2CacheSize: return *v = 50 << 20, cudaSuccess;
    case cudaDevAttrMaxGridDimX: return *v = 2147483647, cudaSuccess;
    default: return *v = 0, cudaSuccess;
  }
}
cudaError_t cudaDeviceGetByPCIBusId(int* d, const char*) { return *d = 0, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* s, int n, int d) {
  snprintf(s, n, "0000:%02x:00.0", d);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "hostcuda");
  p->major = 9;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = 49152;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* v, cudaLimit) { return *v = 0, cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return waited("wait for the device"); }

cudaError_t cudaStreamCreate(cudaStream_t* s) { return hostcuda_enter(), *s = (cudaStream_t)malloc(1), cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) { return cudaStreamCreate(s); }
cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) { return *flags = 0, cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { return *priority = 0, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t s) { return free(s), cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return refused(s) ? cudaErrorStreamCaptureUnsupported : waited("wait for a stream");
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  return refused(s) ? cudaErrorStreamCaptureUnsupported : hostcuda_is_done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t f, void* data) { return f(data), cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  hostcuda_enter();
  return *e = (cudaEvent_t)calloc(1, sizeof(timespec)), cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  std::lock_guard<std::mutex> lock(mutex);
  captured.erase(e);
  return free(e), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  std::lock_guard<std::mutex> lock(mutex);
  hostcuda_enter();
  hostcuda_capturing(s) ? (void)captured.insert(e) : (void)captured.erase(e);
  return clock_gettime(CLOCK_MONOTONIC, (timespec*)e), cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  cudaError_t status = usable(e);
  return status ? status : hostcuda_is_done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  cudaError_t status = usable(e);
  return status ? status : waited("wait for an event");
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  timespec *p = (timespec*)a, *q = (timespec*)b;
  return *ms = (q->tv_sec - p->tv_sec) * 1e3 + (q->tv_nsec - p->tv_nsec) * 1e-6, cudaSuccess;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}
