//! The steps of a comparison: write the files, load them, check answers, and time queries.

use std::path::Path;

use super::contender::{Contender, Launch, Rival, Who};
use super::error::BenchError;
use super::files::{read_answer, write_table};
use super::outcome::{ComparedMemory, Comparison, ContenderLoads, Ended, Missed, QueryComparison};
use super::protocol::{Loaded, QueryMemory};
use super::run::{BenchEvent, BenchObserver, BenchOptions};
use super::serve::Role;
use crate::tpch::answer::Answers;
use crate::tpch::{Suite, summary};

const NEARFAR: Who = Who::Own(Role::Nearfar);
const MEMTABLE: Who = Who::Own(Role::MemTable);

/// Everything that stays the same throughout a comparison.
pub(super) struct Field<'a> {
    pub options: &'a BenchOptions,
    pub launcher: &'a dyn Launch,
    pub observer: &'a dyn BenchObserver,
    /// Where the files are.
    pub directory: &'a Path,
    /// The queries' numbers and texts.
    pub texts: Vec<(u8, String)>,
}

/// What the steps found.
pub(super) struct Found {
    pub loads: Vec<ContenderLoads>,
    pub comparisons: Vec<Comparison>,
    pub counting: Option<Comparison>,
    pub without: Vec<(String, Comparison)>,
    pub absent: Vec<(Rival, String)>,
}

/// What one contender did alone, query by query.
struct Alone {
    who: Who,
    version: String,
    /// What each query did, or why it did nothing.
    queries: Vec<Result<QueryAlone, String>>,
    ended: Option<Ended>,
}

/// What one contender did with a query.
struct QueryAlone {
    answers: Answers,
    /// Of each run.
    seconds: Vec<f64>,
    memory: QueryMemory,
}

/// One of the two that a query runs on in turn.
#[derive(Clone, Copy)]
enum Side {
    Nearfar,
    Rival,
}

