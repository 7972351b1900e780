// The public header alone, in C++17.
#include <tslab.h>

int main() {
        tslab_options options{};
        tslab *pool = nullptr;
        tslab_handle handle;
        void *object;

        options.size = sizeof(options);
        if (tslab_create(&pool, &options) < 0)
                return 1;
        if (tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object) < 0)
                return 1;
        if (tslab_free(pool, handle) < 0)
                return 1;
        return tslab_close(pool) != nullptr;
}
