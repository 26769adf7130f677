/* What is particular to C with the extensions of clang, for processors. */
#include <stdint.h>

#define FN static inline __attribute__((always_inline, overloadable, unused))
#define GLOBAL
#define CHOSEN(m, a, c) ((m) ? (a) : (c))

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
typedef i64 ix; /* an index */

FN u32 as_u32(f32 a) { union { f32 f; u32 u; } x = {a}; return x.u; }
FN f32 as_f32(u32 a) { union { u32 u; f32 f; } x = {a}; return x.f; }
FN u64 as_u64(double a) { union { double f; u64 u; } x = {a}; return x.u; }
FN double as_f64(u64 a) { union { u64 u; double f; } x = {a}; return x.f; }
FN i32 zeros(u64 a) { return __builtin_clzll(a); }

/* A condition that the compiler cannot follow to its comparison. Else clang 14 makes an instruction of x < 0 ? 0 : x that
   takes -0 for less than +0, on ARM and RISC-V, and one of 0 < x ? x : 0 that gives a NaN back, on ARM. */
#if defined(__x86_64__)
#define UNSEEN(m, WHERE)
#else
#define UNSEEN(m, WHERE) __asm__("" : "+" WHERE(m))
#endif
FN f32 choose(b m, f32 a, f32 c) { UNSEEN(m, "r"); return m ? a : c; }
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
#if defined(__F16C__) && __has_builtin(__builtin_ia32_vcvtph2ps)
FN f32 half(u16 a) {
  f32 __attribute__((vector_size(16))) r = __builtin_ia32_vcvtph2ps((short __attribute__((vector_size(16)))){(short)a});
  __asm__("" : "+x"(r)); /* as in vectors.h: nothing may be concluded from where it came */
  return r[0];
}
#define HALF(a) half(a)
#else
#define HALF(a) wide_from_f16(a)
#endif
