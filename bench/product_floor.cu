// What a prompt's product can reach on Hopper: rows of weights that warps unpack in their registers, times bf16 tokens in
// shared memory, by `wgmma`; beside it the same by `mma.sync`. A measure for kernels, no part of the program.
//
// nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a bench/product_floor.cu -o product_floor && ./product_floor
//
// A fragment of 16 elements wants four of them from each of four lanes, at places that lie apart. A sum does not care for
// the order of its elements, so a lane takes a run of neighbours instead, and tokens are put in the same order once: element
// `run * lane + 4 * step + 2 * half + e` of a panel of four runs lies at place `16 * step + 8 * half + 2 * lane + e`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

typedef uint32_t u32;
typedef __nv_bfloat16 bf16;

#define CHECK(call) \
  do { \
    const cudaError_t error = (call); \
    if (error != cudaSuccess) { \
      std::fprintf(stderr, "%s, line %d: %s\n", #call, __LINE__, cudaGetErrorString(error)); \
      std::exit(1); \
    } \
  } while (0)

constexpr int LANES = 4;      // that share a row of a fragment
constexpr int ROW = 64;       // rows of a product of four warps
constexpr int STAGES = 3;     // panels of tokens in shared memory
constexpr int PIECE = 8;      // elements of 16 bytes
constexpr int SWIZZLED = 128; // bytes of a row of shared memory whose pieces are exchanged

__device__ u32 both(bf16 value) {
  const u32 bits = __bfloat16_as_ushort(value);
  return bits | bits << 16;
}
// Two codes from nothing on, less 8: behind 0x43, a byte is 128 and so much more.
__device__ u32 less(u32 pair, u32 number) {
  asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(number));
  return pair;
}
__device__ void codes(const uint4 &word, int step, u32 number, u32 (&pairs)[2]) {
  const u32 all[4] = {word.x, word.y, word.z, word.w};
  const u32 bytes = (step < 4 ? all[step] : all[step - 4] >> 4) & 0x0f0f0f0fu;
  pairs[0] = less(__byte_perm(bytes, 0x43434343u, 0x5140), number);
  pairs[1] = less(__byte_perm(bytes, 0x43434343u, 0x7362), number);
}

// Four bits an element, in blocks of 32: the lower bits of 16 bytes, then the upper ones; a half scales each block.
struct Scaled {
  static constexpr const char *NAME = "4 bits, scale";
  static constexpr int RUN = 32;
  const uint4 *blocks;
  const half *scales;
  struct Run { uint4 codes; u32 scale; };
  __device__ Run load(size_t block) const { return {blocks[block], both(__float2bfloat16(__half2float(scales[block])))}; }
  __device__ static void four(const Run &run, int step, u32 (&pairs)[2]) {
    codes(run.codes, step, 0x43084308u, pairs);
    for (u32 &pair : pairs) asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(run.scale));
  }
  __host__ __device__ static float value(int code, float scale, float) { return (code - 8) * scale; }
};

// The same with a number that is subtracted from each block.
struct WithMinimum {
  static constexpr const char *NAME = "4 bits, scale and minimum";
  static constexpr int RUN = 32;
  const uint4 *blocks;
  const half *scales;
  struct Run { uint4 codes; u32 scale, least; };
  __device__ Run load(size_t block) const {
    const float scale = __half2float(scales[block]);
    return {blocks[block], both(__float2bfloat16(scale)), both(__float2bfloat16(-8 * scale))};
  }
  __device__ static void four(const Run &run, int step, u32 (&pairs)[2]) {
    codes(run.codes, step, 0x43004300u, pairs);
    for (u32 &pair : pairs) asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(pair) : "r"(run.scale), "r"(run.least));
  }
};

