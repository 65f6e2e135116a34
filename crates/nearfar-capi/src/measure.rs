//! Access benchmarks, in memory or in virtual time.

use std::ffi::{c_char, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::access::{
    Document, ExecuteError, Flag, Observer, Outcome, Plan, PlanError, PlannedRun, Preset, execute,
};
use nearfar_measure::results::Metric;
use nearfar_topology::{Profile, Topology};

use crate::failure::{Failure, Status, array, guarded, optional_text, result, results, text};
use crate::handles::{Handle, Handles};
use crate::system::{NAME_BYTES, models};
use crate::texts;

/// Bytes of a figure's unit with its zero byte.
pub const UNIT_BYTES: usize = 16;

static FIGURES: Handles<Vec<Metric>> = Handles::new("set of figures");

/// A field of a specification and its value. Several values of one field make a run of each.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The field, such as `access`, for all sections that have it, or a path such as `task.copy.threads`.
    pub field: *const c_char,
    /// Its value, as it is written in a specification.
    pub value: *const c_char,
}

/// Is called before each repetition of a run with the number of runs that are done, the number of all and about
/// how many seconds are left, and with what the caller gave. The measurement ends where it gives false.
pub type MeasureProgress = Option<
    unsafe extern "C" fn(done: usize, runs: usize, left_s: f64, context: *mut c_void) -> bool,
>;

/// What is measured. All zero, it is one sequential read of near memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MeasureOptions {
    /// A specification in TOML (docs/measure.md); null for that of the preset.
    pub specification: *const c_char,
    /// Whether the specification is YAML.
    pub is_yaml: bool,
    /// A specification that is built in; may be null, and has to be where there is another specification.
    pub preset: *const c_char,
    /// Fields to replace; may be null if there are none.
    pub settings: *const Setting,
    /// How many they are.
    pub setting_count: usize,
    /// A machine, by the name of its profile or a file with one: its far memory is modelled. May be null.
    pub profile: *const c_char,
    /// Whether all of it runs in the model of that machine, in virtual time: no memory is read.
    pub is_virtual: bool,
    /// Of a repetition in virtual time, the lines that are followed; 0 for as many as figures need.
    pub lines_max: u64,
    /// What is told of the progress; may be null.
    pub progress: MeasureProgress,
    /// What it is called with.
    pub context: *mut c_void,
}

/// Where a figure comes from. Those of different kinds are never to be mixed.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// Of this machine.
    Measured = 0,
    /// Of a model.
    Modelled = 1,
    /// Of a publication.
    Published = 2,
    /// Computed of others.
    Estimated = 3,
}

/// A figure.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// What it is of, such as `bandwidth_bytes_per_s`. It ends with a zero byte.
    pub metric: [c_char; NAME_BYTES],
    /// Its unit. It ends with a zero byte.
    pub unit: [c_char; UNIT_BYTES],
    /// The median of the repetitions; not a number where it could not be had.
    pub value: f64,
    /// The smallest of the repetitions; not a number where there are none.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many repetitions there are; 0 for a figure that has none.
    pub repetitions: u32,
    /// Where it comes from.
    pub kind: FigureKind,
    /// Whether it could be had; the text of `reason` says why not.
    pub is_available: bool,
    /// Whether anything disturbed the run.
    pub is_noisy: bool,
}

impl Figure {
    fn of(metric: &Metric) -> Self {
        let value = metric.value.get();
        let spread = metric.spread.as_ref();
        let noisy = metric.dimensions.get("noisy");
        Self {
            metric: texts::array(&metric.metric),
            unit: texts::array(&metric.unit),
            value: value.unwrap_or(f64::NAN),
            min: spread.map_or(f64::NAN, |spread| spread.min),
            max: spread.map_or(f64::NAN, |spread| spread.max),
            repetitions: spread.map_or(0, |spread| spread.runs),
            kind: match metric.kind {
                Kind::Measured => FigureKind::Measured,
                Kind::Modelled => FigureKind::Modelled,
                Kind::Published => FigureKind::Published,
                Kind::Estimated => FigureKind::Estimated,
            },
            is_available: value.is_some(),
            is_noisy: noisy.and_then(|noisy| noisy.as_bool()).unwrap_or(false),
        }
    }
}

