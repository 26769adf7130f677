/* What is particular to OpenCL C 1.2. Division and sqrt are correctly rounded by an option of the build, which only
   devices accept that can. */
#pragma OPENCL FP_CONTRACT OFF

#define FN static inline __attribute__((always_inline, overloadable))
#define GLOBAL __global
#define CHOSEN(m, a, c) ((m) ? (a) : (c))
#define HALF(a) wide_from_f16(a)
#define LOCAL __local
#define KERNEL(items) __kernel __attribute__((reqd_work_group_size(items, 1, 1)))
#define WAIT barrier(CLK_LOCAL_MEM_FENCE)
#define LOCAL_OF __local const
#define ALIGNED __attribute__((aligned(16)))
#define FETCH(bytes, to, from) for (i32 f = 0; f < bytes / (i32)sizeof(*(from)); f++) (to)[f] = (from)[f]
#define SENT
#define ARRIVED(n)
#define UNROLL
#define GROUP ((i64)get_group_id(0))
#define ITEM ((i32)get_local_id(0))

typedef int b;
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;

FN u32 as_u32(f32 a) { return as_uint(a); }
FN f32 as_f32(u32 a) { return as_float(a); }
FN i32 zeros(u64 a) { return (i32)clz(a); }
FN f32 apart(f32 a) { return a; }
FN f32 choose(b m, f32 a, f32 c) { return m ? a : c; }
#define DOT(NAME, A, C) \
  FN i32 NAME(u32 a, u32 c, i32 d) { \
    int4 x = convert_int4(as_##A(a)), y = convert_int4(as_##C(c)); \
    return d + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; \
  }
DOT(dot_i8_i8, char4, char4)
DOT(dot_i8_u8, char4, uchar4)
DOT(dot_u8_i8, uchar4, char4)
DOT(dot_u8_u8, uchar4, uchar4)
FN f32 root(f32 a) { return sqrt(a); }
FN f32 mulacc(f32 a, f32 c, f32 d) { return fma(a, c, d); }
