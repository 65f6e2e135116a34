#ifndef NEARFAR_H
#define NEARFAR_H

/* Made of crates/nearfar-capi by cbindgen: NEARFAR_BLESS=1 cargo test -p nearfar-capi */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of a figure's unit with its zero byte.
#define NEARFAR_UNIT_BYTES 16

// The most bytes of one access that a program reports.
#define NEARFAR_ACCESS_BYTES_MAX (1 << 20)

// The most lines of one critical section.
#define NEARFAR_SECTION_LINES_MAX 1024

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
  // The caller has ended it.
  NEARFAR_STATUS_STOPPED = 10,
} nearfar_status;

// Where a figure comes from. Those of different kinds are never to be mixed.
typedef enum nearfar_figure_kind {
  // Of this machine.
  NEARFAR_FIGURE_KIND_MEASURED = 0,
  // Of a model.
  NEARFAR_FIGURE_KIND_MODELLED = 1,
  // Of a publication.
  NEARFAR_FIGURE_KIND_PUBLISHED = 2,
  // Computed of others.
  NEARFAR_FIGURE_KIND_ESTIMATED = 3,
} nearfar_figure_kind;

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

// A field of a specification and its value. Several values of one field make a run of each.
typedef struct nearfar_setting {
  // The field, such as `access`, for all sections that have it, or a path such as `task.copy.threads`.
  const char *field;
  // Its value, as it is written in a specification.
  const char *value;
} nearfar_setting;

// Is called before each repetition of a run with the number of runs that are done, the number of all and about
// how many seconds are left, and with what the caller gave. The measurement ends where it gives false.
typedef bool (*nearfar_measure_progress)(size_t done, size_t runs, double left_s, void *context);

// What is measured. All zero, it is one sequential read of near memory.
typedef struct nearfar_measure_options {
  // A specification in TOML (docs/measure.md); null for that of the preset.
  const char *specification;
  // Whether the specification is YAML.
  bool is_yaml;
  // A specification that is built in; may be null, and has to be where there is another specification.
  const char *preset;
  // Fields to replace; may be null if there are none.
  const struct nearfar_setting *settings;
  // How many they are.
  size_t setting_count;
  // A machine, by the name of its profile or a file with one: its far memory is modelled. May be null.
  const char *profile;
  // Whether all of it runs in the model of that machine, in virtual time: no memory is read.
  bool is_virtual;
  // Of a repetition in virtual time, the lines that are followed; 0 for as many as figures need.
  uint64_t lines_max;
  // What is told of the progress; may be null.
  nearfar_measure_progress progress;
  // What it is called with.
  void *context;
} nearfar_measure_options;

// A figure.
typedef struct nearfar_figure {
  // What it is of, such as `bandwidth_bytes_per_s`. It ends with a zero byte.
  char metric[NEARFAR_NAME_BYTES];
  // Its unit. It ends with a zero byte.
  char unit[NEARFAR_UNIT_BYTES];
  // The median of the repetitions; not a number where it could not be had.
  double value;
  // The smallest of the repetitions; not a number where there are none.
  double min;
  // The largest.
  double max;
  // How many repetitions there are; 0 for a figure that has none.
  uint32_t repetitions;
  // Where it comes from.
  enum nearfar_figure_kind kind;
  // Whether it could be had; the text of `reason` says why not.
  bool is_available;
  // Whether anything disturbed the run.
  bool is_noisy;
} nearfar_figure;

// A machine in virtual time.
typedef struct nearfar_model_info {
  // Its cores.
  uint32_t cores;
  // The most threads of a run; those beyond the cores share them.
  uint32_t threads_max;
  // Devices of near memory.
  uint32_t near_devices;
  // Devices of far memory.
  uint32_t far_devices;
  // Devices of the other socket's memory; 0 where the profile has none.
  uint32_t remote_devices;
  // Bytes of the last-level cache.
  uint64_t last_level_cache_bytes;
} nearfar_model_info;

// A range of addresses, and where its pages lie in the model. Nothing is read or written there: it need not be
// memory.
typedef struct nearfar_model_buffer {
  // Its first byte.
  const void *address;
  // How many bytes it has.
  size_t bytes;
  // `near`, `far` or `remote`.
  const char *tier;
  // On how many of the tier's devices its pages lie in turn; 0 for all.
  uint32_t devices;
} nearfar_model_buffer;

// What a thread of the machine does: it tells each of its accesses, by `nearfar_model_read` and those beside
// it. It gets its number, from 0 on, and what the caller gave. Programs are called on threads of the library, one
// at a time and in the order of virtual time: one that waits for another, but by accesses that it tells, waits
// forever. It must not end by an exception or `longjmp`.
typedef void (*nearfar_model_program)(uint32_t thread, void *context);

// What a tier moved, prefetches and write-backs included.
typedef struct nearfar_model_traffic {
  // Lines of 64 bytes that were read.
  uint64_t lines_read;
  // Lines that were written.
  uint64_t lines_written;
} nearfar_model_traffic;

