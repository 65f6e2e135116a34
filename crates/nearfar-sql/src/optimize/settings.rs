//! DataFusion's settings for tables in memory.

use datafusion::prelude::SessionConfig;

/// Builds of at most so many bytes are collected once and probed by all threads, which spares
/// moving the rows of the probing side between threads.
const COLLECT_BUILD_BYTES: usize = 64 << 20;

/// The same limit in rows, for builds of unknown width.
const COLLECT_BUILD_ROWS: usize = 2 << 20;

/// What a file takes that rows are spilled to on their way between threads: one batch, of whatever size. DataFusion 55.2
/// waits for ever for a batch in its second file while the first one is open (apache/datafusion#24883).
const REPARTITION_FILE_BYTES: usize = 1;

/// Passes of the rules for logical plans, among which those are twice that find more to do then.
const LOGICAL_PASSES: usize = 1;

/// Settings for queries read by `threads` threads.
pub fn settings(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .set_usize(
            "datafusion.execution.max_spill_file_size_bytes",
            REPARTITION_FILE_BYTES,
        );
    // Numbers with a point are exact.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    // Rules may find out that a value is never null, which the operators below do not know.
    config
        .options_mut()
        .execution
        .skip_physical_aggregate_schema_check = true;
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.max_passes = LOGICAL_PASSES;
    optimizer.hash_join_single_partition_threshold = COLLECT_BUILD_BYTES;
    optimizer.hash_join_single_partition_threshold_rows = COLLECT_BUILD_ROWS;
    config
}