/// Measures this machine's memory, or the model of another, and waits for the end. `options` may be null.
/// The memory is that of the specification's regions, on all of what tiers have, whatever a system's budgets
/// say.
///
/// # Safety
/// Texts end with a zero byte, `settings` points to `setting_count` settings, and `figures` to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_measure(
    options: *const MeasureOptions,
    figures: *mut Handle,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (figures, options) = unsafe { (result(figures, "figures")?, options.as_ref()) };
        let plan = match options {
            // SAFETY: the caller says so.
            Some(options) => unsafe { plan_of(options) }?,
            None => in_memory(&Document::default(), None)?,
        };
        let stop = AtomicBool::new(false);
        let mut taken = Taken {
            metrics: Vec::new(),
            runs: plan.runs.len(),
            progress: options.and_then(|options| Some((options.progress?, options.context))),
            stop: &stop,
        };
        execute(&plan, &stop, &mut taken).map_err(|error| {
            let status = match &error {
                ExecuteError::Region { .. } => Status::Memory,
                ExecuteError::Stopped { .. } => Status::Stopped,
                ExecuteError::Machine(_) => Status::Argument,
                _ => Status::Unavailable,
            };
            Failure::new(status, with_sources(&error))
        })?;
        *figures = FIGURES.add(taken.metrics);
        Ok(())
    })
}

/// An error's text with those of what it stands on.
fn with_sources(error: &dyn std::error::Error) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = errors.map(ToString::to_string).collect();
    texts.join(": ")
}

/// # Safety
/// Pointers of the options are as [`nearfar_measure`] says.
unsafe fn plan_of(options: &MeasureOptions) -> Result<Plan, Failure> {
    // SAFETY: the caller says so.
    let (document, profile) = unsafe {
        (
            document(options)?,
            optional_text(options.profile, "profile")?,
        )
    };
    let profile = profile.map(Profile::resolve).transpose();
    let profile = profile.map_err(Failure::of(Status::Name))?;
    match (&profile, options.is_virtual) {
        (Some(profile), true) => {
            let lines = (options.lines_max > 0).then_some(options.lines_max);
            Plan::simulated(&document, profile, lines).map_err(|error| refused(&error))
        }
        (None, true) => Err(Failure::new(
            Status::Argument,
            "virtual time is that of a profile: name one",
        )),
        (profile, false) => in_memory(&document, profile.as_ref()),
    }
}

fn in_memory(document: &Document, profile: Option<&Profile>) -> Result<Plan, Failure> {
    let mut topology = Topology::this_machine().map_err(Failure::of(Status::Unavailable))?;
    let mut modelled = Vec::new();
    if let Some(profile) = profile {
        topology = topology.with_profile(profile);
        modelled = models(&topology, profile)?;
    }
    Plan::new(document, &topology, modelled).map_err(|error| refused(&error))
}

fn refused(error: &PlanError) -> Failure {
    let status = match error {
        error if error.is_missing_tier() => Status::Name,
        PlanError::Machine(_) | PlanError::Cpus(_) => Status::Unavailable,
        _ => Status::Argument,
    };
    Failure::new(status, with_sources(error))
}

/// # Safety
/// Pointers of the options are as [`nearfar_measure`] says.
unsafe fn document(options: &MeasureOptions) -> Result<Document, Failure> {
    // SAFETY: the caller says so.
    let (specification, preset, settings) = unsafe {
        (
            optional_text(options.specification, "specification")?,
            optional_text(options.preset, "preset")?,
            array(options.settings, options.setting_count, "settings")?,
        )
    };
    let wrong = Failure::of(Status::Argument);
    let mut document = match (specification, preset) {
        (Some(_), Some(_)) => return Err(wrong("give a specification or a preset, and not both")),
        (Some(text), None) => {
            let name = match options.is_yaml {
                true => "specification.yaml",
                false => "specification.toml",
            };
            Document::parse(name, text).map_err(Failure::of(Status::Argument))?
        }
        (None, Some(name)) => {
            let preset = Preset::named(name).ok_or_else(|| {
                let names = Preset::ALL.map(|preset| preset.name).join(", ");
                let message = format!("there is no preset {name:?}; there are: {names}");
                Failure::new(Status::Name, message)
            })?;
            let parsed = Document::parse(&format!("preset {name}"), preset.text);
            parsed.map_err(Failure::of(Status::Argument))?
        }
        (None, None) => Document::default(),
    };
    // SAFETY: the caller says so.
    let flags = unsafe { flags(settings) }?;
    document
        .apply(&flags)
        .map_err(Failure::of(Status::Argument))?;
    Ok(document)
}

