/* SipHash by its authors' vectors. */
#include "shm/format/siphash.h"
#include "tests/util/test.h"

static void test_siphash_vectors(void **state) {
        static const struct {
                size_t size;
                uint64_t hash;
        } vectors[] = {
                { 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
                { 7, UINT64_C(0xab0200f58b01d137) },  { 8, UINT64_C(0x93f5f5799a932462) },
                { 15, UINT64_C(0xa129ca6149be45e5) }, { 63, UINT64_C(0x958a324ceb064572) },
        };
        uint8_t key[SHM_SIPHASH_KEY_SIZE], bytes[64];
        uint64_t hash[2];

        for (unsigned i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t) i;
        for (unsigned i = 0; i < sizeof(key); i++)
                key[i] = (uint8_t) i;
        for (unsigned i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
                assert_int_equal(shm_siphash(bytes, vectors[i].size, key), vectors[i].hash);
        shm_siphash128(bytes, 0, key, hash);
        assert_int_equal(hash[0], UINT64_C(0xe6a825ba047f81a3));
        assert_int_equal(hash[1], UINT64_C(0x930255c71472f66d));
}

/* No byte before or behind the message counts, nor is read behind it. */
static void test_siphash_edges(void **state) {
        static const uint8_t key[SHM_SIPHASH_KEY_SIZE] = "0123456789abcde";
        uint8_t bytes[80];

        for (unsigned size = 0; size < 40; size++) {
                uint64_t first;

                memset(bytes, 0x55, sizeof(bytes));
                first = shm_siphash(bytes + 17, size, key);
                memset(bytes, 0xaa, 17);
                memset(bytes + 17 + size, 0xaa, sizeof(bytes) - 17 - size);
                assert_int_equal(shm_siphash(bytes + 17, size, key), first);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_siphash_vectors),
                cmocka_unit_test(test_siphash_edges),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
