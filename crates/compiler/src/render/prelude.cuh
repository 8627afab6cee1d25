// What a kernel of a GPU needs and CUDA C++ cannot say without headers.

#pragma nv_diag_suppress 177

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#define KL_FN static __device__ __forceinline__
#define KL_EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

KL_FN float kl_from_f16(u16 b) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(b)); return f; }
KL_FN u16 kl_to_f16(float f) { u16 b; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(f)); return b; }
KL_FN u16 kl_to_bf16(float f) { u16 b; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f)); return b; }
KL_FN u32 kl_to_bf16(float low, float high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// Halves are numbers that are rounded when they are stored.
struct f16 {
  u16 b;
  f16() = default;
  __device__ __forceinline__ f16(float f) : b(kl_to_f16(f)) {}
  __device__ __forceinline__ operator float() const { return kl_from_f16(b); }
};
struct bf16 {
  u16 b;
  bf16() = default;
  __device__ __forceinline__ bf16(float f) : b(kl_to_bf16(f)) {}
  __device__ __forceinline__ operator float() const { return __uint_as_float((u32)b << 16); }
};

// A vector of one thread. Bytes and halves are kept in words: what puts a half into a register that has another one waits
// for both.
__device__ constexpr int kl_align(int bytes) {
  return bytes >= 16 && bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}
template <class T, int N, int WORD = (sizeof(T) < 4 && sizeof(T) * N % 4 == 0 ? sizeof(T) : 0)>
struct alignas(kl_align(sizeof(T) * N)) vec {
  T v[N];
  __device__ __forceinline__ T get(int i) const { return v[i]; }
  __device__ __forceinline__ void set(int i, T x) { v[i] = x; }
};
template <class T, int N> struct alignas(kl_align(N)) vec<T, N, 1> {
  u32 w[N / 4];
  __device__ __forceinline__ T get(int i) const { return (T)(w[i / 4] >> (8 * (i % 4))); }
  __device__ __forceinline__ void set(int i, T x) {
    int s = 8 * (i % 4);
    w[i / 4] = (w[i / 4] & ~(255u << s)) | ((u32)(u8)x << s);
  }
};
template <class T, int N> struct alignas(kl_align(2 * N)) vec<T, N, 2> {
  u32 w[N / 2];
  __device__ __forceinline__ T get(int i) const {
    const u16 half = (u16)(w[i / 2] >> (16 * (i % 2)));
    return *reinterpret_cast<const T *>(&half);
  }
  __device__ __forceinline__ void set(int i, T x) {
    const u32 half = *reinterpret_cast<const u16 *>(&x);
    w[i / 2] = i % 2 ? (w[i / 2] & 0xffffu) | half << 16 : (w[i / 2] & 0xffff0000u) | half;
  }
};

template <class T> KL_FN T kl_load(const void *p) { return *reinterpret_cast<const T *>(p); }
template <class T> KL_FN void kl_store(void *p, T v) { *reinterpret_cast<T *>(p) = v; }
// Two bytes at any address.
KL_FN f16 kl_load_f16(const u8 *p) { f16 h; h.b = (u16)(p[0] | p[1] << 8); return h; }
KL_FN float kl_load_f32(const u8 *p) { return __uint_as_float(p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24); }

// The launches before this one are over; the next launch may begin.
KL_FN void kl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
KL_FN void kl_trigger() { asm volatile("griddepcontrol.launch_dependents;"); }

template <class T> KL_FN T kl_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> KL_FN T kl_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> KL_FN T kl_floor_div(T a, T b) { T q = a / b; return a % b < 0 ? q - 1 : q; }
template <class T> KL_FN T kl_floor_mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }
KL_FN int kl_int(float f) { return f >= -2147483648.0f && f < 2147483648.0f ? (int)f : 0; }
KL_FN float kl_exp2(float f) { return ldexpf(1.0f, (int)f); }

// Sine and cosine: the quarter of a turn that x lies in, and polynomials from -pi/4 to pi/4 (Cephes' coefficients). Those
// of CUDA have an array in local memory, for angles that no step has.
KL_FN float kl_quarters(float x, int more) {
  const float n = rintf(x * 0.636619772f);
  const float r = fmaf(n, -7.549789948768648e-8f, fmaf(n, -4.837512969970703e-4f, fmaf(n, -1.5703125f, x)));
  const float z = r * r;
  const float sine = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f - z * 1.9515295891e-4f));
  const float cosine =
    1.0f - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  const int quarter = ((int)n + more) & 3;
  const float y = quarter & 1 ? cosine : sine;
  return quarter & 2 ? -y : y;
}
KL_FN float kl_sin(float x) { return kl_quarters(x, 0); }
KL_FN float kl_cos(float x) { return kl_quarters(x, 1); }

