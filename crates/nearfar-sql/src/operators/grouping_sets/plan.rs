//! Which set is made of which.

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use std::sync::Arc;

use crate::optimize::{merged, over_states};

/// Each set has a table of groups, and asks for memory by itself.
const SETS_MAX: usize = 64;

/// A family of grouping sets.
#[derive(Debug)]
pub struct SetsPlan {
    /// Those with the most columns first, so that each comes behind the one that it is made of. The first one has all
    /// columns: these are the finest groups, which are given.
    pub sets: Vec<Set>,
    /// Keys, the number of the set, and states.
    schema: SchemaRef,
    keys: usize,
    functions: Vec<Arc<AggregateFunctionExpr>>,
}

/// One of them.
#[derive(Debug)]
pub struct Set {
    /// Which of the keys it has.
    columns: Vec<usize>,
    /// The set of whose groups it is made.
    pub parent: usize,
    /// What its groups are marked with; none where they are only needed for others.
    number: Option<ScalarValue>,
}

impl SetsPlan {
    /// Of an aggregate over the states of the finest groups, whose keys come first, in the order of its own. Its sets
    /// differ, and have no more columns than a number has bits.
    pub fn of(aggregate: &AggregateExec) -> Option<Self> {
        let by = aggregate.group_expr();
        let (groups, keys) = (by.groups(), by.expr().len());
        let functions = aggregate
            .aggr_expr()
            .iter()
            .map(|function| merged(function));
        let functions: Vec<_> = functions
            .map(|function| function.cloned())
            .collect::<Option<_>>()?;
        // A total without functions would be a row without columns.
        let is_known = by.has_grouping_set() && groups.len() <= SETS_MAX && !functions.is_empty();
        if !is_known {
            return None;
        }
        let schema = aggregate.schema();
        let number = |is_missing: &[bool]| {
            // A bit for each column that a set has not, the first one highest.
            let bits = is_missing.iter();
            let number = bits.fold(0, |number, is_missing| number << 1 | u64::from(*is_missing));
            let number = ScalarValue::UInt64(Some(number));
            number.cast_to(schema.field(keys).data_type()).ok()
        };
        let mut sets = vec![Set {
            columns: (0..keys).collect(),
            parent: 0,
            number: None,
        }];
        let mut groups: Vec<&Vec<bool>> = groups.iter().collect();
        groups
            .sort_by_key(|is_missing| is_missing.iter().filter(|is_missing| **is_missing).count());
        for is_missing in groups {
            let columns: Vec<usize> = (0..keys).filter(|key| !is_missing[*key]).collect();
            let number = Some(number(is_missing)?);
            if columns.len() == keys {
                sets[0].number = number;
                continue;
            }
            sets.push(Set {
                parent: smallest_above(&sets, &columns),
                columns,
                number,
            });
        }
        Some(Self {
            sets,
            schema,
            keys,
            functions,
        })
    }

    /// The columns of the groups of a set: its keys, and states.
    pub fn schema_of(&self, set: usize) -> SchemaRef {
        let fields = self.schema.fields();
        let keys = self.sets[set].columns.iter().map(|key| &fields[*key]);
        let fields: Vec<FieldRef> = keys.chain(&fields[self.keys + 1..]).cloned().collect();
        Arc::new(Schema::new(fields))
    }

    /// The aggregate that makes a set of `groups`, those of its parent.
    pub fn aggregate_of(
        &self,
        set: usize,
        groups: Arc<dyn ExecutionPlan>,
    ) -> Result<AggregateExec> {
        let (set, schema) = (&self.sets[set], groups.schema());
        let given = &self.sets[set.parent].columns;
        let places = (0..given.len()).filter(|place| set.columns.contains(&given[*place]));
        let keys = places.map(|place| {
            let name = schema.field(place).name();
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, place));
            (column, name.clone())
        });
        AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(keys.collect()),
            over_states(&self.functions, given.len(), &schema)?,
            vec![None; self.functions.len()],
            groups,
            schema,
        )
    }

    /// Groups of a set as the operator gives them; none where nobody asked for them.
    pub fn marked(&self, set: usize, groups: &RecordBatch) -> Result<Option<RecordBatch>> {
        let (set, rows) = (&self.sets[set], groups.num_rows());
        let Some(number) = &set.number else {
            return Ok(None);
        };
        let (keys, states) = groups.columns().split_at(set.columns.len());
        let place = |key: usize| set.columns.iter().position(|column| *column == key);
        let all = (0..self.keys).map(|key| match place(key) {
            Some(place) => Arc::clone(&keys[place]),
            None => new_null_array(self.schema.field(key).data_type(), rows),
        });
        let mut columns: Vec<ArrayRef> = all.collect();
        columns.push(number.to_array_of_size(rows)?);
        columns.extend(states.iter().cloned());
        let schema = Arc::clone(&self.schema);
        Ok(Some(RecordBatch::try_new(schema, columns)?))
    }
}

/// The smallest of `sets` that has all `columns`: the first one has.
fn smallest_above(sets: &[Set], columns: &[usize]) -> usize {
    let is_above = |set: &Set| columns.iter().all(|key| set.columns.contains(key));
    sets.iter().rposition(is_above).unwrap_or_default()
}
