/* The scalar semantics of sdk/README.md for one value, in what C, OpenCL C and CUDA C++ have in common.

   A bool is an int32 of all bits or none. Both half types are held in registers as the float32 of the same value and
   rounded after each operation. No function of a library is called. Included after c.h, opencl.h or cuda.h, which say
   what the types are, FN (a function), GLOBAL (where tensors lie), CHOSEN (a choice of integers),
   and define as_u32, as_f32, root, mulacc, zeros, and choose of floats. */

#define NAN32 0x7FC00000u
#define INF32 0x7F800000u

#define CONVERT(a, D) ((D)(a))

/* One scalar type: choice, comparison, extremum. */
#define ORDERED(T) \
  FN b lt(T a, T c) { return -(a < c); } \
  FN b ne(T a, T c) { return -(a != c); } \
  FN b eq(T a, T c) { return -(a == c); }
#define INTEGER(T, U, WIDTH, SIGNED) \
  ORDERED(T) \
  FN T choose(b m, T a, T c) { return CHOSEN(m, a, c); } \
  FN T maximum(T a, T c) { return CHOSEN(lt(c, a), a, c); } \
  FN T minimum(T a, T c) { return CHOSEN(lt(a, c), a, c); } \
  FN T cdiv(T a, T c) { return c == 0 ? 0 : SIGNED && c == (T)-1 ? (T)(0 - (U)a) : (T)(a / c); } \
  FN T cmod(T a, T c) { return c == 0 ? a : SIGNED && c == (T)-1 ? 0 : (T)(a % c); } \
  FN T floordiv(T a, T c) { T q = cdiv(a, c), r = cmod(a, c); return c != 0 && r != 0 && (r < 0) != (c < 0) ? q - 1 : q; } \
  FN T floormod(T a, T c) { T r = cmod(a, c); return c != 0 && r != 0 && (r < 0) != (c < 0) ? r + c : r; } \
  FN T shl(T a, T c) { return (U)c < WIDTH ? (T)(((U)a + 0u) << (U)c) : 0; } \
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
  FN I place(F a) { /* in the order of values, both zeros 0 */ \
    I bits = (I)as_u32(a); \
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)) - (bits >> 31); \
  } \
  FN I numbers(F a, F c) { \
    return lt((I)(as_u32(a) & 0x7FFFFFFFu), (I)(INF32 + 1)) & lt((I)(as_u32(c) & 0x7FFFFFFFu), (I)(INF32 + 1)); \
  } \
  FN I lt_by_bits(F a, F c) { return numbers(a, c) & lt(place(a), place(c)); } \
  FN I eq_by_bits(F a, F c) { return numbers(a, c) & eq(place(a), place(c)); } \
  FN I ne_by_bits(F a, F c) { return ~eq_by_bits(a, c); } \
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

FN f32 round_f16(f32 a) { return near_f16(a); }
FN u16 bits_f16(f32 a) { return (u16)wide_bits_f16(a); }
FN u16 bits_bf16(f32 a) { return (u16)wide_bits_bf16(a); }
#ifndef HALF /* the value of a half by an instruction */
#define HALF(a) wide_from_f16(a)
#endif
FN f32 from_f16(u16 a) { return HALF(a); }
FN f32 from_bf16(u16 a) { return as_f32((u32)a << 16); }

#define SATURATING(F, D, NAME, LEAST, END, MOST) \
  FN D NAME(F a) { \
    F safe = a < (F)LEAST ? (F)0.0f : a < (F)END ? a : (F)0.0f; \
    return choose(lt(a, (F)LEAST), (D)(LEAST), choose(~lt(a, (F)END) & eq(a, a), (D)(MOST), CONVERT(safe, D))); \
  }
#define TO_INTEGERS(F, S) \
  SATURATING(F, i8##S, f32_to_i8, -0x1p7f, 0x1p7f, 127) \
  SATURATING(F, i16##S, f32_to_i16, -0x1p15f, 0x1p15f, 32767) \
  SATURATING(F, i32##S, f32_to_i32, -0x1p31f, 0x1p31f, 0x7FFFFFFF) \
  SATURATING(F, i64##S, f32_to_i64, -0x1p63f, 0x1p63f, 0x7FFFFFFFFFFFFFFF) \
  SATURATING(F, u8##S, f32_to_u8, 0.0f, 0x1p8f, 255) \
  SATURATING(F, u16##S, f32_to_u16, 0.0f, 0x1p16f, 65535) \
  SATURATING(F, u32##S, f32_to_u32, 0.0f, 0x1p32f, 0xFFFFFFFFu) \
  SATURATING(F, u64##S, f32_to_u64, 0.0f, 0x1p64f, 0xFFFFFFFFFFFFFFFFu)
TO_INTEGERS(f32, )

/* An integer as float32, exact or rounded to odd at 20 bits, so that the rounding to bfloat16 is the only one. */
FN f32 few_bits(u64 size) {
  if (size < 1u << 24) return (f32)size;
  int drop = 44 - zeros(size);
  u64 kept = size >> drop;
  return (f32)(kept | (kept << drop != size)) * as_f32((u32)(127 + drop) << 23);
}
FN f32 i64_to_bf16(i64 a) { return round_bf16(a < 0 ? -few_bits(0 - (u64)a) : few_bits((u64)a)); }
FN f32 u64_to_bf16(u64 a) { return round_bf16(few_bits(a)); }

/* Memory. S is how an element is stored, T what it is in a register; ENTER and LEAVE lead from one to the other. Where a
   guard is false nothing is read, and the address need not exist. */
#define SAME(a) (a)
#define ENTER_b(a) ne(a, (u8)0)
#define LEAVE_b(a) ((u8)((a)&1))
#define MEMORY(S, T, NAME, ENTER, LEAVE) \
  FN T load_##NAME(GLOBAL const S *p, i64 i) { return ENTER(p[i]); } \
  FN T load_##NAME(GLOBAL const S *p, i64 i, b m) { return m ? ENTER(p[i]) : (T)0; } \
  FN void store_##NAME(GLOBAL S *p, i64 i, T a) { p[i] = LEAVE(a); }
MEMORY(u8, b, b, ENTER_b, LEAVE_b)
MEMORY(i8, i8, i8, SAME, SAME)
MEMORY(i16, i16, i16, SAME, SAME)
MEMORY(i32, i32, i32, SAME, SAME)
MEMORY(i64, i64, i64, SAME, SAME)
MEMORY(u8, u8, u8, SAME, SAME)
MEMORY(u16, u16, u16, SAME, SAME)
MEMORY(u32, u32, u32, SAME, SAME)
MEMORY(u64, u64, u64, SAME, SAME)
MEMORY(u16, f32, f16, from_f16, bits_f16)
MEMORY(u16, f32, bf16, from_bf16, bits_bf16)
MEMORY(f32, f32, f32, SAME, canonical)
