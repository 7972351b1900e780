#pragma once
/*
 * Processes that have nothing from the test that starts them but two pipes: the test's own program, executed anew with
 * a role and arguments, which main() tells apart.
 *
 *      Role worker;
 *      role_start(&worker, "worker", daemon.socket);
 *      role_tell(&worker, &request, sizeof(request));
 *      role_hear(&worker, &reply, sizeof(reply));
 *      assert_int_equal(role_wait(&worker), 0);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Role {
        pid_t pid; /* 0: not running */
        int to, from;
} Role;

#define role_start(_role, ...) role_start_argv((_role), (const char *[]){ "test", __VA_ARGS__, NULL })
void role_start_argv(Role *role, const char *const *argv);

/* All of it; it must succeed. */
void role_tell(Role *role, const void *data, size_t size);
void role_hear(Role *role, void *ret_data, size_t size);

/* Closes the pipes. Exit status, or the negative signal that ended it. */
int role_wait(Role *role);

/* The other side: over stdin and stdout. False: the end. */
bool role_read(void *ret_data, size_t size);
/* Exits when nobody listens. */
void role_write(const void *data, size_t size);

/* Bytes of the memfd that this process has open, by its blocks. */
uint64_t role_memfd_size(pid_t pid);

/* The bytes of a test object, of any size from 16 up: any change of a byte is found. */
void pattern_fill(void *object, size_t size, uint64_t owner, uint64_t seed);
bool pattern_check(const void *object, size_t size, uint64_t owner);
