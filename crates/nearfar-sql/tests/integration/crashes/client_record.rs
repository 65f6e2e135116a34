//! What the children have said of one client, and what must be there because of it.

use super::counts::Counts;
use super::model::{Model, Step};

/// One client.
#[derive(Debug, Default)]
pub struct ClientRecord {
    acknowledged: Model,
    under_way: Option<(i64, Vec<Step>)>,
    /// What had been acknowledged when the last publication began, or the last process found.
    published: Model,
    /// What was acknowledged since then.
    since: Vec<(i64, Vec<Step>)>,
}

impl ClientRecord {
    /// It is about to do this.
    pub fn begin(&mut self, number: i64, steps: Vec<Step>) {
        assert!(self.under_way.is_none(), "two concurrent transactions");
        self.under_way = Some((number, steps));
    }

    /// What was under way is acknowledged.
    pub fn done(&mut self, number: i64, counts: &mut Counts) {
        let (begun, steps) = self.under_way.take().expect("a transaction that has begun");
        assert_eq!(begun, number);
        self.acknowledged.apply_all(number, &steps);
        counts.acknowledged += 1;
        if steps == [Step::Publish] {
            self.published = self.acknowledged.clone();
            self.since.clear();
        } else {
            self.since.push((number, steps));
        }
    }

    /// What was under way was refused: it is not there.
    pub fn refused(&mut self, counts: &mut Counts) {
        self.under_way = None;
        counts.refused += 1;
    }

    /// What was under way failed, since another client was in its way: it is not there.
    pub fn lost(&mut self, counts: &mut Counts) {
        self.under_way = None;
        counts.lost += 1;
    }

    /// A process has found contents of this digest, which are known for certain from now on.
    ///
    /// # Errors
    /// What should be there instead.
    pub fn found(
        &mut self,
        digest: u64,
        is_logged: bool,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let found = match is_logged {
            true => self.of_log(digest, counts),
            false => self.of_publication(digest),
        };
        let Some(found) = found else {
            let Model { a, b, numbers, .. } = &self.acknowledged;
            let rest = Model {
                a: Default::default(),
                b: Default::default(),
                numbers: Default::default(),
                ..self.acknowledged.clone()
            };
            return Err(format!(
                "acknowledged are {} and {} rows, {} transactions and {rest:?}; under way was {:?}",
                a.len(),
                b.len(),
                numbers.len(),
                self.under_way,
            ));
        };
        *self = Self {
            published: found.clone(),
            acknowledged: found,
            ..Self::default()
        };
        Ok(())
    }

    /// All that was acknowledged, with or without what was not.
    fn of_log(&self, digest: u64, counts: &mut Counts) -> Option<Model> {
        let acknowledged = &self.acknowledged;
        let Some((number, steps)) = &self.under_way else {
            return (acknowledged.digest() == digest).then(|| acknowledged.clone());
        };
        let mut model = acknowledged.clone();
        model.apply_all(*number, steps);
        let has_effect = model != *acknowledged;
        if acknowledged.digest() == digest {
            counts.not_found += u64::from(has_effect);
            return Some(acknowledged.clone());
        }
        counts.found += 1;
        (model.digest() == digest).then_some(model)
    }

    /// What was published last, or any later state.
    fn of_publication(&self, digest: u64) -> Option<Model> {
        let mut model = self.published.clone();
        let mut later = self.since.iter().chain(&self.under_way);
        while model.digest() != digest {
            let (number, steps) = later.next()?;
            model.apply_all(*number, steps);
        }
        Some(model)
    }
}
