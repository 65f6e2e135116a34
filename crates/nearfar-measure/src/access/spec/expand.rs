//! From a matrix to its points.

use super::document::{Axis, Document, Setting, TaskSection};
use super::error::SpecError;
use super::resolve::{RunSpec, resolve};

/// Most points of a matrix.
pub const RUNS_MAX: usize = 10_000;

/// What words such as `auto` stand for on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Processors that the process may use.
    pub cpus: usize,
    /// Processors that `threads = "rest"` divides up.
    pub rest_cpus: usize,
    /// Names of the tiers that memory can be taken from, near to far.
    pub tiers: Vec<String>,
}

impl Document {
    /// One specification per point of the matrix, the last line varying fastest.
    ///
    /// # Errors
    /// [`SpecError`] for the first field that means nothing, or a matrix of more than
    /// [`RUNS_MAX`] points.
    pub fn expand(&self, context: &Context) -> Result<Vec<RunSpec>, SpecError> {
        let named = |error: SpecError| SpecError {
            source_name: self.source_name.clone(),
            ..error
        };
        self.expand_unnamed(context).map_err(named)
    }

    fn expand_unnamed(&self, context: &Context) -> Result<Vec<RunSpec>, SpecError> {
        let mut base = self.clone();
        base.add_defaults();
        let axes: Vec<Axis> = self
            .matrix
            .iter()
            .map(|axis| meant(axis, context))
            .collect();
        let mut points: usize = 1;
        for axis in &axes {
            if axis.values.is_empty() {
                let message = "a line of the matrix needs a value";
                return Err(SpecError::new(
                    &axis.origin,
                    format!("matrix.{}", axis.path),
                    message,
                ));
            }
            points = points.saturating_mul(axis.values.len());
            if points > RUNS_MAX {
                let all = axes
                    .iter()
                    .map(|axis| axis.values.len() as f64)
                    .product::<f64>();
                let message = format!(
                    "a matrix of {all} points: at most {RUNS_MAX} are run; leave values out or \
                     split it into several files"
                );
                return Err(SpecError::new(
                    &axis.origin,
                    format!("matrix.{}", axis.path),
                    message,
                ));
            }
        }
        (0..points)
            .map(|point| at(&base, &axes, point, context))
            .collect()
    }
}

/// The specification at one point.
fn at(
    base: &Document,
    axes: &[Axis],
    point: usize,
    context: &Context,
) -> Result<RunSpec, SpecError> {
    let mut document = base.clone();
    let mut parameters = Vec::new();
    let mut rest = point;
    for axis in axes.iter().rev() {
        let value = &axis.values[rest % axis.values.len()];
        rest /= axis.values.len();
        document.set(&axis.path, value)?;
        parameters.push((axis.path.clone(), value.text.clone()));
    }
    parameters.reverse();
    give_rest(&mut document, context.rest_cpus);
    resolve(&document, parameters)
}

/// Replaces `threads = "rest"` by the number of processors that the other tasks leave, at least one.
fn give_rest(document: &mut Document, cpus: usize) {
    let threads = |task: &TaskSection| match task.settings.get("threads") {
        Some(setting) => setting.text.parse().unwrap_or(0),
        None => 1_usize,
    };
    let taken: usize = document.tasks.iter().map(threads).sum();
    for task in &mut document.tasks {
        if let Some(setting) = task
            .settings
            .get_mut("threads")
            .filter(|one| one.text == "rest")
        {
            setting.text = cpus.saturating_sub(taken).max(1).to_string();
        }
    }
}

/// The axis with its words replaced: `threads = "auto"` by 1, 4, 8 and so on up to the number of
/// processors, which is always there (weisgut-2025, section 4.2), and `placement = "tiers"` by all
/// tiers.
fn meant(axis: &Axis, context: &Context) -> Axis {
    let field = axis.path.rsplit('.').next().unwrap_or_default();
    let words: Vec<String> = match (field, &axis.values[..]) {
        ("threads", [value]) if value.text == "auto" => {
            let steps = [1].into_iter().chain((4..context.cpus).step_by(4));
            let mut threads: Vec<usize> = steps.chain([context.cpus]).collect();
            threads.dedup();
            threads.iter().map(ToString::to_string).collect()
        }
        ("placement", [value]) if value.text == "tiers" => context.tiers.clone(),
        _ => return axis.clone(),
    };
    let origin = &axis.values[0].origin;
    let setting = |text| Setting {
        text,
        origin: origin.clone(),
    };
    Axis {
        values: words.into_iter().map(setting).collect(),
        ..axis.clone()
    }
}
