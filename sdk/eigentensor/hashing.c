/* sha256 of many short messages at once: the leaves and the nodes of trees (sdk/README.md, "Names: trees and roots").
   A message is a tag byte and `size` bytes, a multiple of 64: its first block holds the tag, its last one the last
   byte and the padding, and those between lie in memory as they are, one byte before a multiple of 64. */
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { PORTABLE, AVX2, SHA, KINDS };
enum { MOST = 8 }; /* messages side by side */
#define INLINE static inline __attribute__((always_inline))

static const uint32_t K[64] __attribute__((aligned(16))) = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

INLINE uint32_t word(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One block of each of eight messages. The state is word by word, the eight messages of a word side by side. */
typedef uint32_t eight __attribute__((vector_size(32)));
#define ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))
#define S(k) s[((k) - t) & 7] /* words move to the next name in each round */

INLINE void blocks_of_eight(uint32_t *state, const uint8_t *const *blocks) {
  eight w[16], *sums = (eight *)state, s[8];
  for (int i = 0; i < 8; i++) s[i] = sums[i];
  for (int t = 0; t < 16; t++)
    for (int i = 0; i < 8; i++) w[t][i] = word(blocks[i] + 4 * t);
#pragma unroll 16
  for (int t = 0; t < 64; t++) {
    if (t >= 16) {
      const eight early = w[(t + 1) & 15], late = w[(t + 14) & 15];
      w[t & 15] += (ROTATE(early, 7) ^ ROTATE(early, 18) ^ early >> 3) + w[(t + 9) & 15] +
                   (ROTATE(late, 17) ^ ROTATE(late, 19) ^ late >> 10);
    }
    const eight a = S(0), e = S(4);
    const eight one = S(7) + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) + (S(6) ^ (e & (S(5) ^ S(6)))) + K[t] +
                      w[t & 15];
    S(3) += one;
    S(7) = one + (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & S(1)) | (S(2) & (a | S(1))));
  }
  for (int i = 0; i < 8; i++) sums[i] += s[i];
}

/* `lanes` messages at a time by `blocks`; word k of message i stands at state[i * step + place[k]]. */
INLINE void hash_by(void (*blocks)(uint32_t *, const uint8_t *const *), int lanes, int step, const uint8_t *place,
                    int tag, size_t size, const uint8_t *data, size_t count, uint8_t *out) {
  uint32_t state[8 * MOST] __attribute__((aligned(64)));
  uint8_t first[MOST][64], last[64 * MOST] = {0};
  const uint8_t *at[MOST];
  for (size_t done = 0; done < count; done += lanes) {
    const int now = count - done < (size_t)lanes ? (int)(count - done) : lanes;
    for (int i = 0; i < lanes; i++) {
      const uint8_t *message = data + (done + (i < now ? i : 0)) * size; /* idle lanes repeat a message */
      first[i][0] = tag;
      __builtin_memcpy(first[i] + 1, message, 63);
      last[64 * i] = message[size - 1];
      last[64 * i + 1] = 0x80;
      for (int b = 0; b < 8; b++) last[64 * i + 63 - b] = (uint64_t)(8 * (size + 1)) >> 8 * b;
      for (int k = 0; k < 8; k++) state[i * step + place[k]] = START[k];
    }
    for (size_t block = 0; block <= size / 64; block++) {
      for (int i = 0; i < lanes; i++)
        at[i] = block == 0           ? first[i]
                : block == size / 64 ? last + 64 * i
                                     : data + (done + (i < now ? i : 0)) * size + 64 * block - 1;
      blocks(state, at);
    }
    for (int i = 0; i < now; i++)
      for (int k = 0; k < 8; k++)
        for (int b = 0; b < 4; b++) out[32 * (done + i) + 4 * k + b] = state[i * step + place[k]] >> (24 - 8 * b);
  }
}

static const uint8_t BY_WORD[8] = {0, 8, 16, 24, 32, 40, 48, 56};
#define ARGUMENTS int tag, size_t size, const uint8_t *data, size_t count, uint8_t *out