__device__ void copy(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void copied() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Tokens of a panel in shared memory, 64 elements a row: pieces of 16 bytes are exchanged by the number of their row.
template <int TOKENS, int PANEL, int THREADS> __device__ void stage(char *to, const bf16 *x, int token, int panel, int k) {
  for (int i = threadIdx.x; i < TOKENS * PANEL / PIECE; i += THREADS) {
    const int row = i / (PANEL / PIECE), piece = i % (PANEL / PIECE), part = piece / PIECE, at = piece % PIECE;
    char *place = to + (part * TOKENS + row) * SWIZZLED + (at ^ row % PIECE) * 16;
    copy(place, x + (size_t)(token + row) * k + panel * PANEL + piece * PIECE);
  }
}

// 64 rows of a fragment times columns in shared memory, in rows of 128 bytes as above.
__device__ uint64_t columns(u32 address) {
  return (uint64_t)(address >> 4 & 0x3fff) | 1ull << 16 | (uint64_t)(PIECE * SWIZZLED >> 4) << 32 | 1ull << 62;
}
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
__device__ void product(float (&d)[32], const u32 (&a)[4], uint64_t b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},{%32,%33,%34,%35},%36,1,1,1,0;"
    : SIXTEEN(d, 0), SIXTEEN(d, 16)
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void product(float (&d)[64], const u32 (&a)[4], uint64_t b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,"
    "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},{%64,%65,%66,%67},%68,1,1,1,0;"
    : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48)
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void product(float (&d)[4], const u32 (&a)[4], u32 low, u32 high) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : FOUR(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

// Runs of the rows that a lane has in `DOWN` fragments, `apart` rows apart: two of each.
template <class Format, int DOWN> struct Rows {
  typename Format::Run runs[DOWN][2];
  __device__ void load(const Format &f, int row, int apart, int panel, int k) {
    const size_t runs_of_row = k / Format::RUN;
#pragma unroll
    for (int i = 0; i < 2 * DOWN; i++) {
      const int at = row + i / 2 * apart + i % 2 * 8 + threadIdx.x % 32 / LANES;
      runs[i / 2][i % 2] = f.load(at * runs_of_row + panel * LANES + threadIdx.x % LANES);
    }
  }
  __device__ void fragment(int i, int step, u32 (&a)[4]) const {
    u32 upper[2], lower[2];
    Format::four(runs[i][0], step, upper);
    Format::four(runs[i][1], step, lower);
    a[0] = upper[0], a[1] = lower[0], a[2] = upper[1], a[3] = lower[1];
  }
};

template <class Format, int GROUPS, int DOWN, int TOKENS, int BLOCKS>
__global__ void __launch_bounds__(GROUPS * 128, BLOCKS) by_wgmma(Format f, const bf16 *x, float *y, int rows, int k) {
  constexpr int PANEL = LANES * Format::RUN, BYTES = TOKENS * PANEL * 2;
  extern __shared__ char memory[];
  char *shared = memory + (1024 - (u32)__cvta_generic_to_shared(memory) % 1024) % 1024;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, panels = k / PANEL;
  const int row = (blockIdx.x * GROUPS + warp / 4) * DOWN * ROW + warp % 4 * 16, token = blockIdx.y * TOKENS;
  const auto send = [&](int panel) {
    if (panel < panels) stage<TOKENS, PANEL, GROUPS * 128>(shared + panel % STAGES * BYTES, x, token, panel, k);
    copied();
  };
  float sums[DOWN][TOKENS / 2] = {};
  Rows<Format, DOWN> now, next;
  for (int panel = 0; panel < STAGES - 1; panel++) send(panel);
  now.load(f, row, ROW, 0, k);
  for (int panel = 0; panel < panels; panel++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    send(panel + STAGES - 1);
    if (panel + 1 < panels) next.load(f, row, ROW, panel + 1, k);
    const u32 base = (u32)__cvta_generic_to_shared(shared + panel % STAGES * BYTES);
    u32 a[2][DOWN][4];
#pragma unroll
    for (int step = 0; step < PANEL / 16; step++) {
#pragma unroll
      for (int i = 0; i < DOWN; i++) now.fragment(i, step, a[step % 2][i]);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < DOWN; i++) product(sums[i], a[step % 2][i], columns(base + step / 4 * TOKENS * SWIZZLED + step % 4 * 32));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    now = next;
  }
#pragma unroll
  for (int i = 0; i < DOWN * TOKENS / 2; i++) {
    const int of = i / (TOKENS / 2), e = i % (TOKENS / 2);
    const int r = row + of * ROW + lane / LANES + e % 4 / 2 * 8, t = token + e / 4 * 8 + lane % LANES * 2 + e % 2;
    y[(size_t)t * rows + r] = sums[of][e];
  }
}

// Tokens as they lie in memory, a run of each lane after another: pieces of the same number follow each other.
template <class Format, int WARPS, int DOWN, int ACROSS, int BLOCKS>
__global__ void __launch_bounds__(WARPS * 32, BLOCKS) by_mma(Format f, const bf16 *x, float *y, int rows, int k) {
  constexpr int PANEL = LANES * Format::RUN, TOKENS = ACROSS * 8, PITCH = PANEL + 32, OF_RUN = Format::RUN / PIECE;
  extern __shared__ __align__(16) bf16 tokens[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, panels = k / PANEL;
  const int row = (blockIdx.x * WARPS + warp) * DOWN * 16, token = blockIdx.y * TOKENS;
  const auto send = [&](int panel) {
    for (int i = threadIdx.x; i < TOKENS * PANEL / PIECE; i += WARPS * 32) {
      const int t = i / (PANEL / PIECE), piece = i % (PANEL / PIECE);
      bf16 *place = tokens + (panel % 2 * TOKENS + t) * PITCH + (piece % OF_RUN * LANES + piece / OF_RUN) * PIECE;
      copy(place, x + (size_t)(token + t) * k + panel * PANEL + piece * PIECE);
    }
    copied();
  };
  float sums[DOWN][ACROSS][4] = {};
  Rows<Format, DOWN> now, next;
  send(0);
  now.load(f, row, 16, 0, k);
  for (int panel = 0; panel < panels; panel++) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (panel + 1 < panels) {
      send(panel + 1);
      next.load(f, row, 16, panel + 1, k);
    }
    const bf16 *at = tokens + (panel % 2 * TOKENS + lane / LANES) * PITCH + lane % LANES * PIECE;
#pragma unroll
    for (int piece = 0; piece < OF_RUN; piece++) {
      u32 a[2][DOWN][4];
#pragma unroll
      for (int i = 0; i < 2 * DOWN; i++) now.fragment(i % DOWN, 2 * piece + i / DOWN, a[i / DOWN][i % DOWN]);
#pragma unroll
      for (int j = 0; j < ACROSS; j++) {
        const uint4 b = *(const uint4 *)(at + j * 8 * PITCH + piece * LANES * PIECE);
#pragma unroll
        for (int i = 0; i < DOWN; i++) product(sums[i][j], a[0][i], b.x, b.y);
#pragma unroll
        for (int i = 0; i < DOWN; i++) product(sums[i][j], a[1][i], b.z, b.w);
      }
    }
    now = next;
  }
#pragma unroll
  for (int i = 0; i < DOWN * ACROSS * 4; i++) {
    const int r = row + i / (ACROSS * 4) * 16 + lane / LANES + i % 4 / 2 * 8;
    const int t = token + i / 4 % ACROSS * 8 + lane % LANES * 2 + i % 2;
    y[(size_t)t * rows + r] = sums[i / (ACROSS * 4)][i / 4 % ACROSS][i % 4];
  }
}

__global__ void in_order(const bf16 *x, bf16 *to, int n, int run) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, panel = LANES * run, at = i % panel;
  if (i < n) to[i] = x[i / panel * panel + run * (at / 2 % LANES) + 4 * (at / 16) + 2 * (at / 8 % 2) + at % 2];
}

// Every seventh row of every seventh token.
constexpr int SOME = 7;
__global__ void expected(const uint8_t *w, const half *scales, const bf16 *x, float *y, int rows, int k, int tokens) {
  const int r = (blockIdx.x * blockDim.x + threadIdx.x) * SOME, t = blockIdx.y * SOME;
  if (r >= rows || t >= tokens) return;
  float sum = 0;
  for (int i = 0; i < k; i++) {
    const size_t block = (size_t)r * (k / 32) + i / 32;
    const int byte = w[block * 16 + i % 16], code = i % 32 < 16 ? byte & 15 : byte >> 4;
    sum += (code - 8) * __half2float(scales[block]) * __bfloat162float(x[(size_t)t * k + i]);
  }
  y[(size_t)t * rows + r] = sum;
}

struct Case {
  int rows, k, tokens;
  uint8_t *w;
  half *scales;
  bf16 *x, *ordered;
  float *y;
  std::vector<float> want, got;

  template <class Launch> void time(const char *format, const char *name, Launch launch) {
    CHECK(cudaMemset(y, 0xff, got.size() * sizeof(float)));
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), y, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    double error = 0, all = 0;
    for (size_t t = 0; t < (size_t)tokens; t += SOME)
      for (size_t r = 0; r < (size_t)rows; r += SOME) {
        const double want = this->want[t * rows + r], off = got[t * rows + r] - want;
        error += off * off, all += want * want;
      }
    std::vector<float> times(31);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (float &ms : times) {
      CHECK(cudaEventRecord(begin));
      launch();
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      CHECK(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    std::printf("%-26s %-44s %7.1f us %6.1f TFLOP/s  nmse %.1e\n", format, name, ms * 1e3, 2.0 * rows * k * tokens / ms / 1e9,
                error / all);
  }

  template <class Format> void run() {
    const Format f = {(const uint4 *)w, scales};
    in_order<<<tokens * k / 256, 256>>>(x, ordered, tokens * k, Format::RUN);
#define BY_MMA(WARPS, DOWN, ACROSS, BLOCKS) \
  { \
    const auto kernel = by_mma<Format, WARPS, DOWN, ACROSS, BLOCKS>; \
    const int bytes = 2 * ACROSS * 8 * (LANES * Format::RUN + 32) * 2; \
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)); \
    time(Format::NAME, "mma: " #WARPS " warps of " #DOWN " x 16 rows, " #ACROSS " x 8 tokens", \
         [&] { kernel<<<dim3(rows / (WARPS * DOWN * 16), tokens / (ACROSS * 8)), WARPS * 32, bytes>>>(f, x, y, rows, k); }); \
  }
#define BY_WGMMA(GROUPS, DOWN, TOKENS, BLOCKS) \
  { \
    const auto kernel = by_wgmma<Format, GROUPS, DOWN, TOKENS, BLOCKS>; \
    const int bytes = STAGES * TOKENS * LANES * Format::RUN * 2 + 1024; \
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)); \
    time(Format::NAME, "wgmma: " #GROUPS " groups of " #DOWN " x 64 rows, " #TOKENS " tokens", \
         [&] { kernel<<<dim3(rows / (GROUPS * DOWN * ROW), tokens / TOKENS), GROUPS * 128, bytes>>>(f, ordered, y, rows, k); }); \
  }
    BY_MMA(8, 2, 8, 2)
    BY_MMA(4, 3, 8, 2)
    BY_MMA(8, 2, 16, 1)
    BY_WGMMA(1, 1, 64, 3)
    BY_WGMMA(1, 2, 64, 2)
    BY_WGMMA(2, 2, 64, 1)
    BY_WGMMA(1, 1, 128, 2)
    BY_WGMMA(1, 2, 128, 1)
    BY_WGMMA(2, 2, 128, 1)
  }
};

