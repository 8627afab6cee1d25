// The kernels of bandwidth.rs: memory reads, and products on independent
// chains of the widest vectors of the target.

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512BW__)
#define WIDTH 64
#define REGISTER "v"
#elif defined(__AVX2__)
#define WIDTH 32
#define REGISTER "x"
#elif defined(__aarch64__)
#define WIDTH 16
#define REGISTER "w"
#else
#define WIDTH 16
#define REGISTER "x"
#endif

#define CHAINS 12
#define ROUNDS 4096

typedef uint64_t words __attribute__((vector_size(WIDTH)));
typedef int32_t ints __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));

// What the compiler must not know, or it takes work out of the loop.
#if defined(__x86_64__) || defined(__aarch64__)
#define OPAQUE(v) __asm__ volatile("" : "+" REGISTER(v))
#else
#define OPAQUE(v) __asm__ volatile("" : "+m"(v))
#endif

// Sums stay in registers only if the loops over them are unrolled, which gcc does at -O2 if it is told to.
#define UNROLL _Pragma("GCC unroll 16")

// Vectors that one call of dot multiplies. Where products are added by twos, those of eight vectors of codes of 4 bits
// fit into 16 bits before they are widened.
#if (defined(__AVX512BW__) && !defined(__AVX512VNNI__)) || (defined(__AVX2__) && !defined(__AVX512BW__) && !defined(__AVXVNNI__))
#define TOGETHER 8
#else
#define TOGETHER 1
#endif

static inline ints dot(ints sum, ints a, ints b) {
#if defined(__AVX512VNNI__)
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512BW__)
    __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    UNROLL for (int i = 1; i < TOGETHER; i++) {
        OPAQUE(a);
        pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16((__m512i)a, (__m512i)b));
    }
    return sum + (ints)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVXVNNI__)
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#elif defined(__AVX2__)
    __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    UNROLL for (int i = 1; i < TOGETHER; i++) {
        OPAQUE(a);
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16((__m256i)a, (__m256i)b));
    }
    return sum + (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
    return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
#else
    int8_t x[WIDTH], y[WIDTH];
    memcpy(x, &a, WIDTH);
    memcpy(y, &b, WIDTH);
    for (int i = 0; i < WIDTH; i++) sum[i / 4] += x[i] * y[i];
    return sum;
#endif
}

static inline void fill(char *data, int64_t begin, int64_t end, int64_t bytes) {
    memset(data + begin * bytes, 1, (end - begin) * bytes);
}

static inline void stream(char *data, int64_t begin, int64_t end, int64_t bytes) {
    const words *from = (const words *)(data + begin * bytes);
    const words *to = (const words *)(data + end * bytes);
    words sum[8] = {0};
    for (; from < to; from += 8) {
        UNROLL for (int i = 0; i < 8 * WIDTH; i += 64) __builtin_prefetch((const char *)from + 4096 + i);
        UNROLL for (int i = 0; i < 8; i++) sum[i] ^= from[i];
    }
    UNROLL for (int i = 1; i < 8; i++) sum[0] ^= sum[i];
    memcpy(data + begin * bytes, &sum[0], 8);
}

// Each task writes how many products a round has, and a result.
static inline void integer_dot(char *data, int64_t begin, int64_t end, int64_t bytes) {
    for (int64_t task = begin; task < end; task++) {
        ints sum[CHAINS] = {0}, b[CHAINS], a = {0};
        UNROLL for (int i = 0; i < CHAINS; i++) b[i] = a + i + (int)task;
        for (int round = 0; round < ROUNDS; round++) {
            OPAQUE(a);
            UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = dot(sum[i], a, b[i]);
        }
        UNROLL for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
        int64_t result[2] = {CHAINS * WIDTH * TOGETHER, sum[0][0]};
        memcpy(data + task * bytes, result, sizeof result);
    }
}

static inline void multiply_add(char *data, int64_t begin, int64_t end, int64_t bytes) {
    for (int64_t task = begin; task < end; task++) {
        floats sum[CHAINS], b = {0}, a = {0};
        // Equal chains would be one.
        UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = b + (float)i;
        for (int round = 0; round < ROUNDS; round++) {
            OPAQUE(a);
            OPAQUE(b);
            UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * a + b;
        }
        UNROLL for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
        int64_t result[2] = {CHAINS * WIDTH / 4, (int64_t)sum[0][0]};
        memcpy(data + task * bytes, result, sizeof result);
    }
}

// Four products of tiles of 16 x 32 bf16 numbers a round.
static inline void tile_product(char *data, int64_t begin, int64_t end, int64_t bytes) {
#if defined(__AMX_BF16__)
    struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) shape.row_bytes[i] = 64, shape.rows[i] = 16;
    float sums[256];
    _tile_loadconfig(&shape);
    _tile_zero(4); _tile_zero(5); _tile_zero(6); _tile_zero(7);
    for (int64_t task = begin; task < end; task++) {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int round = 0; round < ROUNDS; round++) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, sums, 64);
        int64_t result[2] = {4 * 16 * 16 * 32, (int64_t)sums[0]};
        memcpy(data + task * bytes, result, sizeof result);
    }
    _tile_release();
#endif
}
