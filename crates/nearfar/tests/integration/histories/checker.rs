//! Which anomalies a history has (Kingsbury and Alvaro, "Elle: inferring isolation anomalies from experimental
//! observations", VLDB 2020).
//!
//! Lists to which each element is appended once say in which order they were written: what a transaction has read
//! says whose version that was, and which one followed. What must not be is a cycle of such dependencies,
//! by kinds that a level of isolation forbids.

use std::collections::BTreeMap;
use std::fmt;

use super::graph::{Cycle, Graph, Why};
use super::history::{Element, History, Key, Operation, Outcome, Transaction};

/// What is wrong with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// An element that was acknowledged is not there.
    Lost,
    /// An element is there twice.
    Twice,
    /// Only some of what a transaction appended is there.
    Torn,
    /// A list that was read is no beginning of what it became.
    Incompatible,
    /// Within a transaction, a list is not what it was, or lacks what the transaction has appended.
    Internal,
    /// Cycle of writes.
    G0,
    /// What a transaction wrote that has failed was read.
    G1a,
    /// What a transaction wrote, and wrote over, was read by another.
    G1b,
    /// Cycle of writes and reads of what was written.
    G1c,
    /// A list that was appended to is not the one that the transaction had read before.
    LostUpdate,
    /// Cycle with one read of what was written over.
    GSingle,
    /// Cycle with several such reads, none of which follow each other: no snapshots explain it.
    GNonadjacent,
    /// Two transactions that each have read what the other wrote over.
    WriteSkew,
    /// Cycle with reads of what was written over.
    G2,
}

impl Anomaly {
    pub const ALL: [Self; 14] = [
        Self::Lost,
        Self::Twice,
        Self::Torn,
        Self::Incompatible,
        Self::Internal,
        Self::G0,
        Self::G1a,
        Self::G1b,
        Self::G1c,
        Self::LostUpdate,
        Self::GSingle,
        Self::GNonadjacent,
        Self::WriteSkew,
        Self::G2,
    ];
}

/// A level of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    pub const ALL: [Self; 3] = [
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Serializable,
    ];

    /// Whether transactions of this level may have it.
    pub fn allows(self, anomaly: Anomaly) -> bool {
        let between_statements = [
            Anomaly::Internal,
            Anomaly::LostUpdate,
            Anomaly::GSingle,
            Anomaly::GNonadjacent,
        ];
        let between_snapshots = [Anomaly::WriteSkew, Anomaly::G2];
        match self {
            Self::ReadCommitted => {
                between_statements.contains(&anomaly) || between_snapshots.contains(&anomaly)
            }
            Self::RepeatableRead => between_snapshots.contains(&anomaly),
            Self::Serializable => false,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        })
    }
}

/// What a history has shown.
#[derive(Debug, Default)]
pub struct Findings {
    /// An example of each anomaly that was found.
    pub found: BTreeMap<Anomaly, String>,
    /// Transactions that were committed, those in doubt which turned out to be included.
    pub committed: usize,
    /// Those in doubt that turned out to be there.
    pub in_doubt_and_found: usize,
    /// Dependencies between transactions.
    pub edges: usize,
}

/// Looks for all anomalies.
pub fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let elements = Elements::of(history, &mut findings);
    let kept = kept(history, &elements, &mut findings);
    findings.committed = kept.len();
    for transaction in &kept {
        check_reads(transaction, &elements, &mut findings);
        check_within(transaction, &mut findings);
        check_updates(transaction, &elements, &mut findings);
    }
    let graph = graph(&kept, &elements);
    findings.edges = graph.len();
    check_cycles(&graph, &kept, &mut findings);
    findings
}

impl Findings {
    fn note(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        self.found.entry(anomaly).or_insert_with(example);
    }
}

/// Who appended what, and where it is.
struct Elements<'h> {
    /// The number of each element's transaction in the history.
    writers: BTreeMap<Element, usize>,
    transactions: &'h [Transaction],
    /// The lists as they were in the end.
    end: &'h BTreeMap<Key, Vec<Element>>,
    places: BTreeMap<Element, usize>,
}

impl<'h> Elements<'h> {
    fn of(history: &'h History, findings: &mut Findings) -> Self {
        let transactions = history.transactions.iter().enumerate();
        let writers = transactions.flat_map(|(number, transaction)| {
            let appends = transaction.appends();
            appends.map(move |(_, element)| (element, number))
        });
        let mut places = BTreeMap::new();
        for (key, list) in &history.end {
            for (place, element) in list.iter().enumerate() {
                if places.insert(*element, place).is_some() {
                    findings.note(Anomaly::Twice, || format!("{element} in list {key}"));
                }
            }
        }
        Self {
            writers: writers.collect(),
            transactions: &history.transactions,
            end: &history.end,
            places,
        }
    }