int main() {
  Case c = {12288, 2048, 2048};
  const size_t blocks = (size_t)c.rows * c.k / 32, values = (size_t)c.tokens * c.k, sums = (size_t)c.tokens * c.rows;
  CHECK(cudaMalloc(&c.w, blocks * 16));
  CHECK(cudaMalloc(&c.scales, blocks * sizeof(half)));
  CHECK(cudaMalloc(&c.x, values * sizeof(bf16)));
  CHECK(cudaMalloc(&c.ordered, values * sizeof(bf16)));
  CHECK(cudaMalloc(&c.y, sums * sizeof(float)));
  std::vector<uint8_t> w(blocks * 16);
  std::vector<half> scales(blocks);
  std::vector<bf16> x(values);
  for (auto &byte : w) byte = std::rand() >> 7;
  for (auto &scale : scales) scale = __float2half((std::rand() % 1000 + 500) / 1e6f);
  for (auto &value : x) value = __float2bfloat16((std::rand() % 2001 - 1000) / 500.f);
  CHECK(cudaMemcpy(c.w, w.data(), w.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(c.scales, scales.data(), scales.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(c.x, x.data(), x.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  c.want.resize(sums);
  c.got.resize(sums);
  expected<<<dim3(c.rows / SOME / 256 + 1, c.tokens / SOME + 1), 256>>>(c.w, c.scales, c.x, c.y, c.rows, c.k, c.tokens);
  CHECK(cudaMemcpy(c.want.data(), c.y, sums * sizeof(float), cudaMemcpyDeviceToHost));
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  std::printf("%s: %d rows of %d, %d tokens\n", card.name, c.rows, c.k, c.tokens);
  c.run<Scaled>();
  c.run<WithMinimum>();
}
