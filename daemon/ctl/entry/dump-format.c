#include "daemon/ctl/entry/dump-format.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/complain.h"

/*
 * Each step is a bijection of the sum and of the word, so that a change of one word always changes the sum; others do
 * but for one in 2^64. Not against people who change a file on purpose: only its owner can write it. There are four
 * sums, since a processor has four such steps in work at one time.
 */
static uint64_t add_word(uint64_t sum, uint64_t word) {
        sum ^= word;
        sum = sum << 29 | sum >> 35;
        return sum * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static void add_words(uint64_t sums[4], const uint8_t bytes[32]) {
        uint64_t words[4];

        memcpy(words, bytes, sizeof(words));
        for (unsigned i = 0; i < 4; i++)
                sums[i] = add_word(sums[i], words[i]);
}

uint64_t dump_block_sum(const uint8_t *block, size_t size) {
        uint64_t sums[4] = { size, size, size, size };
        uint8_t last[32] = {};

        for (; size >= sizeof(last); block += sizeof(last), size -= sizeof(last))
                add_words(sums, block);
        memcpy(last, block, size);
        add_words(sums, last);
        return add_word(add_word(add_word(sums[0], sums[1]), sums[2]), sums[3]);
}

void dump_buffer_grow(DumpBuffer *buffer, size_t room) {
        if (room <= buffer->room)
                return;
        buffer->block = must(realloc(buffer->block, room));
        buffer->room = room;
}

void dump_buffer_deinit(DumpBuffer *buffer) {
        free(buffer->block);
        *buffer = (DumpBuffer){};
}

static bool is_sound(const DumpRecord *record) {
        switch (record->kind) {
        case DUMP_BEGIN:
        case DUMP_END:
                return record->key_size == 0 && record->value_size == sizeof(uint64_t);
        case DUMP_MAP:
                return record->key_size > 0 && record->key_size <= TSLAB_MAP_NAME_MAX &&
                       record->value_size == sizeof(DumpMap);
        case DUMP_VALUE:
                return record->key_size <= TSLAB_MAP_KEY_MAX;
        case DUMP_COUNTER:
                return record->key_size <= TSLAB_MAP_KEY_MAX && record->value_size == sizeof(int64_t);
        default:
                return false;
        }
}

bool dump_buffer_next(const DumpBuffer *buffer, size_t *at, DumpRecord *ret, const void **ret_key,
                      const void **ret_value) {
        const uint8_t *record = buffer->block + sizeof(DumpBlock) + *at;
        size_t left = buffer->used - *at;

        if (left < sizeof(*ret))
                return false;
        memcpy(ret, record, sizeof(*ret));
        left -= sizeof(*ret);
        if (!is_sound(ret) || ret->key_size > left || ret->value_size > left - ret->key_size)
                return false;
        *ret_key = record + sizeof(*ret);
        *ret_value = record + sizeof(*ret) + ret->key_size;
        *at += sizeof(*ret) + ret->key_size + ret->value_size;
        return true;
}
