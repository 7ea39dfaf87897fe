// The threads of a block are fibres of one thread. Each runs up to a barrier and switches to the next that can go on; when
// all wait, the scheduler ends the barrier. Blocks run one after another, and those of a cooperative launch in turn. A kernel without races computes the same bits in
// every order of blocks and threads; a barrier that a part of a block or of a warp does not reach is reported.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>
#include "host.h"

extern "C" {
int hostcuda_order = FORWARD;
}
static std::mt19937 random_bits;

static const size_t STACK = 1 << 16, SHARED = 1 << 18;
static const size_t APART = STACK + 320;  // of stacks: at powers of 2, their tops would share a few lines of the caches
static const unsigned THREADS = 1024;     // the most that a block may have
static const unsigned TOGETHER = 1 << 14;  // the most that blocks may have that run in turn
static const int ATTEMPTS = 100;           // of threads that sleep, until what they wait for is said never to come

struct Fibre {
  void* top;                   // of its stack, while it waits
  const void* site;            // the place in the kernel where it waits
  Fibre** turn;                // its place in `turns`
  HostState* state;            // of its block
  unsigned long long bits[2];  // that its last two shuffles gave to others
  HostBarrier waits;
  HostDim thread;
  unsigned shuffles;  // so far
};
static thread_local void* scheduler;  // the top of the stack that runs blocks
static thread_local Fibre fibres[TOGETHER];
static thread_local Fibre *current, *end;
static thread_local unsigned of_block;           // the threads of a block
static thread_local Fibre* turns[TOGETHER + 1];  // the fibres in the order in which they run, and a null
static thread_local const char* divergence;     // what was wrong with a barrier
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

// Switches to the first fibre, from the given turn on, that can go on, or to the scheduler.
static void go_on(Fibre** turn, void** left) {
  while (*turn && (*turn)->waits != READY) turn++;
  if (!*turn) return hostcuda_switch(left, scheduler);
  current = *turn;
  state = current->state;
  state->thread = current->thread;
  hostcuda_switch(left, current->top);
}

static void wait_at(HostBarrier kind, const void* site) {
  current->waits = kind, current->site = site;
  go_on(current->turn + 1, &current->top);
}
static void wait(HostBarrier kind) { wait_at(kind, __builtin_return_address(0)); }

// The threads of a warp lay down their bits, and read after all have. The next shuffle has another place, so that none
// writes where another still reads: all have read once a thread comes to the one after that.
static unsigned long long shuffle(unsigned long long bits, HostShuffle kind, int by, int width) {
  Fibre* mine = current;
  int thread = mine - fibres, lane = thread & 31, within = lane & (width - 1), from = lane;
  if (kind == FROM) from = (lane & ~(width - 1)) + (by & (width - 1));
  if (kind == XOR) from = lane ^ by;
  if (kind == UP && within >= by) from = lane - by;
  if (kind == DOWN && within + by < width) from = lane + by;
  Fibre* other = fibres + (thread & ~31) + from;
  unsigned turn = mine->shuffles++ & 1;
  mine->bits[turn] = bits;
  wait_at(WARP, __builtin_return_address(0));
  return other < end ? other->bits[turn] : bits;
}

static void body() {
  entry(state, arguments);
  wait(DONE);
}

static void begin(Fibre& fibre, HostState* state, char* stack, HostDim thread) {
  fibre = {nullptr, nullptr, nullptr, state, {}, READY, thread, 0};
  uintptr_t end = ((uintptr_t)stack + STACK) & ~(uintptr_t)15;
  void** top = (void**)end - 2;  // where a function begins, the stack is 8 bytes off a multiple of 16
  top[0] = (void*)body;
  fibre.top = top - 6;  // the registers, whatever they hold
}

// Compares the threads from `first` on that meet at a barrier: all must come, and to the same one.
static void check(HostBarrier kind, Fibre* first, Fibre* last) {
  Fibre* met = std::find_if(first, last, [=](Fibre& fibre) { return fibre.waits == kind; });
  if (met == last) return;
  for (Fibre* fibre = first; fibre < last; fibre++)
    if (fibre->waits != kind) divergence = kind == WARP ? "a part of a warp waits for the warp" : "a part of a block waits for the block";
    else if (fibre->site != met->site) divergence = "threads wait at different barriers";
}

