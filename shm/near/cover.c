/*
 * Covers of near caches
 *
 * Purpose: tells whether copies may be read now.
 *
 * Invariants
 *   1. A program reads a copy after it looked at the cover: the cover holds, and names the copy's epoch. So when the
 *      copy is read, the near cache has dropped the copies of all keys that were changed before the cover's time minus
 *      the bound. A look at the cover after the read would prove nothing: the time may have been over during the read,
 *      and have been moved since.
 *   2. The process takes the time first, and computes from it the time that it stores. So if its thread is stopped in
 *      between, the stored time is earlier than it could be, and never later.
 *   3. The words are changed by compare-and-set from the values that the process stored last. If the slot is another
 *      object's by then, the change fails, but for a chance of 2^-64. An object of which the owner writes no such word
 *      would have what the change expects: so the cover is guarded meanwhile, and its slot is not given back. A cover
 *      ends by revocation alone.
 *
 * Who may do what: one process changes a cover, all read it.
 *
 * Crash: the word of one clock may be later than the other's; the earlier one counts.
 */
#include "shm/near/cover.h"

#include <errno.h>
#include <string.h>

#include "shm/arch/racy.h"
#include "shm/arena/note.h"
#include "shm/cache/lookup.h"
#include "shm/map/leaf/leaf.h"

uint64_t shm_cover_server(const char *id) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: run ids are random, and their own hash */

        for (; *id; id++)
                hash = (hash ^ (uint8_t) *id) * UINT64_C(0x100000001b3);
        return hash | 1;
}

void shm_cover_init(ShmCover *object, uint64_t handle, uint32_t epoch, uint32_t n_servers,
                    uint32_t prefixes_size) {
        uint64_t seal = shm_leaf_seal(handle);
        const ShmCover cover = {
                .magic = SHM_COVER_MAGIC,
                .until = { .monotonic_ms = seal, .real_ms = seal },
                .epoch = epoch,
                .n_servers = (uint16_t) n_servers,
                .prefixes_size = (uint16_t) prefixes_size,
        };

        /* A thread may still read here, for a cover that had this slot before. */
        shm_racy_copy(object, &cover, sizeof(cover));
}

int shm_cover_load(const ShmArena *arena, uint64_t handle, ShmCover *ret) {
        uint64_t seal = shm_leaf_seal(handle);
        void *object;

        if (shm_object_get(arena, handle, &object, NULL) != 0)
                return -ENOENT;
        shm_racy_copy(ret, object, sizeof(*ret));
        /* ORDER: acq, pairs with shm_cover_set(); the copy is read after this. */
        ret->until.monotonic_ms = shm_load_acq(&((ShmCover *) object)->until.monotonic_ms) ^ seal;
        /* ORDER: acq, pairs with shm_cover_set(); as above. */
        ret->until.real_ms = shm_load_acq(&((ShmCover *) object)->until.real_ms) ^ seal;
        /* ORDER: acq, pairs with shm_uncached_free(); the words are read before the tag is read again. */
        shm_fence_acq();
        return shm_object_live(arena, handle) && ret->magic == SHM_COVER_MAGIC ? 0 : -ENOENT;
}

static int move_time(uint64_t *word, uint64_t seal, uint64_t *seen, uint64_t until) {
        uint64_t expected = *seen ^ seal;

        /* ORDER: acqrel, pairs with shm_cover_load(); what was dropped is before. */
        if (!shm_cas_acqrel(word, &expected, until ^ seal))
                return -ESTALE;
        *seen = until;
        return 0;
}

int shm_cover_set(ShmActor *actor, uint64_t handle, ShmCoverTime *seen, const ShmCoverTime *until) {
        uint64_t seal = shm_leaf_seal(handle);
        ShmCover *cover;
        void *object;
        int r;

        if (!shm_actor_guard(actor, handle))
                return -ESTALE;
        r = shm_object_get(actor->arena, handle, &object, NULL);
        if (r == 0) {
                cover = object;
                r = move_time(&cover->until.monotonic_ms, seal, &seen->monotonic_ms, until->monotonic_ms);
                r = r ?: move_time(&cover->until.real_ms, seal, &seen->real_ms, until->real_ms);
        }
        shm_actor_unguard(actor);
        return r;
}

bool shm_cover_has_key(const ShmArena *arena, uint64_t handle, const ShmCover *cover, const void *key,
                       size_t key_size) {
        char prefixes[SHM_COVER_PREFIXES_MAX];
        size_t at_prefixes = sizeof(*cover) + cover->n_servers * sizeof(uint64_t);
        uint32_t size = cover->prefixes_size, n;

        if (size == 0)
                return true;
        if (size > sizeof(prefixes) || shm_object_copy(arena, handle, at_prefixes, prefixes, size) != 0)
                return false;
        prefixes[size - 1] = 0;
        for (uint32_t at = 0; at < size; at += n + 1) {
                n = (uint32_t) strlen(&prefixes[at]);
                if (n <= key_size && memcmp(&prefixes[at], key, n) == 0)
                        return true;
        }
        return false;
}

bool shm_cover_has_server(const ShmArena *arena, uint64_t handle, const ShmCover *cover, const char *id) {
        uint64_t servers[SHM_COVER_SERVERS_MAX], server;
        uint32_t n = cover->n_servers;

        if (n == 0)
                return true;
        if (!id || n > SHM_COVER_SERVERS_MAX ||
            shm_object_copy(arena, handle, sizeof(*cover), servers, n * sizeof(servers[0])) != 0)
                return false;
        server = shm_cover_server(id);
        for (uint32_t i = 0; i < n; i++)
                if (servers[i] == server)
                        return true;
        return false;
}
