// Graphs: the work of a stream while it is captured, which a launch of the graph does. What CUDA refuses to capture ends
// the capture, whatever follows.
#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <set>
#include <vector>
#include "host.h"

typedef std::vector<std::function<void()>> Work;
static std::mutex mutex;
static std::map<void*, Work> capturing;  // by stream
static std::set<void*> invalid;          // of these streams

bool hostcuda_capturing(void* stream) {
  std::lock_guard<std::mutex> lock(mutex);
  return capturing.count(stream);
}
void hostcuda_capture(void* stream, std::function<void()> work) {
  std::lock_guard<std::mutex> lock(mutex);
  if (hostcuda_execute) capturing.at(stream).push_back(work);
}
void hostcuda_invalidate(void* stream) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& each : capturing)
    if (!stream || each.first == stream) invalid.insert(each.first);
}

extern "C" {
void hostcuda_work(void* stream, void (*work)()) {
  hostcuda_settle();
  hostcuda_capturing(stream) ? hostcuda_capture(stream, work) : work();
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  std::lock_guard<std::mutex> lock(mutex);
  return capturing.emplace(stream, Work()).second ? cudaSuccess : cudaErrorIllegalState;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  std::lock_guard<std::mutex> lock(mutex);
  *status = invalid.count(stream)     ? cudaStreamCaptureStatusInvalidated
            : capturing.count(stream) ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = capturing.find(stream);
  if (found == capturing.end()) return cudaErrorIllegalState;
  if (invalid.erase(stream)) return capturing.erase(found), *graph = nullptr, cudaErrorStreamCaptureInvalidated;
  *graph = (cudaGraph_t) new Work(found->second);
  capturing.erase(found);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return *exec = (cudaGraphExec_t) new Work(*(Work*)graph), cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  hostcuda_count(LAUNCHES, "launch cudaGraph");
  for (auto& work : *(Work*)exec) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete (Work*)graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete (Work*)exec, cudaSuccess; }
}
