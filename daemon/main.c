#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/last-good.h"
#include "daemon/log.h"
#include "daemon/manager.h"
#include "daemon/message-id.h"
#include "daemon/options.h"
#include "proto/streams.h"

#define EXIT_USAGE 2

enum {
        OPTION_VERSION = 512,
        OPTION_HELP,
        OPTION_CHECK_CONFIG,
};

static Options arg_options;
static int arg_count;
static char **arg_values;
static bool arg_check_config;
static bool arg_last_good; /* settings of the last daemon are in use */

static const struct option long_options[] = {
        { "pool", required_argument, NULL, OPTION_POOL },
        { "size", required_argument, NULL, OPTION_SIZE },
        { "classes", required_argument, NULL, OPTION_CLASSES },
        { "epochs", required_argument, NULL, OPTION_EPOCHS },
        { "threads", required_argument, NULL, OPTION_THREADS },
        { "retain", required_argument, NULL, OPTION_RETAIN },
        { "huge", required_argument, NULL, OPTION_HUGE },
        { "listen", required_argument, NULL, OPTION_LISTEN },
        { "keep", required_argument, NULL, OPTION_KEEP },
        { "group", required_argument, NULL, OPTION_GROUP },
        { "mode", required_argument, NULL, OPTION_MODE },
        { "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
        { "readers", required_argument, NULL, OPTION_READERS },
        { "writers", required_argument, NULL, OPTION_WRITERS },
        { "operators", required_argument, NULL, OPTION_OPERATORS },
        { "config", required_argument, NULL, OPTION_CONFIG },
        { "adopt", required_argument, NULL, OPTION_ADOPT },
        { "fresh", no_argument, NULL, OPTION_FRESH },
        { "exit-idle", required_argument, NULL, OPTION_EXIT_IDLE },
        { "operators-only", no_argument, NULL, OPTION_OPERATORS_ONLY },
        { "check-config", no_argument, NULL, OPTION_CHECK_CONFIG },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, OPTION_HELP },
        {},
};

static void print_help(void) {
        (void) puts(
                "Usage: tslabd [OPTION...]\n"
                "Serves one pool of shared memory to groups of processes.\n"
                "\n"
                "  --pool=NAME         name of the pool (default)\n"
                "  --size=BYTES        room for objects, with K, M or G (256M)\n"
                "  --classes=LIST      object sizes (64,80,96,112,128,144,160,192,224,256,304,\n"
                "                      336,368,400,448,512,576,672,816,1024,1360,2048,4096)\n"
                "  --epochs=N          epochs in the ring (16)\n"
                "  --threads=N         threads that may use the pool at once (1024)\n"
                "  --retain=BYTES      free memory that is kept, with K, M or G (16M)\n"
                "  --huge=yes          has the kernel make huge pages of 2 MiB (no)\n"
                "  --listen=PATH       socket (NAME.sock in the runtime directory)\n"
                "  --keep=FILE         file that keeps the maps while the pool is stopped (none)\n"
                "  --group=GROUP       group of the socket\n"
                "  --mode=MODE         mode of the socket (0660)\n"
                "  --operators=LIST    users and @groups that may do everything\n"
                "  --writers=LIST      users that may allocate and free (all others)\n"
                "  --readers=LIST      users that may only read (all others)\n"
                "  --operators-only    writers may not advance, close, reserve or label epochs\n"
                "  --log-level=LEVEL   err, warning, notice, info or debug (info)\n"
                "  --adopt=PID         take the memory from this client of a dead daemon\n"
                "  --fresh             make an empty pool beside clients of a dead daemon\n"
                "  --exit-idle=SECONDS  end when nobody was connected for so long (never)\n"
                "  --config=PATH       file with TSLAB_SIZE=... and so on, read again on SIGHUP\n"
                "  --check-config      check the settings only; the exit status is 2 if they are bad\n"
                "  --version           show the version\n"
                "  --help              show this text\n"
                "\n"
                "TSLAB_POOL, TSLAB_SIZE, TSLAB_CLASSES, TSLAB_EPOCHS, TSLAB_THREADS, TSLAB_RETAIN,\n"
                "TSLAB_HUGE, TSLAB_LISTEN, TSLAB_KEEP, TSLAB_LOG_LEVEL, TSLAB_OPERATORS, TSLAB_WRITERS, TSLAB_READERS\n"
                "and TSLAB_OPERATORS_ONLY in the environment mean the same as the options.");
}

static const char *option_name(int id) {
        for (const struct option *o = long_options; o->name; o++)
                if (o->val == id)
                        return o->name;
        return "?";
}

