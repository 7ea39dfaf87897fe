// What a thread of a kernel reads of the place it stands at: the one structure that kernels and libcuda.so.1 share.
#pragma once
struct HostDim {
  unsigned x, y, z;
};
enum HostBarrier { READY, BLOCK, WARP, SLEEP, DONE };  // what a thread waits for
enum HostShuffle { FROM, XOR, UP, DOWN };       // which lane's value a thread reads
struct HostState {
  HostDim thread, block, block_size, grid_size;
  char* shared;                    // the block's dynamic shared memory
  void (*wait)(HostBarrier kind);  // lets the other threads go on until all have come here
  unsigned long long (*shuffle)(unsigned long long bits, HostShuffle kind, int by, int width);  // those of another lane
};
typedef void (*HostEntry)(HostState*, void** arguments);  // runs a kernel for one thread
