#pragma once
/*
 * What tslabd is told: environment first, then arguments. A value that cannot be is refused in
 * words that say what can.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/role.h"
#include "shm/arena/arena.h"

typedef struct Options Options;

struct Options {
        char pool[40];
        ShmGeometry geometry;
        uint64_t retain_size;
        char *listen; /* NULL: by the name of the pool */
        gid_t group; /* (gid_t) -1: of the daemon */
        mode_t mode;
        bool operators_only; /* writers may not advance, close, reserve and label */
        Roles roles;
        int log_level;
        pid_t adopt; /* process whose arena is taken up; 0: none */
        char *config; /* file that is read again by a reload; NULL: none */
        /* From all sources anew; -EINVAL with `ret_why`. To be deinited in any case. */
        int (*load)(Options *ret, char *ret_why);
};

typedef enum OptionId {
        OPTION_POOL = 256,
        OPTION_SIZE,
        OPTION_CLASSES,
        OPTION_EPOCHS,
        OPTION_THREADS,
        OPTION_RETAIN,
        OPTION_LISTEN,
        OPTION_GROUP,
        OPTION_MODE,
        OPTION_LOG_LEVEL,
        OPTION_READERS,
        OPTION_WRITERS,
        OPTION_OPERATORS,
        OPTION_OPERATORS_ONLY,
        OPTION_CONFIG,
        OPTION_ADOPT,
} OptionId;

#define OPTIONS_WHY_SIZE 256

void options_init(Options *options);
void options_deinit(Options *options);

/* One value. -EINVAL with what is allowed, in words, in `ret_why`, of OPTIONS_WHY_SIZE; -ENOMEM. */
int options_set(Options *options, OptionId id, const char *value, char *ret_why);
/* The same for a variable. One of ours that we do not know is refused, others are not for us. */
int options_set_variable(Options *options, const char *name, const char *value, char *ret_why);
/* TSLAB_POOL and so on; the same, `ret_why` begins with the name of the variable. */
int options_set_environment(Options *options, char *ret_why);
/* What only holds for all of them together. */
int options_check(const Options *options, char *ret_why);
