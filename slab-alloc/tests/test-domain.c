/* Domains: <epoch_domain.h>. */
#include <epoch_domain.h>
#include <pthread.h>
#include <slab_alloc.h>

#include "tests/util/test.h"

static SlabAllocator *make(void) {
        SlabAllocator *a = slab_allocator_create();

        assert_non_null(a);
        return a;
}

static bool is_open(SlabAllocator *a, EpochId epoch) {
        void *p = slab_malloc_epoch(a, 64, epoch);

        slab_free(a, p);
        return p != NULL;
}

static void test_create(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *domain;

        epoch_advance(a);
        domain = epoch_domain_create(a);
        assert_non_null(domain);
        assert_ptr_equal(domain->alloc, a);
        assert_int_equal(domain->epoch_id, 1);
        assert_int_equal(domain->refcount, 0);
        assert_false(domain->auto_close);
        assert_null(epoch_domain_current());
        assert_null(epoch_domain_allocator());

        epoch_domain_enter(domain);
        assert_ptr_equal(epoch_domain_current(), domain);
        assert_ptr_equal(epoch_domain_allocator(), a);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 1);
        epoch_domain_enter(domain);
        assert_int_equal(domain->refcount, 2);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 1);
        epoch_domain_exit(domain);
        assert_ptr_equal(epoch_domain_current(), domain);
        epoch_domain_exit(domain);
        epoch_domain_exit(domain); /* once too often */
        assert_null(epoch_domain_current());
        assert_int_equal(slab_epoch_get_refcount(a, 1), 0);
        assert_true(is_open(a, 1)); /* it closes nothing by itself */
        epoch_domain_force_close(domain);
        assert_false(is_open(a, 1));
        epoch_domain_destroy(domain);
        slab_allocator_free(a);
}

static void test_last_closes(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *one = epoch_domain_wrap(a, 5, true), *two = epoch_domain_wrap(a, 5, true);

        assert_non_null(one);
        assert_non_null(two);
        epoch_domain_enter(one);
        epoch_domain_enter(two);
        assert_int_equal(slab_epoch_get_refcount(a, 5), 2);
        epoch_domain_exit(two);
        epoch_domain_destroy(two);
        assert_true(is_open(a, 5)); /* one is in it */
        epoch_domain_exit(one);
        assert_false(is_open(a, 5));
        assert_true(is_open(a, 4));
        epoch_domain_destroy(one);
        slab_allocator_free(a);
}

static void test_nested(void **test_state) {
        SlabAllocator *a = make(), *b = make();
        epoch_domain_t *outer = epoch_domain_wrap(a, 2, true), *inner = epoch_domain_wrap(b, 3, true);

        epoch_domain_enter(outer);
        epoch_domain_enter(inner);
        assert_ptr_equal(epoch_domain_allocator(), b);
        epoch_domain_enter(outer);
        assert_ptr_equal(epoch_domain_allocator(), a);
        epoch_domain_exit(outer);
        assert_ptr_equal(epoch_domain_current(), inner);
        epoch_domain_exit(outer); /* out of order */
        assert_false(is_open(a, 2));
        assert_ptr_equal(epoch_domain_current(), inner);
        epoch_domain_destroy(inner); /* leaves first */
        assert_null(epoch_domain_current());
        assert_false(is_open(b, 3));
        epoch_domain_destroy(outer);
        slab_allocator_free(a);
        slab_allocator_free(b);
}

static void test_deep(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *domain = epoch_domain_wrap(a, 2, true), *other = epoch_domain_wrap(a, 3, true);

        epoch_domain_enter(other);
        for (uint32_t i = 0; i < 200; i++)
                epoch_domain_enter(domain);
        for (uint32_t i = 0; i < 199; i++)
                epoch_domain_exit(domain);
        assert_ptr_equal(epoch_domain_current(), domain);
        assert_true(is_open(a, 2));
        epoch_domain_exit(domain);
        assert_false(is_open(a, 2));
        assert_ptr_equal(epoch_domain_current(), other);
        epoch_domain_exit(other);
        assert_null(epoch_domain_current());
        epoch_domain_destroy(domain);
        epoch_domain_destroy(other);
        slab_allocator_free(a);
}

/* An id that was opened again is another epoch: it is neither closed nor counted. */
/* Nothing of a domain that was left stays behind, though not all of them were known. */
static void test_deep_in_another_order(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *domains[70];

        for (int i = 0; i < 70; i++) {
                domains[i] = epoch_domain_create(a);
                epoch_domain_enter(domains[i]);
        }
        for (int i = 0; i < 70; i++) {
                epoch_domain_exit(domains[i]);
                assert_ptr_not_equal(epoch_domain_current(), domains[i]);
                epoch_domain_destroy(domains[i]);
        }
        assert_null(epoch_domain_current());
        domains[0] = epoch_domain_create(a);
        for (int i = 0; i < 70; i++)
                epoch_domain_enter(domains[0]);
        epoch_domain_exit(domains[0]);
        assert_ptr_equal(epoch_domain_current(), domains[0]);
        epoch_domain_destroy(domains[0]);
        assert_null(epoch_domain_current());
        slab_allocator_free(a);
}

static void test_a_later_lifetime_is_left_alone(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *domain = epoch_domain_wrap(a, 1, true), *entered = epoch_domain_wrap(a, 1, true);

        epoch_domain_enter(entered);
        epoch_advance(a);
        assert_int_equal(epoch_current(a), 1);
        epoch_domain_force_close(domain);
        epoch_domain_destroy(domain);
        assert_true(is_open(a, 1));
        slab_epoch_inc_refcount(a, 1);
        epoch_domain_exit(entered);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 1);
        slab_epoch_dec_refcount(a, 1);
        epoch_domain_enter(entered);
        epoch_domain_exit(entered);
        epoch_domain_destroy(entered);
        assert_true(is_open(a, 1));
        slab_allocator_free(a);
}

static void *use_of_another(void *userdata) {
        epoch_domain_t *domain = userdata;

        epoch_domain_enter(domain);
        if (epoch_domain_current())
                return NULL;
        epoch_domain_exit(domain);
        return domain;
}

static void test_of_its_own_thread(void **test_state) {
        SlabAllocator *a = make();
        epoch_domain_t *domain = epoch_domain_wrap(a, 1, true);
        pthread_t thread;
        void *ret;

        epoch_domain_enter(domain);
        assert_int_equal(pthread_create(&thread, NULL, use_of_another, domain), 0);
        pthread_join(thread, &ret);
        assert_ptr_equal(ret, domain);
        assert_int_equal(domain->refcount, 1);
        assert_true(is_open(a, 1));
        epoch_domain_exit(domain);
        assert_false(is_open(a, 1));
        epoch_domain_destroy(domain);
        slab_allocator_free(a);
}

static void test_nothing(void **test_state) {
        SlabAllocator *a = make();

        assert_null(epoch_domain_create(NULL));
        assert_null(epoch_domain_wrap(NULL, 0, true));
        assert_null(epoch_domain_wrap(a, 16, true));
        epoch_domain_enter(NULL);
        epoch_domain_exit(NULL);
        epoch_domain_force_close(NULL);
        epoch_domain_destroy(NULL);
        assert_null(epoch_domain_current());
        slab_allocator_free(a);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_create),
                cmocka_unit_test(test_last_closes),
                cmocka_unit_test(test_nested),
                cmocka_unit_test(test_deep),
                cmocka_unit_test(test_deep_in_another_order),
                cmocka_unit_test(test_a_later_lifetime_is_left_alone),
                cmocka_unit_test(test_of_its_own_thread),
                cmocka_unit_test(test_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
