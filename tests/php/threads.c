/*
 * PHP with threads, in the model of FrankenPHP: one process, whose threads have requests of their own, one after the
 * other. Threads end, and others take their place.
 *
 *      threads SETTINGS SCRIPT THREADS REQUESTS GENERATIONS
 *
 * SETTINGS: lines as in php.ini. SCRIPT: a file, which finds the number of its thread in $_ENV['THREAD']. Prints the
 * output of all requests, and the resident size of the process after each generation of threads, in KiB.
 */
#include <sapi/embed/php_embed.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

ZEND_TSRMLS_CACHE_DEFINE()

static const char *script;
static int n_requests;

static void run_request(const char *number) {
        zend_file_handle file;
        zval name, value;

        SG(headers_sent) = 1;
        SG(request_info).no_headers = 1;
        if (php_request_startup() == FAILURE) {
                printf("thread %s: a request cannot begin\n", number);
                exit(1);
        }
        zend_first_try {
                zend_is_auto_global_str(ZEND_STRL("_ENV"));
                ZVAL_STRING(&name, "THREAD");
                ZVAL_STRING(&value, number);
                zend_hash_update(Z_ARRVAL(PG(http_globals)[TRACK_VARS_ENV]), Z_STR(name), &value);
                zval_ptr_dtor_str(&name);
                zend_stream_init_filename(&file, script);
                php_execute_script(&file);
                zend_destroy_file_handle(&file);
        }
        zend_end_try();
        php_request_shutdown(NULL);
}

static void *run_thread(void *number) {
        (void) ts_resource(0);
        ZEND_TSRMLS_CACHE_UPDATE();
        for (int i = 0; i < n_requests; i++)
                run_request(number);
        ts_free_thread();
        return NULL;
}

static long resident_kib(void) {
        long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");

        if (!file || fscanf(file, "%*d %ld", &pages) != 1)
                exit(1);
        fclose(file);
        return pages * 4;
}

int main(int argc, char **argv) {
        int n_threads = atoi(argv[3]), n_generations = atoi(argv[5]);
        pthread_t threads[64];
        char numbers[64][12];

        script = argv[2];
        n_requests = atoi(argv[4]);
        php_tsrm_startup();
        ZEND_TSRMLS_CACHE_UPDATE();
        zend_signal_startup();
        sapi_startup(&php_embed_module);
        php_embed_module.php_ini_ignore = 1;
        php_embed_module.ini_entries = strdup(argv[1]);
        if (php_embed_module.startup(&php_embed_module) == FAILURE)
                return 1;
        for (int g = 0; g < n_generations; g++) {
                for (int i = 0; i < n_threads; i++) {
                        snprintf(numbers[i], sizeof(numbers[i]), "%d", i);
                        if (pthread_create(&threads[i], NULL, run_thread, numbers[i]) != 0)
                                return 1;
                }
                for (int i = 0; i < n_threads; i++)
                        pthread_join(threads[i], NULL);
                printf("\n%ld KiB\n", resident_kib());
        }
        php_module_shutdown();
        sapi_shutdown();
        tsrm_shutdown();
        return 0;
}
