/* Runs the calls of a program in order. Any number of threads may enter with the same table: each takes the next units
   of a call until none is left, and goes on when all of them are done. One thread alone finishes everything. */
#include <stdint.h>

struct step {
  int64_t (*kernel)(void *const *, const int64_t *, int64_t, int64_t);
  void *const *buffers;
  const int64_t *variables;
  int64_t units, grain, next, done;
};

int64_t drive(struct step *steps, int64_t count, void (*yield)(void)) {
#ifdef __SSE__ /* to nearest, no flush to zero, whatever the process does otherwise */
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1F80);
#endif
  for (struct step *s = steps; s < steps + count; s++) {
    for (;;) {
      const int64_t first = __atomic_fetch_add(&s->next, s->grain, __ATOMIC_ACQ_REL);
      if (first >= s->units) break;
      const int64_t last = first + s->grain < s->units ? first + s->grain : s->units;
      s->kernel(s->buffers, s->variables, first, last);
      __atomic_fetch_add(&s->done, last - first, __ATOMIC_ACQ_REL);
    }
    for (int64_t spins = 0; __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) < s->units; spins++)
      if (spins > 2000) yield();
  }
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(before);
#endif
  return count;
}