/* 0: go on; 1: all is done; -EINVAL with the mistake, unless it was printed; -ENOMEM. */
static int parse_argument(Options *options, int c, char *ret_why) {
        char why[OPTIONS_WHY_SIZE] = "";
        int r;

        switch (c) {
        case OPTION_HELP:
                print_help();
                return 1;
        case OPTION_VERSION:
                (void) puts("tslabd " TSLAB_VERSION);
                return 1;
        case OPTION_CHECK_CONFIG:
                arg_check_config = true;
                return 0;
        case '?':
                (void) fputs("tslabd: 'tslabd --help' shows the options\n", stderr);
                return -EINVAL;
        default:
                r = options_set(options, (OptionId) c, optarg, why);
                if (r == -EINVAL)
                        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "--%s: %.220s", option_name(c), why);
                if (r == 0)
                        options_override_variable((OptionId) c);
                return r;
        }
}

static int parse_arguments(Options *options, char *ret_why) {
        int c, r;

        optind = 0; /* a reload reads the arguments again */
        while ((c = getopt_long(arg_count, arg_values, "", long_options, NULL)) >= 0) {
                r = parse_argument(options, c, ret_why);
                if (r)
                        return r;
        }
        if (optind < arg_count) {
                (void) snprintf(ret_why, OPTIONS_WHY_SIZE,
                                "unexpected argument '%.100s': tslabd has options only, see 'tslabd --help'",
                                arg_values[optind]);
                return -EINVAL;
        }
        return 0;
}

/*
 * The file overrides the environment, and the arguments override both. The arguments are also read first, for the path
 * of the file and the variables that count. systemd puts the settings of the file into the environment, too. The file
 * comes first, so that a mistake is reported with its line; config_read() removes the settings that it reads from the
 * environment.
 */
static int load_options(Options *ret, char *ret_why) {
        Options arguments;
        int r;

        options_init(ret);
        ret->load = load_options;
        options_init(&arguments);
        /* --help must work even if the environment is wrong. */
        r = parse_arguments(&arguments, ret_why);
        if (r == 0)
                r = arguments.config ? config_read(ret, arguments.config, ret_why) : 0;
        if (r == 0)
                r = options_set_environment(ret, ret_why);
        if (r == 0)
                r = parse_arguments(ret, ret_why);
        if (r == 0)
                r = options_check(ret, ret_why);
        options_deinit(&arguments);
        return r;
}

/* The arguments without the bad ones. */
static void parse_good_arguments(Options *options) {
        char why[OPTIONS_WHY_SIZE];
        int c;

        optind = 0;
        while ((c = getopt_long(arg_count, arg_values, "", long_options, NULL)) >= 0)
                if (c >= OPTION_POOL && c < OPTION_VERSION)
                        (void) options_set(options, (OptionId) c, optarg, why);
}

/*
 * The settings are bad, but the daemon was given the memory of a pool, which is lost if the daemon ends. So it goes on
 * with the settings that last worked. If there are none, the roles are not known, and only operators may connect.
 * -EINVAL: no memory was given.
 */
static int load_last_good(Options *options, const char *why) {
        const char *pool = secure_getenv("TSLAB_POOL");
        char ignored[OPTIONS_WHY_SIZE];
        Options last;
        int r;

        options_init(&last);
        last.load = load_options;
        if (pool)
                (void) options_set(&last, OPTION_POOL, pool, ignored);
        parse_good_arguments(&last);
        if (!manager_is_given_pool() && last.adopt == 0) {
                options_deinit(&last);
                return -EINVAL;
        }
        r = last_good_read(&last);
        if (r) {
                role_list_set_nobody(&last.roles.writers);
                role_list_set_nobody(&last.roles.readers);
        }
        parse_good_arguments(&last);
        options_set_trouble(&last, *why ? why : "an option is unknown, or lacks its value");
        options_deinit(options);
        *options = last;
        arg_last_good = r == 0;
        return 0;
}

static void log_trouble(const Options *options) {
        if (*options->trouble)
                log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_SETTINGS },
                           "the settings are bad: %s. Pool %s goes on with %s; correct them, then reload",
                           options->trouble, options->pool,
                           arg_last_good ? "the settings that last worked"
                                         : "defaults, and only operators may connect");
}

static int run_manager(void) {
        Manager *manager = NULL;
        int r;

        log_open(arg_options.pool);
        log_set_level(arg_options.log_level);
        log_trouble(&arg_options);
        r = manager_new(&manager, &arg_options);
        if (r == 0)
                r = manager_run(manager);
        manager_free(manager);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        char why[OPTIONS_WHY_SIZE] = "";
        int r;

        proto_streams_reserve();
        arg_count = argc;
        arg_values = argv;
        r = load_options(&arg_options, why);
        if (r == -EINVAL && !arg_check_config)
                r = load_last_good(&arg_options, why);
        if (r == -EINVAL && *why)
                (void) fprintf(stderr, "tslabd: %s\n", why);
        if (r == 0)
                r = arg_check_config ? EXIT_SUCCESS : run_manager();
        else
                r = r == 1 ? EXIT_SUCCESS : r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
        options_deinit(&arg_options);
        return r;
}