    fn list(&self, key: Key) -> &'h [Element] {
        self.end.get(&key).map_or(&[], Vec::as_slice)
    }

    fn writer(&self, element: Element) -> Option<&'h Transaction> {
        self.writers
            .get(&element)
            .map(|number| &self.transactions[*number])
    }

    fn is_there(&self, element: Element) -> bool {
        self.places.contains_key(&element)
    }
}

/// The transactions that are kept.
fn kept<'h>(
    history: &'h History,
    elements: &Elements<'_>,
    findings: &mut Findings,
) -> Vec<&'h Transaction> {
    let mut kept = Vec::new();
    for transaction in &history.transactions {
        let appends: Vec<Element> = transaction.appends().map(|(_, element)| element).collect();
        let there = appends
            .iter()
            .filter(|element| elements.is_there(**element))
            .count();
        match transaction.outcome {
            Outcome::Failed if there > 0 => {
                findings.note(Anomaly::G1a, || {
                    format!("it failed and is there: {transaction:?}")
                });
            }
            Outcome::Committed if there < appends.len() => {
                findings.note(Anomaly::Lost, || format!("{transaction:?}"));
            }
            Outcome::InDoubt if there > 0 && there < appends.len() => {
                findings.note(Anomaly::Torn, || format!("{transaction:?}"));
            }
            _ => {}
        }
        let turned_out = transaction.outcome == Outcome::InDoubt && there > 0;
        findings.in_doubt_and_found += usize::from(turned_out);
        if transaction.outcome == Outcome::Committed || turned_out {
            kept.push(transaction);
        }
    }
    kept
}

/// Looks at whose versions a transaction has read.
fn check_reads(transaction: &Transaction, elements: &Elements<'_>, findings: &mut Findings) {
    for (key, list) in transaction.first_reads() {
        let end = elements.list(key);
        let mut writers = list.iter().map(|element| elements.writer(*element));
        let has_failed = |writer: Option<&Transaction>| {
            writer.is_none_or(|writer| writer.outcome == Outcome::Failed)
        };
        if writers.clone().any(has_failed) {
            findings.note(Anomaly::G1a, || format!("{key} in {transaction:?}"));
        } else if !end.starts_with(list) {
            let example = || format!("{key} in {transaction:?} became {end:?}");
            findings.note(Anomaly::Incompatible, example);
        }
        let last = list.last().zip(writers.next_back().flatten());
        if let Some((last, writer)) = last
            && writer.last_append(key) != Some(*last)
        {
            findings.note(Anomaly::G1b, || format!("{key} in {transaction:?}"));
        }
    }
}

/// Looks whether lists are what the transaction itself must have seen them as.
fn check_within(transaction: &Transaction, findings: &mut Findings) {
    let mut known: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
    let mut appended: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append(key, element) => {
                appended.entry(*key).or_default().push(*element);
                if let Some(list) = known.get_mut(key) {
                    list.push(*element);
                }
            }
            Operation::Read(key, list) => {
                let own = appended.get(key).map_or(&[][..], Vec::as_slice);
                // Its own are at the end, whatever the level: nobody appends behind them meanwhile.
                if !list.ends_with(own) {
                    findings.note(Anomaly::Incompatible, || {
                        format!("{key} in {transaction:?}")
                    });
                }
                let before = known.insert(*key, list.clone());
                if before.is_some_and(|before| before != *list) {
                    findings.note(Anomaly::Internal, || format!("{key} in {transaction:?}"));
                }
            }
        }
    }
}

/// Looks whether a transaction has appended to what it had read.
fn check_updates(transaction: &Transaction, elements: &Elements<'_>, findings: &mut Findings) {
    for (key, list) in transaction.first_reads() {
        let mut own = transaction.appends().filter(|(other, _)| *other == key);
        let place = own
            .next()
            .and_then(|(_, element)| elements.places.get(&element));
        if place.is_some_and(|place| *place != list.len()) {
            findings.note(Anomaly::LostUpdate, || format!("{key} in {transaction:?}"));
        }
    }
}

