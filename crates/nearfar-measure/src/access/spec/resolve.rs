//! From text to what is meant.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use nearfar_memory::{PlacementSpec, SpecError as PlacementError};

use super::document::{Document, Section, TaskSection};
use super::error::{Mistake, Origin, SpecError};
use super::fields::{self, Field, default_of};
use crate::access::cpus::CpuList;
use crate::access::kernels::{Operation, Pattern};
use crate::access::units;

/// Smallest and largest access.
const ACCESS_BYTES: RangeInclusive<u64> = 8..=8192;

/// Smallest and largest batch.
const BATCH_BYTES: RangeInclusive<u64> = 8192..=1 << 40;

/// Most repetitions of a run, and of a step in its chain.
const REPETITIONS_MAX: u64 = 10_000;

/// Most threads of a task.
const THREADS_MAX: u64 = 4096;

/// Least rate that a task can be held to.
const LIMIT_MIN_BYTES_PER_S: f64 = 1e3;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// After this time.
    Time(Duration),
    /// When each task that is not in the background has accessed so many bytes.
    Volume(u64),
}

/// How large a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 7 GiB as in weisgut-2025, section 4.2, but at most a quarter of each tier it lies on.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// Where the threads of a task run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// Each on a processor of its own, in the order of the tasks.
    Auto,
    /// Wherever the kernel puts them.
    None,
    /// Each on one of these.
    Cpus(CpuList),
}

/// A region as it is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionSpec {
    /// Its name.
    pub name: String,
    /// How large it is.
    pub size: Size,
    /// Whether its pages are huge ones.
    pub huge_pages: bool,
    /// Where they lie.
    pub placement: PlacementSpec,
    /// The placement as it was written.
    pub placement_text: String,
}

/// One operation of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSpec {
    /// What it does.
    pub operation: Operation,
    /// Where the next access is.
    pub pattern: Pattern,
    /// Bytes of an access.
    pub access_bytes: usize,
    /// Indices of the regions it accesses; of a copy, those it writes.
    pub regions: Vec<usize>,
    /// Index of the region that a copy reads.
    pub source: Option<usize>,
    /// How often it is made before the next operation.
    pub count: usize,
    /// Whether each access waits for all that the thread has read before it.
    pub depends: bool,
}

/// A task as it is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// Its threads.
    pub threads: usize,
    /// Where they run.
    pub pin: Pin,
    /// What it does: one operation, or a chain of them.
    pub steps: Vec<StepSpec>,
    /// The share of accesses that are stores, of a mix.
    pub writes_share: Option<f64>,
    /// Bytes per second that it does not exceed.
    pub limit_bytes_per_s: Option<f64>,
    /// Of how many accesses one is timed.
    pub sample_every: Option<u64>,
    /// Whether it runs until the others are done.
    pub background: bool,
    /// Whether every access is waited for before the next one.
    pub fence: bool,
    /// Reads of a chase between two looks at the clock.
    pub hops: usize,
}

impl TaskSpec {
    /// Whether it is a chain of several operations.
    pub fn is_chain(&self) -> bool {
        self.steps.len() > 1
    }
}

/// One point of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// The specification's name.
    pub name: String,
    /// The fields of the matrix and their values at this point.
    pub parameters: Vec<(String, String)>,
    /// How often it is run.
    pub repetitions: u32,
    /// When a run ends.
    pub length: Length,
    /// Bytes that a thread takes from the queue at a time.
    pub batch_bytes: u64,
    /// What decides the order of random accesses.
    pub seed: u64,
    /// Whether the processor prefetches by itself, as it is set up to; else that is switched off.
    pub prefetchers: bool,
    /// Its regions; at least one.
    pub regions: Vec<RegionSpec>,
    /// Its tasks; at least one.
    pub tasks: Vec<TaskSpec>,
    /// Where its fields were written.
    origins: BTreeMap<String, Origin>,
    source_name: Option<String>,
}

impl RunSpec {
    /// An error about the field at `path`.
    pub(crate) fn error(&self, path: &str, mistake: impl Into<Mistake>) -> SpecError {
        let origin = self.origins.get(path).unwrap_or(&Origin::Default);
        SpecError {
            source_name: self.source_name.clone(),
            ..SpecError::new(origin, path, mistake)
        }
    }
}

/// Reads the fields of one section.
struct Fields<'a> {
    prefix: String,
    section: &'a Section,
    fields: &'static [Field],
}

impl Fields<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn text(&self, name: &'static str) -> &str {
        match self.section.get(name) {
            Some(setting) => setting.text.as_str(),
            None => default_of(self.fields, name),
        }
    }

    fn error(&self, name: &'static str, message: String) -> SpecError {
        let origin = self
            .section
            .get(name)
            .map_or(&Origin::Default, |setting| &setting.origin);
        SpecError::new(origin, self.path(name), message)
    }

    fn parse<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, SpecError> {
        parse(self.text(name)).map_err(|message| self.error(name, message))
    }

    /// `None` where nothing is written.
    fn parse_some<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SpecError> {
        match self.text(name) {
            "" => Ok(None),
            _ => self.parse(name, parse).map(Some),
        }
    }
}

