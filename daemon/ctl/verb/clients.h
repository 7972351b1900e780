#pragma once
#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/view/client-list.h"

/* Asks the daemon for all clients. Complains itself. */
CtlExit clients_ask(ClientList *list);
