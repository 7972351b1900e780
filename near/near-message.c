#include "near/near-message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/arena/text.h"

void message_clean(char *text) {
        shm_text_clean(text);
}

void message(int level, const char *format, ...) {
        char text[1024];
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        message_clean(text);
        if (getenv("JOURNAL_STREAM"))
                (void) fprintf(stderr, "<%d>%s\n", level, text);
        else
                (void) fprintf(stderr, "tslab-near: %s\n", text);
}
