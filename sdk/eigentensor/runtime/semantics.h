/* The scalar semantics of sdk/README.md in C, for one value and for LANES values side by side.

   A bool is an int32 of all bits or none. Both half types are held in registers as the float32 of the same value and
   rounded after each operation. No function of a library is called. Included with LANES (a power of two) and, for
   vectors of indices, INDEX (i32 or i64) defined. */
#include <stdint.h>

#define FN static inline __attribute__((always_inline, overloadable, unused))

typedef int32_t b;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;


#define NAN32 0x7FC00000u
#define INF32 0x7F800000u

FN u32 as_u32(f32 a) { union { f32 f; u32 u; } x = {a}; return x.u; }
FN f32 as_f32(u32 a) { union { u32 u; f32 f; } x = {a}; return x.f; }
FN u64 as_u64(double a) { union { double f; u64 u; } x = {a}; return x.u; }
FN double as_f64(u64 a) { union { u64 u; double f; } x = {a}; return x.f; }

#define CONVERT(a, D) ((D)(a))

/* One scalar type: choice, comparison, extremum. */
#define ORDERED(T) \
  FN T choose(b m, T a, T c) { return m ? a : c; } \
  FN b lt(T a, T c) { return -(a < c); } \
  FN b ne(T a, T c) { return -(a != c); } \
  FN b eq(T a, T c) { return -(a == c); }
#define INTEGER(T, U, WIDTH, SIGNED) \
  ORDERED(T) \
  FN T maximum(T a, T c) { return a > c ? a : c; } \
  FN T minimum(T a, T c) { return a < c ? a : c; } \
  FN T cdiv(T a, T c) { return c == 0 ? 0 : SIGNED && c == (T)-1 ? (T)(0 - (U)a) : (T)(a / c); } \
  FN T cmod(T a, T c) { return c == 0 ? a : SIGNED && c == (T)-1 ? 0 : (T)(a % c); } \
  FN T floordiv(T a, T c) { T q = cdiv(a, c), r = cmod(a, c); return c != 0 && r != 0 && (r < 0) != (c < 0) ? q - 1 : q; } \
  FN T floormod(T a, T c) { T r = cmod(a, c); return c != 0 && r != 0 && (r < 0) != (c < 0) ? r + c : r; } \
  FN T shl(T a, T c) { return (U)c < WIDTH ? (T)((U)a << (U)c) : 0; } \
  FN T shr(T a, T c) { return (U)c < WIDTH ? a >> (U)c : SIGNED && a < 0 ? (T)-1 : 0; }

INTEGER(i8, u8, 8, 1)
INTEGER(i16, u16, 16, 1)
INTEGER(i32, u32, 32, 1)
INTEGER(i64, u64, 64, 1)
INTEGER(u8, u8, 8, 0)
INTEGER(u16, u16, 16, 0)
INTEGER(u32, u32, 32, 0)
INTEGER(u64, u64, 64, 0)
ORDERED(f32)

