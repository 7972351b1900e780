#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/ctl/top/screen.h"

static volatile sig_atomic_t interrupted;
static SCREEN *screen;

static void on_screen_interrupt(int number) {
        (void) number;
        interrupted = 1;
}

/* A terminal that prints line by line cannot draw over its screen. */
static bool can_place(void) {
        const char *text = tigetstr((char *) "cup");

        return text && text != (const char *) -1;
}

bool top_screen_begin(void) {
        /*
         * Not SIGHUP: there is no screen to restore. Where programs are built with LeakSanitizer, the SIGCONT that
         * the kernel sends with it can stop the search for leaks at the exit for ever.
         */
        static const int numbers[] = { SIGINT, SIGTERM };
        const struct sigaction action = { .sa_handler = on_screen_interrupt };

        (void) setlocale(LC_CTYPE, "");
        screen = newterm(NULL, stdout, stdin);
        if (!screen)
                return false;
        if (!can_place()) {
                top_screen_end();
                return false;
        }

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
                (void) sigaction(numbers[i], &action, NULL);
        (void) cbreak();
        (void) noecho();
        (void) curs_set(0);
        (void) keypad(stdscr, TRUE);
        return true;
}

void top_screen_end(void) {
        (void) endwin();
        delscreen(screen);
        screen = NULL;
}

void top_screen_size(unsigned *ret_columns, unsigned *ret_rows) {
        *ret_columns = (unsigned) getmaxx(stdscr);
        *ret_rows = (unsigned) getmaxy(stdscr);
}

static attr_t style_attribute(Style style) {
        switch (style) {
        case STYLE_HEADER:
                return A_REVERSE;
        case STYLE_GOOD:
        case STYLE_WARN:
                return A_BOLD;
        case STYLE_BAD:
                return A_BOLD | A_REVERSE;
        default:
                return A_NORMAL;
        }
}

void top_screen_draw(const TopLines *lines) {
        (void) erase();
        for (size_t i = 0; i < lines->n_lines && (int) i < getmaxy(stdscr); ++i) {
                (void) attrset(style_attribute(lines->styles[i]));
                (void) mvaddnstr((int) i, 0, lines->lines[i], -1);
        }
        (void) attrset(A_NORMAL);
        (void) refresh();
}

int top_screen_key(uint64_t usec) {
        int key;

        timeout((int) (usec / 1000));
        key = getch();
        if (interrupted)
                return TOP_KEY_END;
        if (key == KEY_RESIZE)
                return TOP_KEY_RESIZE;
        if (key == ERR) {
                struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

                /* if the terminal is gone and SIGHUP ignored, getch() returns at once for ever */
                return poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR | POLLNVAL))
                               ? TOP_KEY_END
                               : TOP_KEY_NONE;
        }
        return key;
}
