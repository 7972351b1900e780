#include "tests/crash/crash-processor.h"

#include <sched.h>

#include "tests/util/test.h"

static cpu_set_t all; /* when the test began */

/* The thread may be gone; then nothing is left to be set. */
static void stand_on(pid_t tid, const cpu_set_t *set) {
        assert_int_equal(sched_setaffinity(0, sizeof(*set), set), 0);
        (void) sched_setaffinity(tid, sizeof(*set), set);
}

void processor_share(pid_t tid) {
        cpu_set_t one;

        if (CPU_COUNT(&all) == 0)
                assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        stand_on(tid, &one);
}

void processor_share_end(pid_t tid) {
        stand_on(tid, &all);
}
