/*
 * The role that a client gets, by credentials alone; groups of connections are in
 * tests/systemd/test-roles.py.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/role.h"
#include "proto/message.h"
#include "tests/util/test.h"

static uint32_t role(const Roles *roles, uid_t uid, gid_t gid) {
        return role_of(roles, &(struct ucred){ .pid = 1, .uid = uid, .gid = gid }, -1);
}

static void test_role_list_parse(void **state) {
        RoleList list = { .n_users = 7 };
        char text[512] = "";

        assert_int_equal(role_list_parse("root, 4711,@root,@4712", &list), 0);
        assert_int_equal(list.n_users, 2);
        assert_int_equal(list.users[0], 0);
        assert_int_equal(list.users[1], 4711);
        assert_int_equal(list.n_groups, 2);
        assert_int_equal(list.groups[1], 4712);
        assert_int_equal(role_list_parse("no-such-user", &list), -EINVAL);
        assert_int_equal(role_list_parse("@no-such-group", &list), -EINVAL);
        assert_int_equal(role_list_parse("-1", &list), -EINVAL);
        assert_int_equal(role_list_parse("4294967295", &list), -EINVAL);
        assert_int_equal(list.n_users, 2);

        for (unsigned i = 0; i <= ROLE_LIST_MAX; i++)
                strcat(text, "77,");
        assert_int_equal(role_list_parse(text, &list), -E2BIG);
        assert_int_equal(role_list_parse("", &list), 0);
        assert_int_equal(list.n_users, 0);
}

/* The first look at the users: it must not make a writer of the metrics user for good. */
static void test_role_of_unreadable_users(void **state) {
        struct rlimit old, none = { .rlim_cur = 3 };
        Roles roles = {};

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        none.rlim_max = old.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(role(&roles, 4711, 0), PROTO_ROLE_READER);
        assert_int_equal(role(&roles, 0, 0), PROTO_ROLE_OPERATOR);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(role(&roles, 4711, 0), PROTO_ROLE_WRITER);
}

/* A daemon that runs as the user that stands for all unmapped ones. */
static void test_role_of_unmapped(void **state) {
        Roles roles = {};

        if (geteuid() != 0)
                skip();
        assert_int_equal(seteuid(65534), 0);
        assert_int_equal(role(&roles, 65534, 5), PROTO_ROLE_WRITER);
        assert_int_equal(seteuid(0), 0);
}

static void test_role_of_nobody_named(void **state) {
        Roles roles = {};

        assert_int_equal(role(&roles, 0, 5), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, geteuid(), 5), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4711, 0), PROTO_ROLE_WRITER);
}

static void test_role_of_named(void **state) {
        Roles roles = {};

        assert_int_equal(role_list_parse("4711", &roles.operators), 0);
        assert_int_equal(role_list_parse("@4712", &roles.writers), 0);
        assert_int_equal(role(&roles, 4711, 1), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4711, 4712), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4713, 4712), PROTO_ROLE_WRITER);
        assert_int_equal(role(&roles, 4713, 1), PROTO_ROLE_READER);

        assert_int_equal(role_list_parse("4714", &roles.readers), 0);
        assert_int_equal(role(&roles, 4714, 1), PROTO_ROLE_READER);
        assert_int_equal(role(&roles, 4713, 1), 0);

        /* Without writers, readers named are no more than that, and the others write. */
        roles.writers = (RoleList){};
        assert_int_equal(role(&roles, 4714, 1), PROTO_ROLE_READER);
        assert_int_equal(role(&roles, 4713, 1), PROTO_ROLE_WRITER);
}

/* Each of several counts, not the first alone. */
static void test_role_of_last_named(void **state) {
        Roles roles = {};

        assert_int_equal(role_list_parse("4711,4712,4713,@4714,@4715", &roles.operators), 0);
        assert_int_equal(role_list_parse("4720", &roles.writers), 0);
        assert_int_equal(role(&roles, 4711, 1), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4713, 1), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4799, 4715), PROTO_ROLE_OPERATOR);
        assert_int_equal(role(&roles, 4799, 4713), PROTO_ROLE_READER);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_role_list_parse),
                cmocka_unit_test(test_role_of_unreadable_users), /* before any other role */
                cmocka_unit_test(test_role_of_unmapped),
                cmocka_unit_test(test_role_of_nobody_named),
                cmocka_unit_test(test_role_of_named),
                cmocka_unit_test(test_role_of_last_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
