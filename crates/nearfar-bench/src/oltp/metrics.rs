//! The rounds as lines of the results schema; all are measured.
//!
//! | metric | unit | what |
//! |---|---|---|
//! | `oltp_WORKLOAD_per_s` | 1/s | transactions per second, none of which failed |
//! | `oltp_WORKLOAD_postgres_per_s` | 1/s | PostgreSQL's in the same rounds |
//! | `oltp_WORKLOAD_ratio_postgres` | ratio | the first over the second, round by round: above 1, Nearfar is faster |
//! | `oltp_WORKLOAD_ceiling_per_s` | 1/s | those of a server that only answers, in the same rounds: about what any can reach with this client |
//! | `oltp_in_process_reads_per_s` | 1/s | queries of a row by its key through the library, on one thread |
//! | `oltp_in_process_inserts_per_s` | 1/s | new rows through the library, each a transaction, on one thread |
//!
//! Workloads are `select1`, `select`, `insert`, `update` and `tpcb`. Figures over the wire have
//! `clients` and `threads`; values are medians over the rounds. Those of PostgreSQL and of
//! the ceiling are there with these alone.

use nearfar_measure::results::Metric;
use nearfar_measure::{Kind, Summary};
use serde_json::{Value, json};

use super::in_process::InProcess;
use super::run::{OltpOutcome, OltpRounds};

impl OltpOutcome {
    /// What was run, for the header of results.
    pub fn configuration(&self) -> Value {
        let options = &self.options;
        json!({
            "rounds": options.rounds,
            "turn_seconds": options.turn.as_secs_f64(),
            "scale": options.scale,
            "threads": options.threads,
            "clients": options.clients,
            "durable": options.durable,
        })
    }

    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let of = |rounds| figures(rounds).map(|m| m.with("threads", self.options.threads));
        let over_the_wire = self.rounds.iter().flat_map(of);
        over_the_wire.chain(in_process(&self.in_process)).collect()
    }
}

fn in_process(rates: &InProcess) -> impl Iterator<Item = Metric> {
    let figures = [
        ("oltp_in_process_reads_per_s", &rates.reads_per_s),
        ("oltp_in_process_inserts_per_s", &rates.inserts_per_s),
    ];
    figures.into_iter().filter_map(|(name, per_s)| {
        let values = Summary::of(per_s.iter().copied())?;
        Some(Metric::of_runs(name, &values, "1/s", Kind::Measured))
    })
}

fn figures(rounds: &OltpRounds) -> impl Iterator<Item = Metric> {
    let pairs = rounds.per_s.iter().zip(&rounds.postgres_per_s);
    let figures = [
        ("per_s", "1/s", Summary::of(rounds.per_s.iter().copied())),
        (
            "postgres_per_s",
            "1/s",
            Summary::of(rounds.postgres_per_s.iter().copied()),
        ),
        (
            "ratio_postgres",
            "ratio",
            Summary::of(pairs.map(|(own, postgres)| own / postgres)),
        ),
        (
            "ceiling_per_s",
            "1/s",
            Summary::of(rounds.ceiling_per_s.iter().copied()),
        ),
    ];
    figures.into_iter().filter_map(|(what, unit, values)| {
        let name = format!("oltp_{}_{what}", rounds.workload.name());
        let metric = Metric::of_runs(&name, &values?, unit, Kind::Measured);
        Some(metric.with("clients", rounds.clients))
    })
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    fn names(postgres_per_s: Vec<f64>) -> Vec<(String, Option<f64>)> {
        let rounds = OltpRounds {
            workload: Workload::Insert,
            clients: 16,
            per_s: vec![10.0, 30.0, 20.0],
            postgres_per_s,
            ceiling_per_s: Vec::new(),
        };
        let figures = figures(&rounds).map(|metric| {
            assert_eq!(metric.dimensions["clients"], 16);
            (metric.metric, metric.value.get())
        });
        figures.collect()
    }

    #[test]
    fn rates_of_this_process_are_medians_over_the_rounds() {
        let rates = InProcess {
            reads_per_s: vec![3.0, 1.0, 2.0],
            inserts_per_s: Vec::new(),
        };
        let metrics: Vec<Metric> = in_process(&rates).collect();
        assert_eq!(metrics.len(), 1);
        assert_eq!(metrics[0].metric, "oltp_in_process_reads_per_s");
        assert_eq!(metrics[0].value.get(), Some(2.0));
    }

    #[test]
    fn ratios_are_of_the_same_round_and_of_a_rival_that_was_there() {
        let own = ("oltp_insert_per_s".to_owned(), Some(20.0));
        assert_eq!(names(Vec::new()), std::slice::from_ref(&own));
        let ratio = ("oltp_insert_ratio_postgres".to_owned(), Some(2.0));
        let postgres = ("oltp_insert_postgres_per_s".to_owned(), Some(10.0));
        assert_eq!(names(vec![5.0, 10.0, 20.0]), [own, postgres, ratio]);
    }
}