/// Who comes before whom.
fn graph(kept: &[&Transaction], elements: &Elements<'_>) -> Graph {
    let appends = kept.iter().enumerate().flat_map(|(number, transaction)| {
        let appends = transaction.appends();
        appends.map(move |(_, element)| (element, number))
    });
    let writers: BTreeMap<Element, usize> = appends.collect();
    let mut graph = Graph::new(kept.len());
    for (key, list) in elements.end {
        for pair in list.windows(2) {
            if let (Some(one), Some(next)) = (writers.get(&pair[0]), writers.get(&pair[1])) {
                graph.add(*one, *next, Why::Overwritten(*key));
            }
        }
    }
    for (reader, transaction) in kept.iter().enumerate() {
        let reads = transaction.first_reads();
        // What else is read is an anomaly of its own.
        for (key, list) in reads.filter(|(key, list)| elements.list(*key).starts_with(list)) {
            if let Some(writer) = list.last().and_then(|last| writers.get(last)) {
                graph.add(*writer, reader, Why::Read(key));
            }
            let next = elements.list(key).get(list.len());
            if let Some(writer) = next.and_then(|next| writers.get(next)) {
                graph.add(reader, *writer, Why::ReadBefore(key));
            }
        }
    }
    graph
}

fn check_cycles(graph: &Graph, kept: &[&Transaction], findings: &mut Findings) {
    let mut note = |anomaly, cycle: Option<Cycle>| {
        if let Some(cycle) = &cycle {
            findings.note(anomaly, || {
                let steps = cycle.iter();
                let steps = steps.map(|(number, why)| format!("{:?} {why:?}", kept[*number]));
                steps.collect::<Vec<_>>().join("\n  before ")
            });
        }
        cycle.is_some()
    };
    let writes = graph.only(|why| matches!(why, Why::Overwritten(_)));
    let committed = graph.only(|why| !why.is_anti());
    if note(Anomaly::G0, writes.cycle()) || note(Anomaly::G1c, committed.cycle()) {
        // All that has such a cycle has the others too.
        return;
    }
    let without_snapshots = graph.cycle_without_adjacent_anti();
    if without_snapshots.is_some() && !note(Anomaly::GSingle, graph.cycle_with_one_anti()) {
        note(Anomaly::GNonadjacent, without_snapshots);
    }
    note(Anomaly::WriteSkew, skew(graph));
    note(Anomaly::G2, graph.cycle());
}

/// Two transactions that each have read what the other wrote over.
fn skew(graph: &Graph) -> Option<Cycle> {
    let anti: BTreeMap<(usize, usize), Why> = graph
        .anti()
        .map(|(from, to, why)| ((from, to), why))
        .collect();
    anti.iter().find_map(|((from, to), why)| {
        let back = anti.get(&(*to, *from))?;
        Some(vec![(*from, *why), (*to, *back)])
    })
}

#[cfg(test)]
mod tests {
    use super::Operation::{Append, Read};
    use super::*;

    fn of(outcome: Outcome, operations: &[Operation]) -> Transaction {
        Transaction {
            operations: operations.to_vec(),
            outcome,
        }
    }

    fn committed(operations: &[Operation]) -> Transaction {
        of(Outcome::Committed, operations)
    }

    fn found(transactions: &[Transaction], end: &[(Key, &[Element])]) -> Vec<Anomaly> {
        let end = end.iter().map(|(key, list)| (*key, list.to_vec()));
        let history = History {
            transactions: transactions.to_vec(),
            end: end.collect(),
        };
        check(&history).found.into_keys().collect()
    }

    #[test]
    fn transactions_one_after_another_have_no_anomalies() {
        let history = [
            committed(&[Append(1, 10), Append(2, 20), Append(1, 11)]),
            of(Outcome::Failed, &[Read(1, vec![10, 11]), Append(1, 12)]),
            of(Outcome::InDoubt, &[Append(1, 13)]),
            of(Outcome::InDoubt, &[Append(2, 21)]),
            committed(&[
                Read(1, vec![10, 11]),
                Append(1, 14),
                Read(1, vec![10, 11, 14]),
            ]),
            committed(&[Read(2, vec![20, 21])]),
        ];
        assert_eq!(found(&history, &[(1, &[10, 11, 14]), (2, &[20, 21])]), []);
        let findings = check(&History {
            transactions: history.to_vec(),
            end: BTreeMap::from([(1, vec![10, 11, 14]), (2, vec![20, 21])]),
        });
        assert_eq!((findings.committed, findings.in_doubt_and_found), (4, 1));
    }

    #[test]
    fn what_is_lost_twice_or_torn_is_found() {
        let two = [committed(&[Append(1, 10), Append(2, 20)])];
        assert_eq!(found(&two, &[(1, &[10])]), [Anomaly::Lost]);
        assert_eq!(found(&two, &[(1, &[10, 10]), (2, &[20])]), [Anomaly::Twice]);
        let doubt = [of(Outcome::InDoubt, &two[0].operations)];
        assert_eq!(found(&doubt, &[(1, &[10])]), [Anomaly::Torn]);
        assert_eq!(found(&doubt, &[]), []);
    }

