/* Vector types and the few operations that C and the vector extensions cannot
   say. Every function has a plain body; instruction sets replace some. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#if defined(__clang__) || defined(__AVXVNNI__) || __GNUC__ > 15 || defined(__AVX512F__) && (defined(__AMX_TILE__) || __GNUC__ != 12)
#include <immintrin.h>
#else
/* The parts of immintrin.h that are meant: gcc takes twice to ten times as long for those of other processors. Parts of
   AVX-512 need others, which ones was tried with gcc 12. */
#define _IMMINTRIN_H_INCLUDED
#include <nmmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#include <f16cintrin.h>
#if defined(__AVX512F__)
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#endif
#if defined(__AVX512VNNI__)
#include <avx512vnniintrin.h>
#include <avx512vnnivlintrin.h>
#endif
#if defined(__AVX512BF16__)
#include <avx512bf16vlintrin.h>
#include <avx512bf16intrin.h>
#endif
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#define KL static inline __attribute__((always_inline, unused))
/* The name of the function of a kernel's tasks, whatever name the kernel has been given. */
#define KL_PASTE(a, b) a##b
#define KL_TASKS(symbol) KL_PASTE(symbol, _tasks)
typedef uint16_t kl_f16;
typedef uint16_t kl_bf16;
#define KL_VECTOR(name, base, mask, n) \
  typedef base name##x##n __attribute__((vector_size(n * sizeof(base))));
#define KL_SIZES(M, name, base, mask) \
  M(name, base, mask, 2) M(name, base, mask, 4) M(name, base, mask, 8) M(name, base, mask, 16) M(name, base, mask, 32) M(name, base, mask, 64)
#define KL_TYPES(M) \
  KL_SIZES(M, i8, int8_t, i8) KL_SIZES(M, u8, uint8_t, i8) KL_SIZES(M, i16, int16_t, i16) KL_SIZES(M, u16, uint16_t, i16) \
  KL_SIZES(M, i32, int32_t, i32) KL_SIZES(M, u32, uint32_t, i32) KL_SIZES(M, f32, float, i32) KL_SIZES(M, f16, uint16_t, i16) \
  KL_SIZES(M, bf16, uint16_t, i16)
