#pragma once
/*
 * Runs another process on, one instruction at a time: each instruction of its program, and of libsystemd, which calls
 * the program back. Other libraries run at full speed until they return; they store nothing into an arena but texts.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct StepperText {
        uintptr_t begin, end;
} StepperText;

typedef struct Stepper {
        pid_t pid;
        bool whole; /* other libraries too */
        StepperText program, loop; /* that of libsystemd */
        uintptr_t at; /* the next instruction */
        uintptr_t return_at; /* where another library returns to; 0: none is running */
        long return_code; /* that is there */
        bool in_call; /* a system call between two stops; a call of another library */
        bool idle; /* it waits in such a call for the next event */
        unsigned n_instructions;
} Stepper;

/* The process was started with LD_BIND_NOW=1. */
void stepper_attach(Stepper *stepper, pid_t pid, bool whole);
void stepper_step(Stepper *stepper);
/* In its own program: elsewhere it has changed no arena since the last step. */
bool stepper_is_in_program(const Stepper *stepper);
/* About to wait for the next event. */
bool stepper_is_idle(const Stepper *stepper);
void stepper_detach(Stepper *stepper);
