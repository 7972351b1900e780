#pragma once

/* The remedy for a trouble with servers, by the text that tells of it; NULL: that says enough. */
const char *advice_for(const char *why);
