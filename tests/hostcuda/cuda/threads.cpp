// The threads of a block are fibres of one thread, which go on in turn from one barrier to the next; blocks run one after
// another.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>
#include "host.h"

static const size_t STACK = 1 << 16, SHARED = 1 << 18;

struct Fibre {
  void* top;  // of its stack, while it waits
  HostBarrier waits;
  std::unique_ptr<char[]> stack{new char[STACK]};
};
static thread_local void* scheduler;  // the top of the stack that fibres go back to
static thread_local Fibre* current;
static thread_local HostEntry entry;
static thread_local HostState* state;
static thread_local void** arguments;

// Leaves one stack, of which the top is written to *left, for another. In x86-64's ABI a function keeps these registers;
// swapcontext would ask the kernel for the mask of signals, too, twenty times as slow.
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
  ret
)");

static void wait(HostBarrier kind) {
  current->waits = kind;
  hostcuda_switch(&current->top, scheduler);
}

static void body() {
  entry(state, arguments);
  wait(DONE);
}

static void begin(Fibre& fibre) {
  fibre.waits = READY;
  uintptr_t end = ((uintptr_t)fibre.stack.get() + STACK) & ~(uintptr_t)15;
  void** top = (void**)end - 2;  // where a function begins, the stack is 8 bytes off a multiple of 16
  top[0] = (void*)body;
  fibre.top = top - 6;  // the registers, whatever they hold
}

// Lets those go on that wait for `kind`; whether there were any.
static bool release(std::vector<std::unique_ptr<Fibre>>& fibres, unsigned n, HostBarrier kind) {
  bool any = false;
  for (unsigned t = 0; t < n; t++)
    if (fibres[t]->waits == kind) fibres[t]->waits = READY, any = true;
  return any;
}

static void run_block(std::vector<std::unique_ptr<Fibre>>& fibres, unsigned n) {
  HostDim size = state->block_size;
  for (unsigned t = 0; t < n; t++) begin(*fibres[t]);
  do
    for (unsigned t = 0; t < n; t++)
      if (fibres[t]->waits == READY) {
        state->thread = {t % size.x, t / size.x % size.y, t / (size.x * size.y)};
        current = fibres[t].get();
        hostcuda_switch(&scheduler, current->top);
      }
  while (release(fibres, n, WARP) || release(fibres, n, BLOCK));  // warps first: they are parts of a block
}

void hostcuda_run(HostEntry f, bool has_barriers, HostDim grid, HostDim block, size_t shared, void** args) {
  static thread_local char* memory = (char*)aligned_alloc(512, SHARED);
  static thread_local std::vector<std::unique_ptr<Fibre>> fibres;
  HostState here{{0, 0, 0}, {0, 0, 0}, block, grid, memory, wait};
  if (!has_barriers) {  // a loop over all elements in strides of the grid: one thread goes through it alone
    here.block_size = here.grid_size = {1, 1, 1};
    f(&here, args);
    return;
  }
  if (shared > SHARED) abort();
  unsigned n = block.x * block.y * block.z;
  while (fibres.size() < n) fibres.emplace_back(new Fibre);
  entry = f, state = &here, arguments = args;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        here.block = {x, y, z};
        memset(memory, 0xC7, shared);
        run_block(fibres, n);
      }
}
