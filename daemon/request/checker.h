#pragma once
/* Checks that operators ask for, one after the other, in slices. */
#include "daemon/peer/session.h"

int checker_new(Checker **ret_checker, Manager *manager);
/* NULL-safe, returns NULL. */
Checker *checker_free(Checker *checker);

/* Answers when it is over. -ENOMEM. */
int checker_start(Checker *checker, Session *session, uint64_t id, bool repair);