static void portable(ARGUMENTS) { hash_by(blocks_of_eight, 8, 1, BY_WORD, tag, size, data, count, out); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void avx2(ARGUMENTS) {
  hash_by(blocks_of_eight, 8, 1, BY_WORD, tag, size, data, count, out);
}

/* One block of each of two messages: an instruction of one waits while those of the other run. */
#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))
SHA_TARGET INLINE void blocks_of_two(uint32_t *state, const uint8_t *const *blocks) {
  const __m128i swapped = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i w[2][4], abef[2], cdgh[2], *sums = (__m128i *)state;
  for (int i = 0; i < 2; i++) abef[i] = sums[2 * i], cdgh[i] = sums[2 * i + 1];
#pragma unroll
  for (int t = 0; t < 16; t++)
    for (int i = 0; i < 2; i++) {
      __m128i *now = &w[i][t & 3], before = w[i][(t + 3) & 3];
      if (t < 4)
        *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)blocks[i] + t), swapped);
      else
        *now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*now, w[i][(t + 1) & 3]),
                                                  _mm_alignr_epi8(before, w[i][(t + 2) & 3], 4)), before);
      const __m128i k = _mm_add_epi32(*now, ((const __m128i *)K)[t]);
      cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], k);
      abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], _mm_shuffle_epi32(k, 0x0e));
    }
  for (int i = 0; i < 2; i++) {
    sums[2 * i] = _mm_add_epi32(sums[2 * i], abef[i]);
    sums[2 * i + 1] = _mm_add_epi32(sums[2 * i + 1], cdgh[i]);
  }
}

SHA_TARGET static void sha(ARGUMENTS) {
  static const uint8_t place[8] = {3, 2, 7, 6, 1, 0, 5, 4}; /* the instructions want FEBA and HGDC */
  hash_by(blocks_of_two, 2, 8, place, tag, size, data, count, out);
}

int supports(int kind) {
  unsigned a, b = 0, c = 0, d, saved = 0, ignored;
  if (kind == PORTABLE) return 1;
  if (!__get_cpuid_count(7, 0, &a, &b, &ignored, &d) || !__get_cpuid(1, &a, &ignored, &c, &d)) return 0;
  if (c >> 27 & 1) __asm__("xgetbv" : "=a"(saved), "=d"(ignored) : "c"(0)); /* what the system saves of registers */
  return kind == SHA ? b >> 29 & c >> 19 & c >> 9 & 1 : kind == AVX2 && b >> 5 & 1 && (saved & 6) == 6;
}

/* The hashes of `count` messages that lie one after the other, 32 bytes each. */
void hash(int kind, ARGUMENTS) {
  (kind == SHA ? sha : kind == AVX2 ? avx2 : portable)(tag, size, data, count, out);
}
#elif defined(__aarch64__)
/* The same with ARM's instructions. */
INLINE void blocks_of_two(uint32_t *state, const uint8_t *const *blocks) {
  uint32x4_t w[2][4], abcd[2], efgh[2], *sums = (uint32x4_t *)state;
  for (int i = 0; i < 2; i++) abcd[i] = sums[2 * i], efgh[i] = sums[2 * i + 1];
#pragma unroll
  for (int t = 0; t < 16; t++)
    for (int i = 0; i < 2; i++) {
      uint32x4_t *now = &w[i][t & 3];
      if (t < 4)
        *now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks[i] + 16 * t)));
      else
        *now = vsha256su1q_u32(vsha256su0q_u32(*now, w[i][(t + 1) & 3]), w[i][(t + 2) & 3], w[i][(t + 3) & 3]);
      const uint32x4_t k = *now + ((const uint32x4_t *)K)[t], before = abcd[i];
      abcd[i] = vsha256hq_u32(before, efgh[i], k);
      efgh[i] = vsha256h2q_u32(efgh[i], before, k);
    }
  for (int i = 0; i < 2; i++) sums[2 * i] += abcd[i], sums[2 * i + 1] += efgh[i];
}

static void sha(ARGUMENTS) {
  static const uint8_t place[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  hash_by(blocks_of_two, 2, 8, place, tag, size, data, count, out);
}

unsigned long getauxval(unsigned long); /* of libc: what the system says of the processor */
int supports(int kind) { return kind == PORTABLE || (kind == SHA && getauxval(16) >> 6 & 1); }
void hash(int kind, ARGUMENTS) { (kind == SHA ? sha : portable)(tag, size, data, count, out); }
#else
#error "hashing.py knows for which processors this is"
#endif
