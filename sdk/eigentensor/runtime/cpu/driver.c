/* Runs the calls of a program in order. Any number of threads may enter with the same table: each takes the next units
   of a call until none is left, and goes on when all of them are done. One thread alone finishes everything. */
#include <stdint.h>

#define SPINS 50 /* calls of sched_yield, some 15 µs */

struct step {
  int64_t (*kernel)(void *const *, const int64_t *, int64_t, int64_t);
  void *const *buffers;
  const int64_t *variables;
  int64_t units, grain, next, done;
};

/* Where threads of a process meet. `steps` is the table in hand or null, `inside` counts helpers that may look at it. */
struct desk {
  void (*yield)(void);
  int (*post)(void *), (*wait)(void *);
  int64_t semaphore[8];
  int64_t busy, inside, turn, count;
  struct step *steps;
};

/* What the processor does with floats: a thread's register, and its value for "to nearest, no flush to zero". */
#if defined(__SSE__)
#define ORDINARY 0x1F80
#define READ_MODE(mode) mode = __builtin_ia32_stmxcsr()
#define WRITE_MODE(mode) __builtin_ia32_ldmxcsr(mode)
#elif defined(__aarch64__)
#define ORDINARY 0
#define READ_MODE(mode) __asm__ volatile("mrs %0, fpcr" : "=r"(mode)::"memory")
#define WRITE_MODE(mode) __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory")
#elif defined(__riscv_flen) /* the rounding alone: nothing is ever flushed */
#define ORDINARY 0
#define READ_MODE(mode) __asm__ volatile("frrm %0" : "=r"(mode)::"memory")
#define WRITE_MODE(mode) __asm__ volatile("fsrm %0" ::"r"(mode) : "memory")
#else
#error "it is not known how this processor is told to round to nearest and to keep subnormal numbers"
#endif

static void run(struct desk *, struct step *, int64_t, int64_t);
static void help(struct desk *);

/* The entry, first in the object: runs a table with so many helpers. Without a table it becomes one, for good. Kernels
   see the ordinary mode, whatever the process does otherwise. */
void drive(struct desk *desk, struct step *steps, int64_t count, int64_t helpers) {
  uint64_t before;
  READ_MODE(before);
  WRITE_MODE((uint64_t)ORDINARY);
  if (steps)
    run(desk, steps, count, helpers);
  else
    help(desk);
  WRITE_MODE(before);
}

static void go_through(struct step *steps, int64_t count, void (*yield)(void)) {
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
}

/* While helpers are busy with another table, a table is run without them. */
static void run(struct desk *d, struct step *steps, int64_t count, int64_t helpers) {
  if (!helpers || __atomic_exchange_n(&d->busy, 1, __ATOMIC_ACQUIRE)) {
    go_through(steps, count, d->yield);
    return;
  }
  d->count = count;
  __atomic_store_n(&d->steps, steps, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&d->turn, 1, __ATOMIC_RELEASE);
  for (int64_t n = 0; n < helpers; n++) d->post(d->semaphore);
  go_through(steps, count, d->yield);
  __atomic_store_n(&d->steps, (struct step *)0, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&d->inside, __ATOMIC_SEQ_CST)) d->yield();
  __atomic_store_n(&d->busy, 0, __ATOMIC_RELEASE);
}

/* Awake for a while, since runs often follow each other, then asleep. */
static void help(struct desk *d) {
  for (;;) {
    const int64_t seen = __atomic_load_n(&d->turn, __ATOMIC_ACQUIRE);
    for (int64_t spins = 0; spins < SPINS && __atomic_load_n(&d->turn, __ATOMIC_ACQUIRE) == seen; spins++) d->yield();
    while (d->wait(d->semaphore)) {} /* a signal came */
    __atomic_fetch_add(&d->inside, 1, __ATOMIC_SEQ_CST);
    struct step *steps = __atomic_load_n(&d->steps, __ATOMIC_SEQ_CST);
    if (steps) go_through(steps, d->count, d->yield);
    __atomic_fetch_sub(&d->inside, 1, __ATOMIC_SEQ_CST);
  }
}
