/* Domains: scopes that hold an epoch while threads are inside, and may close it when the last one leaves. */
#include <errno.h>
#include <stdlib.h>

#include "libclient/pool/enter.h"

struct tslab_domain {
        struct tslab *pool;
        uint32_t epoch; /* with its era */
        uint32_t flags;
};

_public_ int tslab_domain_open(struct tslab_domain **ret, struct tslab *pool, uint32_t epoch,
                               uint32_t flags) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        struct tslab_domain *domain;
        int r;

        if (flags & ~TSLAB_DOMAIN_AUTO_CLOSE)
                return -EINVAL;
        r = tslab_epoch_info(pool, epoch, &info);
        if (r)
                return r;
        domain = malloc(sizeof(*domain));
        if (!domain)
                return -ENOMEM;
        *domain = (struct tslab_domain){ .pool = pool, .epoch = info.epoch, .flags = flags };
        *ret = domain;
        return 0;
}

_public_ struct tslab_domain *tslab_domain_close(struct tslab_domain *domain) {
        free(domain);
        return NULL;
}

_public_ int tslab_domain_enter(struct tslab_domain *domain) {
        ThreadDomains *inside = thread_domains();
        int r;

        if (!inside)
                return -ENOMEM;
        if (inside->n == THREAD_DOMAINS_MAX)
                return -ENOBUFS;
        r = tslab_epoch_ref(domain->pool, domain->epoch);
        if (r)
                return r;
        /* Attaching may have moved the table. */
        inside = thread_domains();
        inside->domains[inside->n++] = domain;
        return 0;
}

_public_ int tslab_domain_leave(struct tslab_domain *domain) {
        ThreadDomains *inside = thread_domains();
        int r;

        if (!inside || inside->n == 0 || inside->domains[inside->n - 1] != domain)
                return -EINVAL;
        inside->n--;
        r = tslab_epoch_unref(domain->pool, domain->epoch);
        if (r == 0 && domain->flags & TSLAB_DOMAIN_AUTO_CLOSE)
                r = tslab_epoch_close(domain->pool, domain->epoch, 0);
        /* -ESTALE: it was closed and opened anew meanwhile, perhaps between the two calls. Nothing is left to do. */
        return r > 0 || r == -ESTALE ? 0 : r;
}

_public_ uint32_t tslab_domain_epoch(const struct tslab_domain *domain) {
        return domain->epoch;
}

_public_ struct tslab_domain *tslab_domain_current(void) {
        const ThreadDomains *inside = thread_domains();

        return inside && inside->n > 0 ? inside->domains[inside->n - 1] : NULL;
}
