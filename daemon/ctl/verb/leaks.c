#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/leaks/leaks.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

CtlExit verb_leaks(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(leaks_deinit) Leaks leaks = {};
        CtlExit r;

        r = connection_open(&connection);
        r = r ?: leaks_find(&leaks, &connection);
        if (r)
                return r;
        if (arg_json)
                output_json(leaks_to_json(&leaks));
        else
                leaks_print(output_stream(), &leaks);
        return CTL_DONE;
}
