/*
 * tslabctl: options, then a verb of the table in verbs.c. A verb prints into output_stream(),
 * complains about its failures, and returns the exit code.
 */

#include <stdio.h>

#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verbs.h"
#include "proto/streams.h"

static CtlExit run_words(int argc, char **argv) {
        unsigned options = 0;
        char **words = NULL;
        size_t n_words = 0, n_name = 0;
        const Verb *verb;
        CtlExit r;

        r = options_parse(argc, argv, &words, &n_words, &options);
        if (r)
                return r;

        if (arg_version) {
                (void) fprintf(output_stream(), "tslabctl %s\n", TSLAB_VERSION);
                return CTL_DONE;
        }
        if (arg_help)
                return verb_help(words, n_words);

        r = verb_find(words, n_words, &verb, &n_name);
        if (r)
                return r;
        r = verb_admit(verb, n_words - n_name, words + n_name, options);
        if (r)
                return r;

        return verb->run(words + n_name, n_words - n_name);
}

int main(int argc, char **argv) {
        CtlExit r, written;

        proto_streams_reserve();
        r = run_words(argc, argv);
        written = output_flush();
        return r ?: written;
}
