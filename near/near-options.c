#include "near/near-options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT_DEFAULT 6379
#define BOUND_MS_MIN 100U
#define BOUND_MS_MAX 60000U
#define PASSWORD_MAX 1023

typedef struct Setting {
        const char *name, *variable, *operand, *help;
        int (*set)(Options *options, const char *value, char *ret_why);
} Setting;

static int refuse_value(char *ret_why, const char *what, const char *value) {
        (void) snprintf(ret_why, NEAR_WHY_SIZE, "'%.60s': %s", value, what);
        return -EINVAL;
}

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret) {
        char *end;

        if (text[0] < '0' || text[0] > '9')
                return -EINVAL;
        errno = 0;
        *ret = strtoull(text, &end, 10);
        return errno || *end || *ret < min || *ret > max ? -EINVAL : 0;
}

static int parse_size(const char *text, uint64_t *ret) {
        const char suffixes[] = "KMG", *suffix;
        unsigned shift = 0;
        char *end;

        if (text[0] < '0' || text[0] > '9')
                return -EINVAL;
        errno = 0;
        *ret = strtoull(text, &end, 10);
        suffix = *end ? strchr(suffixes, *end) : NULL;
        if (suffix && end[1] == 0)
                shift = 10U * (unsigned) (suffix - suffixes + 1);
        else if (*end)
                return -EINVAL;
        if (errno || *ret > UINT64_MAX >> shift)
                return -EINVAL;
        *ret <<= shift;
        return 0;
}

static int set_pool(Options *options, const char *value, char *ret_why) {
        options->pool = value;
        return 0;
}

static int set_name(Options *options, const char *value, char *ret_why) {
        options->name = value;
        return 0;
}

/* Finds the end of the host, and the port, in "HOST", "HOST:PORT", "[ADDRESS]", "[ADDRESS]:PORT". False: it is none. */
static bool split_server(const char *value, const char *end, const char **ret_host_end,
                         const char **ret_port) {
        const char *at = *value == '[' ? memchr(value, ']', (size_t) (end - value)) : NULL;

        if (*value == '[' && !at)
                return false;
        *ret_host_end = at ?: memchr(value, ':', (size_t) (end - value)) ?: end;
        at = at ? at + 1 : *ret_host_end;
        *ret_port = at < end && *at == ':' ? at + 1 : NULL;
        return *ret_port || at == end;
}

static int parse_port(const char *text, const char *end, uint64_t *ret) {
        char number[8];

        if ((size_t) (end - text) >= sizeof(number))
                return -EINVAL;
        (void) snprintf(number, sizeof(number), "%.*s", (int) (end - text), text);
        return parse_number(number, 1, 65535, ret);
}

static int add_server(Options *options, const char *value, size_t size, char *ret_why) {
        static const char form[] = "a server is HOST, HOST:PORT, [ADDRESS]:PORT, or the path of a socket";
        TopologyServer *server = &options->servers[options->n_servers];
        const char *end = value + size, *host_end = end, *port_text = NULL;
        uint64_t port = PORT_DEFAULT;

        if (options->n_servers == OPTIONS_SERVERS_MAX)
                return refuse_value(ret_why, "there are more than 16 servers; some of a cluster are enough",
                                    value);
        if (*value != '/' && !split_server(value, end, &host_end, &port_text))
                return refuse_value(ret_why, form, value);
        if (port_text && parse_port(port_text, end, &port))
                return refuse_value(ret_why, form, value);
        value += *value == '[';
        if (host_end <= value || host_end - value >= TOPOLOGY_HOST_SIZE)
                return refuse_value(ret_why, form, value);
        *server = (TopologyServer){ .port = (int) port };
        memcpy(server->host, value, (size_t) (host_end - value));
        options->n_servers++;
        return 0;
}

static int hex_digit(char c) {
        static const char digits[] = "0123456789abcdef";
        const char *at = c ? strchr(digits, c | (c >= 'A' ? 0x20 : 0)) : NULL;

        return at ? (int) (at - digits) : -1;
}

