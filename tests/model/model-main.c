/*
 * Runs the cases of one header, MODEL_CASE: built once for each. With names as arguments, those only. A case that is
 * `weak` is run once as it is, and once more under a weak memory, as NAME-weak, where no store waits besides. By that
 * name any case is, as far as it can be searched; $TSLAB_TEST_PREEMPTIONS is a bound for that.
 *
 * For orders.py: with $TSLAB_TEST_SITES, only weak cases are run, and the accesses that they reach are printed; one of
 * these is weakened by $TSLAB_TEST_WEAKEN.
 */
#include MODEL_CASE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Leaving out steps that commute must not lose an end. */
static bool compare(const ModelCase *c, const ModelResult *reduced) {
        ModelResult r = model_run(c, MODEL_STATES);

        if (r.n_ends == reduced->n_ends && r.ends == reduced->ends)
                return true;
        printf("%s: %lu ends, and %lu where nothing is left out\n", c->name, (unsigned long) reduced->n_ends,
               (unsigned long) r.n_ends);
        return false;
}

static void print(const ModelCase *c, const ModelResult *r, clock_t ticks) {
        printf("%s/%s: ", MODEL_NAME, c->name);
        if (r->n_schedules > 0)
                printf("%.6g schedules, ", r->n_schedules);
        printf("%lu states, %lu ends, %lu of them with a death (at most %u)", (unsigned long) r->n_states,
               (unsigned long) r->n_ends, (unsigned long) r->n_ends_dead, c->deaths);
        if (r->bound > 0)
                printf(", bounded by %u preemptions", r->bound);
        if (c->variants)
                printf(", %u variants", model_variant);
        printf(", %ld ms\n", (long) (ticks / (CLOCKS_PER_SEC / 1000)));
        fflush(stdout);
}

static void add(ModelResult *sum, const ModelResult *r) {
        sum->n_schedules += r->n_schedules;
        sum->n_states += r->n_states;
        sum->n_ends += r->n_ends;
        sum->n_ends_dead += r->n_ends_dead;
        sum->bound = r->bound;
}

/* All variants. False: two ways to search them found different ends. */
static bool run(const ModelCase *c, bool both, ModelResult *ret) {
        ModelResult r;

        *ret = (ModelResult){};
        model_variant = 0;
        do {
                r = model_run(c, MODEL_REDUCED);
                add(ret, &r);
                if (both && !compare(c, &r))
                        return false;
                model_variant++;
        } while (c->variants && !model_was_last_variant());
        return true;
}

/* Under a weak memory the reductions are checked by the litmus tests: without them these cases take too long. */
static bool run_and_print(const ModelCase *c, bool full) {
        clock_t began = clock();
        ModelResult r;

        if (!run(c, full && !c->actors[2] && !c->weak, &r))
                return false;
        print(c, &r, clock() - began);
        if (getenv("TSLAB_TEST_SITES"))
                model_sites_print(c->name);
        return true;
}

static bool is_asked_for(const ModelCase *c, bool full, int argc, char **argv) {
        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], c->name) == 0)
                        return true;
        return argc == 1 && (full || !c->full_only);
}

int main(int argc, char **argv) {
        bool full = getenv("TSLAB_TEST_FULL") != NULL;
        bool sites = getenv("TSLAB_TEST_SITES") != NULL;
        const char *weaken = getenv("TSLAB_TEST_WEAKEN"), *bound = getenv("TSLAB_TEST_PREEMPTIONS");

        if (weaken && !model_sites_weaken(weaken)) {
                printf("no access is at %s\n", weaken);
                return 2;
        }
        for (size_t i = 0; i < sizeof(model_cases) / sizeof(model_cases[0]); i++) {
                ModelCase c = model_cases[i], weak = c;
                char name[64];

                c.weak = false;
                if (!sites && is_asked_for(&c, full, argc, argv) && !run_and_print(&c, full))
                        return EXIT_FAILURE;
                snprintf(name, sizeof(name), "%s-weak", c.name);
                weak.name = name;
                weak.late = 0;
                weak.weak |= argc > 1 || (full && c.weak_full);
                if (c.weak_preemptions)
                        weak.preemptions = weak.full_preemptions = c.weak_preemptions;
                if (bound)
                        weak.preemptions = weak.full_preemptions = (unsigned) atoi(bound);
                if (weak.weak && is_asked_for(&weak, full, argc, argv) && !run_and_print(&weak, full))
                        return EXIT_FAILURE;
        }
        if (sites)
                model_sites_print(NULL);
        return EXIT_SUCCESS;
}