KL_TYPES(KL_VECTOR)
#define KL_MEMORY(name, base, mask, n) \
  KL name##x##n kl_load_##name##x##n(const void *p) { name##x##n v; memcpy(&v, p, sizeof v); return v; } \
  KL void kl_store_##name##x##n(void *p, name##x##n v) { memcpy(p, &v, sizeof v); } \
  KL name##x##n kl_splat_##name##x##n(base x) { return x - (name##x##n){}; } \
  KL name##x##n kl_select_##name##x##n(mask##x##n m, name##x##n a, name##x##n b) { \
    return (name##x##n)((m & (mask##x##n)a) | (~m & (mask##x##n)b)); }
KL_TYPES(KL_MEMORY)
#define KL_INTEGER_ORDER(name, base, mask, n) \
  KL name##x##n kl_max_##name##x##n(name##x##n a, name##x##n b) { return kl_select_##name##x##n((mask##x##n)(a > b), a, b); } \
  KL name##x##n kl_min_##name##x##n(name##x##n a, name##x##n b) { return kl_select_##name##x##n((mask##x##n)(a < b), a, b); }
KL_SIZES(KL_INTEGER_ORDER, i32, int32_t, i32)
KL_SIZES(KL_INTEGER_ORDER, u8, uint8_t, i8)
/* x86 shifts no bytes. gcc takes four additions for a shift by four, and two masks where one would do. */
#if defined(__x86_64__)
#define KL_BYTE_SHIFTS(name, words) \
  KL name kl_shl_##name(name v, int by) { return (name)((words)v << by) & (uint8_t)(0xff << by); } \
  KL name kl_shr_##name(name v, int by) { return (name)((words)v >> by) & (uint8_t)(0xff >> by); }
#else
#define KL_BYTE_SHIFTS(name, words) \
  KL name kl_shl_##name(name v, int by) { return v << by; } \
  KL name kl_shr_##name(name v, int by) { return v >> by; }
#endif
KL_BYTE_SHIFTS(u8x4, u16x2)
KL_BYTE_SHIFTS(u8x8, u16x4)
KL_BYTE_SHIFTS(u8x16, u16x8)
KL_BYTE_SHIFTS(u8x32, u16x16)
KL_BYTE_SHIFTS(u8x64, u16x32)

#define KL_HALVES_4(name) \
  KL name##x4 kl_join_##name##x4(name##x2 a, name##x2 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3); } \
  KL name##x2 kl_low_##name##x4(name##x4 v) { return __builtin_shufflevector(v, v, 0, 1); } \
  KL name##x2 kl_high_##name##x4(name##x4 v) { return __builtin_shufflevector(v, v, 2, 3); }
KL_HALVES_4(u8)
KL_HALVES_4(i8)
KL_HALVES_4(u16)
KL_HALVES_4(i16)
KL_HALVES_4(u32)
KL_HALVES_4(i32)
KL_HALVES_4(f32)
KL_HALVES_4(f16)
KL_HALVES_4(bf16)
#define KL_HALVES_8(name) \
  KL name##x8 kl_join_##name##x8(name##x4 a, name##x4 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); } \
  KL name##x4 kl_low_##name##x8(name##x8 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); } \
  KL name##x4 kl_high_##name##x8(name##x8 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
KL_HALVES_8(u8)
KL_HALVES_8(i8)
KL_HALVES_8(u16)
KL_HALVES_8(i16)
KL_HALVES_8(u32)
KL_HALVES_8(i32)
KL_HALVES_8(f32)
KL_HALVES_8(f16)
KL_HALVES_8(bf16)
#define KL_HALVES_16(name) \
  KL name##x16 kl_join_##name##x16(name##x8 a, name##x8 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); } \
  KL name##x8 kl_low_##name##x16(name##x16 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); } \
  KL name##x8 kl_high_##name##x16(name##x16 v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }
KL_HALVES_16(u8)
KL_HALVES_16(i8)
KL_HALVES_16(u16)
KL_HALVES_16(i16)
KL_HALVES_16(u32)
KL_HALVES_16(i32)
KL_HALVES_16(f32)
KL_HALVES_16(f16)
KL_HALVES_16(bf16)
#define KL_PARTS_32(name) \
  KL name##x16 kl_low_##name##x32(name##x32 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); } \
  KL name##x16 kl_high_##name##x32(name##x32 v) { return __builtin_shufflevector(v, v, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31); }
#define KL_HALVES_32(name) \
  KL name##x32 kl_join_##name##x32(name##x16 a, name##x16 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31); } \
  KL_PARTS_32(name)
/* Asked for halves of bytes, gcc takes a permutation of all of them. */
#if defined(__AVX2__)
#define KL_BYTES_32(name) \
  KL name##x32 kl_join_##name##x32(name##x16 a, name##x16 b) { return (name##x32)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)a), (__m128i)b, 1); } \
  KL_PARTS_32(name)
#else
#define KL_BYTES_32(name) KL_HALVES_32(name)
#endif
KL_BYTES_32(u8)
KL_BYTES_32(i8)
KL_HALVES_32(u16)
KL_HALVES_32(i16)
KL_HALVES_32(u32)
KL_HALVES_32(i32)
KL_HALVES_32(f32)
KL_HALVES_32(f16)
KL_HALVES_32(bf16)
#define KL_PARTS_64(name) \
  KL name##x32 kl_low_##name##x64(name##x64 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31); } \
  KL name##x32 kl_high_##name##x64(name##x64 v) { return __builtin_shufflevector(v, v, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63); }
#define KL_HALVES_64(name) \
  KL name##x64 kl_join_##name##x64(name##x32 a, name##x32 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63); } \
  KL_PARTS_64(name)
/* Asked for halves of bytes, gcc takes a permutation of all of them. */
#if defined(__AVX512F__)
#define KL_BYTES_64(name) \
  KL name##x64 kl_join_##name##x64(name##x32 a, name##x32 b) { return (name##x64)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)a), (__m256i)b, 1); } \
  KL_PARTS_64(name)
#else
#define KL_BYTES_64(name) KL_HALVES_64(name)
#endif
KL_BYTES_64(u8)
KL_BYTES_64(i8)
KL_HALVES_64(u16)
KL_HALVES_64(i16)
KL_HALVES_64(u32)
KL_HALVES_64(i32)
KL_HALVES_64(f32)
KL_HALVES_64(f16)
KL_HALVES_64(bf16)

/* A vector of twice the lanes; the upper ones are whatever costs nothing. */
#define KL_TWICE_COPY(name, n, m) KL name##x##m kl_twice_##name##x##m(name##x##n v) { return kl_join_##name##x##m(v, v); }
#if defined(__AVX2__)
#define KL_TWICE_16(name, n, m) KL name##x##m kl_twice_##name##x##m(name##x##n v) { return (name##x##m)_mm256_castsi128_si256((__m128i)v); }
#else
#define KL_TWICE_16(name, n, m) KL_TWICE_COPY(name, n, m)
#endif
#if defined(__AVX512F__)
#define KL_TWICE_32(name, n, m) KL name##x##m kl_twice_##name##x##m(name##x##n v) { return (name##x##m)_mm512_castsi256_si512((__m256i)v); }
#else
#define KL_TWICE_32(name, n, m) KL_TWICE_COPY(name, n, m)
#endif
#define KL_TWICE_WORDS(name) KL_TWICE_COPY(name, 2, 4) KL_TWICE_16(name, 4, 8) KL_TWICE_32(name, 8, 16) KL_TWICE_COPY(name, 16, 32) KL_TWICE_COPY(name, 32, 64)
#define KL_TWICE_HALVES(name) KL_TWICE_COPY(name, 2, 4) KL_TWICE_COPY(name, 4, 8) KL_TWICE_16(name, 8, 16) KL_TWICE_32(name, 16, 32) KL_TWICE_COPY(name, 32, 64)
#define KL_TWICE_BYTES(name) KL_TWICE_COPY(name, 2, 4) KL_TWICE_COPY(name, 4, 8) KL_TWICE_COPY(name, 8, 16) KL_TWICE_16(name, 16, 32) KL_TWICE_32(name, 32, 64)
KL_TWICE_WORDS(f32) KL_TWICE_WORDS(i32) KL_TWICE_WORDS(u32)
KL_TWICE_HALVES(f16) KL_TWICE_HALVES(bf16) KL_TWICE_HALVES(i16) KL_TWICE_HALVES(u16)
KL_TWICE_BYTES(i8) KL_TWICE_BYTES(u8)

/* Bytes to words and back. A compiler asked for a fourth of the bits, or four times as many, goes lane by lane. */
#define KL_WORDS_PLAIN(name, half, n) \
  KL i32x##n kl_words_##name##x##n(name##x##n v) { return __builtin_convertvector(__builtin_convertvector(v, half##x##n), i32x##n); }
#define KL_WORDS_SPLIT(name, n, m) \
  KL i32x##n kl_words_##name##x##n(name##x##n v) { \
    return kl_join_i32x##n(kl_words_##name##x##m(kl_low_##name##x##n(v)), kl_words_##name##x##m(kl_high_##name##x##n(v))); }
#define KL_BYTES_PLAIN(name, half, n) \
  KL name##x##n kl_bytes_##name##x##n(i32x##n v) { return __builtin_convertvector(__builtin_convertvector(v, half##x##n), name##x##n); }
#define KL_BYTES_SAME(n) KL u8x##n kl_bytes_u8x##n(i32x##n v) { return (u8x##n)kl_bytes_i8x##n(v); }
#define KL_EACH_BYTE(M, n) M(u8, u16, n) M(i8, i16, n)
KL_EACH_BYTE(KL_WORDS_PLAIN, 2) KL_EACH_BYTE(KL_BYTES_PLAIN, 2)
#if defined(__AVX2__)
#define KL_WORDS_4_8(name, to) \
  KL i32x4 kl_words_##name##x4(name##x4 v) { int32_t b; memcpy(&b, &v, 4); return (i32x4)_mm_cvtep##to##_epi32(_mm_cvtsi32_si128(b)); } \
  KL i32x8 kl_words_##name##x8(name##x8 v) { int64_t b; memcpy(&b, &v, 8); return (i32x8)_mm256_cvtep##to##_epi32(_mm_cvtsi64_si128(b)); }
KL_WORDS_4_8(u8, u8) KL_WORDS_4_8(i8, i8)
KL i8x4 kl_bytes_i8x4(i32x4 v) {
  __m128i b = _mm_shuffle_epi8((__m128i)v, _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  int32_t w = _mm_cvtsi128_si32(b); i8x4 r; memcpy(&r, &w, 4); return r; }
KL i8x8 kl_bytes_i8x8(i32x8 v) {
  __m256i b = _mm256_shuffle_epi8((__m256i)v, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                                               -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1));
  int64_t w = _mm_cvtsi128_si64(_mm_or_si128(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
  i8x8 r; memcpy(&r, &w, 8); return r; }
KL_BYTES_SAME(4) KL_BYTES_SAME(8)
#else
KL_EACH_BYTE(KL_WORDS_PLAIN, 4) KL_EACH_BYTE(KL_WORDS_PLAIN, 8) KL_EACH_BYTE(KL_BYTES_PLAIN, 4) KL_EACH_BYTE(KL_BYTES_PLAIN, 8)
#endif
/* Of the lower eight of sixteen bytes. */
#if defined(__AVX2__)
KL i32x8 kl_words_low_u8x16(u8x16 v) { return (i32x8)_mm256_cvtepu8_epi32((__m128i)v); }
KL i32x8 kl_words_low_i8x16(i8x16 v) { return (i32x8)_mm256_cvtepi8_epi32((__m128i)v); }
#else
KL i32x8 kl_words_low_u8x16(u8x16 v) { return kl_words_u8x8(kl_low_u8x16(v)); }
KL i32x8 kl_words_low_i8x16(i8x16 v) { return kl_words_i8x8(kl_low_i8x16(v)); }
#endif
#define KL_JOIN_LOW(name) KL name kl_join_low_##name(name a, name b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23); }
KL_JOIN_LOW(u8x16) KL_JOIN_LOW(i8x16)
#if defined(__AVX512F__)
KL i32x16 kl_words_u8x16(u8x16 v) { return (i32x16)_mm512_cvtepu8_epi32((__m128i)v); }
KL i32x16 kl_words_i8x16(i8x16 v) { return (i32x16)_mm512_cvtepi8_epi32((__m128i)v); }
KL i8x16 kl_bytes_i8x16(i32x16 v) { return (i8x16)_mm512_cvtepi32_epi8((__m512i)v); }
KL_BYTES_SAME(16)
#elif defined(__AVX2__)
KL_WORDS_SPLIT(u8, 16, 8) KL_WORDS_SPLIT(i8, 16, 8) KL_EACH_BYTE(KL_BYTES_PLAIN, 16)
#else
KL_EACH_BYTE(KL_WORDS_PLAIN, 16) KL_EACH_BYTE(KL_BYTES_PLAIN, 16)
#endif
KL_WORDS_SPLIT(u8, 32, 16) KL_WORDS_SPLIT(i8, 32, 16) KL_EACH_BYTE(KL_BYTES_PLAIN, 32)
KL_WORDS_SPLIT(u8, 64, 32) KL_WORDS_SPLIT(i8, 64, 32) KL_EACH_BYTE(KL_BYTES_PLAIN, 64)

KL uint32_t kl_load_u32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
KL float kl_load_f32(const void *p) { float v; memcpy(&v, p, 4); return v; }
KL kl_f16 kl_load_f16(const void *p) { kl_f16 v; memcpy(&v, p, 2); return v; }
KL kl_bf16 kl_load_bf16(const void *p) { kl_bf16 v; memcpy(&v, p, 2); return v; }

/* Integers: quotients round down. */
KL int64_t kl_div(int64_t a, int64_t b) { int64_t q = a / b; return q - ((a % b != 0) & ((a % b < 0) != (b < 0))); }
KL int64_t kl_mod(int64_t a, int64_t b) { int64_t r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0))) * b; }

