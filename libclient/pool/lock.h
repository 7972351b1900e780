#pragma once
/*
 * Locks between the threads of one process. A thread may end while it holds one, by pthread_exit() in a signal handler
 * or by a raw exit; then the next thread takes the lock over. Zeros are an unlocked lock: in memory that the kernel
 * zeroes in a forked child no lock is held.
 */
#include <stdbool.h>
#include <stdint.h>

typedef struct Lock {
        uint32_t word; /* the holder's thread number; 0: none; LOCK_WAITED: threads sleep */
} Lock;

/* True: the last holder ended with the lock, and may have left in the middle that which it guards. */
bool lock_take(Lock *lock);
/* False: another thread has it. *ret_left: as lock_take(). */
bool lock_try(Lock *lock, bool *ret_left);
void lock_release(Lock *lock);

/*
 * Before the first lock is taken; may be called again, and by several threads at once. *ret_wiped: a lock in memory
 * that the kernel zeroes in a forked child. -ENOMEM.
 */
int lock_init(Lock **ret_wiped);
/* As gettid(), which is asked once in each thread, and again in a forked child. */
uint32_t lock_own_number(void);
