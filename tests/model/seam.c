/* See seam.h. */
#include "tests/model/seam.h"

ModelKind model_kind;
unsigned model_size;
