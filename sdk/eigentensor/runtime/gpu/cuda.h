/* What is particular to CUDA C++. Every rounding is named; options of the build forbid contraction and flushing. */
#define FN static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define KERNEL(items) extern "C" __global__ __launch_bounds__(items)
#define WAIT __syncthreads()
#define LOCAL_OF const
#define ALIGNED __align__(16)
/* A copy of 4, 8 or 16 bytes that goes on by itself; all but the last n of the groups that were sent have arrived. */
#define FETCH(bytes, to, from) fetch<bytes>((u32)__cvta_generic_to_shared(to), from)
#define SENT asm volatile("cp.async.commit_group;" ::: "memory")
#define ARRIVED(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define UNROLL _Pragma("unroll 16")
#define GROUP ((i64)blockIdx.x)
#define ITEM ((i32)threadIdx.x)
#define restrict __restrict__

typedef int b;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

FN u32 as_u32(f32 a) { return __float_as_uint(a); }
FN f32 as_f32(u32 a) { return __uint_as_float(a); }
FN i32 zeros(u64 a) { return __clzll((i64)a); }
/* Of three integers, ptxas of CUDA 12.6 to 13.2 takes the least wrongly where the second is negated (sm_90): no choice is
   one that it could make a minimum or maximum of. */
#define HALF(a) half(a)
#define CHOSEN(m, a, c) chosen(m, a, c)
template <typename T> FN T chosen(b m, T a, T c) {
  asm("" : "+r"(m));
  return (T)((a & (T)m) | (c & ~(T)m));
}
/* What the compiler does not see through. NVRTC takes x < 0 ? x : 0 for min.f32, which gives -0 for -0; and what constants
   come to, which it does not compute where that is NaN, for equal to itself. */
FN f32 apart(f32 a) { asm("" : "+f"(a)); return a; }
FN f32 choose(b m, f32 a, f32 c) { return m ? a : apart(c); }
FN f32 half(u16 a) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a)); return r; }
#if __CUDA_ARCH__ >= 610
#define DOT(NAME, TYPES) \
  FN i32 NAME(u32 a, u32 c, i32 d) { asm("dp4a." TYPES " %0, %1, %2, %0;" : "+r"(d) : "r"(a), "r"(c)); return d; }
#else
#define DOT(NAME, TYPES) /* by hand: the first letter of either type says whether its bytes have a sign */ \
  FN i32 NAME(u32 a, u32 c, i32 d) { \
    for (i32 n = 0; n < 32; n += 8) { \
      i32 x = TYPES[0] == 's' ? (i8)(a >> n) : (u8)(a >> n), y = TYPES[4] == 's' ? (i8)(c >> n) : (u8)(c >> n); \
      d += x * y; \
    } \
    return d; \
  }
#endif
DOT(dot_i8_i8, "s32.s32")
DOT(dot_i8_u8, "s32.u32")
DOT(dot_u8_i8, "u32.s32")
DOT(dot_u8_u8, "u32.u32")
FN f32 root(f32 a) { return __fsqrt_rn(a); }
FN f32 mulacc(f32 a, f32 c, f32 d) { return __fmaf_rn(a, c, d); }
template <int BYTES> FN void fetch(u32 to, const void *from) {
  if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
