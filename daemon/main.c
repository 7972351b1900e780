#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/manager.h"
#include "daemon/options.h"

#define EXIT_USAGE 2

enum {
        OPTION_OPERATORS_ONLY = 512,
        OPTION_VERSION,
        OPTION_HELP,
};

static Options arg_options;

static const struct option long_options[] = {
        { "pool", required_argument, NULL, OPTION_POOL },
        { "size", required_argument, NULL, OPTION_SIZE },
        { "classes", required_argument, NULL, OPTION_CLASSES },
        { "epochs", required_argument, NULL, OPTION_EPOCHS },
        { "threads", required_argument, NULL, OPTION_THREADS },
        { "retain", required_argument, NULL, OPTION_RETAIN },
        { "listen", required_argument, NULL, OPTION_LISTEN },
        { "group", required_argument, NULL, OPTION_GROUP },
        { "mode", required_argument, NULL, OPTION_MODE },
        { "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
        { "operators-only", no_argument, NULL, OPTION_OPERATORS_ONLY },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, OPTION_HELP },
        {},
};

static void print_help(void) {
        (void) puts("Usage: tslabd [OPTION...]\n"
                    "Serves one pool of shared memory to groups of processes.\n"
                    "\n"
                    "  --pool=NAME         name of the pool (default)\n"
                    "  --size=BYTES        room for objects, with K, M or G (256M)\n"
                    "  --classes=LIST      object sizes (64,96,128,192,256,384,512,768)\n"
                    "  --epochs=N          epochs in the ring (16)\n"
                    "  --threads=N         threads that may use the pool at once (1024)\n"
                    "  --retain=BYTES      free memory that is kept, with K, M or G (16M)\n"
                    "  --listen=PATH       socket (NAME.sock in the runtime directory)\n"
                    "  --group=GROUP       group of the socket\n"
                    "  --mode=MODE         mode of the socket (0660)\n"
                    "  --operators-only    writers may not advance, close, reserve or label epochs\n"
                    "  --log-level=LEVEL   err, warning, notice, info or debug (info)\n"
                    "  --version           show the version\n"
                    "  --help              show this text\n"
                    "\n"
                    "TSLAB_POOL, TSLAB_SIZE, TSLAB_CLASSES, TSLAB_EPOCHS, TSLAB_THREADS, TSLAB_RETAIN and\n"
                    "TSLAB_LISTEN in the environment stand for the options of these names.");
}

static const char *option_name(int id) {
        for (const struct option *o = long_options; o->name; o++)
                if (o->val == id)
                        return o->name;
        return "?";
}

static int usage(const char *option, const char *why) {
        (void) fprintf(stderr, "tslabd: %s%s%s%s\n", option ? "--" : "", option ?: "", option ? ": " : "",
                       why);
        return EXIT_USAGE;
}

/* 0: go on; 1: all is done; -EINVAL after saying what is wrong; -ENOMEM. */
static int parse_argument(int c) {
        char why[OPTIONS_WHY_SIZE] = "";
        int r;

        switch (c) {
        case OPTION_HELP:
                print_help();
                return 1;
        case OPTION_VERSION:
                (void) puts("tslabd " TSLAB_VERSION);
                return 1;
        case OPTION_OPERATORS_ONLY:
                arg_options.operators_only = true;
                return 0;
        case '?':
                (void) fputs("tslabd: 'tslabd --help' shows the options there are\n", stderr);
                return -EINVAL;
        default:
                r = options_set(&arg_options, (OptionId) c, optarg, why);
                if (r == -EINVAL)
                        (void) usage(option_name(c), why);
                return r;
        }
}

static int parse_arguments(int argc, char **argv) {
        int c, r;

        while ((c = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
                r = parse_argument(c);
                if (r)
                        return r;
        }
        if (optind < argc) {
                (void) fprintf(stderr,
                               "tslabd: '%s' is too much: there are options only, see 'tslabd --help'\n",
                               argv[optind]);
                return -EINVAL;
        }
        return 0;
}

static int run(void) {
        Manager *manager = NULL;
        int r;

        log_open(arg_options.pool);
        log_set_level(arg_options.log_level);
        r = manager_new(&manager, &arg_options);
        if (r == 0)
                r = manager_run(manager);
        manager_free(manager);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        char why[OPTIONS_WHY_SIZE] = "";
        int r;

        options_init(&arg_options);
        /* Arguments first: --help must work in a bad environment. They are read again below. */
        r = parse_arguments(argc, argv);
        if (r == 0) {
                options_deinit(&arg_options);
                options_init(&arg_options);
                r = options_set_environment(&arg_options, why);
                if (r == -EINVAL)
                        (void) usage(NULL, why);
        }
        if (r == 0) {
                optind = 1;
                r = parse_arguments(argc, argv);
        }
        if (r == 0) {
                r = options_check(&arg_options, why);
                if (r)
                        (void) usage(NULL, why);
        }
        if (r == 0)
                r = run();
        else
                r = r == 1 ? EXIT_SUCCESS : r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
        options_deinit(&arg_options);
        return r;
}
