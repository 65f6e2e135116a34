//! The fields of specifications.

/// A setting that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its key in files; its flag is `--` and this.
    pub name: &'static str,
    /// What it says, for help texts.
    pub help: &'static str,
    /// What holds where it is not written.
    pub default: &'static str,
}

const fn field(name: &'static str, default: &'static str, help: &'static str) -> Field {
    Field {
        name,
        help,
        default,
    }
}

/// Settings of the whole run, at the top of a file.
pub const RUN: [Field; 7] = [
    field("name", "access", "a name for the results"),
    field(
        "repetitions",
        "3",
        "how often every point of the matrix is run",
    ),
    field("time", "1s", "how long one run takes"),
    field(
        "volume",
        "",
        "bytes that every task accesses in one run, instead of a time",
    ),
    field(
        "batch",
        "64MiB",
        "bytes that a thread takes from the queue at a time",
    ),
    field("seed", "1", "what decides the order of random accesses"),
    field(
        "prefetchers",
        "on",
        "off: the processor's own prefetchers are switched off while it runs",
    ),
];

/// Settings of a region: `[region.NAME]`.
pub const REGION: [Field; 3] = [
    field(
        "size",
        "auto",
        "bytes, or auto: 7 GiB, but at most a quarter of the tier",
    ),
    field("pages", "huge", "huge or base"),
    field(
        "placement",
        "near",
        "TIER, nodeN, interleave:A,B, interleave:N:F, weighted:A=3,B=1 or split:A=90%,B",
    ),
];

/// Settings of a task: `[task.NAME]`.
pub const TASK: [Field; 13] = [
    field(
        "operation",
        "read",
        "read, write, write-nt, write-movdir64b, write-flush, chase, copy, copy-nt or copy-movdir64b",
    ),
    field("pattern", "sequential", "sequential or random"),
    field(
        "access",
        "64",
        "bytes of one access: a power of two from 8 to 8192",
    ),
    field(
        "threads",
        "1",
        "threads of the task, or rest: as many as processors are left",
    ),
    field(
        "pin",
        "auto",
        "processors of its threads, one each; auto or none",
    ),
    field(
        "region",
        "",
        "regions it accesses, batch by batch in turn [default: all]",
    ),
    field("source", "", "the region that a copy reads"),
    field(
        "writes",
        "",
        "share of the accesses that are stores, for a mix with read",
    ),
    field(
        "limit",
        "",
        "bytes per second that the task does not exceed",
    ),
    field(
        "sample",
        "0",
        "of how many accesses one is timed; 0 for none",
    ),
    field(
        "background",
        "false",
        "whether the task runs until the others are done",
    ),
    field(
        "fence",
        "false",
        "whether every access is waited for before the next one",
    ),
    field(
        "hops",
        "1024",
        "reads between two looks at the clock, for a chase",
    ),
];

/// Settings of one operation of a chain: `[[task.NAME.steps]]`.
pub const STEP: [Field; 6] = [
    field("operation", "read", "as of a task"),
    field("pattern", "random", "as of a task"),
    field("access", "64", "as of a task"),
    field(
        "region",
        "",
        "the region it accesses [default: the task's first]",
    ),
    field(
        "count",
        "1",
        "how often it is made before the next operation",
    ),
    field(
        "depends",
        "false",
        "whether each access waits for what was read before it, as for where it is",
    ),
];

/// The default of a field of one of the tables.
pub(super) fn default_of(fields: &[Field], name: &str) -> &'static str {
    fields
        .iter()
        .find(|field| field.name == name)
        .map_or("", |field| field.default)
}
