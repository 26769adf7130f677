/* The scalar semantics for LANES values side by side, in vectors of clang. Included after semantics.h, with LANES (a power
   of two) and, for vectors of indices, INDEX (i32 or i64) defined. */
/* Four bytes side by side, and the sum of the products of two such: exact in any order, and an instruction of many
   processors. */
typedef i8 i8q __attribute__((ext_vector_type(4)));
typedef u8 u8q __attribute__((ext_vector_type(4)));
#define DOT_OF(A, C) \
  FN i32 dot(A a, C c, i32 d) { \
    return (i32)((u32)(a[0] * c[0] + a[1] * c[1] + a[2] * c[2] + a[3] * c[3]) + (u32)d); \
  }
#define QUAD(T) \
  typedef T##q T##_q __attribute__((aligned(1), may_alias)); \
  FN T##q load_##T##q(const T *p, i64 i) { return *(const T##_q *)(p + i); } \
  FN T##q shift(T##q a, u8 distance) { return distance < 8 ? a >> (T##q)(T)(distance & 7) : (T##q)((T)-1 < 0) & (a >> (T)7); } \
  DOT_OF(T##q, i8q) DOT_OF(T##q, u8q)
QUAD(i8)
QUAD(u8)

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

FN b every(bv m) { b r = (b)-1; EACH r &= m[l]; return r; }
FN b some(bv m) { b r = 0; EACH r |= m[l]; return r; }
FN u32v as_u32(f32v a) { return (u32v)a; }
FN f32v as_f32(u32v a) { return (f32v)a; }

/* M: the signed integers of the width of T. A comparison of bytes gives plain chars, which have no sign on ARM and RISC-V:
   all bits of one would widen to 255. */
#define ORDERED_VECTOR(T, M) \
  FN bv lt(T##v a, T##v c) { return CONVERT((M##v)(a < c), bv); } \
  FN bv ne(T##v a, T##v c) { return CONVERT((M##v)(a != c), bv); } \
  FN bv eq(T##v a, T##v c) { return CONVERT((M##v)(a == c), bv); }
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
  FN T##v choose(bv m, T##v a, T##v c) { return CONVERT(m, M##v) ? a : c; } \
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
#if defined(__aarch64__)
typedef i32 four __attribute__((vector_size(16)));
FN f32v choose(bv m, f32v a, f32v c) {
  union { bv v; four e[LANES / 4]; } x = {m};
  _Pragma("clang loop unroll(full)") for (int n = 0; n < LANES / 4; n++) UNSEEN(x.e[n], "w");
  return as_f32((as_u32(a) & (u32v)x.v) | (as_u32(c) & ~(u32v)x.v));
}
#elif defined(__x86_64__)
FN f32v choose(bv m, f32v a, f32v c) { return m ? a : c; }
#else
FN f32v choose(bv m, f32v a, f32v c) { f32v r; EACH r[l] = choose(m[l], a[l], c[l]); return r; }
#endif
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
#elif LANES == 4 && defined(__aarch64__)
FN f32v mulacc(f32v a, f32v c, f32v d) { __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(d) : "w"(a), "w"(c)); return d; }
#elif LANES == 4 && defined(__FMA__) && __has_builtin(__builtin_ia32_vfmaddps)
typedef f32 native __attribute__((vector_size(16)));
FN f32v mulacc(f32v a, f32v c, f32v d) { return (f32v)__builtin_ia32_vfmaddps((native)a, (native)c, (native)d); }
#else
FN f32v mulacc(f32v a, f32v c, f32v d) { f32v r; EACH r[l] = mulacc(a[l], c[l], d[l]); return r; }
#endif

#if LANES == 16 && defined(__AVX512F__) && __has_builtin(__builtin_ia32_vcvtps2ph512_mask)
typedef short native_h __attribute__((vector_size(32)));
FN u16v nearest_f16(f32v a) { /* to nearest even whatever the mode; a NaN keeps bits of its own */
  return (u16v)__builtin_ia32_vcvtps2ph512_mask((native)a, 0, (native_h)(u16v)0, (unsigned short)-1);
}
FN f32v from_f16(u16v a) { /* a clang that sees halves behind it compares these, and takes -0 for +0 in x < 0 ? 0 : x */
  native r = __builtin_ia32_vcvtph2ps512_mask((native_h)a, (native)(f32v)0.0f, (unsigned short)-1, 4);
  __asm__("" : "+v"(r));
  return (f32v)r;
}
FN f32v round_f16(f32v a) { return from_f16(nearest_f16(a)); }
FN u16v bits_f16(f32v a) { return CONVERT(a == a, i16v) ? nearest_f16(a) : (u16v)0x7E00; }
#else
FN f32v round_f16(f32v a) { return near_f16(a); }
FN u16v bits_f16(f32v a) { return CONVERT(wide_bits_f16(a), u16v); }
#if LANES == 8 && defined(__F16C__) && __has_builtin(__builtin_ia32_vcvtph2ps256)
FN f32v from_f16(u16v a) {
  f32 __attribute__((vector_size(32))) r = __builtin_ia32_vcvtph2ps256((short __attribute__((vector_size(16))))a);
  __asm__("" : "+x"(r));
  return (f32v)r;
}
#else
FN f32v from_f16(u16v a) { return wide_from_f16(CONVERT(a, u32v)); }
#endif
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
FN f32v to_f32(i32v a) { return CONVERT(a, f32v); }
#if defined(__aarch64__) /* where clang rounds vectors of these twice, to double and on to float */
FN f32 to_f32(i64 a) { return (f32)a; }
FN f32 to_f32(u64 a) { return (f32)a; }
FROM_WIDE(i64, to_f32)
FROM_WIDE(u64, to_f32)
#else
FN f32v to_f32(i64v a) { return CONVERT(a, f32v); }
FN f32v to_f32(u64v a) { return CONVERT(a, f32v); }
#endif

/* Memory, as for one value. Addresses of lanes that are not read are computed as numbers. */
#define ENTER_bv(a) ne(a, (u8v)0)
#define LEAVE_bv(a) CONVERT((a)&1, u8v)
typedef INDEX xv __attribute__((ext_vector_type(LANES)));
/* Two vectors merged like a deck of cards: the lower halves, the upper halves. Done to all rows of a square, the first
   with the middle one, as often as the number of lanes has bits, it turns the square. */
#if LANES == 16
#define LOWER(a, c) __builtin_shufflevector(a, c, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define UPPER(a, c) __builtin_shufflevector(a, c, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define LOWER(a, c) __builtin_shufflevector(a, c, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, c) __builtin_shufflevector(a, c, 4, 12, 5, 13, 6, 14, 7, 15)
#elif LANES == 4
#define LOWER(a, c) __builtin_shufflevector(a, c, 0, 4, 1, 5)
#define UPPER(a, c) __builtin_shufflevector(a, c, 2, 6, 3, 7)
#else
#define LOWER(a, c) __builtin_shufflevector(a, c, 0, 2)
#define UPPER(a, c) __builtin_shufflevector(a, c, 1, 3)
#endif
#define AT(p, i, S) ((const S *)((uintptr_t)(p) + (uintptr_t)(i) * sizeof(S)))
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
  FN void turn_##NAME(const S *p, i64 i, i64 s, T##v *r) { \
    S##v x[LANES], y[LANES]; \
    EACH x[l] = *(const S##_##NAME *)(p + i + l * s); \
    _Pragma("clang loop unroll(full)") for (int half = 1; half < LANES; half *= 2) { \
      EACH y[l] = l & 1 ? UPPER(x[l / 2], x[l / 2 + LANES / 2]) : LOWER(x[l / 2], x[l / 2 + LANES / 2]); \
      EACH x[l] = y[l]; \
    } \
    EACH r[l] = ENTER(x[l]); \
  } \
  FN void ahead_##NAME(const S *p, i64 i, i64 s) { EACH __builtin_prefetch(AT(p, i + l * s, S)); } \
  FN void put_##NAME(S *p, i64 i, T##v a) { *(S##_##NAME *)(p + i) = LEAVE(a); } \
  FN void scatter_##NAME(S *p, i64 i, i64 s, T##v a) { S##v r = LEAVE(a); EACH p[i + l * s] = r[l]; }
MEMORY_VECTOR(u8, b, b, ENTER_bv, LEAVE_bv)
MEMORY_VECTOR(i8, i8, i8, SAME, SAME)
MEMORY_VECTOR(i16, i16, i16, SAME, SAME)
MEMORY_VECTOR(i32, i32, i32, SAME, SAME)
MEMORY_VECTOR(i64, i64, i64, SAME, SAME)
MEMORY_VECTOR(u8, u8, u8, SAME, SAME)
MEMORY_VECTOR(u16, u16, u16, SAME, SAME)
MEMORY_VECTOR(u32, u32, u32, SAME, SAME)
MEMORY_VECTOR(u64, u64, u64, SAME, SAME)
MEMORY_VECTOR(u16, f32, f16, from_f16, bits_f16)
MEMORY_VECTOR(u16, f32, bf16, from_bf16, bits_bf16)
MEMORY_VECTOR(f32, f32, f32, SAME, canonical)

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

/* Four bytes for each lane. */
#define BYTES (4 * LANES)
typedef i8 i8qv __attribute__((ext_vector_type(BYTES)));
typedef u8 u8qv __attribute__((ext_vector_type(BYTES)));
typedef i16 pairs __attribute__((ext_vector_type(2 * LANES)));
#define QUAD_VECTOR(T) \
  typedef T##qv T##_qv __attribute__((aligned(1), may_alias)); \
  FN T##qv row_##T##q(const T *p, i64 i) { return *(const T##_qv *)(p + i); } \
  FN T##qv stride_##T##q(const T *p, i64 i, i64 s) { \
    u32v r; EACH { T##q one = load_##T##q(p, i + l * s); r[l] = *(const u32 *)&one; } return (T##qv)r; \
  } \
  FN T##qv gather_##T##q(const T *p, xv i) { \
    u32v r; EACH { T##q one = load_##T##q(p, i[l]); r[l] = *(const u32 *)&one; } return (T##qv)r; \
  } \
  FN T##qv spread(T##q a) { return (T##qv)(u32v)(*(const u32 *)&a); } \
  FN T##qv shift(T##qv a, u8 distance) { \
    return distance < 8 ? a >> (T##qv)(T)(distance & 7) : (T##qv)((T)-1 < 0) & (a >> (T)7); \
  }
QUAD_VECTOR(i8)
QUAD_VECTOR(u8)

#if LANES == 16 && defined(__AVX512VNNI__) && __has_builtin(__builtin_ia32_vpdpbusd512)
#define DOT __builtin_ia32_vpdpbusd512
#elif LANES == 8 && defined(__AVX512VNNI__) && defined(__AVX512VL__) && __has_builtin(__builtin_ia32_vpdpbusd256)
#define DOT __builtin_ia32_vpdpbusd256
#elif LANES == 4 && defined(__AVX512VNNI__) && defined(__AVX512VL__) && __has_builtin(__builtin_ia32_vpdpbusd128)
#define DOT __builtin_ia32_vpdpbusd128
#endif
#if LANES == 16 && defined(__AVX512BW__) && __has_builtin(__builtin_ia32_pmaddwd512)
#define OF_PAIRS __builtin_ia32_pmaddwd512
#elif LANES == 8 && defined(__AVX2__) && __has_builtin(__builtin_ia32_pmaddwd256)
#define OF_PAIRS __builtin_ia32_pmaddwd256
#elif LANES == 4 && defined(__SSE2__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define OF_PAIRS __builtin_ia32_pmaddwd128
#endif
#if defined(DOT)
typedef int ints __attribute__((vector_size(4 * LANES)));
FN i32v dot(u8qv a, i8qv c, i32v d) { return (i32v)DOT((ints)d, (ints)a, (ints)c); }
FN i32v dot(i8qv a, u8qv c, i32v d) { return dot(c, a, d); }
/* 128 more are without a sign; what that adds depends on `c` alone, and is computed once for all rows. */
FN i32v dot(i8qv a, i8qv c, i32v d) { return dot((u8qv)a ^ (u8)128, c, d - dot((u8qv)(u8)128, c, (i32v)0)); }
FN i32v dot(u8qv a, u8qv c, i32v d) { return dot(a, (i8qv)(c ^ (u8)128), d) + dot(a, (i8qv)(i8)64, (i32v)0) * 2; }
#elif LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
#define DOT(A, C, NAME) \
  FN i32v dot(A a, C c, i32v d) { __asm__(NAME " %0.4s, %1.16b, %2.16b" : "+w"(d) : "w"(a), "w"(c)); return d; }
DOT(i8qv, i8qv, "sdot")
DOT(u8qv, u8qv, "udot")
#if defined(__ARM_FEATURE_MATMUL_INT8)
DOT(u8qv, i8qv, "usdot")
#else
FN i32v dot(u8qv a, i8qv c, i32v d) { return dot((i8qv)(a ^ (u8)128), c, d) + dot((i8qv)(i8)64, c, (i32v)0) * 2; }
#endif
FN i32v dot(i8qv a, u8qv c, i32v d) { return dot(c, a, d); }
#else
#if defined(OF_PAIRS)
typedef short shorts __attribute__((vector_size(4 * LANES)));
FN i32v of_pairs(pairs a, pairs c) { return (i32v)OF_PAIRS((shorts)a, (shorts)c); }
#else
FN i32v of_pairs(pairs a, pairs c) {
  return ((i32v)a << 16 >> 16) * ((i32v)c << 16 >> 16) + ((i32v)a >> 16) * ((i32v)c >> 16);
}
#endif
/* The first and third byte, the second and fourth, as numbers of 16 bits: no product of two overflows a sum. */
FN pairs even(i8qv a) { return (pairs)a << (i16)8 >> (i16)8; }
FN pairs even(u8qv a) { return (pairs)a & (i16)255; }
FN pairs odd(i8qv a) { return (pairs)a >> (i16)8; }
FN pairs odd(u8qv a) { return (pairs)a >> (i16)8 & (i16)255; }
#define DOT_OF_VECTORS(A, C) \
  FN i32v dot(A a, C c, i32v d) { return d + of_pairs(even(a), even(c)) + of_pairs(odd(a), odd(c)); }
DOT_OF_VECTORS(i8qv, i8qv)
DOT_OF_VECTORS(i8qv, u8qv)
DOT_OF_VECTORS(u8qv, i8qv)
DOT_OF_VECTORS(u8qv, u8qv)
#endif
#endif
