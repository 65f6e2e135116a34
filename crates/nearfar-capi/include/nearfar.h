#ifndef NEARFAR_H
#define NEARFAR_H

/* Made of crates/nearfar-capi by cbindgen: NEARFAR_BLESS=1 cargo test -p nearfar-capi */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of a tier's name with its zero byte.
#define NEARFAR_NAME_BYTES 64

// What became of a call.
typedef enum nearfar_status {
  // It was done.
  NEARFAR_STATUS_OK = 0,
  // A pointer is null that must not be.
  NEARFAR_STATUS_NULL_POINTER = 1,
  // A handle that there is not: freed before, of another kind, or 0.
  NEARFAR_STATUS_BAD_HANDLE = 2,
  // An argument that makes no sense; a text that is not UTF-8.
  NEARFAR_STATUS_ARGUMENT = 3,
  // A tier, profile or placement that there is not.
  NEARFAR_STATUS_NAME = 4,
  // Memory was refused: a budget, a full node.
  NEARFAR_STATUS_MEMORY = 5,
  // Pages are not where they should be.
  NEARFAR_STATUS_MISPLACED = 6,
  // Something that this machine has not.
  NEARFAR_STATUS_UNAVAILABLE = 7,
  // A key that is not there.
  NEARFAR_STATUS_NOT_FOUND = 8,
  // A bug: a panic, which was stopped here.
  NEARFAR_STATUS_PANICKED = 9,
} nearfar_status;

// What is known of where pages are.
typedef enum nearfar_placed {
  // The kernel was asked of every page.
  NEARFAR_PLACED_VERIFIED = 0,
  // Those on DAX devices lie there by what is mapped; the others are verified.
  NEARFAR_PLACED_BY_MAPPING = 1,
  // The kernel could not be asked: the message says why.
  NEARFAR_PLACED_UNVERIFIED = 2,
} nearfar_placed;

// The pages of a region.
typedef enum nearfar_page_size {
  // 4 KiB.
  NEARFAR_PAGE_SIZE_BASE = 0,
  // 2 MiB, as far as there are some.
  NEARFAR_PAGE_SIZE_HUGE = 1,
} nearfar_page_size;

// An object. 0 is none.
typedef uint64_t nearfar_handle;

// How a heap is to be.
typedef struct nearfar_heap_options {
  // Address space to reserve, which bounds it; 0 for what the tier has.
  size_t reserve_bytes;
  // Whether blocks come from the process's ordinary memory when the tier has no room; they are refused
  // otherwise.
  bool spills;
  // Ask for transparent huge pages.
  bool huge_pages;
} nearfar_heap_options;

// What was found of a tier: medians of the runs.
typedef struct nearfar_probe_figures {
  // Time of one dependent random read.
  double idle_latency_ns;
  // Bytes read by all threads together.
  double read_bandwidth_bytes_per_s;
  // Bytes written by all threads together.
  double write_bandwidth_bytes_per_s;
  // Memory that was probed.
  size_t region_bytes;
  // Threads of the bandwidths.
  uint32_t threads;
  // Whether a model stands for the memory: such figures are modelled, and the others measured.
  bool is_modelled;
} nearfar_probe_figures;

// The most bytes that a tier may hold.
typedef struct nearfar_budget {
  // The tier.
  const char *tier;
  // Its bytes.
  uint64_t bytes;
} nearfar_budget;

// A tier.
typedef struct nearfar_tier_info {
  // Its name, which ends with a zero byte.
  char name[NEARFAR_NAME_BYTES];
  // The most bytes that can ever be placed there.
  uint64_t capacity_bytes;
  // The most bytes that regions and heaps together may take.
  uint64_t budget_bytes;
  // What they have taken.
  uint64_t used_bytes;
  // Whether memory can be taken from it.
  bool is_allocatable;
  // Whether a profile's machine stands for its memory.
  bool is_modelled;
} nearfar_tier_info;