/// Settings by field, in the order in which fields are named first.
///
/// # Safety
/// Their texts end with a zero byte.
unsafe fn flags(settings: &[Setting]) -> Result<Vec<Flag>, Failure> {
    let mut flags: Vec<Flag> = Vec::new();
    for setting in settings {
        // SAFETY: the caller says so.
        let (field, value) = unsafe {
            (
                text(setting.field, "a setting's field")?,
                text(setting.value, "a setting's value")?,
            )
        };
        match flags.iter_mut().find(|flag| flag.path == field) {
            Some(flag) => flag.values.push(value.to_owned()),
            None => flags.push(Flag {
                flag: field.to_owned(),
                path: field.to_owned(),
                values: vec![value.to_owned()],
            }),
        }
    }
    Ok(flags)
}

/// What was taken, and whom to tell.
struct Taken<'a> {
    metrics: Vec<Metric>,
    runs: usize,
    progress: Option<(
        unsafe extern "C" fn(usize, usize, f64, *mut c_void) -> bool,
        *mut c_void,
    )>,
    stop: &'a AtomicBool,
}

impl Observer for Taken<'_> {
    fn begins(&mut self, _run: &PlannedRun, index: usize, _repetition: u32, left: Duration) {
        if let Some((progress, context)) = self.progress {
            // SAFETY: the caller gave a function that may be called with this context; the measurement calls it
            // on the caller's thread, while the caller waits.
            let goes_on = unsafe { progress(index, self.runs, left.as_secs_f64(), context) };
            if !goes_on {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn done(&mut self, run: &PlannedRun, outcome: &Outcome) -> io::Result<()> {
        self.metrics.extend(outcome.metrics(run));
        Ok(())
    }
}

/// Copies figures from `first` on, as many as there are and `capacity` has room for. `count` becomes the number
/// of all; `to` may be null if there is no room.
///
/// # Safety
/// `to` points to `capacity` figures, and `count` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_figures_get(
    figures: Handle,
    first: usize,
    to: *mut Figure,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (to, count) = unsafe { (results(to, capacity, "to")?, result(count, "count")?) };
        let figures = FIGURES.get(figures)?;
        *count = figures.len();
        let of = figures.iter().skip(first).map(Figure::of);
        of.zip(to).for_each(|(figure, to)| *to = figure);
        Ok(())
    })
}

/// Copies what a figure belongs to: the text of a dimension such as `task`, `placement`, `tier` or `percentile`,
/// or of `reason`, why there is no value. `bytes` of `to` have room for it with its zero byte; it is cut where
/// that is not enough. `length`, which may be null, becomes the length of all of it without that byte.
///
/// # Safety
/// `dimension` ends with a zero byte, `to` points to `bytes` bytes, and `length` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_figure_text(
    figures: Handle,
    index: usize,
    dimension: *const c_char,
    to: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (name, to, length) = unsafe {
            (
                text(dimension, "dimension")?,
                results(to, bytes, "to")?,
                length.as_mut(),
            )
        };
        let figures = FIGURES.get(figures)?;
        let none = || {
            let message = format!("there is no figure {index} of {}", figures.len());
            Failure::new(Status::NotFound, message)
        };
        let figure = figures.get(index).ok_or_else(none)?;
        let found = match (figure.dimensions.get(name), name) {
            (Some(value), _) => value.as_str().map_or(value.to_string(), str::to_owned),
            (None, "reason") => figure.value.reason().unwrap_or_default().to_owned(),
            (None, name) => {
                let message = format!("{} has no dimension {name:?}", figure.metric);
                return Err(Failure::new(Status::NotFound, message));
            }
        };
        if let Some(length) = length {
            *length = found.len();
        }
        texts::copy(&found, to);
        Ok(())
    })
}

/// Ends a set of figures.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_figures_free(figures: Handle) -> Status {
    guarded(|| FIGURES.remove(figures))
}