#define KL_INTEGER_QUOTIENT(name, base, mask, n) \
  KL name##x##n kl_div_##name##x##n(name##x##n a, name##x##n b) { \
    name##x##n q = a / b, r = a - q * b; return q + (name##x##n)((r != 0) & ((r < 0) != (b < 0))); } \
  KL name##x##n kl_mod_##name##x##n(name##x##n a, name##x##n b) { return a - kl_div_##name##x##n(a, b) * b; }
KL_SIZES(KL_INTEGER_QUOTIENT, i32, int32_t, i32)

/* Half precision. */
#if defined(__F16C__)
KL float kl_from_f16(kl_f16 h) { return _cvtsh_ss(h); }
KL kl_f16 kl_to_f16(float x) { return _cvtss_sh(x, 0); }
#elif defined(__aarch64__)
KL float kl_from_f16(kl_f16 h) { __fp16 v; memcpy(&v, &h, 2); return v; }
KL kl_f16 kl_to_f16(float x) { __fp16 v = x; kl_f16 h; memcpy(&h, &v, 2); return h; }
#else
KL float kl_from_f16(kl_f16 h) {
  uint32_t s = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023, b;
  if (e == 31) b = s | 0x7f800000 | m << 13;
  else if (e) b = s | (e + 112) << 23 | m << 13;
  else { float f = m * 0x1p-24f; memcpy(&b, &f, 4); b |= s; }
  float v; memcpy(&v, &b, 4); return v;
}
KL kl_f16 kl_to_f16(float x) {
  uint32_t b; memcpy(&b, &x, 4);
  uint32_t s = (b >> 16) & 0x8000, a = b & 0x7fffffff;
  if (a > 0x7f800000) return s | 0x7e00;
  if (a >= 0x47800000) return s | 0x7c00;
  if (a < 0x38800000) {
    float f; memcpy(&f, &a, 4); f += 0.5f; memcpy(&a, &f, 4);
    return s | (a - 0x3f000000);
  }
  a += 0xc8000fff + ((a >> 13) & 1);
  return s | a >> 13;
}
#endif
KL float kl_from_bf16(kl_bf16 h) { uint32_t b = (uint32_t)h << 16; float v; memcpy(&v, &b, 4); return v; }
KL kl_bf16 kl_to_bf16(float x) {
  uint32_t b; memcpy(&b, &x, 4);
  if ((b & 0x7fffffff) > 0x7f800000) return b >> 16 | 64;
  return (b + 0x7fff + ((b >> 16) & 1)) >> 16;
}
#define KL_FROM_BF16(n) \
  KL f32x##n kl_from_bf16_##n(bf16x##n h) { return (f32x##n)(__builtin_convertvector((u16x##n)h, u32x##n) << 16); }
