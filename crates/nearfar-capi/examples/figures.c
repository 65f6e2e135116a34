/* Figures: of a pair of tiers, of this machine's memory, and of code that runs on another machine in virtual time. */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearfar.h"

static void check(nearfar_status status) {
    if (status != NEARFAR_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", nearfar_status_name(status), nearfar_last_error());
        exit(1);
    }
}

static const char *const kinds[] = {"measured", "modelled", "published", "estimated"};

/* Prints what a task reached, run by run. */
static void show(nearfar_handle figures, const char *metric) {
    size_t count = 0;
    check(nearfar_figures_get(figures, 0, NULL, 0, &count));
    nearfar_figure *all = calloc(count, sizeof *all);
    assert(all != NULL);
    check(nearfar_figures_get(figures, 0, all, count, &count));
    for (size_t index = 0; index < count; index++) {
        if (strcmp(all[index].metric, metric) != 0) {
            continue;
        }
        assert(all[index].is_available);
        char run[128];
        check(nearfar_figure_text(figures, index, "run", run, sizeof run, NULL));
        printf("%s: %s %.4g %s, %s\n", run, metric, all[index].value, all[index].unit, kinds[all[index].kind]);
    }
    free(all);
}

static bool tell_progress(size_t done, size_t runs, double left_s, void *context) {
    (void)left_s;
    *(size_t *)context = done + 1;
    return done < runs;
}

/* Copies between near and far memory of a published machine. */
static void measure_a_pair(void) {
    static const char specification[] =
        "name = 'copies'\n"
        "repetitions = 1\n"
        "[region.from]\n"
        "size = '64MiB'\n"
        "[region.to]\n"
        "size = '64MiB'\n"
        "[task.copy]\n"
        "operation = 'copy-nt'\n"
        "access = 4096\n"
        "source = 'from'\n"
        "region = 'to'\n";
    const nearfar_setting settings[] = {
        {"region.from.placement", "near"},
        {"region.from.placement", "far"},
        {"region.to.placement", "near"},
        {"region.to.placement", "far"},
    };
    size_t begun = 0;
    const nearfar_measure_options options = {
        .specification = specification,
        .settings = settings,
        .setting_count = sizeof settings / sizeof *settings,
        .profile = "cxl-blades-4",
        .is_virtual = true,
        .lines_max = 4000,
        .progress = tell_progress,
        .context = &begun,
    };
    nearfar_handle figures = 0;
    check(nearfar_measure(&options, &figures));
    assert(begun == 4);
    show(figures, "bandwidth_bytes_per_s");
    check(nearfar_figures_free(figures));
}

/* Dependent reads of this machine's own memory. */
static void measure_this_machine(void) {
    const nearfar_setting settings[] = {
        {"operation", "chase"}, {"size", "8MiB"}, {"pages", "base"},
        {"time", "10ms"},       {"pin", "none"},  {"repetitions", "1"},
    };
    const nearfar_measure_options options = {
        .settings = settings,
        .setting_count = sizeof settings / sizeof *settings,
    };
    nearfar_handle figures = 0;
    check(nearfar_measure(&options, &figures));
    show(figures, "latency_ns");
    check(nearfar_figures_free(figures));
}

typedef struct node {
    const struct node *next;
    char rest[56];
} node;

/* Follows a list, and tells the model of each read. */
static void follow(uint32_t thread, void *context) {
    (void)thread;
    for (const node *at = context; at != NULL; at = at->next) {
        check(nearfar_model_depends());
        check(nearfar_model_read(&at->next, sizeof at->next));
    }
}

static double follow_on(nearfar_handle model, const char *tier, const node *nodes, size_t count) {
    const nearfar_model_buffer buffer = {nodes, count * sizeof *nodes, tier, 0};
    nearfar_model_outcome outcome;
    check(nearfar_model_run(model, &buffer, 1, follow, (void *)nodes, 1, &outcome));
    assert(outcome.load_bytes == count * sizeof nodes->next);
    printf("%s: %.0f ns per node, %" PRIu64 " lines of far memory read, modelled\n", tier,
           outcome.elapsed_ns / (double)count, outcome.far.lines_read);
    return outcome.elapsed_ns;
}

/* A list whose order no prefetcher follows. */
static void run_a_program(void) {
    enum { COUNT = 10007, STEP = 4999 };
    node *nodes = aligned_alloc(4096, (COUNT * sizeof *nodes + 4095) / 4096 * 4096);
    assert(nodes != NULL);
    for (size_t index = 0, at = 0; index < COUNT; index++) {
        const size_t next = (at + STEP) % COUNT;
        nodes[at].next = index + 1 < COUNT ? &nodes[next] : NULL;
        at = next;
    }
    nearfar_handle model = 0;
    check(nearfar_model_open("cxl-blades-4", &model));
    const double near_ns = follow_on(model, "near", nodes, COUNT);
    assert(follow_on(model, "far", nodes, COUNT) > 1.5 * near_ns);
    assert(nearfar_model_read(nodes, 8) == NEARFAR_STATUS_BAD_HANDLE);
    check(nearfar_model_close(model));
    free(nodes);
}

int main(void) {
    measure_a_pair();
    measure_this_machine();
    run_a_program();
    return 0;
}
