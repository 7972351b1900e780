#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/base/style.h"

static bool is_dumb(const char *term) {
        return !term || !term[0] || !strcmp(term, "dumb");
}

bool style_wanted(bool terminal, const char *term, const char *no_color) {
        /* no-color.org: set, and not empty */
        return terminal && !is_dumb(term) && !(no_color && no_color[0]);
}

bool style_coloured(void) {
        static int wanted = -1;

        if (wanted < 0)
                wanted = style_wanted(isatty(STDOUT_FILENO), getenv("TERM"), getenv("NO_COLOR"));
        return wanted;
}

const char *style_begin(Style style) {
        static const char *const sequences[_STYLE_N] = {
                [STYLE_PLAIN] = "",          [STYLE_HEADER] = "\033[1m", [STYLE_GOOD] = "\033[1;32m",
                [STYLE_WARN] = "\033[1;33m", [STYLE_BAD] = "\033[1;31m",
        };

        assert(style < _STYLE_N);
        return style_coloured() ? sequences[style] : "";
}

const char *style_end(Style style) {
        return style != STYLE_PLAIN && style_coloured() ? "\033[0m" : "";
}

bool style_progress(void) {
        return isatty(STDERR_FILENO) && !is_dumb(getenv("TERM"));
}