    #[test]
    fn dirty_reads_are_found() {
        let failed = of(Outcome::Failed, &[Append(1, 10)]);
        assert_eq!(
            found(std::slice::from_ref(&failed), &[(1, &[10])]),
            [Anomaly::G1a]
        );
        let reader = committed(&[Read(1, vec![10])]);
        assert_eq!(found(&[failed, reader.clone()], &[]), [Anomaly::G1a]);
        let writer = committed(&[Append(1, 10), Append(1, 11)]);
        let end: &[(Key, &[Element])] = &[(1, &[10, 11])];
        // The reader comes before and behind the writer too.
        assert!(found(&[writer, reader], end).contains(&Anomaly::G1b));
    }

    #[test]
    fn lists_that_do_not_grow_are_found() {
        let writers = [committed(&[Append(1, 10)]), committed(&[Append(1, 11)])];
        let with = |reader: &[Operation]| [&writers[..], &[committed(reader)]].concat();
        let end: &[(Key, &[Element])] = &[(1, &[10, 11])];
        assert_eq!(
            found(&with(&[Read(1, vec![11])]), end),
            [Anomaly::Incompatible]
        );
        let changed = [Read(1, vec![10]), Read(1, vec![10, 11])];
        assert!(found(&with(&changed), end).contains(&Anomaly::Internal));
        let own = [committed(&[Append(1, 10), Read(1, vec![])])];
        assert_eq!(found(&own, &[(1, &[10])]), [Anomaly::Incompatible]);
    }

    #[test]
    fn cycles_of_what_is_written_and_read_are_found() {
        let writes = [
            committed(&[Append(1, 10), Append(2, 20)]),
            committed(&[Append(1, 11), Append(2, 21)]),
        ];
        assert_eq!(
            found(&writes, &[(1, &[10, 11]), (2, &[21, 20])]),
            [Anomaly::G0]
        );
        let circular = [
            committed(&[Append(1, 10), Read(2, vec![20])]),
            committed(&[Append(2, 20), Read(1, vec![10])]),
        ];
        assert_eq!(found(&circular, &[(1, &[10]), (2, &[20])]), [Anomaly::G1c]);
    }

    #[test]
    fn reads_of_what_is_written_over_are_told_apart() {
        let ends: &[(Key, &[Element])] = &[(1, &[10]), (2, &[20])];
        let skewed_read = [
            committed(&[Read(1, vec![]), Read(2, vec![20])]),
            committed(&[Append(1, 10), Append(2, 20)]),
        ];
        assert_eq!(found(&skewed_read, ends), [Anomaly::GSingle, Anomaly::G2]);
        let lost_update = [
            committed(&[Read(1, vec![]), Append(1, 10)]),
            committed(&[Read(1, vec![]), Append(1, 11)]),
        ];
        let expected = [Anomaly::LostUpdate, Anomaly::GSingle, Anomaly::G2];
        assert_eq!(found(&lost_update, &[(1, &[10, 11])]), expected);
        let write_skew = [
            committed(&[Read(1, vec![]), Append(2, 20)]),
            committed(&[Read(2, vec![]), Append(1, 10)]),
        ];
        assert_eq!(found(&write_skew, ends), [Anomaly::WriteSkew, Anomaly::G2]);
        let long_fork = [
            committed(&[Append(1, 10)]),
            committed(&[Append(2, 20)]),
            committed(&[Read(1, vec![10]), Read(2, vec![])]),
            committed(&[Read(1, vec![]), Read(2, vec![20])]),
        ];
        assert_eq!(
            found(&long_fork, ends),
            [Anomaly::GNonadjacent, Anomaly::G2]
        );
        let three = [
            committed(&[Read(1, vec![]), Append(2, 20)]),
            committed(&[Read(2, vec![]), Append(3, 30)]),
            committed(&[Read(3, vec![]), Append(1, 10)]),
        ];
        let ends: &[(Key, &[Element])] = &[(1, &[10]), (2, &[20]), (3, &[30])];
        assert_eq!(found(&three, ends), [Anomaly::G2]);
    }

    #[test]
    fn levels_allow_less_and_less() {
        let allowed = |level: Level| {
            Anomaly::ALL
                .into_iter()
                .filter(|one| level.allows(*one))
                .count()
        };
        assert_eq!(Level::ALL.map(allowed), [6, 2, 0]);
    }
}
