#include <errno.h>

#include "daemon/ctl/base/epoch-argument.h"
#include "daemon/ctl/base/format.h"

CtlExit epoch_argument(const char *text, uint32_t *ret_epoch) {
        int r;

        r = parse_epoch(text, ret_epoch);
        if (r == -ERANGE)
                return complain_usage("there is no epoch '%s': ids are 0 to 63, eras up to 16777215", text);
        if (r < 0)
                return complain_usage(
                        "'%s' is not an epoch: these are N or N:ERA, as 'tslabctl epoch list' shows", text);
        return CTL_DONE;
}