/* In place, with what stands for other bytes in URLs. */
static int decode_percents(char *text) {
        char *to = text;

        for (; *text; text++) {
                int high, low;

                if (*text != '%') {
                        *to++ = *text;
                        continue;
                }
                high = hex_digit(text[1]);
                low = high < 0 ? -1 : hex_digit(text[2]);
                if (low < 0 || (high == 0 && low == 0))
                        return -EINVAL;
                *to++ = (char) (high << 4 | low);
                text += 2;
        }
        *to = 0;
        return 0;
}

/* The part of a URL before the @. */
static int parse_login(Options *options, const char *text, size_t size, char *ret_why) {
        static char login[2 * PASSWORD_MAX];
        char *colon;

        if (options->login.user || options->login.password)
                return refuse_value(ret_why,
                                    "user and password are given once, in one URL or by options of their own",
                                    "");
        if (size >= sizeof(login))
                return refuse_value(ret_why, "user and password are too long", "");
        memcpy(login, text, size);
        login[size] = 0;
        colon = strchr(login, ':');
        if (!colon)
                return refuse_value(ret_why, "a user needs a password: USER:PASSWORD@", login);
        if (!options->is_environment)
                return refuse_value(ret_why,
                                    "all users of the host see a password on the command line: use "
                                    "--password-file, or TSLAB_NEAR_SERVER in the environment",
                                    "URL");
        *colon++ = 0;
        if (decode_percents(login) || decode_percents(colon) || !*colon)
                return refuse_value(ret_why, "user or password of a URL has no good form", login);
        options->login.user = *login ? login : NULL;
        options->login.password = colon;
        return 0;
}

/* A server, or a URL: SCHEME://[[USER]:PASSWORD@]SERVER[/DATABASE]. Changes are those of all databases. */
static int add_url(Options *options, const char *value, size_t size, char *ret_why) {
        static const struct {
                const char *text;
                bool tls, is_path;
        } schemes[] = { { "redis://", false, false },
                        { "valkey://", false, false },
                        { "rediss://", true, false },
                        { "valkeys://", true, false },
                        { "unix://", false, true } };
        const char *end = value + size, *at, *slash;
        bool tls = false, is_path = *value == '/';
        int r;

        for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
                size_t n = strlen(schemes[i].text);

                if (size < n || strncmp(value, schemes[i].text, n) != 0)
                        continue;
                tls = schemes[i].tls;
                is_path = schemes[i].is_path;
                value += n;
                at = memrchr(value, '@', (size_t) (end - value));
                r = at ? parse_login(options, value, (size_t) (at - value), ret_why) : 0;
                if (r)
                        return r;
                value = at ? at + 1 : value;
                slash = is_path ? NULL : memchr(value, '/', (size_t) (end - value));
                end = slash ?: end;
                break;
        }
        options->has_tls = options->has_tls || tls;
        options->has_plain = options->has_plain || (!tls && !is_path);
        return add_server(options, value, (size_t) (end - value), ret_why);
}

static int set_servers(Options *options, const char *value, char *ret_why) {
        int r = 0;

        for (const char *at = value; r == 0; at++) {
                const char *end = strchrnul(at, ',');

                r = add_url(options, at, (size_t) (end - at), ret_why);
                at = end;
                if (!*at)
                        break;
        }
        return r;
}

static int set_tls_ca(Options *options, const char *value, char *ret_why) {
        options->tls_files.ca = value;
        return 0;
}

static int set_tls_cert(Options *options, const char *value, char *ret_why) {
        options->tls_files.certificate = value;
        return 0;
}

static int set_tls_key(Options *options, const char *value, char *ret_why) {
        options->tls_files.key = value;
        return 0;
}

static int set_tls_name(Options *options, const char *value, char *ret_why) {
        options->tls_files.name = value;
        return 0;
}