#define KL_HALF(n) KL_FROM_BF16(n) \
  KL bf16x##n kl_to_bf16_##n(f32x##n x) { bf16x##n h; for (int i = 0; i < n; i++) h[i] = kl_to_bf16(x[i]); return h; }
#if defined(__AVX512BF16__)
/* Tiny numbers become zero here. */
#define KL_TO_BF16(n) \
  KL bf16x##n kl_to_bf16_##n(f32x##n x) { bf16x##n h; for (int i = 0; i < n; i++) h[i] = kl_to_bf16(x[i]); return h; }
KL_FROM_BF16(2) KL_FROM_BF16(4) KL_FROM_BF16(8) KL_FROM_BF16(16) KL_FROM_BF16(32) KL_FROM_BF16(64)
KL_TO_BF16(2) KL_TO_BF16(4) KL_TO_BF16(8)
KL bf16x16 kl_to_bf16_16(f32x16 x) { return (bf16x16)_mm512_cvtneps_pbh((__m512)x); }
KL bf16x32 kl_round_bf16x32(f32x16 low, f32x16 high) { return (bf16x32)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }
KL bf16x32 kl_to_bf16_32(f32x32 x) { return kl_round_bf16x32(kl_low_f32x32(x), kl_high_f32x32(x)); }
KL bf16x64 kl_to_bf16_64(f32x64 x) { return kl_join_bf16x64(kl_to_bf16_32(kl_low_f32x64(x)), kl_to_bf16_32(kl_high_f32x64(x))); }
#else
KL_HALF(2) KL_HALF(4) KL_HALF(8) KL_HALF(16) KL_HALF(32) KL_HALF(64)
KL bf16x32 kl_round_bf16x32(f32x16 low, f32x16 high) { return kl_join_bf16x32(kl_to_bf16_16(low), kl_to_bf16_16(high)); }
#endif
#define KL_HALF_PLAIN(n) \
  KL f32x##n kl_from_f16_##n(f16x##n h) { f32x##n x; for (int i = 0; i < n; i++) x[i] = kl_from_f16(h[i]); return x; } \
  KL f16x##n kl_to_f16_##n(f32x##n x) { f16x##n h; for (int i = 0; i < n; i++) h[i] = kl_to_f16(x[i]); return h; }
#define KL_HALF_SPLIT(n, m) \
  KL f32x##n kl_from_f16_##n(f16x##n h) { return kl_join_f32x##n(kl_from_f16_##m(kl_low_f16x##n(h)), kl_from_f16_##m(kl_high_f16x##n(h))); } \
  KL f16x##n kl_to_f16_##n(f32x##n x) { return kl_join_f16x##n(kl_to_f16_##m(kl_low_f32x##n(x)), kl_to_f16_##m(kl_high_f32x##n(x))); }