/* Floating point, written once for F = f32 or f32v. */
#define FLOATING(F, U, I) \
  FN F canonical(F a) { return a == a ? a : as_f32((U)NAN32); } \
  FN F maximum(F a, F c) { return a > c ? a : c > a ? c : a == c ? as_f32(as_u32(a) & as_u32(c)) : a + c; } \
  FN F minimum(F a, F c) { return a < c ? a : c < a ? c : a == c ? as_f32(as_u32(a) | as_u32(c)) : a + c; } \
  FN F truncate(F a) { \
    U sign = as_u32(a) & 0x80000000u, size = as_u32(a) ^ sign; \
    F small = size < (U)0x4B000000u ? a : (F)0.0f; \
    return size < (U)0x4B000000u ? as_f32(as_u32(CONVERT(CONVERT(small, I), F)) | sign) : a; \
  } \
  FN F near_f16(F a) { /* below 2^-14 the distance of halves is that of float32 around 1/2 */ \
    U sign = as_u32(a) & 0x80000000u, size = as_u32(a) ^ sign; \
    U near = (size + 0xFFFu + (size >> 13 & 1u)) & ~0x1FFFu; \
    near = near > (U)0x477FE000u ? (U)INF32 : near; \
    near = size < (U)0x38800000u ? as_u32((as_f32(size) + 0.5f) - 0.5f) : near; \
    return as_f32(size > (U)INF32 ? (U)NAN32 : near | sign); \
  } \
  FN F round_bf16(F a) { \
    U bits = as_u32(a), near = (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u; \
    return a == a ? as_f32(near) : as_f32((U)NAN32); \
  } \
  FN U bits_f32(F a) { return as_u32(canonical(a)); } \
  FN U wide_bits_f16(F a) { \
    U sign = as_u32(a) & 0x80000000u, size = as_u32(a) ^ sign, normal = (size - 0x38000000u) >> 13; \
    normal = size > (U)0x477FE000u ? (U)0x7C00u : normal; \
    normal = size < (U)0x38800000u ? as_u32(as_f32(size) + 0.5f) - 0x3F000000u : normal; \
    return size > (U)INF32 ? (U)0x7E00u : normal | sign >> 16; \
  } \
  FN U wide_bits_bf16(F a) { return as_u32(canonical(a)) >> 16; } \
  FN F wide_from_f16(U h) { \
    U sign = (h & 0x8000u) << 16, size = h & 0x7FFFu; \
    U normal = size < (U)0x7C00u ? (size << 13) + 0x38000000u : (size << 13) + 0x70000000u; \
    return as_f32((size < (U)0x400u ? as_u32(as_f32(size + 0x3F000000u) - 0.5f) : normal) | sign); \
  }
FLOATING(f32, u32, i32)

FN f32 root(f32 a) { return __builtin_sqrtf(a); }
#if defined(__FMA__) || defined(__aarch64__)
FN f32 mulacc(f32 a, f32 c, f32 d) { return __builtin_fmaf(a, c, d); }
#else
FN f32 mulacc(f32 a, f32 c, f32 d) { /* exact product; the sum rounded to odd, so that the last rounding is the only one */
  double product = (double)a * c, total = product + d, virtual = total - product;
  double error = (product - (total - virtual)) + (d - virtual);
  u64 bits = as_u64(total);
  if (total - total == 0 && error != 0 && !(bits & 1)) bits += (error > 0) == (total > 0) ? 1 : -1;
  return (f32)as_f64(bits);
}
#endif

FN f32 round_f16(f32 a) { return near_f16(a); }
FN u16 bits_f16(f32 a) { return (u16)wide_bits_f16(a); }
FN u16 bits_bf16(f32 a) { return (u16)wide_bits_bf16(a); }
FN f32 from_f16(u16 a) { return wide_from_f16(a); }
FN f32 from_bf16(u16 a) { return as_f32((u32)a << 16); }

#define SATURATING(F, D, NAME, LEAST, END, MOST) \
  FN D NAME(F a) { \
    F safe = a < (F)LEAST ? (F)0.0f : a < (F)END ? a : (F)0.0f; \
    return choose(lt(a, (F)LEAST), (D)(LEAST), choose(~lt(a, (F)END) & eq(a, a), (D)(MOST), CONVERT(safe, D))); \
  }
#define TO_INTEGERS(F, S) \
  SATURATING(F, i8##S, f32_to_i8, -0x1p7f, 0x1p7f, 127) \
  SATURATING(F, i16##S, f32_to_i16, -0x1p15f, 0x1p15f, 32767) \
  SATURATING(F, i32##S, f32_to_i32, -0x1p31f, 0x1p31f, INT32_MAX) \
  SATURATING(F, i64##S, f32_to_i64, -0x1p63f, 0x1p63f, INT64_MAX) \
  SATURATING(F, u8##S, f32_to_u8, 0.0f, 0x1p8f, 255) \
  SATURATING(F, u16##S, f32_to_u16, 0.0f, 0x1p16f, 65535) \
  SATURATING(F, u32##S, f32_to_u32, 0.0f, 0x1p32f, UINT32_MAX) \
  SATURATING(F, u64##S, f32_to_u64, 0.0f, 0x1p64f, UINT64_MAX)
TO_INTEGERS(f32, )

/* An integer as float32, exact or rounded to odd at 20 bits, so that the rounding to bfloat16 is the only one. */
FN f32 few_bits(u64 size) {
  if (size < 1u << 24) return (f32)size;
  int drop = 44 - __builtin_clzll(size);
  u64 kept = size >> drop;
  return (f32)(kept | (kept << drop != size)) * as_f32((u32)(127 + drop) << 23);
}
FN f32 i64_to_bf16(i64 a) { return round_bf16(a < 0 ? -few_bits(0 - (u64)a) : few_bits((u64)a)); }
FN f32 u64_to_bf16(u64 a) { return round_bf16(few_bits(a)); }

#if LANES > 1
#define VECTOR(T) typedef T T##v __attribute__((ext_vector_type(LANES)))
VECTOR(b);
VECTOR(i8);
VECTOR(i16);
VECTOR(i32);
VECTOR(i64);
VECTOR(u8);
VECTOR(u16);
VECTOR(u32);
VECTOR(u64);
VECTOR(f32);
#define EACH _Pragma("clang loop unroll(full)") for (int l = 0; l < LANES; l++)
#undef CONVERT
#define CONVERT(a, D) __builtin_convertvector(a, D)

FN u32v as_u32(f32v a) { return (u32v)a; }
FN f32v as_f32(u32v a) { return (f32v)a; }

/* M: the signed integers of the width of T. */
#define ORDERED_VECTOR(T, M) \
  FN T##v choose(bv m, T##v a, T##v c) { return CONVERT(m, M##v) ? a : c; } \
  FN bv lt(T##v a, T##v c) { return CONVERT(a < c, bv); } \
  FN bv ne(T##v a, T##v c) { return CONVERT(a != c, bv); } \
  FN bv eq(T##v a, T##v c) { return CONVERT(a == c, bv); }
/* A loop that stays one: code with branches for each lane would compile for minutes. */
#define ROLLED _Pragma("clang loop unroll(disable) vectorize(disable)") for (int l = 0; l < LANES; l++)
#define LANEWISE(T, NAME) \
  FN T##v NAME(T##v a, T##v c) { \
    union { T##v v; T e[LANES]; } x = {a}, y = {c}, r; \
    ROLLED r.e[l] = NAME(x.e[l], y.e[l]); \
    return r.v; \
  }
#define INTEGER_VECTOR(T, M, U, WIDTH, SIGNED) \
  ORDERED_VECTOR(T, M) \
  FN T##v maximum(T##v a, T##v c) { return a > c ? a : c; } \
  FN T##v minimum(T##v a, T##v c) { return a < c ? a : c; } \
  LANEWISE(T, cdiv) LANEWISE(T, cmod) LANEWISE(T, floordiv) LANEWISE(T, floormod) \
  FN T##v shl(T##v a, T##v c) { \
    U##v near = CONVERT(c, U##v) & (U)(WIDTH - 1); \
    return CONVERT(c, U##v) < (U##v)WIDTH ? CONVERT(CONVERT(a, U##v) << near, T##v) : (T##v)0; \
  } \
  FN T##v shr(T##v a, T##v c) { \
    U##v far = CONVERT(c, U##v); \
    T##v last = a >> CONVERT(far & (U)(WIDTH - 1), T##v); \
    return far < (U##v)WIDTH ? last : SIGNED ? a >> (T)(WIDTH - 1) : (T##v)0; \
  }
INTEGER_VECTOR(i8, i8, u8, 8, 1)
INTEGER_VECTOR(i16, i16, u16, 16, 1)
INTEGER_VECTOR(i32, i32, u32, 32, 1)
INTEGER_VECTOR(i64, i64, u64, 64, 1)
INTEGER_VECTOR(u8, i8, u8, 8, 0)
INTEGER_VECTOR(u16, i16, u16, 16, 0)
INTEGER_VECTOR(u32, i32, u32, 32, 0)
INTEGER_VECTOR(u64, i64, u64, 64, 0)
ORDERED_VECTOR(f32, i32)
FLOATING(f32v, u32v, i32v)
TO_INTEGERS(f32v, v)

FN f32v root(f32v a) { f32v r; EACH r[l] = __builtin_sqrtf(a[l]); return r; }
#if LANES == 16 && defined(__AVX512F__)
typedef f32 native __attribute__((vector_size(64)));
#elif LANES == 8 && defined(__AVX2__)
typedef f32 native __attribute__((vector_size(32)));
#endif
#if __has_builtin(__builtin_elementwise_fma) && (defined(__FMA__) || defined(__aarch64__))
FN f32v mulacc(f32v a, f32v c, f32v d) { return __builtin_elementwise_fma(a, c, d); }
#elif LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_vfmaddps512_mask)
FN f32v mulacc(f32v a, f32v c, f32v d) {
  return (f32v)__builtin_ia32_vfmaddps512_mask((native)a, (native)c, (native)d, (unsigned short)-1, 4);
}
#elif LANES == 8 && defined(__AVX2__) && defined(__FMA__) && __has_builtin(__builtin_ia32_vfmaddps256)
FN f32v mulacc(f32v a, f32v c, f32v d) { return (f32v)__builtin_ia32_vfmaddps256((native)a, (native)c, (native)d); }
#else
FN f32v mulacc(f32v a, f32v c, f32v d) { f32v r; EACH r[l] = mulacc(a[l], c[l], d[l]); return r; }
#endif

#if LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_vcvtps2ph512_mask)
typedef short native_h __attribute__((vector_size(32)));
FN u16v nearest_f16(f32v a) { /* to nearest even whatever the mode; a NaN keeps bits of its own */
  return (u16v)__builtin_ia32_vcvtps2ph512_mask((native)a, 0, (native_h)(u16v)0, (unsigned short)-1);
}
FN f32v from_f16(u16v a) {
  return (f32v)__builtin_ia32_vcvtph2ps512_mask((native_h)a, (native)(f32v)0.0f, (unsigned short)-1, 4);
}
FN f32v round_f16(f32v a) { return from_f16(nearest_f16(a)); }
FN u16v bits_f16(f32v a) { return CONVERT(a == a, i16v) ? nearest_f16(a) : (u16v)0x7E00; }
#else
FN f32v round_f16(f32v a) { return near_f16(a); }
FN u16v bits_f16(f32v a) { return CONVERT(wide_bits_f16(a), u16v); }
FN f32v from_f16(u16v a) { return wide_from_f16(CONVERT(a, u32v)); }
#endif
FN u16v bits_bf16(f32v a) { return CONVERT(wide_bits_bf16(a), u16v); }
FN f32v from_bf16(u16v a) { return as_f32(CONVERT(a, u32v) << 16); }
#define FROM_WIDE(T, NAME) \
  FN f32v NAME(T##v a) { \
    union { T##v v; T e[LANES]; } x = {a}; \
    union { f32v v; f32 e[LANES]; } r; \
    ROLLED r.e[l] = NAME(x.e[l]); \
    return r.v; \
  }
FROM_WIDE(i64, i64_to_bf16)
FROM_WIDE(u64, u64_to_bf16)
#endif

/* Memory. S is how an element is stored, T what it is in a register; ENTER and LEAVE lead from one to the other. Where a
   guard is false nothing is read, and the address need not exist: it is computed as a number. */
#define SAME(a) (a)
#define ENTER_b(a) ne(a, (u8)0)
#define LEAVE_b(a) ((u8)((a)&1))
#define AT(p, i, S) ((const S *)((uintptr_t)(p) + (uintptr_t)(i) * sizeof(S)))
#define MEMORY(S, T, NAME, ENTER, LEAVE) \
  FN T load_##NAME(const S *p, i64 i) { return ENTER(p[i]); } \
  FN T load_##NAME(const S *p, i64 i, b m) { return m ? ENTER(*AT(p, i, S)) : (T)0; } \
  FN void store_##NAME(S *p, i64 i, T a) { p[i] = LEAVE(a); }
#if LANES > 1
#define ENTER_bv(a) ne(a, (u8v)0)
#define LEAVE_bv(a) CONVERT((a)&1, u8v)
typedef INDEX xv __attribute__((ext_vector_type(LANES)));
#define MEMORY_VECTOR(S, T, NAME, ENTER, LEAVE) \
  typedef S##v S##_##NAME __attribute__((aligned(sizeof(S)), may_alias)); \
  FN T##v row_##NAME(const S *p, i64 i) { return ENTER(*(const S##_##NAME *)(p + i)); } \
  FN T##v stride_##NAME(const S *p, i64 i, i64 s) { S##v r; EACH r[l] = p[i + l * s]; return ENTER(r); } \
  FN T##v gather_##NAME(const S *p, xv i) { S##v r; EACH r[l] = p[i[l]]; return ENTER(r); } \
  FN T##v row_##NAME(const S *p, i64 i, b m) { \
    return m ? ENTER(*(const S##_##NAME *)AT(p, i, S)) : (T##v)0; \
  } \
  FN T##v gather_##NAME(const S *p, xv i, bv m) { S##v r; EACH r[l] = m[l] ? *AT(p, i[l], S) : 0; return ENTER(r); } \
  FN T##v stride_##NAME(const S *p, i64 i, i64 s, bv m) { \
    S##v r; EACH r[l] = m[l] ? *AT(p, i + l * s, S) : 0; return ENTER(r); \
  } \
  FN void put_##NAME(S *p, i64 i, T##v a) { *(S##_##NAME *)(p + i) = LEAVE(a); } \
  FN void scatter_##NAME(S *p, i64 i, i64 s, T##v a) { S##v r = LEAVE(a); EACH p[i + l * s] = r[l]; }
#else
#define MEMORY_VECTOR(S, T, NAME, ENTER, LEAVE)
#endif
#define STORED(S, T, NAME, ENTER, LEAVE) MEMORY(S, T, NAME, ENTER, LEAVE) MEMORY_VECTOR(S, T, NAME, ENTER, LEAVE)
MEMORY(u8, b, b, ENTER_b, LEAVE_b)
MEMORY_VECTOR(u8, b, b, ENTER_bv, LEAVE_bv)
STORED(i8, i8, i8, SAME, SAME)
STORED(i16, i16, i16, SAME, SAME)
STORED(i32, i32, i32, SAME, SAME)
STORED(i64, i64, i64, SAME, SAME)
STORED(u8, u8, u8, SAME, SAME)
STORED(u16, u16, u16, SAME, SAME)
STORED(u32, u32, u32, SAME, SAME)
STORED(u64, u64, u64, SAME, SAME)
STORED(u16, f32, f16, from_f16, bits_f16)
STORED(u16, f32, bf16, from_bf16, bits_bf16)
STORED(f32, f32, f32, SAME, canonical)

#if LANES > 1
/* Guarded rows: the instruction that reads only the chosen lanes where there is one. */
#if LANES == 16 && defined(__AVX512DQ__) && __has_builtin(__builtin_ia32_loadups512_mask) && \
    __has_builtin(__builtin_ia32_loaddqusi512_mask) && __has_builtin(__builtin_ia32_cvtd2mask512)
#define CHOSEN(m) ((unsigned short)__builtin_ia32_cvtd2mask512((int __attribute__((vector_size(64))))(m)))
typedef int native_i __attribute__((vector_size(64)));
FN f32v row_f32(const f32 *p, i64 i, bv m) {
  return (f32v)__builtin_ia32_loadups512_mask(AT(p, i, f32), (native)(f32v)0.0f, CHOSEN(m));
}
FN i32v row_i32(const i32 *p, i64 i, bv m) {
  return (i32v)__builtin_ia32_loaddqusi512_mask(AT(p, i, i32), (native_i)(i32v)0, CHOSEN(m));
}
#elif LANES == 8 && defined(__AVX2__) && __has_builtin(__builtin_ia32_maskloadps256) && \
    __has_builtin(__builtin_ia32_maskloadd256)
typedef int native_i __attribute__((vector_size(32)));
FN f32v row_f32(const f32 *p, i64 i, bv m) {
  return (f32v)__builtin_ia32_maskloadps256((const native *)AT(p, i, f32), (native_i)m);
}
FN i32v row_i32(const i32 *p, i64 i, bv m) {
  return (i32v)__builtin_ia32_maskloadd256((const native_i *)AT(p, i, i32), (native_i)m);
}
#else
FN f32v row_f32(const f32 *p, i64 i, bv m) { return stride_f32(p, i, 1, m); }
FN i32v row_i32(const i32 *p, i64 i, bv m) { return stride_i32(p, i, 1, m); }
#endif
#define ROW(T, NAME, S) FN T##v row_##NAME(const S *p, i64 i, bv m) { return stride_##NAME(p, i, 1, m); }
ROW(b, b, u8)
ROW(i8, i8, i8)
ROW(i16, i16, i16)
ROW(i64, i64, i64)
ROW(u8, u8, u8)
ROW(u16, u16, u16)
ROW(u32, u32, u32)
ROW(u64, u64, u64)
ROW(f32, f16, u16)
ROW(f32, bf16, u16)
#endif