// Two operations of bits at once, by what they make of each three bits.
template <int TRUTH> KL_FN u32 kl_bits(u32 a, u32 b, u32 c) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(TRUTH));
  return d;
}

// Sums of four products of u8 and i8.
KL_FN int kl_dot4(int sum, u32 codes, u32 values, u8) {
  int d;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(codes), "r"(values), "r"(sum));
  return d;
}
KL_FN int kl_dot4(int sum, u32 codes, u32 values, i8) { return __dp4a((int)codes, (int)values, sum); }

// Fragments of matrices of 8 rows of 16 bytes: each thread gives the address of a row in shared memory.
template <int MATRICES, bool TRANSPOSED, class T> KL_FN vec<T, 4 / sizeof(T) * MATRICES> kl_fragment(const T *row) {
  static_assert(MATRICES == 1 || MATRICES == 2 || MATRICES == 4);
  vec<T, 4 / sizeof(T) * MATRICES> out;
  u32 at = (u32)__cvta_generic_to_shared(row), *w = (u32 *)&out;
#define KL_FOUR "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at) : "memory"
#define KL_TWO "=r"(w[0]), "=r"(w[1]) : "r"(at) : "memory"
#define KL_ONE "=r"(w[0]) : "r"(at) : "memory"
  if constexpr (MATRICES == 4 && TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : KL_FOUR);
  else if constexpr (MATRICES == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : KL_FOUR);
  else if constexpr (MATRICES == 2 && TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : KL_TWO);
  else if constexpr (MATRICES == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : KL_TWO);
  else if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : KL_ONE);
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : KL_ONE);
#undef KL_FOUR
#undef KL_TWO
#undef KL_ONE
  return out;
}

// Signed codes times a half. With its sign turned, a code is the last byte of the half 1024 + 128 + code.
KL_FN u32 kl_scaled_halves(u32 halves, u32 scale) {
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(halves), "r"(0x64806480u));
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(halves), "r"(scale));
  return halves;
}
template <int N> KL_FN void kl_scaled_codes(vec<f16, N> &d, const vec<i8, N> &codes, f16 scale) {
  const u32 both = (u32)scale.b * 0x10001u;
  KL_EACH(i, N / 4) {
    const u32 turned = codes.w[i] ^ 0x80808080u;
    d.w[2 * i] = kl_scaled_halves(__byte_perm(turned, 0x64u, 0x4140), both);
    d.w[2 * i + 1] = kl_scaled_halves(__byte_perm(turned, 0x64u, 0x4342), both);
  }
}

// Pairs of bf16 numbers, and what is made of them. A product alone keeps its sign with a negative zero added.
KL_FN u32 kl_half_pair(u32 a, u32 b, u32 c) {
  u32 pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
  return pair;
}
KL_FN u32 kl_pair(bf16 all, int) { return (u32)all.b * 0x10001u; }
template <int N> KL_FN u32 kl_pair(const vec<bf16, N> &all, int i) { return all.w[i]; }
template <int N, class A, class B> KL_FN void kl_half_product(vec<bf16, N> &d, const A &a, const B &b) {
  KL_EACH(i, N / 2) d.w[i] = kl_half_pair(kl_pair(a, i), kl_pair(b, i), 0x80008000u);
}
template <int N, class A, class B, class C> KL_FN void kl_half_product(vec<bf16, N> &d, const A &a, const B &b, const C &c) {
  KL_EACH(i, N / 2) d.w[i] = kl_half_pair(kl_pair(a, i), kl_pair(b, i), kl_pair(c, i));
}
// Codes below 128 less a number: behind the upper byte of 128, a code is the bf16 number 128 + code, and `less` has two that
// are 128 more.
KL_FN u32 kl_less(u32 pair, u32 less) { return kl_half_pair(less, 0xbf80bf80u, pair); }
template <int N> KL_FN void kl_halves_of_codes(vec<bf16, N> &d, const vec<u8, N> &codes, u32 less) {
  KL_EACH(i, N / 4) {
    d.w[2 * i] = kl_less(__byte_perm(codes.w[i], 0x43u, 0x4140), less);
    d.w[2 * i + 1] = kl_less(__byte_perm(codes.w[i], 0x43u, 0x4342), less);
  }
}
// Signed codes: the bits below the sign, less the sign, which is 128 or 256 behind the same byte.
template <int N> KL_FN void kl_halves_of_codes(vec<bf16, N> &d, const vec<i8, N> &codes, u32) {
  KL_EACH(i, N / 4) {
    const u32 low = codes.w[i] & 0x7f7f7f7fu, sign = codes.w[i] & 0x80808080u;
    d.w[2 * i] = kl_less(__byte_perm(low, 0x43u, 0x4140), __byte_perm(sign, 0x43u, 0x4140));
    d.w[2 * i + 1] = kl_less(__byte_perm(low, 0x43u, 0x4342), __byte_perm(sign, 0x43u, 0x4342));
  }
}

