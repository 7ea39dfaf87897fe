// The threads of a block are fibres of one thread. Each runs up to a barrier and switches to the next that can go on; when
// all wait, the scheduler ends the barrier. Blocks run one after another.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include "host.h"

static const size_t STACK = 1 << 16, SHARED = 1 << 18;
static const unsigned THREADS = 1024;  // the most that a block may have

struct Fibre {
  void* top;  // of its stack, while it waits
  HostBarrier waits;
  HostDim thread;
};
static thread_local void* scheduler;  // the top of the stack that runs blocks
static thread_local Fibre fibres[THREADS];
static thread_local Fibre *current, *end;
static thread_local HostEntry entry;
static thread_local HostState* state;
static thread_local void** arguments;

// Writes the top of this stack to *left and goes on with another. In x86-64's ABI a function keeps these registers;
// swapcontext would also save the mask of signals, by a system call. The jump is predicted where a return would not be.
extern "C" void hostcuda_switch(void** left, void* top);
asm(R"(
.text
.globl hostcuda_switch
.hidden hostcuda_switch
hostcuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rdx
  jmp *%rdx
)");

// Switches to the first fibre, from `fibre` on, that can go on, or to the scheduler.
static void go_on(Fibre* fibre, void** left) {
  while (fibre < end && fibre->waits != READY) fibre++;
  if (fibre == end) return hostcuda_switch(left, scheduler);
  current = fibre;
  state->thread = fibre->thread;
  hostcuda_switch(left, fibre->top);
}

static void wait(HostBarrier kind) {
  current->waits = kind;
  go_on(current + 1, &current->top);
}

static void body() {
  entry(state, arguments);
  wait(DONE);
}

static void begin(Fibre& fibre, char* stack, HostDim thread) {
  fibre = {nullptr, READY, thread};
  uintptr_t end = ((uintptr_t)stack + STACK) & ~(uintptr_t)15;
  void** top = (void**)end - 2;  // where a function begins, the stack is 8 bytes off a multiple of 16
  top[0] = (void*)body;
  fibre.top = top - 6;  // the registers, whatever they hold
}

// Ends the waiting for `kind`; returns whether any fibre waited.
static bool release(HostBarrier kind) {
  bool any = false;
  for (Fibre* fibre = fibres; fibre < end; fibre++)
    if (fibre->waits == kind) fibre->waits = READY, any = true;
  return any;
}

static void run_block() {
  static thread_local char* stacks = (char*)malloc(THREADS * STACK);
  HostDim size = state->block_size;
  end = fibres;
  for (unsigned z = 0; z < size.z; z++)
    for (unsigned y = 0; y < size.y; y++)
      for (unsigned x = 0; x < size.x; x++, end++) begin(*end, stacks + (end - fibres) * STACK, {x, y, z});
  do go_on(fibres, &scheduler);
  while (release(WARP) || release(BLOCK));  // warps first: they are parts of a block
}

void hostcuda_run(HostEntry f, bool has_barriers, HostDim grid, HostDim block, size_t shared, void** args) {
  static thread_local char* memory = (char*)aligned_alloc(512, SHARED);
  HostState here{{0, 0, 0}, {0, 0, 0}, block, grid, memory, wait};
  if (!has_barriers) {  // a loop over all elements in strides of the grid: one thread goes through it alone
    here.block_size = here.grid_size = {1, 1, 1};
    f(&here, args);
    return;
  }
  if (shared > SHARED || block.x * block.y * block.z > THREADS) abort();
  entry = f, state = &here, arguments = args;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        here.block = {x, y, z};
        memset(memory, 0xC7, shared);
        run_block();
      }
}
