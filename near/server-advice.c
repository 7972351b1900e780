#include "near/server-advice.h"

#include <stddef.h>
#include <string.h>

/* Texts are those of Redis and Valkey, of hiredis and the C library. The first that fits counts. */
static const struct {
        const char *text, *advice;
} advices[] = {
        { "NOAUTH", "give --password-file, and --user where the server has users" },
        { "WRONGPASS", "look at --user and at the file of --password-file, then restart tslab-near" },
        { "invalid password", "look at the file of --password-file, then restart tslab-near" },
        { "without any password configured", "the server has no password: leave --password-file out" },
        { "NOPERM",
          "give the user +info +subscribe +ping +role +client|id +client|tracking +client|setname +cluster|slots "
          "+cluster|info +cluster|nodes &__redis__:invalidate" },
        { "CLIENT TRACKING is refused: ERR unknown", "Redis 6 or later is needed, or Valkey" },
        { "CLIENT TRACKING is refused: ERR Unknown", "Redis 6 or later is needed, or Valkey" },
        { "CLIENT TRACKING is refused: ERR syntax", "Redis 6 or later is needed, or Valkey" },
        { "unknown command",
          "the server has no such command, or it was renamed; without it there is no near cache" },
        { "overlap", "give the shorter prefix alone" },
        { "max number of clients", "raise maxclients of the server" },
        { "Protocol error", "is that a Redis server? With TLS, it is rediss://HOST:PORT" },
        { "the server closed the connection",
          "see the server's log; a port for TLS does this, too: give rediss://HOST:PORT" },
        { "Connection reset",
          "see the server's log; a port for TLS does this, too: give rediss://HOST:PORT" },
        { "not known", "look at --server, and at the name service" },
        { "is a replica", "name the primary in --server" },
        { "certificate: unable to get", "name the authority of the server's certificate in --tls-ca" },
        { "certificate: self", "name the authority of the server's certificate in --tls-ca" },
        { "certificate: hostname mismatch", "name the server as its certificate does, or give --tls-name" },
        { "certificate: IP address mismatch", "name the server as its certificate does, or give --tls-name" },
        { "certificate required", "the server wants a certificate: --tls-cert and --tls-key" },
        { "wrong version number", "is that a port with TLS?" },
        { "partly down", "see 'redis-cli --cluster check'; copies are read again when all slots are served" },
};

const char *advice_for(const char *why) {
        for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
                if (strstr(why, advices[i].text))
                        return advices[i].advice;
        return NULL;
}
