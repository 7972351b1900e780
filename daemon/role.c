#include "daemon/role.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/message.h"

#define UID_UNMAPPED 65534U /* /proc/sys/kernel/overflowuid, unless somebody changed it */
#define GROUPS_MAX 4096U /* groups of a process; the kernel allows more, but further groups do not count */

static int parse_id(const char *text, uint32_t *ret) {
        unsigned long number;
        char *end;

        if (text[0] < '0' || text[0] > '9')
                return -EINVAL;
        errno = 0;
        number = strtoul(text, &end, 10);
        if (errno != 0 || *end || number >= UINT32_MAX)
                return -EINVAL;
        *ret = (uint32_t) number;
        return 0;
}

static int add_user(RoleList *list, const char *name) {
        const struct passwd *user = getpwnam(name);
        uint32_t id;

        if (user)
                id = user->pw_uid;
        else if (parse_id(name, &id))
                return -EINVAL;
        if (list->n_users == ROLE_LIST_MAX)
                return -E2BIG;
        list->users[list->n_users++] = id;
        return 0;
}

static int add_group(RoleList *list, const char *name) {
        const struct group *group = getgrnam(name);
        uint32_t id;

        if (group)
                id = group->gr_gid;
        else if (parse_id(name, &id))
                return -EINVAL;
        if (list->n_groups == ROLE_LIST_MAX)
                return -E2BIG;
        list->groups[list->n_groups++] = id;
        return 0;
}

int role_list_parse(const char *text, RoleList *ret) {
        _cleanup_(proto_freep) char *copy = strdup(text);
        RoleList list = {};
        char *rest = NULL;
        int r;

        if (!copy)
                return -ENOMEM;
        for (char *name = strtok_r(copy, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
                r = name[0] == '@' ? add_group(&list, name + 1) : add_user(&list, name);
                if (r < 0)
                        return r;
        }
        *ret = list;
        return 0;
}

void role_list_set_nobody(RoleList *list) {
        *list = (RoleList){ .n_users = 1, .users = { (uid_t) -1 } };
}

typedef struct Groups {
        gid_t *ids;
        uint32_t n;
} Groups;

static void groups_deinit(Groups *groups) {
        free(groups->ids);
}

/* If the groups cannot be read, the primary group alone counts. */
static void groups_of_peer(int fd, Groups *ret) {
        socklen_t size = GROUPS_MAX * sizeof(gid_t);
        gid_t *ids;

        if (fd < 0)
                return;
        ids = malloc(size);
        if (!ids)
                return;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ids, &size) < 0) {
                free(ids);
                return;
        }
        *ret = (Groups){ .ids = ids, .n = size / (uint32_t) sizeof(gid_t) };
}

static bool is_in_group(const struct ucred *peer, const Groups *groups, gid_t id) {
        if (peer->gid == id)
                return true;
        for (uint32_t i = 0; i < groups->n; i++)
                if (groups->ids[i] == id)
                        return true;
        return false;
}

static bool is_in_list(const RoleList *list, const struct ucred *peer, const Groups *groups) {
        for (uint32_t i = 0; i < list->n_users; i++)
                if (list->users[i] == peer->uid)
                        return true;
        for (uint32_t i = 0; i < list->n_groups; i++)
                if (is_in_group(peer, groups, list->groups[i]))
                        return true;
        return false;
}

static bool is_list_empty(const RoleList *list) {
        return list->n_users == 0 && list->n_groups == 0;
}

static bool can_open(const char *path) {
        _cleanup_(proto_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

        return fd >= 0;
}

/*
 * Whether this is the user of tslab-metrics.service, a reader though no list names it. While the number of that user is
 * not known, any user may be it.
 */
static bool is_metrics_user(uid_t uid) {
        static uid_t metrics = (uid_t) -1;
        static bool known;
        const struct passwd *user;

        if (!known) {
                user = getpwnam("tslab-metrics");
                metrics = user ? user->pw_uid : (uid_t) -1;
                /* errno does not tell whether getpwnam() could read it. */
                known = user || can_open("/etc/passwd");
        }
        return !known || uid == metrics;
}

/*
 * The daemon's own user. Not 65534, which stands for all users that the daemon's user namespace does not map, even if
 * the daemon runs as that user.
 */
static bool is_own_user(uid_t uid) {
        return uid == geteuid() && uid != UID_UNMAPPED;
}

uint32_t role_of(const Roles *roles, const struct ucred *peer, int fd) {
        _cleanup_(groups_deinit) Groups groups = {};

        if (peer->uid == 0 || is_own_user(peer->uid))
                return PROTO_ROLE_OPERATOR;
        groups_of_peer(fd, &groups);
        if (is_in_list(&roles->operators, peer, &groups))
                return PROTO_ROLE_OPERATOR;
        if (is_in_list(&roles->writers, peer, &groups))
                return PROTO_ROLE_WRITER;
        if (is_in_list(&roles->readers, peer, &groups))
                return PROTO_ROLE_READER;
        if (is_list_empty(&roles->writers) && !is_metrics_user(peer->uid))
                return PROTO_ROLE_WRITER;
        return is_list_empty(&roles->readers) ? PROTO_ROLE_READER : 0;
}
