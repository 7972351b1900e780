/* See shm/arch/atomic.h, and the processor's folder. */
#include <sys/mman.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "tests/util/test.h"

/* A word that a program may only read, beside the mapping by which others change it. */
static void test_load_where_nothing_may_be_written(void **state) {
        long size = sysconf(_SC_PAGESIZE);
        int fd = memfd_create("pair", MFD_CLOEXEC);
        ShmPair *written, expected = {}, v;
        const ShmPair *read;

        (void) state;
        assert_int_equal(ftruncate(fd, size), 0);
        written = mmap(NULL, (size_t) size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        read = mmap(NULL, (size_t) size, PROT_READ, MAP_SHARED, fd, 0);
        assert_true(written != MAP_FAILED && read != MAP_FAILED);
        for (uint64_t i = 1; i < 100; i++) {
                assert_true(shm_pair_cas_acqrel(&written[i % 2], &expected, (ShmPair){ i, ~i }));
                v = shm_pair_load_acq(&read[i % 2]);
                assert_true(v.low == i && v.high == ~i);
                expected = shm_pair_load_acq(&read[(i + 1) % 2]);
                assert_true(expected.low == i - 1 && (i == 1 || expected.high == ~(i - 1)));
        }
        munmap(written, (size_t) size);
        munmap((void *) read, (size_t) size);
        close(fd);
}

#ifdef __aarch64__
/* By each instruction that a processor may lack. An emulator is right without it, too, as long as one thread runs. */
static void test_each_way(void **state) {
        bool casp = processor_has_casp, load16 = processor_has_load16;

        for (unsigned way = 0; way < 4; way++) {
                processor_has_casp = casp && (way & 1);
                processor_has_load16 = way & 2;
                test_load_where_nothing_may_be_written(state);
        }
        processor_has_casp = casp;
        processor_has_load16 = load16;
}
#endif

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_load_where_nothing_may_be_written),
#ifdef __aarch64__
                cmocka_unit_test(test_each_way),
#endif
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
