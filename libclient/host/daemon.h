#pragma once
#include "libclient/pool/host.h"

extern const Host host_daemon;