// Ends the waiting for `kind` of a warp or block; returns whether any fibre waited. One that sleeps may still come.
static bool release(HostBarrier kind, Fibre* first, Fibre* last) {
  if (kind != SLEEP) {
    if (std::any_of(first, last, [](Fibre& fibre) { return fibre.waits == SLEEP; })) return false;
    check(kind, first, last);
  }
  bool any = false;
  for (Fibre* fibre = first; fibre < last; fibre++)
    if (fibre->waits == kind) fibre->waits = READY, any = true;
  return any;
}
static bool release(HostBarrier kind) {
  bool any = false;
  for (Fibre* block = fibres; block < end; block += of_block)
    for (unsigned k = 0, step = kind == WARP ? 32 : of_block; k < of_block; k += step)
      any |= release(kind, block + k, block + std::min(k + step, of_block));
  return any;
}

static void take_turns() {
  if (hostcuda_order == SHUFFLED) std::shuffle(turns, turns + (end - fibres), random_bits);
  for (Fibre** turn = turns; *turn; turn++) (*turn)->turn = turn;
}

struct Memory {
  char* of(size_t bytes) {  // whatever it holds
    if (bytes > size) free(first), first = (char*)aligned_alloc(512, bytes), size = bytes;
    return first;
  }
  char* first = nullptr;
  size_t size = 0;
};

// Runs one block, or all of a cooperative launch.
static void run_blocks(HostState* blocks, unsigned long count) {
  HostDim size = blocks->block_size;
  end = fibres, of_block = size.x * size.y * size.z;
  static thread_local Memory stacks;
  char* stack = stacks.of(count * of_block * APART);
  for (HostState* block = blocks; block < blocks + count; block++)
    for (unsigned z = 0; z < size.z; z++)
      for (unsigned y = 0; y < size.y; y++)
        for (unsigned x = 0; x < size.x; x++, end++) begin(*end, block, stack + (end - fibres) * APART, {x, y, z});
  long threads = end - fibres;
  for (long k = 0; k < threads; k++) turns[k] = fibres + (hostcuda_order == REVERSED ? threads - 1 - k : k);
  turns[threads] = nullptr;
  take_turns();
  for (int attempts = 0;;) {
    if (hostcuda_order == SHUFFLED) take_turns();
    go_on(turns, &scheduler);
    if (release(WARP) || release(BLOCK)) attempts = 0;  // warps first: they are parts of a block
    else if (!release(SLEEP)) return;
    else if (++attempts == ATTEMPTS) return void(divergence = "threads wait in vain for others");
  }
}

// The place of number `k` of so many, in the present order; strides that are prime to the number visit each place once.
static unsigned long place(unsigned long k, unsigned long count) {
  if (hostcuda_order == REVERSED) return count - 1 - k;
  if (hostcuda_order == FORWARD) return k;
  for (unsigned long stride : {7919ul, 104729ul, 31ul, 3ul})
    if (std::gcd(stride, count) == 1) return (unsigned __int128)k * stride % count;
  return count - 1 - k;
}

const char* hostcuda_run(const HostLaunch& launch, void** args) {
  const HostDim grid = launch.grid, block = launch.block;
  unsigned long blocks = (unsigned long)grid.x * grid.y * grid.z, threads = (unsigned long)block.x * block.y * block.z;
  unsigned long together = launch.is_cooperative ? blocks : 1;
  static thread_local Memory shared;
  char* memory = shared.of(together * SHARED);
  std::vector<HostState> states(together, {{0, 0, 0}, {0, 0, 0}, block, grid, nullptr, wait, shuffle});
  HostState& here = states[0];
  if (launch.shared > SHARED || threads > THREADS || threads * together > TOGETHER) abort();
  if (!launch.has_barriers && hostcuda_order == FORWARD) {  // a loop over all elements in strides of the grid: one thread goes through it alone
    here.block_size = here.grid_size = {1, 1, 1};
    launch.entry(&here, args);
    return nullptr;
  }
  entry = launch.entry, arguments = args, divergence = nullptr;
  for (unsigned long k = 0; k < blocks; k++) {
    HostState& here = states[k % together];
    unsigned long at = place(k, blocks);
    here.block = {unsigned(at % grid.x), unsigned(at / grid.x % grid.y), unsigned(at / grid.x / grid.y)};
    if (launch.has_barriers) {
      here.shared = memory + k % together * SHARED;
      memset(here.shared, 0xC7, launch.shared);
      if ((k + 1) % together == 0) run_blocks(states.data(), together);
      continue;
    }
    for (unsigned long n = 0; n < threads; n++) {
      unsigned long thread = place(n, threads);
      here.thread = {unsigned(thread % block.x), unsigned(thread / block.x % block.y), unsigned(thread / block.x / block.y)};
      launch.entry(&here, args);
    }
  }
  return divergence;
}
