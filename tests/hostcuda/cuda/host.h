// What the files of libcuda.so.1 share: counters of what was asked for, the log, and launching.
#pragma once
#include <cstddef>
#include <functional>
#include "state.h"

enum Counted { LAUNCHES, TO_DEVICE, TO_HOST, ON_DEVICE, FILLS, WAITS, ALLOCATIONS, COUNTED };
extern "C" {
extern long hostcuda_counts[COUNTED];
extern int hostcuda_execute;  // 0: a dry run, which counts launches and computes nothing
extern int hostcuda_listing;  // 1: a dry run that looks for its kernels, and so lists those to compile
extern int hostcuda_logging;
extern int hostcuda_order;      // of the blocks of a launch and of the threads of a block
void hostcuda_count(int counted, const char* what);  // and write it down
}
enum Order { FORWARD, REVERSED, SHUFFLED };
void hostcuda_settle();   // does what copies of pinned memory are still to do, as every call does that is counted
bool hostcuda_is_done();  // whether there are none
void hostcuda_enter();  // makes a device's context this thread's, as most functions of CUDA's runtime do
bool hostcuda_entered();
struct HostLaunch {
  HostEntry entry;
  bool has_barriers, is_cooperative;  // a cooperative launch runs all blocks side by side
  HostDim grid, block;
  size_t shared;
};
// Runs a kernel; returns a sentence if threads diverge at a barrier or wait in vain, else null.
const char* hostcuda_run(const HostLaunch& launch, void** arguments);
bool hostcuda_capturing(void* stream);
void hostcuda_invalidate(void* stream);  // the capture of a stream, or all captures if there is no stream
void hostcuda_capture(void* stream, std::function<void()> work);  // for the graph of the stream