// 16 bytes from memory to shared memory, which are there when all copies of the thread are waited for.
template <class T> KL_FN void kl_copy(T *to, const T *from) {
  u32 at = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
KL_FN void kl_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Sums of 16 rows by 8 columns, plus products of 16 elements.
KL_FN void kl_product(vec<float, 4> &d, const vec<float, 4> &c, const vec<f16, 8> &a, const vec<f16, 4> &b) {
  const u32 *x = (const u32 *)&a, *y = (const u32 *)&b;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
      : "=f"(d.v[0]), "=f"(d.v[1]), "=f"(d.v[2]), "=f"(d.v[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]),
        "f"(c.v[0]), "f"(c.v[1]), "f"(c.v[2]), "f"(c.v[3]));
}
KL_FN void kl_product(vec<float, 4> &d, const vec<float, 4> &c, const vec<bf16, 8> &a, const vec<bf16, 4> &b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
      : "=f"(d.v[0]), "=f"(d.v[1]), "=f"(d.v[2]), "=f"(d.v[3])
      : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]),
        "f"(c.v[0]), "f"(c.v[1]), "f"(c.v[2]), "f"(c.v[3]));
}
// The same for several times 8 columns.
template <class T, int N> KL_FN void kl_product(vec<float, N> &d, const vec<float, N> &c, const vec<T, 8> &a, const vec<T, N> &b) {
  KL_EACH(j, N / 4) {
    vec<float, 4> sums;
    vec<T, 4> columns;
    KL_EACH(i, 4) sums.v[i] = c.v[4 * j + i];
    KL_EACH(i, 2) columns.w[i] = b.w[2 * j + i];
    kl_product(sums, sums, a, columns);
    KL_EACH(i, 4) d.v[4 * j + i] = sums.v[i];
  }
}
#if __CUDA_ARCH_FEAT_SM90_ALL
// The same by four warps, each with its rows, and columns in shared memory: pieces of 16 bytes of neighbouring columns one
// after another, and `apart` bytes further the next ones of the same columns.
KL_FN unsigned long long kl_columns(const void *first, int apart) {
  return (u32)__cvta_generic_to_shared(first) >> 4 & 0x3fff | (unsigned long long)(apart >> 4) << 16 | 8ull << 32;
}
#define KL_FOUR(d, i) "+f"(d.v[i]), "+f"(d.v[i + 1]), "+f"(d.v[i + 2]), "+f"(d.v[i + 3])
#define KL_SIXTEEN(d, i) KL_FOUR(d, i), KL_FOUR(d, i + 4), KL_FOUR(d, i + 8), KL_FOUR(d, i + 12)
#define KL_ROWS(a) "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3])
KL_FN void kl_together(vec<float, 8> &d, const vec<bf16, 8> &a, unsigned long long b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9,%10,%11},%12,1,1,1,0;"
    : KL_FOUR(d, 0), KL_FOUR(d, 4) : KL_ROWS(a), "l"(b));
}
KL_FN void kl_together(vec<float, 16> &d, const vec<bf16, 8> &a, unsigned long long b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
    "{%16,%17,%18,%19},%20,1,1,1,0;"
    : KL_SIXTEEN(d, 0) : KL_ROWS(a), "l"(b));
}
KL_FN void kl_together(vec<float, 32> &d, const vec<bf16, 8> &a, unsigned long long b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},{%32,%33,%34,%35},%36,1,1,1,0;"
    : KL_SIXTEEN(d, 0), KL_SIXTEEN(d, 16) : KL_ROWS(a), "l"(b));
}
KL_FN void kl_together(vec<float, 64> &d, const vec<bf16, 8> &a, unsigned long long b) {
  asm volatile(
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,"
    "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},{%64,%65,%66,%67},%68,1,1,1,0;"
    : KL_SIXTEEN(d, 0), KL_SIXTEEN(d, 16), KL_SIXTEEN(d, 32), KL_SIXTEEN(d, 48) : KL_ROWS(a), "l"(b));
}
template <int N> KL_FN void kl_group_product(vec<float, N> &d, const vec<float, N> &c, const vec<bf16, 8> &a, const void *first, int apart) {
  d = c;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  kl_together(d, a, kl_columns(first, apart));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// What was written to shared memory may be read by such products behind the next barrier.
KL_FN void kl_for_groups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#undef KL_FOUR
#undef KL_SIXTEEN
#undef KL_ROWS
#endif
// The same of bytes, of which those of rows are signed or not: products of 32 and 16 elements.
#define KL_BYTES(T, SIGN) \
  KL_FN void kl_product(vec<int, 4> &d, const vec<int, 4> &c, const vec<T, 16> &a, const vec<i8, 8> &b) { \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." SIGN ".s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};" \
        : "=r"(d.v[0]), "=r"(d.v[1]), "=r"(d.v[2]), "=r"(d.v[3]) \
        : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[0]), "r"(b.w[1]), \
          "r"(c.v[0]), "r"(c.v[1]), "r"(c.v[2]), "r"(c.v[3])); \
  } \
  KL_FN void kl_product(vec<int, 4> &d, const vec<int, 4> &c, const vec<T, 8> &a, const vec<i8, 4> &b) { \
    asm("mma.sync.aligned.m16n8k16.row.col.s32." SIGN ".s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10};" \
        : "=r"(d.v[0]), "=r"(d.v[1]), "=r"(d.v[2]), "=r"(d.v[3]) \
        : "r"(a.w[0]), "r"(a.w[1]), "r"(b.w[0]), "r"(c.v[0]), "r"(c.v[1]), "r"(c.v[2]), "r"(c.v[3])); \
  }
