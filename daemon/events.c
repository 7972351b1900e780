#include "daemon/events.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/message.h"
#include "proto/text.h"

void events_send(const Pool *pool, const EventInfo *info, const char *format, ...) {
        char text[PROTO_TEXT_MAX + 1], clean[PROTO_TEXT_MAX + 1];
        va_list ap;

        if (!pool->on_event)
                return;
        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        proto_text_clean(clean, sizeof(clean), text);
        pool->on_event(pool->event_userdata, info, clean);
}
