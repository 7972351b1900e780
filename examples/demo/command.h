#pragma once
/* Other programs of the build. */
#include <stddef.h>
#include <sys/types.h>

/*
 * In a child: restores its signals and executes `path` or, where there is no such file, the program of
 * that name in $PATH. Does not return.
 */
_Noreturn void command_exec(const char *path, char *const argv[]);

/* Runs a program and keeps the beginning of its stdout, ended by 0: its exit code, or a negative errno. */
int command_run(const char *path, char *const argv[], char *ret_output, size_t size);

/* The exit code, or 128 and the signal, of a child that ends. */
int command_wait(pid_t pid);
