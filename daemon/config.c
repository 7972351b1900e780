#include "daemon/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/cleanup.h"

#define LINE_MAX_BYTES 1023
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define NAME_CHARACTERS LETTERS "0123456789_"

static void close_file(FILE **file) {
        if (*file)
                (void) fclose(*file);
}

static char *strip_blanks(char *text) {
        size_t n;

        text += strspn(text, " \t");
        n = strlen(text);
        while (n > 0 && strchr(" \t\r\n", text[n - 1]))
                n--;
        text[n] = 0;
        return text;
}

static char *strip_quotes(char *text) {
        size_t n = strlen(text);

        if (n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0]) {
                text[n - 1] = 0;
                return text + 1;
        }
        return text;
}

static int read_setting(Options *options, char *line, bool takes_over, char *why) {
        char *name = strip_blanks(line), *value;

        if (*name == 0 || *name == '#' || *name == ';')
                return 0;
        value = strchr(name, '=');
        if (!value) {
                (void) snprintf(why, OPTIONS_WHY_SIZE, "'%.80s' is not NAME=VALUE", name);
                return -EINVAL;
        }
        *value++ = 0;
        name = strip_blanks(name);
        /* As "export TSLAB_SIZE", or a byte order mark before the first name: systemd sets no such variable, either. */
        if (name[strspn(name, NAME_CHARACTERS)]) {
                (void) snprintf(why, OPTIONS_WHY_SIZE,
                                "the name '%.60s' has other characters than letters, digits and '_'", name);
                return -EINVAL;
        }
        /* systemd put it into the environment, too: it would come back after its line is deleted from the file. */
        if (takes_over && !strncmp(name, "TSLAB_", 6))
                (void) unsetenv(name);
        return options_set_variable(options, name, strip_quotes(strip_blanks(value)), why);
}

static int check_length(const char *line, char *why) {
        if (strcspn(line, "\n") <= LINE_MAX_BYTES)
                return 0;
        (void) snprintf(why, OPTIONS_WHY_SIZE, "the line is longer than %d bytes", LINE_MAX_BYTES);
        return -EINVAL;
}

static int refuse_file(const char *path, char *ret_why) {
        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "%.120s: %s (tslabd reads it as user %u)", path,
                        strerror(errno), (unsigned) geteuid());
        return -EINVAL;
}

static int read_file(Options *options, const char *path, bool takes_over, char *ret_why) {
        _cleanup_(close_file) FILE *file = fopen(path, "re");
        char line[LINE_MAX_BYTES + 2], why[OPTIONS_WHY_SIZE] = "";
        int r;

        if (!file)
                return errno == ENOENT ? 0 : refuse_file(path, ret_why);
        for (unsigned n = 1; fgets(line, sizeof(line), file); n++) {
                r = check_length(line, why) ?: read_setting(options, line, takes_over, why);
                if (r == -EINVAL)
                        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "%.80s:%u: %.150s", path, n, why);
                if (r)
                        return r;
        }
        return ferror(file) ? refuse_file(path, ret_why) : 0;
}

int config_read(Options *options, const char *path, char *ret_why) {
        return read_file(options, path, true, ret_why);
}

int config_read_saved(Options *options, const char *path, char *ret_why) {
        return read_file(options, path, false, ret_why);
}