/// A whole number in `range`.
fn integer(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| match text.replace('_', "").parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "{text:?}: write a whole number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

fn access(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text)?;
    if ACCESS_BYTES.contains(&bytes) && bytes.is_power_of_two() {
        Ok(bytes as usize)
    } else {
        Err(format!(
            "no instruction accesses {bytes} bytes: write a power of two from {} to {}",
            ACCESS_BYTES.start(),
            ACCESS_BYTES.end()
        ))
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("{text:?}: write true or false"))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("{other:?}: write on or off")),
    }
}

fn pin(text: &str) -> Result<Pin, String> {
    match text {
        "auto" => Ok(Pin::Auto),
        "none" => Ok(Pin::None),
        list => list.parse().map(Pin::Cpus),
    }
}

/// What a document without matrix means.
pub(super) fn resolve(
    document: &Document,
    parameters: Vec<(String, String)>,
) -> Result<RunSpec, SpecError> {
    let run = Fields {
        prefix: String::new(),
        section: &document.run,
        fields: &fields::RUN,
    };
    let regions = document
        .regions
        .iter()
        .map(|(name, section)| region(name, section));
    let regions: Vec<RegionSpec> = regions.collect::<Result<_, _>>()?;
    let tasks = document.tasks.iter().map(|section| task(section, &regions));
    let tasks = tasks.collect::<Result<_, _>>()?;
    let volume = run.parse_some("volume", units::bytes)?;
    if volume.is_some() && document.run.contains_key("time") {
        let message = "a run has a time or a volume, not both: remove one".to_owned();
        return Err(run.error("volume", message));
    }
    let time = run.parse("time", units::duration)?;
    if time.is_zero() || volume == Some(0) {
        let name = if time.is_zero() { "time" } else { "volume" };
        return Err(run.error(name, "a run takes more than nothing".to_owned()));
    }
    let batch_bytes = run.parse("batch", units::bytes)?;
    if !BATCH_BYTES.contains(&batch_bytes) {
        let message = format!("a batch of {batch_bytes} bytes: write 8KiB to 1TiB");
        return Err(run.error("batch", message));
    }
    let resolved = RunSpec {
        name: run.text("name").to_owned(),
        parameters,
        repetitions: run.parse("repetitions", integer(1..=REPETITIONS_MAX))? as u32,
        length: volume.map_or(Length::Time(time), Length::Volume),
        batch_bytes,
        seed: run.parse("seed", integer(0..=u64::MAX))?,
        prefetchers: run.parse("prefetchers", on_or_off)?,
        regions,
        tasks,
        origins: origins(document),
        source_name: document.source_name.clone(),
    };
    check_tasks(&resolved)?;
    Ok(resolved)
}

/// A run by volume needs somebody to finish.
fn check_tasks(run: &RunSpec) -> Result<(), SpecError> {
    match run.tasks.iter().all(|task| task.background) {
        true => {
            let path = format!("task.{}.background", run.tasks[0].name);
            Err(run.error(&path, "one task at least must not be in the background"))
        }
        false => Ok(()),
    }
}

fn region(name: &str, section: &Section) -> Result<RegionSpec, SpecError> {
    let fields = Fields {
        prefix: format!("region.{name}."),
        section,
        fields: &fields::REGION,
    };
    let size = fields.parse("size", |text| match text {
        "auto" => Ok(Size::Auto),
        text => match units::bytes(text)? {
            bytes if bytes >= 8192 => Ok(Size::Bytes(bytes)),
            bytes => Err(format!("a region of {bytes} bytes: write at least 8KiB")),
        },
    })?;
    let huge_pages = fields.parse("pages", |text| match text {
        "huge" => Ok(true),
        "base" => Ok(false),
        _ => Err(format!("{text:?} are no pages; there are: huge, base")),
    })?;
    Ok(RegionSpec {
        name: name.to_owned(),
        size,
        huge_pages,
        placement: fields.parse("placement", |text| {
            text.parse()
                .map_err(|error: PlacementError| error.to_string())
        })?,
        placement_text: fields.text("placement").to_owned(),
    })
}

