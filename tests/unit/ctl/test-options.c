/* The command line: options, verbs, suggestions. Complaints go to stderr, which test-verbs.py reads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/nearest.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/verbs.h"

#define ARGS_MAX 16

/* The outcome of a command line, before which "tslabctl" is put. */
typedef struct Parsed {
        CtlExit r;
        char **words;
        size_t n_words;
        unsigned given;
} Parsed;

#define PARSE(...) parse((char *[ARGS_MAX]){ (char *) "tslabctl", ##__VA_ARGS__ })

static Parsed parse(char **argv) {
        static char *copy[ARGS_MAX];
        Parsed parsed = {};
        int argc = 0;

        while (argc < ARGS_MAX && argv[argc])
                argc++;
        /* the words stay after this returns */
        (void) memcpy(copy, argv, sizeof(copy));

        parsed.r = options_parse(argc, copy, &parsed.words, &parsed.n_words, &parsed.given);
        return parsed;
}

static void test_options_parse_defaults(void **state) {
        Parsed parsed = PARSE("status");

        assert_int_equal(parsed.r, CTL_DONE);
        assert_int_equal(parsed.n_words, 1);
        assert_int_equal(parsed.given, 0);
        assert_null(arg_pool);
        assert_null(arg_socket);
        assert_false(arg_json || arg_help || arg_version || arg_revoke || arg_wait || arg_repair);
        assert_true(arg_legend && arg_pager);
}

static void test_options_parse_anywhere(void **state) {
        Parsed parsed = PARSE("--json", "epoch", "--pool", "web", "close", "3", "--revoke", "--no-legend",
                              "--no-pager", "4:1");

        assert_int_equal(parsed.r, CTL_DONE);
        assert_int_equal(parsed.n_words, 4);
        assert_string_equal(parsed.words[0], "epoch");
        assert_string_equal(parsed.words[3], "4:1");
        assert_int_equal(parsed.given, OPTION_POOL | OPTION_REVOKE);
        assert_string_equal(arg_pool, "web");
        assert_true(arg_json && arg_revoke);
        assert_false(arg_legend || arg_pager);
}

static void test_options_parse_ended(void **state) {
        Parsed parsed = PARSE("epoch", "label", "3", "--", "--json");

        assert_int_equal(parsed.r, CTL_DONE);
        assert_int_equal(parsed.n_words, 4);
        assert_string_equal(parsed.words[3], "--json");
        assert_false(arg_json);
}

static void test_options_parse_wait(void **state) {
        assert_int_equal(PARSE("--wait").r, CTL_DONE);
        assert_true(arg_wait);
        assert_int_equal(arg_wait_msec, UINT32_MAX);
        assert_int_equal(PARSE("--wait=1.5").r, CTL_DONE);
        assert_int_equal(arg_wait_msec, 1500);
        assert_int_equal(PARSE("--wait=").r, CTL_USAGE);
        assert_int_equal(PARSE("--wait=-1").r, CTL_USAGE);
        assert_int_equal(PARSE("--wait=100000").r, CTL_USAGE);
        /* nothing stays from one call to the next */
        assert_int_equal(PARSE("list").r, CTL_DONE);
        assert_false(arg_wait);
}

static void test_options_parse_refused(void **state) {
        assert_int_equal(PARSE("--bogus").r, CTL_USAGE);
        assert_int_equal(PARSE("--").r, CTL_DONE);
        assert_int_equal(PARSE("-x").r, CTL_USAGE);
        assert_int_equal(PARSE("-hx").r, CTL_USAGE);
        assert_int_equal(PARSE("--json=1").r, CTL_USAGE);
        assert_int_equal(PARSE("--no").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool", "Web").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool", "").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool=/run/x.sock").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool=web-1").r, CTL_USAGE);
        assert_int_equal(PARSE("--socket", "").r, CTL_USAGE);
        assert_int_equal(PARSE("--pool", "a", "--socket", "/b").r, CTL_USAGE);
}

static CtlExit find(size_t expected_n_name, const char *expected, char **words) {
        const Verb *verb = NULL;
        size_t n_words = 0, n_name = 0;
        CtlExit r;

        while (words[n_words])
                n_words++;
        r = verb_find(words, n_words, &verb, &n_name);
        if (r == CTL_DONE) {
                assert_string_equal(verb->name, expected);
                assert_int_equal(n_name, expected_n_name);
        }
        return r;
}

