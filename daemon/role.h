#pragma once
/*
 * Who may do what. Operators are root, the daemon's user, and who is listed; writers who is listed,
 * or all others where nobody is; readers the same of the rest.
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

/* The groups of the process that connected `fd` are asked for where fd is not -1. 0: none at all. */
uint32_t role_of(const Roles *roles, const struct ucred *peer, int fd);