fn task(section: &TaskSection, regions: &[RegionSpec]) -> Result<TaskSpec, SpecError> {
    let fields = Fields {
        prefix: format!("task.{}.", section.name),
        section: &section.settings,
        fields: &fields::TASK,
    };
    let own = step(&fields, regions, 1)?;
    let mut steps = Vec::new();
    for (index, settings) in section.steps.iter().enumerate() {
        let fields = Fields {
            prefix: format!("task.{}.steps.{index}.", section.name),
            section: settings,
            fields: &fields::STEP,
        };
        let count = fields.parse("count", integer(1..=REPETITIONS_MAX))?;
        let mut step = step(&fields, regions, count as usize)?;
        step.depends = fields.parse("depends", boolean)?;
        if !settings.contains_key("region") {
            step.regions = own.regions[..1].to_vec();
        }
        if step.operation == Operation::Chase {
            let message = "a chase follows its own chain: make it a task of its own".to_owned();
            return Err(fields.error("operation", message));
        }
        if step.operation.copies() {
            let message = "a copy is no operation of a chain: make it a task of its own".to_owned();
            return Err(fields.error("operation", message));
        }
        steps.push(step);
    }
    if steps.is_empty() {
        steps.push(own);
    }
    let writes_share = fields.parse_some("writes", units::share)?;
    if writes_share.is_some() && (steps.len() > 1 || steps[0].operation != Operation::Read) {
        let message = "a mix with stores needs operation = \"read\" and no steps".to_owned();
        return Err(fields.error("writes", message));
    }
    let sample_every = fields.parse("sample", integer(0..=u64::MAX))?;
    if sample_every > 0 && writes_share.is_some() {
        let message = "accesses are timed of one operation or of a chain, not of a mix";
        return Err(fields.error("sample", message.to_owned()));
    }
    let fence = fields.parse("fence", boolean)?;
    if steps[0].operation.copies() && (fence || sample_every > 0) {
        let field = if fence { "fence" } else { "sample" };
        let message = "single accesses are waited for of one region, not of copies";
        return Err(fields.error(field, message.to_owned()));
    }
    Ok(TaskSpec {
        name: section.name.clone(),
        threads: fields.parse("threads", integer(1..=THREADS_MAX))? as usize,
        pin: fields.parse("pin", pin)?,
        steps,
        writes_share,
        limit_bytes_per_s: fields.parse_some("limit", |text| match units::rate(text)? {
            rate if rate >= LIMIT_MIN_BYTES_PER_S => Ok(rate),
            rate => Err(format!("{rate} bytes per second: write at least 1KB/s")),
        })?,
        sample_every: (sample_every > 0).then_some(sample_every),
        background: fields.parse("background", boolean)?,
        fence,
        hops: fields.parse("hops", integer(1..=1 << 30))? as usize,
    })
}

fn step(fields: &Fields<'_>, regions: &[RegionSpec], count: usize) -> Result<StepSpec, SpecError> {
    let operation: Operation = fields.parse("operation", str::parse)?;
    let is_written = fields.section.contains_key("access");
    let access_bytes = match operation {
        Operation::Chase if !is_written => 8,
        _ => fields.parse("access", access)?,
    };
    if let Some(reason) = operation.impossible(access_bytes) {
        let field = if is_written { "access" } else { "operation" };
        return Err(fields.error(
            field,
            format!("{operation} of {access_bytes} bytes: {reason}"),
        ));
    }
    let index = |name: &str| {
        let found = regions.iter().position(|region| region.name == name.trim());
        found.ok_or_else(|| {
            let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
            format!(
                "there is no region {name:?}; there are: {}",
                names.join(", ")
            )
        })
    };
    let named: Option<Vec<usize>> =
        fields.parse_some("region", |text| text.split(',').map(index).collect())?;
    let source = fields.parse_some("source", index)?;
    let all = (0..regions.len()).filter(|region| source != Some(*region));
    let regions = named.unwrap_or_else(|| all.collect());
    check_source(fields, operation, source, &regions)?;
    Ok(StepSpec {
        operation,
        pattern: fields.parse("pattern", str::parse)?,
        access_bytes,
        regions,
        source,
        count,
        depends: false,
    })
}

/// A copy reads one region and writes others; nothing else has a source.
fn check_source(
    fields: &Fields<'_>,
    operation: Operation,
    source: Option<usize>,
    regions: &[usize],
) -> Result<(), SpecError> {
    let wrong = |field, message: &str| Err(fields.error(field, message.to_owned()));
    match source {
        None if operation.copies() => wrong("source", "a copy reads a region: name it"),
        Some(_) if !operation.copies() => wrong("source", "only a copy has a source: remove it"),
        Some(source) if regions.contains(&source) => wrong(
            "source",
            "a copy writes to other regions than the one it reads: name another one",
        ),
        Some(_) if regions.is_empty() => wrong(
            "region",
            "a copy writes to another region than the one it reads: there is none",
        ),
        _ => Ok(()),
    }
}

fn origins(document: &Document) -> BTreeMap<String, Origin> {
    let mut origins = BTreeMap::new();
    let mut put = |prefix: &str, section: &Section| {
        for (name, setting) in section {
            origins.insert(format!("{prefix}{name}"), setting.origin.clone());
        }
    };
    put("", &document.run);
    for (name, section) in &document.regions {
        put(&format!("region.{name}."), section);
    }
    for task in &document.tasks {
        put(&format!("task.{}.", task.name), &task.settings);
        for (index, step) in task.steps.iter().enumerate() {
            put(&format!("task.{}.steps.{index}.", task.name), step);
        }
    }
    origins
}
