//! A number that the victim tells of itself.

use std::time::Duration;

use nearfar_measure::interference::{Application, ApplicationError, ApplicationMetric};
use nearfar_regulate::observe::{Metric, in_background, of_file};

use crate::args::VictimMetricArgs;
use crate::exit::{Exit, Failed};

/// All that there is.
const NUMBER: &str = r"^\s*([0-9.eE+-]+)\s*$";
/// A command that takes longer tells nothing of now.
const WITHIN: Duration = Duration::from_secs(2);

/// The observer of the number that was named.
pub fn of(args: &VictimMetricArgs) -> anyhow::Result<Metric<'static>> {
    let pattern = args.metric_pattern.as_deref().unwrap_or(NUMBER);
    let parse = ApplicationMetric::pattern(pattern, args.lower_is_better)?;
    let readings = match (&args.metric_file, &args.metric_command) {
        (Some(file), _) => of_file(file.clone(), move |text| parse.number(text)),
        (None, Some(command)) => {
            let application = Application {
                command: command.clone(),
                metric: parse,
                places_itself: false,
            };
            in_background(move || application.measure_within(WITHIN).map_err(told))
        }
        (None, None) => {
            let message = "which number of the victim? Give --metric-file or --metric-command";
            return Err(Failed::new(Exit::Usage, message).into());
        }
    };
    let mut metric = Metric::new(readings).lower_is_better(args.lower_is_better);
    if let Some(number) = args.metric_alone {
        metric = metric.alone(number)?;
    }
    if let Some(window) = args.metric_window {
        metric = metric.window(window);
    }
    Ok(metric)
}

/// An error with what it comes from.
fn told(error: ApplicationError) -> String {
    format!("{:#}", anyhow::Error::from(error))
}
