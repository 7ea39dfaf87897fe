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
void hostcuda_count(int counted, const char* what);  // and write it down
}
void hostcuda_run(HostEntry entry, bool has_barriers, HostDim grid, HostDim block, size_t shared, void** arguments);
bool hostcuda_capturing(void* stream);
void hostcuda_capture(void* stream, std::function<void()> work);  // for the graph of the stream
