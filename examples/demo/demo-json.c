#include "examples/demo/demo-json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* From the first quote of a string to behind its last. */
static const char *skip_string(const char *s) {
        for (++s; *s && *s != '"'; ++s)
                if (*s == '\\' && s[1])
                        ++s;
        return *s ? s + 1 : s;
}

static const char *skip_space(const char *s) {
        return s + strspn(s, " \t\r\n");
}

/* Whether the string from `s` to `end` is the name of a member, the value of which is then at *ret_value. */
static bool is_member(const char *s, const char *end, const char *name, const char **ret_value) {
        size_t n = strlen(name);

        if ((size_t) (end - s) != n + 2 || memcmp(s + 1, name, n) != 0)
                return false;
        end = skip_space(end);
        if (*end != ':')
                return false;
        *ret_value = skip_space(end + 1);
        return true;
}

int json_find_number(const char *text, const char *name, uint64_t *ret) {
        const char *s = text, *end, *value;
        int depth = 0;

        while (*s) {
                if (*s == '"') {
                        end = skip_string(s);
                        if (depth == 1 && is_member(s, end, name, &value) && *value >= '0' && *value <= '9') {
                                *ret = strtoull(value, NULL, 10);
                                return 0;
                        }
                        s = end;
                        continue;
                }
                depth += (*s == '{' || *s == '[') - (*s == '}' || *s == ']');
                ++s;
        }
        return -ENOENT;
}
