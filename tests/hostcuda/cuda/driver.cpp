// Kernels: a module is the name of a source, whose function is compiled when it is first launched (compile.py).
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "host.h"

struct Kernel {
  std::string source, name;
  bool has_barriers;
  HostEntry entry;
  unsigned shared;  // the bytes of dynamic shared memory that a launch may ask for
};
static const unsigned MULTIPROCESSORS = 132, SHARED_AT_MOST = 232448;  // of an H100
// Without a kernel's asking for more, CUDA gives 48 KB, the arrays of the source included, which are not known here.
static const unsigned SHARED = 32768;
typedef void* (*Find)(const char* source, const char* name);
static Find find = nullptr;

static std::mutex one_at_a_time;  // CuPy launches without the GIL, and kernels share the indices of blocks and threads

static std::vector<std::string> divergences;

static void run(Kernel* kernel, const HostLaunch& launch, void** arguments) {
  std::lock_guard<std::mutex> running(one_at_a_time);
  if (!hostcuda_execute) return;
  const char* divergence = hostcuda_run(launch, arguments);
  if (divergence) divergences.push_back(kernel->name + ": " + divergence);
}

struct Arguments {
  std::vector<std::unique_ptr<char[]>> values;
  std::vector<void*> pointers;
};
// As a graph holds them.
static std::shared_ptr<Arguments> copied(HostEntry entry, void** arguments) {
  void* sizes[64] = {};
  {
    std::lock_guard<std::mutex> running(one_at_a_time);
    entry(nullptr, sizes);
  }
  auto held = std::make_shared<Arguments>();
  for (int k = 0; sizes[k]; k++) {
    held->values.emplace_back(new char[(size_t)sizes[k]]);
    held->pointers.push_back(memcpy(held->values.back().get(), arguments[k], (size_t)sizes[k]));
  }
  return held;
}

// Whether every GPU takes so many blocks and threads.
static bool is_possible(HostDim grid, HostDim block) {
  for (unsigned size : {grid.x, grid.y, grid.z, block.x, block.y, block.z})
    if (!size) return false;
  return grid.x < 1u << 31 && grid.y < 1u << 16 && grid.z < 1u << 16 && block.z <= 64 &&
         (unsigned long long)block.x * block.y * block.z <= 1024;
}

static CUresult launched(Kernel* kernel, bool is_cooperative, HostDim grid, HostDim block, unsigned shared, CUstream stream,
                         void** arguments) {
  if (!hostcuda_entered()) return CUDA_ERROR_INVALID_CONTEXT;
  if (shared > kernel->shared || !is_possible(grid, block)) return CUDA_ERROR_INVALID_VALUE;
  if (is_cooperative && grid.x * grid.y * grid.z > MULTIPROCESSORS) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  bool is_captured = hostcuda_capturing(stream);
  if (!is_captured) hostcuda_count(LAUNCHES, ("launch " + kernel->name).c_str());
  if (!kernel->entry && (hostcuda_execute || hostcuda_listing))
    kernel->entry = (HostEntry)find(kernel->source.c_str(), kernel->name.c_str());
  if (!hostcuda_execute) return CUDA_SUCCESS;  // find turns it off where it postpones the test
  if (!kernel->entry) return CUDA_ERROR_NOT_FOUND;
  HostLaunch launch{kernel->entry, kernel->has_barriers, is_cooperative, grid, block, shared};
  if (is_captured) {
    auto held = copied(kernel->entry, arguments);
    hostcuda_capture(stream, [=] { run(kernel, launch, held->pointers.data()); });
  } else {
    run(kernel, launch, arguments);
  }
  return CUDA_SUCCESS;
}

extern "C" {
void hostcuda_compile_with(Find f) { find = f; }
// The next divergence that was met; null if there is none.
const char* hostcuda_divergence() {
  static std::string told;
  std::lock_guard<std::mutex> running(one_at_a_time);
  if (divergences.empty()) return nullptr;
  told = divergences.back(), divergences.pop_back();
  return told.c_str();
}

CUresult cuGetErrorName(CUresult, const char** s) { return *s = "CUDA_ERROR", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** s) { return *s = "an error of tests/hostcuda", CUDA_SUCCESS; }
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* v) { return *v = 13000, CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* c) { return *c = hostcuda_entered() ? (CUcontext)8 : nullptr, CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { return hostcuda_enter(), CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* d) {
  extern thread_local int current_device;
  return *d = current_device, CUDA_SUCCESS;
}

// The image is "b" where the threads of a block wait for each other, else "-", and the name of the source.
CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  if (!hostcuda_entered()) return CUDA_ERROR_INVALID_CONTEXT;
  return *m = (CUmodule) new std::string((const char*)image), CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule* m, const char* image) { return cuModuleLoadData(m, image); }
CUresult cuModuleUnload(CUmodule m) { return delete (std::string*)m, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  std::string& image = *(std::string*)m;
  return *f = (CUfunction) new Kernel{image.substr(1), name, image[0] == 'b', nullptr, SHARED}, CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule, const char*) { return CUDA_ERROR_NOT_FOUND; }

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream stream, void** arguments, void**) {
  return launched((Kernel*)f, false, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments);
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                   unsigned shared, CUstream stream, void** arguments) {
  return launched((Kernel*)f, true, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments);
}
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute, CUfunction) { return *v = 1024, CUDA_SUCCESS; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int v) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (v < 0 || (unsigned)v > SHARED_AT_MOST) return CUDA_ERROR_INVALID_VALUE;
  return ((Kernel*)f)->shared = v, CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* v, CUfunction, int, size_t) { return *v = 2, CUDA_SUCCESS; }
CUresult cuOccupancyMaxPotentialBlockSize(int* blocks, int* threads, CUfunction, CUoccupancyB2DSize, size_t, int) {
  return *blocks = 264, *threads = 256, CUDA_SUCCESS;
}
}