static int add_prefix(Options *options, const char *value, char *ret_why) {
        if (options->n_prefixes == OPTIONS_PREFIXES_MAX)
                return refuse_value(ret_why, "there are more than 32 prefixes", value);
        /* The server refuses these, too, but not before it is up. */
        for (uint32_t i = 0; i < options->n_prefixes; i++) {
                const char *other = options->prefixes[i];

                if (strncmp(value, other, strlen(value)) == 0 || strncmp(value, other, strlen(other)) == 0)
                        return refuse_value(
                                ret_why, "the prefix overlaps with another one; give the shorter one", value);
        }
        options->prefixes_size += strlen(value) + 1;
        if (options->prefixes_size > TSLAB_NEAR_PREFIXES_SIZE)
                return refuse_value(ret_why, "prefixes take more than 1024 bytes", value);
        options->prefixes[options->n_prefixes++] = value;
        return 0;
}

static int set_user(Options *options, const char *value, char *ret_why) {
        options->login.user = value;
        return 0;
}

/* A pipe would keep the start waiting for a writer. */
static int open_regular(const char *path, FILE **ret, char *ret_why) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat st;
        int r = 0;

        if (fd < 0 || fstat(fd, &st) < 0)
                r = refuse_value(ret_why, strerror(errno), path);
        else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                r = refuse_value(ret_why, "the password has to be in a regular file", path);
        else if (!(*ret = fdopen(fd, "r")))
                r = refuse_value(ret_why, strerror(errno), path);
        if (r && fd >= 0)
                (void) close(fd);
        return r;
}

/* A file, so that the password is in no list of processes. `password` has PASSWORD_MAX + 2 bytes. */
static int load_password(const char *value, char *password, char *ret_why) {
        size_t n, size;
        FILE *file;
        int r;

        r = open_regular(value, &file, ret_why);
        if (r)
                return r;
        n = fread(password, 1, PASSWORD_MAX + 1, file);
        r = ferror(file) ? errno : 0;
        (void) fclose(file);
        if (r)
                return refuse_value(ret_why, strerror(r), value);
        password[n] = 0;
        size = strcspn(password, "\r\n");
        if (size == 0)
                return refuse_value(ret_why, "the file has no password", value);
        if (size > PASSWORD_MAX)
                return refuse_value(ret_why, "the file's first line is longer than 1023 bytes", value);
        if (size < n && password[size] == 0)
                return refuse_value(ret_why, "the file's first line has a zero byte", value);
        password[size] = 0;
        return 0;
}

static int set_password_file(Options *options, const char *value, char *ret_why) {
        static char password[PASSWORD_MAX + 2];

        options->login.password = password;
        return load_password(value, password, ret_why);
}

static int set_sentinel_password_file(Options *options, const char *value, char *ret_why) {
        static char password[PASSWORD_MAX + 2];

        options->sentinel_login.password = password;
        return load_password(value, password, ret_why);
}

static int set_sentinel(Options *options, const char *value, char *ret_why) {
        if (!*value)
                return refuse_value(ret_why, "the name of a primary, as Sentinel has it", value);
        options->sentinel = value;
        return 0;
}

static int set_sentinel_user(Options *options, const char *value, char *ret_why) {
        options->sentinel_login.user = value;
        return 0;
}

static int set_bound(Options *options, const char *value, char *ret_why) {
        uint64_t ms;

        if (parse_number(value, BOUND_MS_MIN, BOUND_MS_MAX, &ms))
                return refuse_value(ret_why, "the bound is 100 to 60000 milliseconds", value);
        options->bound_ms = (uint32_t) ms;
        return 0;
}

static int set_limit(Options *options, const char *value, char *ret_why) {
        if (parse_size(value, &options->limit_bytes))
                return refuse_value(ret_why, "the limit is in bytes, or with K, M or G; 0: none", value);
        if (options->limit_bytes == 0)
                options->limit_bytes = TSLAB_NEAR_NO_LIMIT;
        return 0;
}

static int set_value_max(Options *options, const char *value, char *ret_why) {
        uint64_t size;

        if (parse_size(value, &size) || size > UINT32_C(16) << 20)
                return refuse_value(ret_why, "values are of up to 16M bytes", value);
        options->value_max = (uint32_t) size;
        return 0;
}

