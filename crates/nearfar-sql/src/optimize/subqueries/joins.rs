//! Joins within a subquery that refers to the query around.

use datafusion::common::NullEquality;
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr,
};

use super::dependent::{Dependent, Domain};
use super::outer::{free, free_of_node};

impl Domain {
    /// A join for each value of the domain, which one side has where that is enough, and else both.
    pub(super) fn unnest_join(&self, join: &Join) -> Result<Option<Dependent>> {
        let node = LogicalPlan::Join(join.clone());
        let own = merge_schema(&node.inputs());
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let (of_left, of_right) = (free(left)?.is_empty(), free(right)?.is_empty());
        let is_inner = join.join_type == JoinType::Inner;
        let refers = !free_of_node(&node)?.is_empty();
        let keys_of_left = is_inner
            || matches!(
                join.join_type,
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
            );
        let (left, right, keys) = if of_right && keys_of_left && (!of_left || refers) {
            let Some(left) = self.unnest(left)? else {
                return Ok(None);
            };
            (left.plan, right.clone(), (left.keys, None))
        } else if of_left && (is_inner || join.join_type == JoinType::Right) {
            let Some(right) = self.unnest(right)? else {
                return Ok(None);
            };
            (left.clone(), right.plan, (right.keys, None))
        } else {
            let (Some(left), Some(right)) = (self.unnest(left)?, self.unnest(right)?) else {
                return Ok(None);
            };
            (left.plan, right.plan, (left.keys, Some(right.keys)))
        };
        let (keys, others) = keys;
        let on = join
            .on
            .iter()
            .map(|(left, right)| Ok(left.clone().eq(right.clone())));
        let filter = join
            .filter
            .iter()
            .map(|filter| self.bound(filter.clone(), &keys, &own));
        let mut conditions = on.chain(filter).collect::<Result<Vec<_>>>()?;
        let is_full = join.join_type == JoinType::Full;
        for (one, other) in keys.iter().zip(others.iter().flatten()) {
            let same = binary_expr(
                Expr::Column(one.clone()),
                Operator::IsNotDistinctFrom,
                Expr::Column(other.clone()),
            );
            conditions.push(same);
        }
        if is_full || join.null_equality != NullEquality::NullEqualsNothing {
            return Ok(None);
        }
        // A row that only one side has, has the keys of that side.
        let keys = match (&others, join.join_type) {
            (Some(others), JoinType::Right | JoinType::RightSemi | JoinType::RightAnti) => {
                others.clone()
            }
            _ => keys,
        };
        let plan = LogicalPlanBuilder::from(left).join_on(right, join.join_type, conditions)?;
        let plan = plan.build()?;
        Ok(Some(Dependent { plan, keys }))
    }
}
