#pragma once
/*
 * Atomics
 *
 * This is the only file that names memory orders, and the test seam of all lock-free code: in a build
 * with -DSHM_STEP each access first calls shm_step(), where an explorer may switch to another actor or
 * end the current one as if its process had been killed.
 *
 * The names carry the order: rlx, acq, rel, acqrel, sc. On x86 all loads are acquire and all stores
 * are release, so a `rel` store is a plain mov that the compiler may not move; the orders are
 * written for the processors that differ. What no builtin of gcc does is in the processor's folder.
 *
 * Every use outside this file, but for hints, says on its line, or at most two above it:
 *   ORDER: <order>[, pairs with f()]; <the accesses that stay before, or after>.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arch/processor.h"

#if defined(__SANITIZE_THREAD__)
#define SHM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHM_TSAN 1
#endif
#endif

#ifdef SHM_STEP
void shm_step(const void *address);
#define SHM_STEP_HERE(p) shm_step(p)
#else
#define SHM_STEP_HERE(p) ((void) 0)
#endif

/*
 * All read-modify-writes are locked instructions on x86 and so sequentially consistent there; elsewhere a load that
 * follows one may pass its store, unless shm_fence_after_rmw() is between them. In
 * cas, `expected` points to a local variable; a cas that fails stores the value that it found there.
 */
/* One line each. The explorer brings its own two (tests/model/seam.h). */
/* clang-format off */
#ifndef SHM_AT
#define SHM_AT(p, expression) ({ SHM_STEP_HERE(p); expression; })
/* `v` is evaluated before the step of the store, since its own accesses are steps too. */
#define SHM_STORE(p, v, order) \
        ({ __typeof__(*(p)) shm_v_ = (v); SHM_STEP_HERE(p); __atomic_store_n((p), shm_v_, order); })
#endif
#define shm_load_rlx(p) SHM_AT(p, __atomic_load_n((p), __ATOMIC_RELAXED))
#define shm_load_acq(p) SHM_AT(p, __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define shm_load_sc(p) SHM_AT(p, __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define shm_store_rlx(p, v) SHM_STORE(p, v, __ATOMIC_RELAXED)
#define shm_store_rel(p, v) SHM_STORE(p, v, __ATOMIC_RELEASE)
/*
 * Hints: words of which every value is right that was ever stored. What is decided by one is looked at again elsewhere,
 * or costs time at most; or it is a figure for people. They order nothing, so these four need no ORDER comment.
 */
#define shm_hint_load(p) shm_load_rlx(p)
#define shm_hint_store(p, v) shm_store_rlx(p, v)
#define shm_hint_add(p, v) shm_add_rlx(p, v)
#define shm_xchg_acqrel(p, v) SHM_AT(p, __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL))
#define shm_add_rlx(p, v) SHM_AT(p, __atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
#define shm_add_acqrel(p, v) SHM_AT(p, __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL))
#define shm_sub_acqrel(p, v) SHM_AT(p, __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL))
#define shm_or_sc(p, v) SHM_AT(p, __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define shm_and_sc(p, v) SHM_AT(p, __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST))
#define shm_cas_acqrel(p, expected, desired)                                                                 \
        SHM_AT(p, __atomic_compare_exchange_n((p), (expected), (desired), false, __ATOMIC_ACQ_REL,           \
                                              __ATOMIC_ACQUIRE))
/* clang-format on */

static inline void shm_fence_sc(void) {
        SHM_STEP_HERE((const void *) 0);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void shm_fence_acq(void) {
        SHM_STEP_HERE((const void *) 0);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* Stores before it are seen before stores after it. No step of the explorer, which makes all accesses in order. */
static inline void shm_fence_rel(void) {
        __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* shm_fence_sc() for a thread whose last store to what the fence is about was a read-modify-write. */
static inline void shm_fence_after_rmw(void) {
        processor_fence_after_rmw();
}

/*
 * A plain load, without order, of a word that another thread may store: aligned and at most 8 bytes, so
 * that every instruction the compiler may choose reads it whole. To be used after a compiler barrier.
 */
#ifdef SHM_TSAN
#define shm_peek_rlx(p) SHM_AT(p, __atomic_load_n((p), __ATOMIC_RELAXED))
#else
#define shm_peek_rlx(p) (*(p))
#endif

/* A load of this thread's own memory. The compiler does not know that another load of it gives the same value. */
#define shm_private_again(p) (*(const volatile __typeof__(*(p)) *) (p))

/* A hint, too: adds one to a word that only this thread writes, without a locked instruction. */
static inline void shm_hint_count(uint64_t *p) {
        SHM_STEP_HERE(p);
#ifdef SHM_TSAN
        __atomic_store_n(p, __atomic_load_n(p, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
#else
        processor_count(p);
#endif
}

/* The processor's clock, for rough measures: 2 to 4 ticks a ns. It stands still in the explorer. */
static inline uint64_t shm_ticks(void) {
#ifdef SHM_STEP
        return 0;
#else
        return processor_ticks();
#endif
}

/* For so many ticks this thread takes nothing from the other threads of its core. */
static inline void shm_pause(uint64_t ticks) {
#ifdef SHM_STEP
        (void) ticks;
#else
        uint64_t begin = shm_ticks();

        while (shm_ticks() - begin < ticks)
                processor_relax();
#endif
}

/* The compiler moves no access across it; the processor may. */
static inline void shm_compiler_barrier(void) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Two 64-bit halves, written together by shm_pair_cas_acqrel(). */
typedef struct ShmPair {
        uint64_t low, high;
} __attribute__((aligned(16))) ShmPair;

#ifdef SHM_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void) 0)
#define __tsan_release(address) ((void) 0)
#endif

/*
 * 16-byte compare-and-set. It is inline assembly because gcc's builtin calls libatomic. That takes a
 * lock where it cannot prove that the processor has the instruction, and always under ThreadSanitizer,
 * and the lock is private to this process: it would not keep other processes out.
 *
 * shm_local_*: of memory of this process alone, and no step of the explorer.
 */
static inline bool shm_local_pair_cas_acqrel(ShmPair *p, ShmPair *expected, ShmPair desired) {
        bool done;

        __tsan_release(p);
        done = processor_cas16_acqrel(&p->low, &expected->low, desired.low, desired.high);
        __tsan_acquire(p);
        return done;
}

static inline bool shm_pair_cas_acqrel(ShmPair *p, ShmPair *expected, ShmPair desired) {
        SHM_STEP_HERE(p);
        return shm_local_pair_cas_acqrel(p, expected, desired);
}

#define shm_local_load_acq(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define shm_local_store_rlx(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/*
 * Reads both halves: at once where the processor can, else in the order high, low, high. (A compare-and-set would fault
 * on a mapping that is read-only.) If both loads of the high half agree, the halves belong together: every
 * compare-and-set changes the high half, except one that only clears bits of the low half.
 */
static inline ShmPair shm_pair_load_acq(const ShmPair *p) {
        ShmPair v;
        uint64_t again;

#ifndef SHM_TSAN
        if (processor_load16_acq(&p->low, &v.low, &v.high))
                return v;
#endif
        v.high = shm_load_acq(&p->high);
        for (;;) {
                v.low = shm_load_acq(&p->low);
                again = shm_load_acq(&p->high);
                if (again == v.high)
                        return v;
                v.high = again;
        }
}