static const Setting settings[] = {
        { "pool", "TSLAB_NEAR_POOL", "NAME", "the pool, by name or by its socket (default: default)",
          set_pool },
        { "name", "TSLAB_NEAR_NAME", "NAME", "the near cache (default: near)", set_name },
        { "server", "TSLAB_NEAR_SERVER", "HOST[:PORT],…",
          "servers: one, by its socket's path, too, or some of a cluster; or URLs (redis, rediss, unix)",
          set_servers },
        { "prefix", "TSLAB_NEAR_PREFIX", "TEXT", "keys that begin so; may be given again; '' for all",
          add_prefix },
        { "user", "TSLAB_NEAR_USER", "NAME", "user of the server (default: the server's)", set_user },
        { "password-file", "TSLAB_NEAR_PASSWORD_FILE", "FILE", "file whose first line is the password",
          set_password_file },
        { "sentinel", "TSLAB_NEAR_SENTINEL", "NAME",
          "the servers are Sentinels, and this is the name of the primary", set_sentinel },
        { "sentinel-user", "TSLAB_NEAR_SENTINEL_USER", "NAME", "user of the Sentinels", set_sentinel_user },
        { "sentinel-password-file", "TSLAB_NEAR_SENTINEL_PASSWORD_FILE", "FILE",
          "file whose first line is the password for the Sentinels (default: none)",
          set_sentinel_password_file },
        { "tls-ca", "TSLAB_NEAR_TLS_CA", "FILE",
          "authorities of the servers' certificates (default: the system's)", set_tls_ca },
        { "tls-cert", "TSLAB_NEAR_TLS_CERT", "FILE", "certificate of this client", set_tls_cert },
        { "tls-key", "TSLAB_NEAR_TLS_KEY", "FILE", "its private key (default: in the file of --tls-cert)",
          set_tls_key },
        { "tls-name", "TSLAB_NEAR_TLS_NAME", "NAME",
          "name in the servers' certificates (default: each one's host)", set_tls_name },
        { "bound", "TSLAB_NEAR_BOUND", "MS", "no copy is older than that (default: 1000)", set_bound },
        { "limit", "TSLAB_NEAR_LIMIT", "BYTES",
          "copies take no more (default: half of the pool; 0: no limit)", set_limit },
        { "value-max", "TSLAB_NEAR_VALUE_MAX", "BYTES", "larger values are not copied (default: 1M)",
          set_value_max },
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))
enum { OPTION_HELP = 256, OPTION_VERSION, OPTION_CHECK };

static int print_help(void) {
        printf("tslab-near [OPTION]…\n\nKeeps a near cache of Redis or Valkey, alone or a cluster, in a pool of "
               "tslab, coherent.\n\n");
        for (size_t i = 0; i < N_SETTINGS; i++)
                printf("  --%s=%s\n        %s\n", settings[i].name, settings[i].operand, settings[i].help);
        printf("  --check\n        ends as soon as all is covered, or with a message that says why it is not\n"
               "  --help\n        prints this\n  --version\n        prints the version\n\n"
               "Each setting may come from the environment, too: --server from TSLAB_NEAR_SERVER, and so on.\n"
               "See tslab-near(8).\n");
        return 1;
}

/* In the environment, prefixes are separated by spaces. */
static int add_prefixes(Options *options, const char *value, char *ret_why) {
        static char text[4096];
        char *saved = NULL;
        int r = 0;

        if (snprintf(text, sizeof(text), "%s", value) >= (int) sizeof(text))
                return refuse_value(ret_why, "too long", value);
        if (!*value)
                return add_prefix(options, "", ret_why);
        for (char *at = strtok_r(text, " ", &saved); r == 0 && at; at = strtok_r(NULL, " ", &saved))
                r = add_prefix(options, at, ret_why);
        return r;
}