KL_BYTES(u8, "u8")
KL_BYTES(i8, "s8")
#undef KL_BYTES
// Products from nothing on, as floats. A sum of so few bytes is far below the 2^22 at which floats of this exponent have
// all integers: sums begin at the bits of 1.5 * 2^23, and what comes out are the bits of a float that is as much greater.
template <class A, class B> KL_FN void kl_product_of(vec<float, 4> &d, const A &a, const B &b) {
  const vec<int, 4> first = {{0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000}};
  vec<int, 4> sums;
  kl_product(sums, first, a, b);
  KL_EACH(i, 4) d.v[i] = __int_as_float(sums.v[i]) - 12582912.0f;
}

// Integers wrap.
template <class T> KL_FN T kl_plus(T a, T b) { return a + b; }
KL_FN int kl_plus(int a, int b) { return (int)((u32)a + (u32)b); }

// The upper half of the lanes onto the lower, until one is left.
template <class T, int N> KL_FN T kl_across_sum(vec<T, N> v) {
  KL_EACH(r, 8) {
    int n = N;
    KL_EACH(k, r) n = (n + 1) / 2;
    int half = (n + 1) / 2;
    if (n > 1) KL_EACH(i, N) if (i + half < n) v.set(i, kl_plus(v.get(i), v.get(i + half)));
  }
  return v.get(0);
}
template <class T, int N> KL_FN T kl_across_max(vec<T, N> v) {
  T m = v.get(0);
  KL_EACH(i, N) m = kl_max(m, v.get(i));
  return m;
}

// An entry of a table of 16 bytes; the table is four words.
KL_FN u8 kl_lookup(u32 a, u32 b, u32 c, u32 d, u32 i) {
  return (u8)(i & 8 ? __byte_perm(c, d, i & 7) : __byte_perm(a, b, i & 7));
}
KL_FN u32 kl_lookup4(u32 a, u32 b, u32 c, u32 d, u32 i) {
  u32 x = i & 0x07070707u;
  x = (x | x >> 4) & 0x00ff00ffu;
  u32 s = (x | x >> 8) & 0xffffu;
  u32 upper = ((i & 0x08080808u) >> 3) * 255u;
  return (__byte_perm(a, b, s) & ~upper) | (__byte_perm(c, d, s) & upper);
}
