/* Four bytes side by side in a word, the first one lowest; what is done to each of them, whatever the others are. The
   products of two such, added to an int32, are `dot` with the signs of both: exact in any order. */
#define ONES 0x01010101u
#define SIGNS 0x80808080u
FN u32 spread(u32 a) { return (a & 255u) * ONES; }
FN u32 together(u8 a, u8 c, u8 d, u8 e) { return (u32)a | (u32)c << 8 | (u32)d << 16 | (u32)e << 24; }
FN u32 four_add(u32 a, u32 c) { return ((a & ~SIGNS) + (c & ~SIGNS)) ^ ((a ^ c) & SIGNS); }
FN u32 four_sub(u32 a, u32 c) { return ((a | SIGNS) - (c & ~SIGNS)) ^ ((a ^ ~c) & SIGNS); }
FN u32 four_mul(u32 a, u32 c) {
  u32 r = 0;
  for (i32 n = 0; n < 32; n += 8) r |= ((a >> n & 255u) * (c >> n & 255u) & 255u) << n;
  return r;
}
FN u32 four_times(u32 a, u32 c) { /* all by the same */
  u32 even = (a & 0x00FF00FFu) * (c & 255u), odd = (a >> 8 & 0x00FF00FFu) * (c & 255u);
  return (even & 0x00FF00FFu) | (odd & 0x00FF00FFu) << 8;
}
FN u32 four_shr_u8(u32 a, u8 far) { return far < 8 ? a >> far & spread(255u >> far) : 0u; }
FN u32 four_shr_i8(u32 a, u8 far) {
  u32 by = far < 8 ? far : 7, sign = SIGNS >> by;
  return four_sub((a >> by & spread(255u >> by)) ^ sign, sign);
}
FN u32 four_i8(GLOBAL const i8 *p, i64 i) { return together((u8)p[i], (u8)p[i + 1], (u8)p[i + 2], (u8)p[i + 3]); }
FN u32 four_u8(GLOBAL const u8 *p, i64 i) { return together(p[i], p[i + 1], p[i + 2], p[i + 3]); }
FN u32 word_i8(GLOBAL const i8 *p, i64 i) { return *(GLOBAL const u32 *)(p + i); }
FN u32 word_u8(GLOBAL const u8 *p, i64 i) { return *(GLOBAL const u32 *)(p + i); }
