/* The tiers of this machine, a region that moves, a heap, a probe and a tree. */

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

static void show_tiers(nearfar_handle system) {
    size_t count = 0;
    check(nearfar_tier_count(system, &count));
    for (size_t index = 0; index < count; index++) {
        nearfar_tier_info tier;
        check(nearfar_tier(system, index, &tier));
        printf("%s: %" PRIu64 " bytes%s\n", tier.name, tier.capacity_bytes,
               tier.is_modelled ? ", modelled" : "");
    }
}

static void use_region(nearfar_handle system) {
    nearfar_handle region = 0;
    check(nearfar_region_allocate(system, 4 << 20, "near", NEARFAR_PAGE_SIZE_BASE, &region));
    void *data = NULL, *moved = NULL;
    size_t bytes = 0;
    check(nearfar_region_data(region, &data, &bytes));
    memset(data, 7, bytes);
    check(nearfar_region_migrate(system, region, "far"));
    nearfar_placed placed;
    check(nearfar_region_verify(region, &placed));
    printf("the region is far, %s\n", placed == NEARFAR_PLACED_VERIFIED ? "verified" : "as it was mapped");
    uint64_t near_bytes = 1;
    check(nearfar_region_tier_bytes(region, 0, &near_bytes));
    assert(near_bytes == 0);
    check(nearfar_region_data(region, &moved, &bytes));
    assert(moved == data && ((char *)moved)[bytes - 1] == 7);
    check(nearfar_region_free(region));
    assert(nearfar_region_free(region) == NEARFAR_STATUS_BAD_HANDLE);
}

static void use_heap(nearfar_handle system) {
    nearfar_handle heap = 0;
    void *block = NULL;
    check(nearfar_heap_create(system, "far", NULL, &heap));
    check(nearfar_heap_allocate(heap, 1000, 64, &block));
    memset(block, 1, 1000);
    check(nearfar_heap_deallocate(heap, block, 1000, 64));
    assert(nearfar_heap_deallocate(heap, NULL, 1000, 64) == NEARFAR_STATUS_NULL_POINTER);
    check(nearfar_heap_free(heap));
}

static bool add(uint64_t key, uint64_t value, void *sum) {
    *(uint64_t *)sum += value;
    return key < 19;
}

static void use_tree(nearfar_handle system) {
    nearfar_budget tiers[] = {{"near", 64 << 20}, {"far", 64 << 20}};
    nearfar_handle tree = 0;
    check(nearfar_tree_create(system, tiers, 2, &tree));
    for (uint64_t key = 0; key < 100000; key++) {
        check(nearfar_tree_insert(tree, key, key * 2));
    }
    uint64_t sum = 0, value = 0;
    check(nearfar_tree_scan(tree, 10, add, &sum));
    assert(sum == 290);
    check(nearfar_tree_get(tree, 77, &value));
    assert(value == 154);
    assert(nearfar_tree_get(tree, 100000, &value) == NEARFAR_STATUS_NOT_FOUND);
    uint64_t keys[] = {1, 200000, 3}, values[3];
    bool are_found[3];
    check(nearfar_tree_get_batch(tree, keys, 3, values, are_found));
    assert(are_found[0] && !are_found[1] && values[2] == 6);
    check(nearfar_tree_free(tree));
}

int main(void) {
    printf("nearfar %s\n", nearfar_version());
    nearfar_handle system = 0;
    /* The far memory of a published machine, modelled, so that this runs everywhere. */
    check(nearfar_system_open("cxl-blades-4", NULL, 0, &system));
    show_tiers(system);
    use_region(system);
    use_heap(system);
    use_tree(system);
    nearfar_probe_figures figures;
    check(nearfar_probe(system, "near", 1, 16 << 20, &figures));
    printf("near: %.0f ns over %zu bytes, %s\n", figures.idle_latency_ns, figures.region_bytes,
           figures.is_modelled ? "modelled" : "measured");
    check(nearfar_system_close(system));
    return 0;
}
