#include "daemon/options.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

#include "daemon/log.h"
#include "proto/path.h"
#include "proto/text.h"

#define GIB (UINT64_C(1) << 30)

void options_init(Options *options) {
        *options = (Options){
                .pool = "default",
                .geometry = {
                        .slabs_size = SHM_SIZE_DEFAULT,
                        .n_records = SHM_N_THREADS_DEFAULT + 1,
                        .n_epochs = SHM_N_EPOCHS_DEFAULT,
                        .n_classes = SHM_N_CLASSES_DEFAULT,
                        .class_size = SHM_CLASSES_DEFAULT,
                },
                .retain_size = SHM_RETAIN_DEFAULT,
                .group = (gid_t) -1,
                .mode = 0660,
                .log_level = LOG_INFO,
        };
}

void options_deinit(Options *options) {
        free(options->listen);
        free(options->keep);
        free(options->config);
        options->listen = options->keep = NULL;
        options->config = NULL;
}

static int refuse_value(char *ret_why, const char *value, const char *allowed) {
        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "'%.80s' will not do; %s", value, allowed);
        return -EINVAL;
}

/* Accepts digits only, while strtoull() accepts signs and spaces. */
static int parse_number(const char *text, int base, const char **ret_end, uint64_t *ret) {
        unsigned long long number;
        char *end;

        if (text[0] < '0' || text[0] > '9')
                return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, base);
        if (errno != 0)
                return -EINVAL;
        *ret_end = end;
        *ret = number;
        return 0;
}

static int parse_size(const char *text, uint64_t *ret) {
        static const char suffixes[] = "KMGT";
        const char *end, *suffix;
        uint64_t number;
        unsigned shift = 0;

        if (parse_number(text, 10, &end, &number))
                return -EINVAL;
        if (*end) {
                suffix = strchr(suffixes, *end);
                if (!suffix || end[1])
                        return -EINVAL;
                shift = 10U * (unsigned) (suffix - suffixes + 1);
        }
        if (number > UINT64_MAX >> shift)
                return -EINVAL;
        *ret = number << shift;
        return 0;
}

static int parse_count(const char *text, uint32_t min, uint32_t max, uint32_t *ret) {
        const char *end;
        uint64_t number;

        if (parse_number(text, 10, &end, &number) || *end || number < min || number > max)
                return -EINVAL;
        *ret = (uint32_t) number;
        return 0;
}

static int set_pool(Options *options, const char *value, char *ret_why) {
        if (!proto_pool_name_is_valid(value))
                return refuse_value(
                        ret_why, value,
                        "the name of a pool is 1 to 32 of a-z, 0-9 and '_', and begins with a letter or "
                        "digit");
        (void) snprintf(options->pool, sizeof(options->pool), "%s", value);
        return 0;
}

static int set_size(Options *options, const char *value, char *ret_why) {
        uint64_t size;

        if (parse_size(value, &size) || size < SHM_SLAB_SIZE || size > 64 * GIB || size % SHM_SLAB_SIZE != 0)
                return refuse_value(
                        ret_why, value,
                        "the size of a pool is 4K to 64G, a multiple of 4K, in bytes or with K, M or G");
        options->geometry.slabs_size = size;
        return 0;
}

static int set_classes(Options *options, const char *value, char *ret_why) {
        ShmGeometry g = options->geometry;
        const char *at = value, *why;
        uint64_t size;

        memset(g.class_size, 0, sizeof(g.class_size));
        for (g.n_classes = 0;; at++) {
                if (g.n_classes == SHM_CLASSES_MAX || parse_number(at, 10, &at, &size) ||
                    (*at && *at != ',') || size > SHM_CLASS_SIZE_MAX)
                        return refuse_value(
                                ret_why, value,
                                "size classes are 1 to 32 multiples of 16 from 64 to 4096, rising, "
                                "with commas between: 64,128,256");
                g.class_size[g.n_classes++] = (uint32_t) size;
                if (!*at)
                        break;
        }
        if (shm_geometry_check(&g, &why))
                return refuse_value(ret_why, value, why);
        options->geometry = g;
        return 0;
}

