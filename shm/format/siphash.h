#pragma once
/*
 * SipHash-2-4, a keyed hash, by its description: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF",
 * 2012, and the form of 128 bits that its authors added. The unit test has their vectors.
 *
 * It is as fast as libsodium's, within the noise, for keys of 8 to 1000 bytes (AMD EPYC family 25). So nothing speaks
 * for a library that each program in each language would have to have.
 */
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHM_SIPHASH_KEY_SIZE 16

typedef struct ShmSip {
        uint64_t a, b, c, d;
} ShmSip;

static inline uint64_t shm_sip_rotl(uint64_t x, unsigned n) {
        return x << n | x >> (64 - n);
}

static inline void shm_sip_round(ShmSip *s) {
        s->a += s->b;
        s->c += s->d;
        s->b = shm_sip_rotl(s->b, 13) ^ s->a;
        s->d = shm_sip_rotl(s->d, 16) ^ s->c;
        s->a = shm_sip_rotl(s->a, 32) + s->d;
        s->c += s->b;
        s->d = shm_sip_rotl(s->d, 21) ^ s->a;
        s->b = shm_sip_rotl(s->b, 17) ^ s->c;
        s->c = shm_sip_rotl(s->c, 32);
}

static inline void shm_sip_take(ShmSip *s, uint64_t word) {
        s->d ^= word;
        shm_sip_round(s);
        shm_sip_round(s);
        s->a ^= word;
}

static inline uint64_t shm_sip_word(const uint8_t *bytes) {
        uint64_t word;

        memcpy(&word, bytes, sizeof(word));
        return le64toh(word);
}

/* The last bytes, fewer than 8, and the size above them. */
static inline uint64_t shm_sip_rest(const uint8_t *bytes, size_t size) {
        uint64_t word = 0;
        size_t n = size & 7;

        if (size < 8)
                for (size_t i = 0; i < n; i++)
                        word |= (uint64_t) bytes[i] << (8 * i);
        else if (n != 0) /* bytes before them may be read: one load in place of several */
                word = shm_sip_word(bytes + n - 8) >> (8 * (8 - n));
        return word | (uint64_t) size << 56;
}

static inline ShmSip shm_sip(const void *bytes, size_t size, const uint8_t key[SHM_SIPHASH_KEY_SIZE],
                             uint64_t variant) {
        uint64_t low = shm_sip_word(key), high = shm_sip_word(key + 8);
        ShmSip s = {
                low ^ UINT64_C(0x736f6d6570736575), /* "somepseudorandomlygeneratedbytes" */
                high ^ UINT64_C(0x646f72616e646f6d) ^ variant,
                low ^ UINT64_C(0x6c7967656e657261),
                high ^ UINT64_C(0x7465646279746573),
        };
        const uint8_t *next = bytes, *end = next + (size & ~(size_t) 7);

        for (; next < end; next += 8)
                shm_sip_take(&s, shm_sip_word(next));
        shm_sip_take(&s, shm_sip_rest(next, size));
        return s;
}

static inline uint64_t shm_sip_finish(ShmSip *s) {
        shm_sip_round(s);
        shm_sip_round(s);
        shm_sip_round(s);
        shm_sip_round(s);
        return s->a ^ s->b ^ s->c ^ s->d;
}

static inline uint64_t shm_siphash(const void *bytes, size_t size, const uint8_t key[SHM_SIPHASH_KEY_SIZE]) {
        ShmSip s = shm_sip(bytes, size, key, 0);

        s.c ^= 0xff;
        return shm_sip_finish(&s);
}

static inline void shm_siphash128(const void *bytes, size_t size, const uint8_t key[SHM_SIPHASH_KEY_SIZE],
                                  uint64_t ret[2]) {
        ShmSip s = shm_sip(bytes, size, key, 0xee);

        s.c ^= 0xee;
        ret[0] = shm_sip_finish(&s);
        s.b ^= 0xdd;
        ret[1] = shm_sip_finish(&s);
}
