#pragma once
/*
 * The roles of users. Operators are root, the daemon's user and the users of the list of operators. Writers are the
 * users of their list; if it is empty, all others but tslab-metrics. The same rule gives the readers among the rest.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ROLE_LIST_MAX 32U

typedef struct RoleList {
        uint32_t n_users, n_groups;
        uid_t users[ROLE_LIST_MAX];
        gid_t groups[ROLE_LIST_MAX];
} RoleList;

typedef struct Roles {
        RoleList readers, writers, operators;
} Roles;

/* Users, and groups with '@' before, by name or number, with commas between. -EINVAL; -E2BIG. */
int role_list_parse(const char *text, RoleList *ret);

/* A list that admits nobody, while an empty one may admit everybody. */
void role_list_set_nobody(RoleList *list);

/* Uses the groups of the process that connected `fd`, unless that is -1. 0: no role at all. */
uint32_t role_of(const Roles *roles, const struct ucred *peer, int fd);