#define FIND(_n_name, _expected, ...) find((_n_name), (_expected), (char *[ARGS_MAX]){ __VA_ARGS__ })

static void test_verb_find_words(void **state) {
        assert_int_equal(FIND(1, "list", "list"), CTL_DONE);
        assert_int_equal(FIND(2, "epoch close", "epoch", "close", "3"), CTL_DONE);
        assert_int_equal(FIND(2, "epoch list", "epoch", "list"), CTL_DONE);
        assert_int_equal(FIND(0, "", NULL), CTL_USAGE);
        assert_int_equal(FIND(0, "", "epoch"), CTL_USAGE);
        assert_int_equal(FIND(0, "", "epoch", "lis"), CTL_USAGE);
        assert_int_equal(FIND(0, "", "close", "3"), CTL_USAGE);
        assert_int_equal(FIND(0, "", ""), CTL_USAGE);
        assert_int_equal(FIND(0, "", "epoch close"), CTL_USAGE);
}

static CtlExit admit(const char *word, size_t n_args, unsigned options) {
        char *words[] = { (char *) "epoch", (char *) word },
             *args[] = { (char *) "a", (char *) "b", (char *) "c" };
        const Verb *verb;
        size_t n_name;

        assert_int_equal(verb_find(words, 2, &verb, &n_name), CTL_DONE);
        return verb_admit(verb, n_args, args, options);
}

static void test_verb_admit_limits(void **state) {
        assert_int_equal(admit("close", 0, 0), CTL_USAGE);
        assert_int_equal(admit("close", 3, OPTION_POOL | OPTION_WAIT | OPTION_REVOKE), CTL_DONE);
        assert_int_equal(admit("close", 1, OPTION_REPAIR), CTL_USAGE);
        assert_int_equal(admit("reserve", 0, OPTION_POOL), CTL_DONE);
        assert_int_equal(admit("reserve", 2, 0), CTL_USAGE);
        assert_int_equal(admit("label", 1, 0), CTL_USAGE);
        assert_int_equal(admit("label", 2, 0), CTL_DONE);
        assert_int_equal(admit("list", 0, OPTION_REVOKE), CTL_USAGE);
}

static void test_nearest_word_rules(void **state) {
        static const char *const words[] = { "list", "status", "stats", "epoch", "clients" };
        const size_t n = sizeof(words) / sizeof(words[0]);

        assert_string_equal(nearest_word("lsit", words, n), "list");
        assert_string_equal(nearest_word("stat", words, n), "status");
        assert_string_equal(nearest_word("stast", words, n), "stats");
        assert_string_equal(nearest_word("client", words, n), "clients");
        assert_string_equal(nearest_word("epohc", words, n), "epoch");
        assert_null(nearest_word("", words, n));
        assert_null(nearest_word("frobnicate", words, n));
        assert_null(nearest_word("0123456789012345678901234567890123456789", words, n));
        assert_null(nearest_word("list", words, 0));
}

static void assert_pool_name(const char *path, const char *expected) {
        char name[64];

        connection_pool_name(name, sizeof(name), path);
        assert_string_equal(name, expected);
}

static void test_connection_pool_name_files(void **state) {
        assert_pool_name("/run/tslab/default.sock", "default");
        assert_pool_name("web_1.sock", "web_1");
        assert_pool_name("/run/tslab/.sock", "");
        assert_pool_name("/run/tslab/Web.sock", "");
        assert_pool_name("/run/tslab/default.lock", "");
        assert_pool_name("/run/tslab/default.sock/", "");
        assert_pool_name("/x/a23456789012345678901234567890123.sock", "");
        assert_pool_name("", "");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_options_parse_defaults),
                cmocka_unit_test(test_options_parse_anywhere),
                cmocka_unit_test(test_options_parse_ended),
                cmocka_unit_test(test_options_parse_wait),
                cmocka_unit_test(test_options_parse_refused),
                cmocka_unit_test(test_verb_find_words),
                cmocka_unit_test(test_verb_admit_limits),
                cmocka_unit_test(test_nearest_word_rules),
                cmocka_unit_test(test_connection_pool_name_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