impl Field<'_> {
    /// Generates all tables; returns the bytes of their files.
    pub fn write_files(&self) -> Result<u64, BenchError> {
        let mut bytes = 0;
        for &table in self.options.suite.tables() {
            self.observer.on(&BenchEvent::Writing { table });
            let BenchOptions {
                suite,
                scale_factor,
                threads,
                ..
            } = *self.options;
            bytes += write_table(self.directory, suite, table, scale_factor, threads)?;
        }
        Ok(bytes)
    }

    /// Each query alternates between Nearfar and one rival.
    pub fn compare_in_turn(&self) -> Result<Found, BenchError> {
        let mut loads = self.load_all_but_last()?;
        let mut nearfar = self.load_nearfar(&mut loads[0])?;
        let mut comparisons = Vec::new();
        if let Some(loads) = loads.get_mut(1) {
            let mut memtable = self.load_last(loads)?;
            comparisons.push(self.alternate(&mut nearfar, &mut memtable)?);
        }
        let counting = self.compare_counting(&mut nearfar)?;
        let without = self.compare_without(&mut nearfar)?;
        let absent = self.for_each_rival(|mut rival| {
            comparisons.push(self.alternate(&mut nearfar, &mut rival)?);
            Ok(())
        })?;
        Ok(Found {
            loads,
            comparisons,
            counting,
            without,
            absent,
        })
    }

    /// Every contender runs all queries alone.
    pub fn compare_apart(&self) -> Result<Found, BenchError> {
        let mut loads = self.load_all_but_last()?;
        let mut contender = self.load_nearfar(&mut loads[0])?;
        let nearfar = self.run_alone(&mut contender)?;
        let counting = self.compare_counting(&mut contender)?;
        let without = self.compare_without(&mut contender)?;
        drop(contender);
        let mut comparisons = Vec::new();
        if let Some(loads) = loads.get_mut(1) {
            let memtable = self.run_alone(&mut self.load_last(loads)?)?;
            comparisons.push(self.pair(&nearfar, &memtable)?);
        }
        let absent = self.for_each_rival(|mut rival| {
            comparisons.push(self.pair(&nearfar, &self.run_alone(&mut rival)?)?);
            Ok(())
        })?;
        Ok(Found {
            loads,
            comparisons,
            counting,
            without,
            absent,
        })
    }

    /// Calls `compare` with every rival that can take part; returns the others.
    fn for_each_rival(
        &self,
        mut compare: impl FnMut(Contender) -> Result<(), BenchError>,
    ) -> Result<Vec<(Rival, String)>, BenchError> {
        let mut absent = Vec::new();
        for &rival in &self.options.rivals {
            match self.launch_loaded(Who::Rival(rival), 1) {
                Ok((contender, _)) => compare(contender)?,
                Err(BenchError::Absent { reason, .. }) => {
                    self.observer.on(&BenchEvent::Absent { rival });
                    let reason = format!("{reason}; install it with: {}", rival.remedy());
                    absent.push((rival, reason));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(absent)
    }

    fn launch_loaded(&self, who: Who, run: u32) -> Result<(Contender, Loaded), BenchError> {
        let mut contender = self.launcher.launch(who)?;
        self.observer.on(&BenchEvent::Loading { who, run });
        let loaded = {
            let tables = self.options.suite.tables();
            contender.load(self.directory, tables, self.options.threads)?
        };
        let seconds = loaded.seconds;
        self.observer.on(&BenchEvent::Loaded { who, run, seconds });
        Ok((contender, loaded))
    }

    /// Loads into fresh processes, in turn, which end immediately.
    fn load_all_but_last(&self) -> Result<Vec<ContenderLoads>, BenchError> {
        let own = [NEARFAR].into_iter();
        let own = own.chain(self.options.memtable.then_some(MEMTABLE));
        let mut loads: Vec<ContenderLoads> = own
            .map(|who| ContenderLoads {
                who,
                loads: Vec::new(),
            })
            .collect();
        for run in 1..self.options.load_runs {
            for loads in &mut loads {
                let (_, loaded) = self.launch_loaded(loads.who, run)?;
                loads.loads.push(loaded);
            }
        }
        Ok(loads)
    }

    /// Loads into the process that runs queries.
    fn load_last(&self, loads: &mut ContenderLoads) -> Result<Contender, BenchError> {
        let (contender, loaded) = self.launch_loaded(loads.who, self.options.load_runs)?;
        loads.loads.push(loaded);
        Ok(contender)
    }

    /// The same for Nearfar, with the settings that are wanted.
    fn load_nearfar(&self, loads: &mut ContenderLoads) -> Result<Contender, BenchError> {
        let mut nearfar = self.load_last(loads)?;
        if self.options.plan_anew {
            nearfar.query("SET plan_cache_mode = force_custom_plan")?;
        }
        if let Some(bytes) = self.options.memory_limit_bytes {
            nearfar.query(&format!("SET memory_limit = '{bytes}B'"))?;
        }
        Ok(nearfar)
    }

    fn alternate(
        &self,
        nearfar: &mut Contender,
        rival: &mut Contender,
    ) -> Result<Comparison, BenchError> {
        let mut queries = Vec::with_capacity(self.texts.len());
        let mut missed = Vec::new();
        let mut ended = None;
        for (number, text) in &self.texts {
            let compared = self.alternate_query(nearfar, rival, *number, text);
            match compared.map_err(|error| self.missed(error, rival.who(), *number)) {
                Ok(query) => queries.push(query),
                Err(Ok(query)) => missed.push(query),
                Err(Err(error)) if !queries.is_empty() => {
                    ended = Some(self.ended(error, rival.who(), *number)?);
                    break;
                }
                Err(Err(error)) => return Err(error),
            }
        }
        Ok(Comparison {
            who: rival.who(),
            version: rival.version().to_owned(),
            queries,
            missed,
            ended,
        })
    }

    /// Leaves a query of TPC-DS out for which one side has another answer or none; else the error.
    fn missed(&self, error: BenchError, who: Who, query: u8) -> Result<Missed, BenchError> {
        let is_of_query = matches!(
            error,
            BenchError::Failed { .. } | BenchError::Mismatch { .. }
        );
        if self.options.suite == Suite::TpcH || !is_of_query {
            return Err(error);
        }
        self.observer.on(&BenchEvent::Missed { who, query });
        let reason = error.to_string();
        Ok(Missed { query, reason })
    }

    fn alternate_query(
        &self,
        nearfar: &mut Contender,
        rival: &mut Contender,
        number: u8,
        text: &str,
    ) -> Result<QueryComparison, BenchError> {
        let who = rival.who();
        self.observer
            .on(&BenchEvent::Checking { who, query: number });
        let mine = self.answers(nearfar, number, text)?;
        let theirs = self.answers(rival, number, text)?;
        self.agree(number, who, &mine, &theirs)?;
        let mut query = self.in_turn(number, |side| match side {
            Side::Nearfar => nearfar.query(text),
            Side::Rival => rival.query(text),
        })?;
        query.memory = Some(ComparedMemory {
            nearfar: nearfar.measure(text)?,
            rival: rival.measure(text)?,
        });
        self.observer.on(&BenchEvent::Compared {
            who,
            query: number,
            nearfar_seconds: query.nearfar_summary().median,
            rival_seconds: query.rival_summary().median,
        });
        Ok(query)
    }

    /// The end of `rival` in a query, if that is what `error` says; what it did before still counts.
    fn ended(&self, error: BenchError, rival: Who, query: u8) -> Result<Ended, BenchError> {
        match error {
            BenchError::Silent { contender, reason } if contender == rival.to_string() => {
                self.observer.on(&BenchEvent::Ended { who: rival, query });
                Ok(Ended { query, reason })
            }
            error => Err(error),
        }
    }

    /// Each query alternates between Nearfar with its accesses counted and Nearfar without; of TPC-H only, whose queries
    /// tell what there is to tell.
    fn compare_counting(&self, nearfar: &mut Contender) -> Result<Option<Comparison>, BenchError> {
        let is_told = self.options.suite == Suite::TpcH;
        let comparison = is_told.then(|| self.compare_switched(nearfar, "count_accesses"));
        comparison.transpose()
    }

    /// Each query alternates between Nearfar and Nearfar without one setting after the other.
    fn compare_without(
        &self,
        nearfar: &mut Contender,
    ) -> Result<Vec<(String, Comparison)>, BenchError> {
        let settings = self.options.without.iter();
        let compared = settings.map(|setting| {
            let comparison = self.compare_switched(nearfar, setting)?;
            Ok((setting.clone(), comparison))
        });
        compared.collect()
    }

    /// Each query alternates between Nearfar with a setting on and Nearfar with it off.
    fn compare_switched(
        &self,
        nearfar: &mut Contender,
        setting: &str,
    ) -> Result<Comparison, BenchError> {
        let (mut queries, mut missed) = (Vec::with_capacity(self.texts.len()), Vec::new());
        // Before the first query, which may be left out where it fails: a setting that is not there is not.
        nearfar.query(&format!("SET {setting} = on"))?;
        for (number, text) in &self.texts {
            let compared = self.switch_query(nearfar, setting, (*number, text.as_str()));
            match compared.map_err(|error| self.missed(error, NEARFAR, *number)) {
                Ok(query) => {
                    self.observer.on(&BenchEvent::Switched {
                        query: *number,
                        on_seconds: query.nearfar_summary().median,
                        off_seconds: query.rival_summary().median,
                    });
                    queries.push(query);
                }
                Err(query) => missed.push(query?),
            }
        }
        nearfar.query(&format!("RESET {setting}"))?;
        Ok(Comparison {
            who: NEARFAR,
            version: nearfar.version().to_owned(),
            queries,
            missed,
            ended: None,
        })
    }

    /// One query with a setting and without, by turns, once both have the same answer.
    fn switch_query(
        &self,
        nearfar: &mut Contender,
        setting: &str,
        (number, text): (u8, &str),
    ) -> Result<QueryComparison, BenchError> {
        let switch = |nearfar: &mut Contender, is_on: bool| {
            nearfar.query(&format!("SET {setting} = {is_on}")).map(drop)
        };
        switch(nearfar, false)?;
        let without = self.answers(nearfar, number, text)?;
        switch(nearfar, true)?;
        let with = self.answers(nearfar, number, text)?;
        self.agree(number, NEARFAR, &with, &without)?;
        self.in_turn(number, |side| {
            switch(nearfar, matches!(side, Side::Nearfar))?;
            nearfar.query(text)
        })
    }

    /// Runs of one query by two sides. Whoever comes first finds the caches as the other left them,
    /// so they take turns.
    fn in_turn(
        &self,
        number: u8,
        mut run: impl FnMut(Side) -> Result<f64, BenchError>,
    ) -> Result<QueryComparison, BenchError> {
        let mut query = QueryComparison {
            number,
            nearfar: Vec::new(),
            rival: Vec::new(),
            memory: None,
        };
        for turn in 0..self.options.runs {
            let order = match turn % 2 {
                0 => [Side::Nearfar, Side::Rival],
                _ => [Side::Rival, Side::Nearfar],
            };
            for side in order {
                let seconds = run(side)?;
                match side {
                    Side::Nearfar => query.nearfar.push(seconds),
                    Side::Rival => query.rival.push(seconds),
                }
            }
        }
        Ok(query)
    }

    fn run_alone(&self, contender: &mut Contender) -> Result<Alone, BenchError> {
        let mut alone = Alone {
            who: contender.who(),
            version: contender.version().to_owned(),
            queries: Vec::with_capacity(self.texts.len()),
            ended: None,
        };
        for (number, text) in &self.texts {
            let ran = self.query_alone(contender, *number, text);
            match ran.map_err(|error| self.missed(error, alone.who, *number)) {
                Ok(query) => alone.queries.push(Ok(query)),
                Err(Ok(missed)) => alone.queries.push(Err(missed.reason)),
                Err(Err(error)) if alone.who != NEARFAR && !alone.queries.is_empty() => {
                    alone.ended = Some(self.ended(error, alone.who, *number)?);
                    break;
                }
                Err(Err(error)) => return Err(error),
            }
        }
        Ok(alone)
    }

    /// The answer to a query, the seconds of its runs, and what one more takes.
    fn query_alone(
        &self,
        contender: &mut Contender,
        number: u8,
        text: &str,
    ) -> Result<QueryAlone, BenchError> {
        let answers = self.answers(contender, number, text)?;
        let runs = (0..self.options.runs).map(|_| contender.query(text));
        let seconds = runs.collect::<Result<Vec<f64>, _>>()?;
        self.observer.on(&BenchEvent::Timed {
            who: contender.who(),
            query: number,
            seconds: summary(seconds.iter().copied()).median,
        });
        Ok(QueryAlone {
            answers,
            seconds,
            memory: contender.measure(text)?,
        })
    }

    fn pair(&self, nearfar: &Alone, rival: &Alone) -> Result<Comparison, BenchError> {
        let mut queries = Vec::with_capacity(rival.queries.len());
        let mut missed = Vec::new();
        let both = nearfar.queries.iter().zip(&rival.queries);
        for ((number, _), both) in self.texts.iter().zip(both) {
            let (mine, theirs) = match both {
                (Ok(mine), Ok(theirs)) => (mine, theirs),
                (Err(reason), _) | (_, Err(reason)) => {
                    missed.push(Missed {
                        query: *number,
                        reason: reason.clone(),
                    });
                    continue;
                }
            };
            if let Err(error) = self.agree(*number, rival.who, &mine.answers, &theirs.answers) {
                missed.push(self.missed(error, rival.who, *number)?);
                continue;
            }
            queries.push(QueryComparison {
                number: *number,
                nearfar: mine.seconds.clone(),
                rival: theirs.seconds.clone(),
                memory: Some(ComparedMemory {
                    nearfar: mine.memory,
                    rival: theirs.memory,
                }),
            });
        }
        Ok(Comparison {
            who: rival.who,
            version: rival.version.clone(),
            queries,
            missed,
            ended: rival.ended.clone(),
        })
    }

    /// The answer to a query, which also warms the contender up, and all of its rows where its limit leaves open which
    /// it keeps.
    fn answers(
        &self,
        contender: &mut Contender,
        number: u8,
        text: &str,
    ) -> Result<Answers, BenchError> {
        let name = format!("{}-q{number}.parquet", contender.who().name());
        let path = self.directory.join(name);
        let all = match self.options.suite.unlimited(number) {
            Some(text) => {
                contender.save(text, &path)?;
                Some(read_answer(&path)?)
            }
            None => None,
        };
        contender.save(text, &path)?;
        let kept = read_answer(&path)?;
        Ok(Answers { kept, all })
    }

    fn agree(
        &self,
        number: u8,
        who: Who,
        mine: &Answers,
        theirs: &Answers,
    ) -> Result<(), BenchError> {
        match mine.difference(theirs, self.options.suite.order_by(number)) {
            None => Ok(()),
            Some(difference) => Err(BenchError::Mismatch {
                number,
                contender: who.to_string(),
                difference: Box::new(difference),
            }),
        }
    }
}
