#pragma once
/* Checks that operators ask for, one after the other, in slices. */
#include "daemon/request/request.h"

int checker_new(Checker **ret_checker, Pool *pool);
/* NULL-safe, returns NULL. */
Checker *checker_free(Checker *checker);
