#include "daemon/peer/kept.h"

#include <stdio.h>
#include <string.h>

#include "proto/notify.h"

#define PREFIX "client-"

/* FDPOLL=0: or systemd would drop the pidfd of a process that has ended, and the next daemon would know nothing. */
int kept_add(uint32_t mark, int pidfd) {
        return notify_send_fd(pidfd, "FDSTORE=1\nFDNAME=" PREFIX "%08x\nFDPOLL=0", mark);
}

void kept_remove(uint32_t mark) {
        (void) notify_send("FDSTOREREMOVE=1\nFDNAME=" PREFIX "%08x", mark);
}

bool kept_parse(const char *name, uint32_t *ret_mark) {
        int end = 0;

        return sscanf(name, PREFIX "%8x%n", ret_mark, &end) == 1 && !name[end] &&
               strlen(name) == strlen(PREFIX) + 8;
}