// Is called with each key and value of a scan, and with what the caller gave; the scan ends where it gives
// false. It must not end by an exception or `longjmp`.
typedef bool (*nearfar_tree_visitor)(uint64_t key, uint64_t value, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of the last failure of this thread; empty where there was none. It is valid until the next
// failure of this thread.
const char *nearfar_last_error(void);

// The name of a status, such as `bad handle`.
const char *nearfar_status_name(uint32_t status);

// The version of the library.
const char *nearfar_version(void);

// A heap on a tier. `options` may be null.
//
// # Safety
// `tier` ends with a zero byte, `options` is null or points to options, and `heap` points to a handle.
enum nearfar_status nearfar_heap_create(nearfar_handle system,
                                        const char *tier,
                                        const struct nearfar_heap_options *options,
                                        nearfar_handle *heap);

// Takes a block of `bytes` bytes whose address is a multiple of `alignment`, a power of two. Of no bytes it is
// a pointer that must not be followed.
//
// # Safety
// `block` points to a pointer.
enum nearfar_status nearfar_heap_allocate(nearfar_handle heap,
                                          size_t bytes,
                                          size_t alignment,
                                          void **block);

// Gives a block back, with the size and alignment that it was taken with. Null is refused, and so is a
// pointer that lies outside of a heap that does not spill.
//
// # Safety
// The block was taken from this heap with this size and alignment, and not given back yet.
enum nearfar_status nearfar_heap_deallocate(nearfar_handle heap,
                                            void *block,
                                            size_t bytes,
                                            size_t alignment);

// Gives freed memory back to the tier.
enum nearfar_status nearfar_heap_trim(nearfar_handle heap);

// Ends a heap with all of its blocks.
enum nearfar_status nearfar_heap_free(nearfar_handle heap);

// Probes a tier with so many threads over so many bytes; 0 for as many as the machine suggests.
//
// # Safety
// `tier` ends with a zero byte, and `figures` points to figures.
enum nearfar_status nearfar_probe(nearfar_handle system,
                                  const char *tier,
                                  uint32_t threads,
                                  size_t region_bytes,
                                  struct nearfar_probe_figures *figures);

// Takes `bytes` bytes, all zero, with a placement such as `near`, `far` or `interleave:2:1`. Every page is
// populated, and the kernel is asked where it is.
//
// # Safety
// `placement` ends with a zero byte, and `region` points to a handle.
enum nearfar_status nearfar_region_allocate(nearfar_handle system,
                                            size_t bytes,
                                            const char *placement,
                                            uint32_t page_size,
                                            nearfar_handle *region);

// Its memory, which is the caller's until the region is freed, and stays where it is when it moves.
//
// # Safety
// `data` and `bytes` point to a pointer and a number.
enum nearfar_status nearfar_region_data(nearfar_handle region, void **data, size_t *bytes);

// Asks the kernel again where every page is. `placed`, which may be null, says what is known; where it is
// `Unverified`, the last error of the thread says why, and the status is ok.
//
// # Safety
// `placed` is null or points to a `Placed`.
enum nearfar_status nearfar_region_verify(nearfar_handle region,
                                          enum nearfar_placed *placed);

// Moves it to another placement, while others read and write it.
//
// # Safety
// `placement` ends with a zero byte.
enum nearfar_status nearfar_region_migrate(nearfar_handle system,
                                           nearfar_handle region,
                                           const char *placement);

// How many of its bytes are on the tier of this place, the nearest first.
//
// # Safety
// `bytes` points to a number.
enum nearfar_status nearfar_region_tier_bytes(nearfar_handle region,
                                              size_t tier_index,
                                              uint64_t *bytes);

// Gives its memory back.
enum nearfar_status nearfar_region_free(nearfar_handle region);

// Opens the memory of this machine. With `profile`, which may be null, the far memory of that machine is
// added, modelled. `budgets` may be null if there are none.
//
// # Safety
// Texts end with a zero byte, and `budgets` points to `budget_count` budgets.
enum nearfar_status nearfar_system_open(const char *profile,
                                        const struct nearfar_budget *budgets,
                                        size_t budget_count,
                                        nearfar_handle *system);

// Closes it. Regions, heaps and trees of it stay until they are freed.
enum nearfar_status nearfar_system_close(nearfar_handle system);

// How many tiers there are.
//
// # Safety
// `count` points to a number.
enum nearfar_status nearfar_tier_count(nearfar_handle system, size_t *count);

// A tier by its place, the nearest first.
//
// # Safety
// `tier` points to a tier.
enum nearfar_status nearfar_tier(nearfar_handle system,
                                 size_t index,
                                 struct nearfar_tier_info *tier);

// An empty map from 64-bit keys to 64-bit values, a B+tree. `tiers` says on which tiers its nodes lie, near to
// far, with the bytes that they may take of each; upper nodes are near as far as they fit. Where there are
// none, it may be null, `system` may be 0, and the nodes lie in the process's ordinary memory.
//
// # Safety
// `tiers` points to `tier_count` tiers whose names end with a zero byte, and `tree` to a handle.
enum nearfar_status nearfar_tree_create(nearfar_handle system,
                                        const struct nearfar_budget *tiers,
                                        size_t tier_count,
                                        nearfar_handle *tree);

// Sets the value of a key.
enum nearfar_status nearfar_tree_insert(nearfar_handle tree, uint64_t key, uint64_t value);

// Sets the values of many keys. Where there is no memory for all, the first ones are set.
//
// # Safety
// `keys` and `values` point to `count` numbers each.
enum nearfar_status nearfar_tree_insert_batch(nearfar_handle tree,
                                              const uint64_t *keys,
                                              const uint64_t *values,
                                              size_t count);

// The value of a key; `NotFound` where there is none.
//
// # Safety
// `value` points to a number.
enum nearfar_status nearfar_tree_get(nearfar_handle tree, uint64_t key, uint64_t *value);

// Looks many keys up together: their values, 0 where there is none, and whether there is one.
//
// # Safety
// `keys`, `values` and `are_found` point to `count` elements each.
enum nearfar_status nearfar_tree_get_batch(nearfar_handle tree,
                                           const uint64_t *keys,
                                           size_t count,
                                           uint64_t *values,
                                           bool *are_found);

// Removes a key; `NotFound` where it is not there.
enum nearfar_status nearfar_tree_remove(nearfar_handle tree, uint64_t key);

// How many keys there are.
//
// # Safety
// `length` points to a number.
enum nearfar_status nearfar_tree_length(nearfar_handle tree, size_t *length);

// Visits the keys from `from` on, ascending.
//
// # Safety
// `visit` may be called with `context`, on this thread.
enum nearfar_status nearfar_tree_scan(nearfar_handle tree,
                                      uint64_t from,
                                      nearfar_tree_visitor visit,
                                      void *context);

// Ends a tree.
enum nearfar_status nearfar_tree_free(nearfar_handle tree);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NEARFAR_H */