KL_HALF_PLAIN(2)
#if defined(__F16C__)
KL f32x4 kl_from_f16_4(f16x4 h) { uint64_t b; memcpy(&b, &h, 8); return (f32x4)_mm_cvtph_ps(_mm_cvtsi64_si128(b)); }
KL f16x4 kl_to_f16_4(f32x4 x) { uint64_t b = _mm_cvtsi128_si64(_mm_cvtps_ph((__m128)x, 0)); f16x4 h; memcpy(&h, &b, 8); return h; }
KL f32x8 kl_from_f16_8(f16x8 h) { return (f32x8)_mm256_cvtph_ps((__m128i)h); }
KL f16x8 kl_to_f16_8(f32x8 x) { return (f16x8)_mm256_cvtps_ph((__m256)x, 0); }
#elif defined(__aarch64__)
KL f32x4 kl_from_f16_4(f16x4 h) { return (f32x4)vcvt_f32_f16((float16x4_t)h); }
KL f16x4 kl_to_f16_4(f32x4 x) { return (f16x4)vcvt_f16_f32((float32x4_t)x); }
KL_HALF_SPLIT(8, 4)
#else
KL_HALF_PLAIN(4)
KL_HALF_SPLIT(8, 4)
#endif
#if defined(__AVX512F__)
KL f32x16 kl_from_f16_16(f16x16 h) { return (f32x16)_mm512_cvtph_ps((__m256i)h); }
KL f16x16 kl_to_f16_16(f32x16 x) { return (f16x16)_mm512_cvtps_ph((__m512)x, 0); }
#else
KL_HALF_SPLIT(16, 8)
#endif
KL_HALF_SPLIT(32, 16)
KL_HALF_SPLIT(64, 32)
/* One number in all lanes, and two of them in a half each. */
#if defined(__AVX2__)
KL f32x8 kl_splat_from_f16_8(kl_f16 h) { return (f32x8)_mm256_cvtph_ps(_mm_set1_epi16(h)); }
KL f16x16 kl_splats_f16x16(kl_f16 a, kl_f16 b) { return (f16x16)_mm256_blend_epi32(_mm256_set1_epi16(a), _mm256_set1_epi16(b), 0xf0); }
#else
KL f32x8 kl_splat_from_f16_8(kl_f16 h) { return kl_splat_f32x8(kl_from_f16(h)); }
KL f16x16 kl_splats_f16x16(kl_f16 a, kl_f16 b) { return kl_join_f16x16(kl_splat_f16x8(a), kl_splat_f16x8(b)); }
#endif

/* Elementary functions of floats. */
KL float kl_max(float a, float b) { return a > b || a != a ? a : b; }
KL float kl_min(float a, float b) { return a < b || a != a ? a : b; }
KL float kl_abs(float x) { return fabsf(x); }
KL float kl_sqrt(float x) { return sqrtf(x); }
KL float kl_sin(float x) { return sinf(x); }
KL float kl_cos(float x) { return cosf(x); }
KL int32_t kl_to_int(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : 0; }
KL float kl_round(float x) { return fabsf(x) < 0x1p23f ? (float)(int32_t)(x + copysignf(0x1.fffffep-2f, x)) : x; }
/* 2^k of whole numbers, as a product of two powers that are no subnormal numbers. */
#define KL_POWER(F, I, k, a, b) \
  I h = k >> 1; I s = (h + 127) << 23; I t = (k - h + 127) << 23; \
  F a, b; memcpy(&a, &s, sizeof a); memcpy(&b, &t, sizeof b);
#define KL_EXP2_BODY(F, I, SELECT, TRUNC) \
  F c = SELECT(x > -252.0f, x, (F){0} - 252.0f); c = SELECT(c < 254.0f, c, (F){0} + 254.0f); \
  I k = TRUNC(c); KL_POWER(F, I, k, a, b) return a * b;
/* e^x = 2^n e^r with |r| <= ln 2 / 2 and a polynomial for e^r. */
#define KL_EXP_BODY(F, I, SELECT, TRUNC) \
  F c = SELECT(x > -104.0f, x, (F){0} - 104.0f); c = SELECT(x < 89.0f, c, (F){0} + 89.0f); \
  F z = c * 1.44269504f; F n = z + 12582912.0f; n = n - 12582912.0f; \
  F r = c - n * 0.693359375f; r = r + n * 2.12194440e-4f; \
  F p = r * 1.9875691500e-4f + 1.3981999507e-3f; p = p * r + 8.3334519073e-3f; p = p * r + 4.1665795894e-2f; \
  p = p * r + 1.6666665459e-1f; p = p * r + 5.0000001201e-1f; p = p * (r * r) + r; p = p + 1.0f; \
  I k = TRUNC(n); KL_POWER(F, I, k, a, b) p = p * a * b; \
  return SELECT(x == x, p, x);
