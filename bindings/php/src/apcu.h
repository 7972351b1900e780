#pragma once
/*
 * The functions of APCu: what their files share.
 */
#include "php_tslab.h"

/* APCUIterator's format, as APCu numbers it. */
enum {
        ITER_TYPE = 1,
        ITER_KEY = 2,
        ITER_VALUE = 4,
        ITER_NUM_HITS = 8,
        ITER_MTIME = 16,
        ITER_CTIME = 32,
        ITER_DTIME = 64,
        ITER_ATIME = 128,
        ITER_REFCOUNT = 256,
        ITER_MEM_SIZE = 512,
        ITER_TTL = 1024,
};

TslabMap *php_tslab_apcu_map_slow(void);

/* The map of all apcu_*(). */
static zend_always_inline TslabMap *php_tslab_apcu_map(void) {
        return EXPECTED(TSLAB_G(apcu_map)) ? TSLAB_G(apcu_map) : php_tslab_apcu_map_slow();
}

void php_tslab_apcu_failed(int r);
zend_long php_tslab_apcu_ttl_left(const struct tslab_map_info *info);
void php_tslab_apcu_iterator_init(zend_class_entry *ce);
bool php_tslab_apcu_is_iterator(zval *object);
