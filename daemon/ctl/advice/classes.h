#pragma once

/* The sizes of classes that would have held the objects of a pool in the least memory. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

#define ADVICE_CLASSES_MAX 32
#define ADVICE_WHY_SIZE 160

typedef struct AdviceClasses {
        uint32_t sizes[ADVICE_CLASSES_MAX];
        uint32_t n;
        bool changed;
        uint64_t saved_bytes;
        char why[ADVICE_WHY_SIZE];
} AdviceClasses;

/* `stats` must have peaks. */
void advice_find_classes(AdviceClasses *ret, const Tslab__StatsReply *stats);
