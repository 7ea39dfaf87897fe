// Instructions of a whole warp that kernels use by functions of these names, where no compiler of CUDA's defines them: the
// threads put their operands side by side, and read after all have. Fragments as in NVIDIA, PTX ISA, "Matrix
// multiply-accumulate operation using mma instruction" and "ldmatrix".
#pragma once
static float host_operands[1024][12];
static const void* host_rows[1024];

// ldmatrix.x4: thread t gives the address of row t % 8 of matrix t / 8, of 16 bytes.
__attribute__((optimize("O2"))) static inline void burnpy_load_matrices(unsigned (&parts)[4], const void* row) {
  assert((size_t)row % 16 == 0);
  unsigned thread = host_thread(), lane = thread & 31;
  host_rows[thread] = row;
  __syncwarp();
  for (int m = 0; m < 4; m++) memcpy(&parts[m], (const char*)host_rows[(thread & ~31u) + 8 * m + lane / 4] + lane % 4 * 4, 4);
  __syncwarp();
}
// ldmatrix.x4.trans
__attribute__((optimize("O2"))) static inline void burnpy_load_transposed(unsigned (&parts)[4], const void* row) {
  assert((size_t)row % 16 == 0);
  unsigned thread = host_thread(), lane = thread & 31;
  host_rows[thread] = row;
  __syncwarp();
  for (int m = 0; m < 4; m++)
    for (int e = 0; e < 2; e++)
      memcpy((char*)&parts[m] + 2 * e, (const char*)host_rows[(thread & ~31u) + 8 * m + lane % 4 * 2 + e] + lane / 4 * 2, 2);
  __syncwarp();
}
// cp.async of 16 bytes, the last of them zeros: they arrive when the thread waits for their group, and until then nothing
// of use is there
static struct { void* into; const void* from; int bytes; } host_copies[1024][4][128];
static unsigned host_counts[1024][4], host_groups[1024], host_arrived[1024];
static inline void burnpy_copy_part(void* into, const void* from, int bytes) {
  unsigned thread = host_thread(), group = host_groups[thread] % 4;
  assert((size_t)into % 16 == 0 && (!bytes || (size_t)from % 16 == 0));
  memset(into, 0xC7, 16);
  host_copies[thread][group][host_counts[thread][group]++] = {into, from, bytes};
}
static inline void burnpy_copy_later(void* into, const void* from) { burnpy_copy_part(into, from, 16); }
static inline void burnpy_end_group() { host_groups[host_thread()]++; }
template <int LATER> static inline void burnpy_wait_for_groups() {
  unsigned thread = host_thread();
  for (; host_arrived[thread] + LATER < host_groups[thread]; host_arrived[thread]++) {
    unsigned group = host_arrived[thread] % 4;
    for (unsigned n = 0; n < host_counts[thread][group]; n++) {
      auto [into, from, bytes] = host_copies[thread][group][n];
      memset(into, 0, 16);
      memcpy(into, from, bytes);
    }
    host_counts[thread][group] = 0;
  }
}
// cvt.rna.tf32.f32: to the nearest, ties away from zero
static inline float burnpy_rounded(float x) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  if (x - x == 0) bits = (bits + 0x1000) & ~0x1fffu;
  memcpy(&x, &bits, 4);
  return x;
}
// mma.sync.aligned.m16n8k16: c += a b, with sums of float32
template <class T>
__attribute__((optimize("O2"))) static inline void burnpy_multiply_add(T, float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4],
                                                                unsigned b0, unsigned b1) {
  unsigned thread = host_thread(), lane = thread & 31, warp = thread & ~31u, words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  T halves[12];
  memcpy((void*)halves, words, sizeof words);
  for (int k = 0; k < 12; k++) host_operands[thread][k] = (float)halves[k];
  __syncwarp();
  float* sums[] = {&c0, &c1, &c2, &c3};
  for (int e = 0; e < 4; e++) {
    unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 16; k++)
      *sums[e] += host_operands[warp + row % 8 * 4 + k % 8 / 2][(row / 8 + k / 8 * 2) * 2 + k % 2]
                * host_operands[warp + column * 4 + k % 8 / 2][8 + k / 8 * 2 + k % 2];
  }
  __syncwarp();
}
// mma.sync.aligned.m16n8k8 of TF32, which cuts the other bits off
__attribute__((optimize("O2"))) static inline void burnpy_multiply_add(float, float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4],
                                                                unsigned b0, unsigned b1) {
  unsigned thread = host_thread(), lane = thread & 31, warp = thread & ~31u, words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  for (unsigned& word : words) word &= ~0x1fffu;
  memcpy(host_operands[thread], words, sizeof words);
  __syncwarp();
  float* sums[] = {&c0, &c1, &c2, &c3};
  for (int e = 0; e < 4; e++) {
    unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 8; k++)
      *sums[e] += host_operands[warp + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2] * host_operands[warp + column * 4 + k % 4][4 + k / 4];
  }
  __syncwarp();
}