static int set_epochs(Options *options, const char *value, char *ret_why) {
        if (parse_count(value, 2, SHM_EPOCHS_MAX, &options->geometry.n_epochs))
                return refuse_value(ret_why, value, "a pool has 2 to 64 epochs");
        return 0;
}

static int set_threads(Options *options, const char *value, char *ret_why) {
        uint32_t n;

        if (parse_count(value, 1, SHM_RECORDS_MAX - 1, &n))
                return refuse_value(ret_why, value, "a pool has room for 1 to 4095 threads");
        options->geometry.n_records = n + 1; /* the first record is the daemon's */
        return 0;
}

static int set_retain(Options *options, const char *value, char *ret_why) {
        if (parse_size(value, &options->retain_size))
                return refuse_value(ret_why, value,
                                    "the retained size is a number of bytes, or with K, M or G");
        return 0;
}

static int set_text(char **text, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return -ENOMEM;
        free(*text);
        *text = copy;
        return 0;
}

static int set_listen(Options *options, const char *value, char *ret_why) {
        if (value[0] != '/' || strlen(value) > 107)
                return refuse_value(ret_why, value, "the socket has an absolute path of at most 107 bytes");
        return set_text(&options->listen, value);
}

static int set_keep(Options *options, const char *value, char *ret_why) {
        size_t length = strlen(value);

        if (length == 0) {
                free(options->keep);
                options->keep = NULL;
                return 0;
        }
        if (value[0] != '/' || value[length - 1] == '/' || length > OPTIONS_KEEP_MAX)
                return refuse_value(ret_why, value,
                                    "the file that keeps maps has an absolute path of at most 255 bytes");
        return set_text(&options->keep, value);
}

static int set_group(Options *options, const char *value, char *ret_why) {
        const struct group *group = getgrnam(value);
        uint32_t number;

        if (group)
                options->group = group->gr_gid;
        else if (parse_count(value, 0, UINT32_MAX - 1, &number) == 0)
                options->group = number;
        else
                return refuse_value(ret_why, value, "there is no such group; give its name or number");
        return 0;
}

static int set_mode(Options *options, const char *value, char *ret_why) {
        const char *end;
        uint64_t mode;

        if (parse_number(value, 8, &end, &mode) || *end || mode > 0777)
                return refuse_value(ret_why, value,
                                    "the mode of the socket is an octal number from 0 to 0777, as 0660");
        options->mode = (mode_t) mode;
        return 0;
}

static int set_log_level(Options *options, const char *value, char *ret_why) {
        if (log_level_from_string(value, &options->log_level))
                return refuse_value(ret_why, value, "the log level is err, warning, notice, info or debug");
        return 0;
}

static int set_role(RoleList *list, const char *value, char *ret_why) {
        int r = role_list_parse(value, list);

        if (r == -EINVAL || r == -E2BIG)
                return refuse_value(
                        ret_why, value,
                        "a role has up to 32 existing users and 32 existing @groups, as names or numbers "
                        "with commas between");
        return r;
}

static int set_bool(bool *ret, const char *value, char *ret_why) {
        if (!strcmp(value, "yes") || !strcmp(value, "1"))
                *ret = true;
        else if (!strcmp(value, "no") || !strcmp(value, "0"))
                *ret = false;
        else
                return refuse_value(ret_why, value, "the value is yes or no");
        return 0;
}

static int set_adopt(Options *options, const char *value, char *ret_why) {
        uint32_t pid;

        if (parse_count(value, 1, INT32_MAX, &pid))
                return refuse_value(ret_why, value, "it takes the number of a process");
        options->adopt = (pid_t) pid;
        return 0;
}

static int set_exit_idle(Options *options, const char *value, char *ret_why) {
        if (parse_count(value, 1, UINT32_MAX, &options->exit_idle))
                return refuse_value(ret_why, value, "it takes a number of seconds, from 1 on");
        return 0;
}