/* A misspelt name would be ignored without a word. */
static int check_names(char *ret_why) {
        static const char begin[] = "TSLAB_NEAR_";

        for (char **variable = environ; *variable; variable++) {
                size_t size = strcspn(*variable, "="), i = 0;

                if (strncmp(*variable, begin, strlen(begin)) != 0)
                        continue;
                while (i < N_SETTINGS && (strlen(settings[i].variable) != size ||
                                          strncmp(settings[i].variable, *variable, size) != 0))
                        i++;
                if (i == N_SETTINGS) {
                        (void) snprintf(ret_why, NEAR_WHY_SIZE,
                                        "there is no setting %.*s; tslab-near --help names them all",
                                        (int) (size < 80 ? size : 80), *variable);
                        return -EINVAL;
                }
        }
        return 0;
}

static int load_environment(Options *options, const bool *is_set, char *ret_why) {
        int r = 0;

        options->is_environment = true;
        for (size_t i = 0; r == 0 && i < N_SETTINGS; i++) {
                const char *value = is_set[i] ? NULL : getenv(settings[i].variable);

                if (value)
                        r = (settings[i].set == add_prefix ? add_prefixes : settings[i].set)(options, value,
                                                                                             ret_why);
        }
        return r;
}

static int open_tls(Options *options, char *ret_why) {
        const TlsFiles *files = &options->tls_files;
        Tls *tls = NULL;
        int r;

        if (!options->has_tls && (files->ca || files->certificate || files->key || files->name))
                return refuse_value(ret_why, "is for servers that are given as rediss://HOST:PORT",
                                    "--tls-...");
        if (options->has_tls && options->has_plain)
                return refuse_value(ret_why, "all servers have TLS, or none has", "--server");
        if (files->key && !files->certificate)
                return refuse_value(ret_why, "needs --tls-cert", "--tls-key");
        r = options->has_tls ? tls_open(&tls, files, ret_why) : 0;
        options->login.tls = options->sentinel_login.tls = tls;
        return r ? -EINVAL : 0;
}

static int check_whole(const Options *options, char *ret_why) {
        if (options->n_servers == 0)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "no server is given: --server=HOST:PORT");
        else if (options->n_prefixes == 0)
                (void) snprintf(ret_why, NEAR_WHY_SIZE,
                                "no keys are given: --prefix=TEXT, or --prefix= for all");
        else if (options->login.user && !options->login.password)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "--user needs --password-file");
        else if (options->sentinel_login.user && !options->sentinel_login.password)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "--sentinel-user needs --sentinel-password-file");
        else if (options->sentinel_login.password && !options->sentinel)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "--sentinel-password-file needs --sentinel");
        else
                return 0;
        return -EINVAL;
}

int options_load(Options *ret, int argc, char **argv, char *ret_why) {
        struct option longs[N_SETTINGS + 4] = {
                [N_SETTINGS] = { "help", no_argument, NULL, OPTION_HELP },
                { "version", no_argument, NULL, OPTION_VERSION },
                { "check", no_argument, NULL, OPTION_CHECK },
        };
        bool is_set[N_SETTINGS] = {};
        int c, r = 0;

        *ret = (Options){ .pool = "default", .name = "near", .bound_ms = 1000 };
        for (size_t i = 0; i < N_SETTINGS; i++)
                longs[i] = (struct option){ settings[i].name, required_argument, NULL, (int) i };
        *ret_why = 0;
        while (r == 0 && (c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
                if (c == OPTION_HELP)
                        return print_help();
                if (c == OPTION_VERSION)
                        return printf("tslab-near %s\n", TSLAB_VERSION), 1;
                if (c == OPTION_CHECK)
                        ret->check = true;
                else if (c == '?')
                        return -EINVAL; /* getopt has said why */
                else {
                        is_set[c] = true;
                        r = settings[c].set(ret, optarg, ret_why);
                }
        }
        if (r == 0 && optind < argc)
                r = refuse_value(ret_why, "there are no operands", argv[optind]);
        if (r == 0)
                r = check_names(ret_why);
        if (r == 0)
                r = load_environment(ret, is_set, ret_why);
        if (r == 0)
                r = check_whole(ret, ret_why);
        return r ?: open_tls(ret, ret_why);
}
