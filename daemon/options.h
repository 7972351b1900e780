#pragma once
/*
 * The settings of tslabd, from the environment, the settings file and the arguments. The refusal of a bad value says
 * which values are allowed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/role.h"
#include "shm/arena/arena.h"

#define OPTIONS_WHY_SIZE 256
#define OPTIONS_KEEP_MAX 255

typedef struct Options Options;

struct Options {
        char pool[40];
        ShmGeometry geometry;
        uint64_t retain_size;
        bool huge; /* has the kernel make huge pages */
        char *listen; /* NULL: a path made of the name of the pool */
        char *keep; /* the file that keeps the maps while there is no pool; NULL: none does */
        gid_t group; /* (gid_t) -1: of the daemon */
        mode_t mode;
        bool operators_only; /* writers may not advance, close, reserve and label */
        Roles roles;
        int log_level;
        bool fresh; /* make an empty pool even if clients of an earlier daemon still use the old one */
        uint32_t exit_idle; /* seconds without a connection after which the daemon ends; 0: it does not */
        pid_t adopt; /* the process that the arena is taken from; 0: none */
        char trouble[OPTIONS_WHY_SIZE]; /* the mistake in the settings, which are not in use then; "": none */
        char *config; /* a reload reads this file again; NULL: none */
        /* Reads all sources anew. -EINVAL with `ret_why`. The caller deinits *ret in any case. */
        int (*load)(Options *ret, char *ret_why);
};

typedef enum OptionId {
        OPTION_POOL = 256,
        OPTION_SIZE,
        OPTION_CLASSES,
        OPTION_EPOCHS,
        OPTION_THREADS,
        OPTION_RETAIN,
        OPTION_HUGE,
        OPTION_LISTEN,
        OPTION_KEEP,
        OPTION_GROUP,
        OPTION_MODE,
        OPTION_LOG_LEVEL,
        OPTION_READERS,
        OPTION_WRITERS,
        OPTION_OPERATORS,
        OPTION_OPERATORS_ONLY,
        OPTION_CONFIG,
        OPTION_ADOPT,
        OPTION_FRESH,
        OPTION_EXIT_IDLE,
} OptionId;

void options_init(Options *options);
void options_deinit(Options *options);

/* Sets one value. -EINVAL: `ret_why`, of OPTIONS_WHY_SIZE, says which values are allowed; -ENOMEM. */
int options_set(Options *options, OptionId id, const char *value, char *ret_why);
/* As options_set() for a variable. An unknown name that begins with TSLAB_ is refused; all other names are ignored. */
int options_set_variable(Options *options, const char *name, const char *value, char *ret_why);
/* As options_set_variable() for TSLAB_POOL and so on; `ret_why` begins with the name of the variable. */
int options_set_environment(Options *options, char *ret_why);
/* Sets `trouble`, as text that may go to any log or terminal. */
void options_set_trouble(Options *options, const char *why);
/* Removes the variable of an option that was given: it may be bad, and $TSLAB_POOL a path, as clients have it. */
void options_override_variable(OptionId id);
/* Checks the values against each other. */
int options_check(const Options *options, char *ret_why);