int options_set(Options *options, OptionId id, const char *value, char *ret_why) {
        switch (id) {
        case OPTION_POOL:
                return set_pool(options, value, ret_why);
        case OPTION_SIZE:
                return set_size(options, value, ret_why);
        case OPTION_CLASSES:
                return set_classes(options, value, ret_why);
        case OPTION_EPOCHS:
                return set_epochs(options, value, ret_why);
        case OPTION_THREADS:
                return set_threads(options, value, ret_why);
        case OPTION_RETAIN:
                return set_retain(options, value, ret_why);
        case OPTION_HUGE:
                return set_bool(&options->huge, value, ret_why);
        case OPTION_LISTEN:
                return set_listen(options, value, ret_why);
        case OPTION_KEEP:
                return set_keep(options, value, ret_why);
        case OPTION_GROUP:
                return set_group(options, value, ret_why);
        case OPTION_MODE:
                return set_mode(options, value, ret_why);
        case OPTION_LOG_LEVEL:
                return set_log_level(options, value, ret_why);
        case OPTION_READERS:
                return set_role(&options->roles.readers, value, ret_why);
        case OPTION_WRITERS:
                return set_role(&options->roles.writers, value, ret_why);
        case OPTION_OPERATORS:
                return set_role(&options->roles.operators, value, ret_why);
        case OPTION_OPERATORS_ONLY:
                return set_bool(&options->operators_only, value ?: "yes", ret_why);
        case OPTION_CONFIG:
                return set_text(&options->config, value);
        case OPTION_ADOPT:
                return set_adopt(options, value, ret_why);
        case OPTION_FRESH:
                options->fresh = true;
                return 0;
        case OPTION_EXIT_IDLE:
                return set_exit_idle(options, value, ret_why);
        }
        return -EINVAL;
}

static const struct {
        const char *name;
        OptionId id;
} variables[] = {
        { "TSLAB_POOL", OPTION_POOL },           { "TSLAB_SIZE", OPTION_SIZE },
        { "TSLAB_CLASSES", OPTION_CLASSES },     { "TSLAB_EPOCHS", OPTION_EPOCHS },
        { "TSLAB_THREADS", OPTION_THREADS },     { "TSLAB_RETAIN", OPTION_RETAIN },
        { "TSLAB_HUGE", OPTION_HUGE },           { "TSLAB_LISTEN", OPTION_LISTEN },
        { "TSLAB_KEEP", OPTION_KEEP },           { "TSLAB_LOG_LEVEL", OPTION_LOG_LEVEL },
        { "TSLAB_READERS", OPTION_READERS },     { "TSLAB_WRITERS", OPTION_WRITERS },
        { "TSLAB_OPERATORS", OPTION_OPERATORS }, { "TSLAB_OPERATORS_ONLY", OPTION_OPERATORS_ONLY },
};

/* Variables of others. Proto, shm and the tests read some that begin with TSLAB_. */
static bool is_of_others(const char *name) {
        return strncasecmp(name, "TSLAB_", 6) != 0 || !strcmp(name, "TSLAB_RUNTIME_DIR") ||
               !strcmp(name, "TSLAB_DUMP") || !strncmp(name, "TSLAB_TEST_", 11);
}

int options_set_variable(Options *options, const char *name, const char *value, char *ret_why) {
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                if (!strcmp(variables[i].name, name))
                        return options_set(options, variables[i].id, value, ret_why);
        if (is_of_others(name))
                return 0;
        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "there is no setting %.60s: see tslabd(8)", name);
        return -EINVAL;
}

int options_set_environment(Options *options, char *ret_why) {
        char why[OPTIONS_WHY_SIZE] = "";

        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
                const char *value = secure_getenv(variables[i].name);
                int r = value ? options_set(options, variables[i].id, value, why) : 0;

                if (r == -EINVAL)
                        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "$%s: %.200s", variables[i].name, why);
                if (r)
                        return r;
        }
        return 0;
}

void options_override_variable(OptionId id) {
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                if (variables[i].id == id)
                        (void) unsetenv(variables[i].name);
}

void options_set_trouble(Options *options, const char *why) {
        proto_text_clean(options->trouble, sizeof(options->trouble), why);
}

int options_check(const Options *options, char *ret_why) {
        const char *why;

        if (shm_geometry_check(&options->geometry, &why) == 0)
                return 0;
        (void) snprintf(ret_why, OPTIONS_WHY_SIZE, "%s", why);
        return -EINVAL;
}