#define KL_PICK(c, a, b) ((c) ? (a) : (b))
#define KL_CHOP(x) ((int32_t)(x))
KL float kl_exp2(float x) { KL_EXP2_BODY(float, int32_t, KL_PICK, KL_CHOP) }
KL float kl_exp(float x) { if (x != x) return x; KL_EXP_BODY(float, int32_t, KL_PICK, KL_CHOP) }
#define KL_FUNCTIONS(n) \
  KL f32x##n kl_max_f32_##n(f32x##n a, f32x##n b) { return kl_select_f32x##n((i32x##n)(a > b) | (i32x##n)(a != a), a, b); } \
  KL f32x##n kl_min_f32_##n(f32x##n a, f32x##n b) { return kl_select_f32x##n((i32x##n)(a < b) | (i32x##n)(a != a), a, b); } \
  KL f32x##n kl_abs_##n(f32x##n x) { return (f32x##n)((i32x##n)x & 0x7fffffff); } \
  KL f32x##n kl_sqrt_##n(f32x##n x) { f32x##n y; for (int i = 0; i < n; i++) y[i] = sqrtf(x[i]); return y; } \
  KL f32x##n kl_sin_##n(f32x##n x) { f32x##n y; for (int i = 0; i < n; i++) y[i] = sinf(x[i]); return y; } \
  KL f32x##n kl_cos_##n(f32x##n x) { f32x##n y; for (int i = 0; i < n; i++) y[i] = cosf(x[i]); return y; } \
  KL i32x##n kl_to_int_##n(f32x##n x) { \
    i32x##n in = (i32x##n)(x >= -0x1p31f) & (i32x##n)(x < 0x1p31f); \
    return __builtin_convertvector((f32x##n)((i32x##n)x & in), i32x##n); } \
  KL f32x##n kl_round_##n(f32x##n x) { \
    i32x##n sign = (i32x##n)x & INT32_MIN; \
    f32x##n half = (f32x##n)(sign | 0x3effffff); \
    f32x##n y = __builtin_convertvector(kl_to_int_##n(x + half), f32x##n); \
    return kl_select_f32x##n((i32x##n)(kl_abs_##n(x) < 0x1p23f), y, x); } \
  KL i32x##n kl_chop_##n(f32x##n x) { return __builtin_convertvector(x, i32x##n); } \
  KL f32x##n kl_exp2_##n(f32x##n x) { KL_EXP2_BODY(f32x##n, i32x##n, kl_select_f32x##n, kl_chop_##n) } \
  KL f32x##n kl_exp_##n(f32x##n x) { KL_EXP_BODY(f32x##n, i32x##n, kl_select_f32x##n, kl_chop_##n) }
/* Of vectors that are wider than a register by halves: gcc takes their comparisons and conversions lane by lane. */
#define KL_BY_HALVES(to, from, name, n, m) \
  KL to##x##n kl_##name##_##n(from##x##n x) { return kl_join_##to##x##n(kl_##name##_##m(kl_low_##from##x##n(x)), kl_##name##_##m(kl_high_##from##x##n(x))); }
#define KL_BY_HALVES_OF_TWO(name, n, m) \
  KL f32x##n kl_##name##_##n(f32x##n a, f32x##n b) { \
    return kl_join_f32x##n(kl_##name##_##m(kl_low_f32x##n(a), kl_low_f32x##n(b)), kl_##name##_##m(kl_high_f32x##n(a), kl_high_f32x##n(b))); }
#define KL_FUNCTIONS_BY_HALVES(n, m) \
  KL_BY_HALVES_OF_TWO(max_f32, n, m) KL_BY_HALVES_OF_TWO(min_f32, n, m) \
  KL_BY_HALVES(f32, f32, abs, n, m) KL_BY_HALVES(f32, f32, sqrt, n, m) KL_BY_HALVES(f32, f32, sin, n, m) KL_BY_HALVES(f32, f32, cos, n, m) \
  KL_BY_HALVES(f32, f32, exp2, n, m) KL_BY_HALVES(f32, f32, exp, n, m) KL_BY_HALVES(f32, f32, round, n, m) KL_BY_HALVES(i32, f32, to_int, n, m)
KL_FUNCTIONS(2) KL_FUNCTIONS(4)
#if defined(__AVX2__)
KL_FUNCTIONS(8)
#else
KL_FUNCTIONS_BY_HALVES(8, 4)
#endif
#if defined(__AVX512F__)
KL_FUNCTIONS(16)
#else
KL_FUNCTIONS_BY_HALVES(16, 8)
#endif
KL_FUNCTIONS_BY_HALVES(32, 16) KL_FUNCTIONS_BY_HALVES(64, 32)

/* Reductions of all lanes, by halves. */
KL float kl_sum_f32x2(f32x2 v) { return v[0] + v[1]; }
KL float kl_most_f32x2(f32x2 v) { return kl_max(v[0], v[1]); }
KL int32_t kl_sum_i32x2(i32x2 v) { return v[0] + v[1]; }
KL int32_t kl_most_i32x2(i32x2 v) { return v[0] > v[1] ? v[0] : v[1]; }
#define KL_ACROSS(n, m) \
  KL float kl_sum_f32x##n(f32x##n v) { return kl_sum_f32x##m(kl_low_f32x##n(v) + kl_high_f32x##n(v)); } \
  KL int32_t kl_sum_i32x##n(i32x##n v) { return kl_sum_i32x##m(kl_low_i32x##n(v) + kl_high_i32x##n(v)); } \
  KL float kl_most_f32x##n(f32x##n v) { return kl_most_f32x##m(kl_max_f32_##m(kl_low_f32x##n(v), kl_high_f32x##n(v))); } \
  KL int32_t kl_most_i32x##n(i32x##n v) { return kl_most_i32x##m(kl_max_i32x##m(kl_low_i32x##n(v), kl_high_i32x##n(v))); }
KL_ACROSS(4, 2) KL_ACROSS(8, 4) KL_ACROSS(16, 8) KL_ACROSS(32, 16) KL_ACROSS(64, 32)

/* Table look-ups of 16 entries. */
#define KL_LOOKUP_PLAIN(n) \
  KL u8x##n kl_lookup_##n(u8x16 t, u8x##n i) { u8x##n v; for (int k = 0; k < n; k++) v[k] = t[i[k] & 15]; return v; }
#define KL_LOOKUP_SPLIT(n, m) \
  KL u8x##n kl_lookup_##n(u8x16 t, u8x##n i) { return kl_join_u8x##n(kl_lookup_##m(t, kl_low_u8x##n(i)), kl_lookup_##m(t, kl_high_u8x##n(i))); }
KL_LOOKUP_PLAIN(2) KL_LOOKUP_PLAIN(4) KL_LOOKUP_PLAIN(8)
#if defined(__SSSE3__)
KL u8x16 kl_lookup_16(u8x16 t, u8x16 i) { return (u8x16)_mm_shuffle_epi8((__m128i)t, (__m128i)i); }
#elif defined(__aarch64__)
KL u8x16 kl_lookup_16(u8x16 t, u8x16 i) { return (u8x16)vqtbl1q_u8((uint8x16_t)t, (uint8x16_t)i); }
#else
KL_LOOKUP_PLAIN(16)
#endif
#if defined(__AVX2__)
KL u8x32 kl_lookup_32(u8x16 t, u8x32 i) { return (u8x32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)t), (__m256i)i); }
#else
KL_LOOKUP_SPLIT(32, 16)
#endif
#if defined(__AVX512BW__)
KL u8x64 kl_lookup_64(u8x16 t, u8x64 i) { return (u8x64)_mm512_shuffle_epi8(_mm512_broadcast_i32x4((__m128i)t), (__m512i)i); }
#else
KL_LOOKUP_SPLIT(64, 32)
#endif

