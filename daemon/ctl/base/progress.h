#pragma once

/*
 * One line on stderr while something takes long, if that is a terminal; nothing elsewhere. An
 * interrupt in the meantime clears it, says why that does no harm, and ends the program by the
 * signal, as shells expect.
 */

#include "proto/message.h"

/*
 * Shows `text`, the work under way; `when_interrupted`, which may be NULL, is said after an
 * interrupt. Both strings must stay.
 */
void progress_begin(const char *text, const char *when_interrupted);
/* A ProtoCallMore that shows the progress the daemon reports. */
int progress_on_reply(void *userdata, const ProtoReply *reply);
/* Shows how much of the work is done; `total` 0: not known. */
void progress_show(const char *text, uint64_t done, uint64_t total);
void progress_clear(void);
void progress_end(void);

/* "walking slabs 45%", cut to `size`. */
void progress_format(char *ret, size_t size, const Tslab__Progress *progress);
