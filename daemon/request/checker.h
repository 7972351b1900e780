#pragma once
/* Checks that operators request: one after the other, each in slices. */
#include "daemon/request/request.h"

int checker_new(Checker **ret_checker, Pool *pool);
/* NULL-safe, returns NULL. */
Checker *checker_free(Checker *checker);