/* Sums of four products of an unsigned and a signed byte. */
#define KL_DOT_PLAIN(n, b) \
  KL i32x##n kl_dot_##n(i32x##n s, u8x##b a, i8x##b v) { \
    for (int i = 0; i < n; i++) for (int k = 0; k < 4; k++) s[i] += (int32_t)a[4 * i + k] * v[4 * i + k]; \
    return s; }
#define KL_DOT_SPLIT(n, b, m) \
  KL i32x##n kl_dot_##n(i32x##n s, u8x##b a, i8x##b v) { \
    return kl_join_i32x##n(kl_dot_##m(kl_low_i32x##n(s), kl_low_u8x##b(a), kl_low_i8x##b(v)), \
                           kl_dot_##m(kl_high_i32x##n(s), kl_high_u8x##b(a), kl_high_i8x##b(v))); }
KL int32_t kl_dot_1(int32_t s, u8x4 a, i8x4 v) { for (int k = 0; k < 4; k++) s += (int32_t)a[k] * v[k]; return s; }
KL_DOT_PLAIN(2, 8)
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) { return (i32x4)_mm_dpbusd_epi32((__m128i)s, (__m128i)a, (__m128i)v); }
KL i32x8 kl_dot_8(i32x8 s, u8x32 a, i8x32 v) { return (i32x8)_mm256_dpbusd_epi32((__m256i)s, (__m256i)a, (__m256i)v); }
KL i32x16 kl_dot_16(i32x16 s, u8x64 a, i8x64 v) { return (i32x16)_mm512_dpbusd_epi32((__m512i)s, (__m512i)a, (__m512i)v); }
#elif defined(__AVXVNNI__)
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) { return (i32x4)_mm_dpbusd_avx_epi32((__m128i)s, (__m128i)a, (__m128i)v); }
KL i32x8 kl_dot_8(i32x8 s, u8x32 a, i8x32 v) { return (i32x8)_mm256_dpbusd_avx_epi32((__m256i)s, (__m256i)a, (__m256i)v); }
KL_DOT_SPLIT(16, 64, 8)
#elif defined(__AVX2__)
/* Pairs of products may leave 16 bits when a code has its top bit: the top bit
   is multiplied apart. */
KL i32x8 kl_dot_8(i32x8 s, u8x32 a, i8x32 v) {
  __m256i one = _mm256_set1_epi16(1), low = _mm256_and_si256((__m256i)a, _mm256_set1_epi8(127));
  __m256i top = _mm256_and_si256(_mm256_srli_epi16((__m256i)a, 7), _mm256_set1_epi8(1));
  __m256i x = _mm256_madd_epi16(_mm256_maddubs_epi16(low, (__m256i)v), one);
  __m256i y = _mm256_madd_epi16(_mm256_maddubs_epi16(top, (__m256i)v), one);
  return s + (i32x8)x + ((i32x8)y << 7);
}
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) {
  __m128i one = _mm_set1_epi16(1), low = _mm_and_si128((__m128i)a, _mm_set1_epi8(127));
  __m128i top = _mm_and_si128(_mm_srli_epi16((__m128i)a, 7), _mm_set1_epi8(1));
  __m128i x = _mm_madd_epi16(_mm_maddubs_epi16(low, (__m128i)v), one);
  __m128i y = _mm_madd_epi16(_mm_maddubs_epi16(top, (__m128i)v), one);
  return s + (i32x4)x + ((i32x4)y << 7);
}
KL_DOT_SPLIT(16, 64, 8)
#elif defined(__ARM_FEATURE_MATMUL_INT8)
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) { return (i32x4)vusdotq_s32((int32x4_t)s, (uint8x16_t)a, (int8x16_t)v); }
KL_DOT_SPLIT(8, 32, 4)
KL_DOT_SPLIT(16, 64, 8)
#elif defined(__ARM_FEATURE_DOTPROD)
/* u8 x i8 as i8 x i8 of the code less 128, and 128 times the sum. */
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) {
  int32x4_t d = vdotq_s32((int32x4_t)s, vreinterpretq_s8_u8(veorq_u8((uint8x16_t)a, vdupq_n_u8(128))), (int8x16_t)v);
  return (i32x4)vaddq_s32(d, vshlq_n_s32(vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(1), (int8x16_t)v), 7));
}
KL_DOT_SPLIT(8, 32, 4)
KL_DOT_SPLIT(16, 64, 8)
#elif defined(__aarch64__)
/* Products of 16 bits each, added in pairs twice. */
KL i32x4 kl_dot_4(i32x4 s, u8x16 a, i8x16 v) {
  int16x8_t a0 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8((uint8x16_t)a))), v0 = vmovl_s8(vget_low_s8((int8x16_t)v));
  int16x8_t a1 = vreinterpretq_s16_u16(vmovl_high_u8((uint8x16_t)a)), v1 = vmovl_high_s8((int8x16_t)v);
  int32x4_t x = vpaddq_s32(vmull_s16(vget_low_s16(a0), vget_low_s16(v0)), vmull_high_s16(a0, v0));
  int32x4_t y = vpaddq_s32(vmull_s16(vget_low_s16(a1), vget_low_s16(v1)), vmull_high_s16(a1, v1));
  return (i32x4)vaddq_s32((int32x4_t)s, vpaddq_s32(x, y));
}
KL_DOT_SPLIT(8, 32, 4)
KL_DOT_SPLIT(16, 64, 8)
#else
KL_DOT_PLAIN(4, 16)
KL_DOT_SPLIT(8, 32, 4)
KL_DOT_SPLIT(16, 64, 8)
#endif