// What a run gave. All of it is modelled.
typedef struct nearfar_model_outcome {
  // Virtual time.
  double elapsed_ns;
  // Bytes that programs loaded.
  uint64_t load_bytes;
  // Bytes that programs stored.
  uint64_t store_bytes;
  // Lines that programs touched.
  uint64_t lines;
  // What near memory moved.
  struct nearfar_model_traffic near;
  // What far memory moved.
  struct nearfar_model_traffic far;
  // What the other socket's memory moved.
  struct nearfar_model_traffic remote;
  // Requests that had an entry of the table that all cores share.
  uint64_t table_requests;
  // How long they had it, one after the other.
  double table_occupancy_ns;
} nearfar_model_outcome;

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

// Measures this machine's memory, or the model of another, and waits for the end. `options` may be null.
// The memory is that of the specification's regions, on all of what tiers have, whatever a system's budgets
// say.
//
// # Safety
// Texts end with a zero byte, `settings` points to `setting_count` settings, and `figures` to a handle.
enum nearfar_status nearfar_measure(const struct nearfar_measure_options *options,
                                    nearfar_handle *figures);

// Copies figures from `first` on, as many as there are and `capacity` has room for. `count` becomes the number
// of all; `to` may be null if there is no room.
//
// # Safety
// `to` points to `capacity` figures, and `count` to a number.
enum nearfar_status nearfar_figures_get(nearfar_handle figures,
                                        size_t first,
                                        struct nearfar_figure *to,
                                        size_t capacity,
                                        size_t *count);

// Copies what a figure belongs to: the text of a dimension such as `task`, `placement`, `tier` or `percentile`,
// or of `reason`, why there is no value. `bytes` of `to` have room for it with its zero byte; it is cut where
// that is not enough. `length`, which may be null, becomes the length of all of it without that byte.
//
// # Safety
// `dimension` ends with a zero byte, `to` points to `bytes` bytes, and `length` to a number.
enum nearfar_status nearfar_figure_text(nearfar_handle figures,
                                        size_t index,
                                        const char *dimension,
                                        char *to,
                                        size_t bytes,
                                        size_t *length);

// Ends a set of figures.
enum nearfar_status nearfar_figures_free(nearfar_handle figures);

// How many profiles are built in.
//
// # Safety
// `count` points to a number.
enum nearfar_status nearfar_profile_count(size_t *count);

// The name of a profile by its place, cut where `bytes` of `name` have no room for it with its zero byte.
//
// # Safety
// `name` points to `bytes` bytes.
enum nearfar_status nearfar_profile_name(size_t index,
                                         char *name,
                                         size_t bytes);

// Opens the machine of a profile that is built in, or in a file.
//
// # Safety
// `profile` ends with a zero byte, and `model` points to a handle.
enum nearfar_status nearfar_model_open(const char *profile, nearfar_handle *model);

// What the machine has.
//
// # Safety
// `info` points to an info.
enum nearfar_status nearfar_model_describe(nearfar_handle model, struct nearfar_model_info *info);

// Closes it. Runs go on to their end.
enum nearfar_status nearfar_model_close(nearfar_handle model);

// Runs programs, one for each of `threads` threads, over caches that are empty at the start, and waits for the
// end. Accesses outside of the buffers, which may be null if there are none, are of near memory. The same
// programs over the same buffers give the same outcome on every machine, if the buffers begin at the same
// places of their pages.
//
// # Safety
// `buffers` points to `buffer_count` buffers whose tiers end with a zero byte, `program` may be called on any
// thread with `context`, and `outcome` points to an outcome.
enum nearfar_status nearfar_model_run(nearfar_handle model,
                                      const struct nearfar_model_buffer *buffers,
                                      size_t buffer_count,
                                      nearfar_model_program program,
                                      void *context,
                                      uint32_t threads,
                                      struct nearfar_model_outcome *outcome);

// Tells a read of `bytes` at `address`. This and what follows is for programs of `nearfar_model_run`, and
// refused elsewhere. Nothing is read.
enum nearfar_status nearfar_model_read(const void *address,
                                       size_t bytes);

// Tells a write, which fetches its lines first.
enum nearfar_status nearfar_model_write(const void *address, size_t bytes);

// Tells a write past the caches, which fetches nothing.
enum nearfar_status nearfar_model_write_non_temporal(const void *address, size_t bytes);

// Tells a prefetch, for which nobody waits.
enum nearfar_status nearfar_model_prefetch(const void *address, size_t bytes);

// Tells that the next access needs the results of the reads before it, as a chain of pointers does.
enum nearfar_status nearfar_model_depends(void);

// Tells how long the core computes before the next access, in picoseconds.
enum nearfar_status nearfar_model_compute(uint32_t picoseconds);

// Tells a critical section under the lock at `address`, which touches `lines` lines, that of the lock included.
// The core time that was told since the last access is spent within it.
enum nearfar_status nearfar_model_critical_section(const void *address,
                                                   size_t lines);

// Tells that the lock word at `address` is taken, for which programs that take it too wait in virtual time until it
// is given back.
enum nearfar_status nearfar_model_lock(const void *address);

// Tells that the lock word at `address` is given back, and whether something has `changed` that others may have read
// without the lock.
enum nearfar_status nearfar_model_unlock(const void *address,
                                         bool changed);

// Tells that what was read since the lock word at `address` was read is used, as optimistic readers do: it is read
// again, in virtual time, if somebody has changed something since.
enum nearfar_status nearfar_model_validate(const void *address);

// Waits until the model has taken all accesses so far. What programs share, such as the next piece of work of a
// pool, they then see in the order of virtual time.
enum nearfar_status nearfar_model_wait(void);

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
