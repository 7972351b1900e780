/* The public header alone, in strict C99. */
#include <tslab.h>

int main(void) {
        struct tslab_options options = { .size = sizeof(options) };
        tslab_handle handle = 0;

        return options.size == sizeof(options) && handle == 0 && tslab_version() ? 0 : 1;
}