/* Sums of two products: of an unsigned and a signed byte in 16 bits, or of two of 16 bits in 32. Sums fit. */
#define KL_DOT2_PLAIN(to, from, a, b, n, m) \
  KL to##x##n kl_dot2_##to##x##n(to##x##n s, a##x##m x, b##x##m y) { \
    for (int i = 0; i < n; i++) s[i] += (from)x[2 * i] * y[2 * i] + (from)x[2 * i + 1] * y[2 * i + 1]; \
    return s; }
#define KL_DOT2_SPLIT(to, a, b, n, m, half) \
  KL to##x##n kl_dot2_##to##x##n(to##x##n s, a##x##m x, b##x##m y) { \
    return kl_join_##to##x##n(kl_dot2_##to##x##half(kl_low_##to##x##n(s), kl_low_##a##x##m(x), kl_low_##b##x##m(y)), \
                              kl_dot2_##to##x##half(kl_high_##to##x##n(s), kl_high_##a##x##m(x), kl_high_##b##x##m(y))); }
KL_DOT2_PLAIN(i16, int16_t, u8, i8, 4, 8)
KL_DOT2_PLAIN(i32, int32_t, i16, i16, 2, 4)
#if defined(__SSSE3__)
KL i16x8 kl_dot2_i16x8(i16x8 s, u8x16 a, i8x16 b) { return s + (i16x8)_mm_maddubs_epi16((__m128i)a, (__m128i)b); }
KL i32x4 kl_dot2_i32x4(i32x4 s, i16x8 a, i16x8 b) { return s + (i32x4)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#else
KL_DOT2_PLAIN(i16, int16_t, u8, i8, 8, 16)
KL_DOT2_PLAIN(i32, int32_t, i16, i16, 4, 8)
#endif
#if defined(__AVX2__)
/* The sum is kept from the compiler, which would make all products before it adds any. */
KL i16x16 kl_dot2_i16x16(i16x16 s, u8x32 a, i8x32 b) { s += (i16x16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b); __asm__("" : "+x"(s)); return s; }
KL i32x8 kl_dot2_i32x8(i32x8 s, i16x16 a, i16x16 b) { return s + (i32x8)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
#else
KL_DOT2_SPLIT(i16, u8, i8, 16, 32, 8)
KL_DOT2_SPLIT(i32, i16, i16, 8, 16, 4)
#endif
#if defined(__AVX512BW__)
KL i16x32 kl_dot2_i16x32(i16x32 s, u8x64 a, i8x64 b) { s += (i16x32)_mm512_maddubs_epi16((__m512i)a, (__m512i)b); __asm__("" : "+v"(s)); return s; }
KL i32x16 kl_dot2_i32x16(i32x16 s, i16x32 a, i16x32 b) { return s + (i32x16)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
#else
KL_DOT2_SPLIT(i16, u8, i8, 32, 64, 16)
KL_DOT2_SPLIT(i32, i16, i16, 16, 32, 8)
#endif

/* Blocks of 32 rows by 32 tokens: four tiles of sums, steps of 32 elements. */
#if defined(__AMX_BF16__)
KL void kl_product_begin(void) {
  struct { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; } all = {1, 0, {0}, {0}, {0}};
  for (int i = 0; i < 8; i++) all.bytes[i] = 64, all.rows[i] = 16;
  _tile_loadconfig(&all);
}
KL void kl_product_end(void) { _tile_release(); }
KL void kl_product(float *sums, const kl_bf16 *rows, const kl_bf16 *tokens, int64_t steps) {
  _tile_loadd(0, sums, 64);
  _tile_loadd(1, sums + 256, 64);
  _tile_loadd(2, sums + 512, 64);
  _tile_loadd(3, sums + 768, 64);
  for (int64_t i = 0; i < steps; i++) {
    _tile_loadd(4, rows + i * 1024, 64);
    _tile_loadd(6, tokens + i * 1024, 64);
    _tile_loadd(5, rows + i * 1024 + 512, 64);
    _tile_loadd(7, tokens + i * 1024 + 512, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  _tile_stored(2, sums + 512, 64);
  _tile_stored(3, sums + 768, 64);
}
#else
KL void kl_product_begin(void) {}
KL void kl_product_end(void) {}
KL void kl_product(float *sums, const kl_bf16 *rows, const kl_bf16 *tokens, int64_t steps) {
  for (int row = 0; row < 32; row++)
    for (int64_t k = 0; k < steps * 32; k++) {
      float x = kl_from_bf16(rows[k / 32 * 1024 + row * 32 + k % 32]);
      for (int token = 0; token < 32; token++)
        sums[((row / 16 * 2 + token / 16) * 16 + row % 16) * 16 + token % 16] +=
          x * kl_from_bf16(tokens[k / 32 * 1024 + ((token / 16 * 16 + k % 32 / 2) * 16 + token % 16) * 2 + k % 2]);
    }
}
#endif
