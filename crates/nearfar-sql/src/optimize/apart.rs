//! Projections above their like are kept apart.
//!
//! DataFusion's `optimize_projections` takes a projection whose expressions are those of its input for
//! superfluous. That holds for plain columns only: `x + x AS x` above `x + x AS x` is `4 * x`. Here the
//! columns between two such projections get names of their own, so that both stay or are merged.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ident};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Its name.
pub const NAME: &str = "nearfar_apart_projections";

/// How the names of columns between two projections begin.
const BETWEEN: &str = "__between";

/// Names the columns apart that one projection hands to another with the same expressions.
#[derive(Debug)]
pub struct ApartProjections;

impl OptimizerRule for ApartProjections {
    fn name(&self) -> &str {
        NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(above) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let LogicalPlan::Projection(below) = above.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let is_plain = |expr: &Expr| matches!(expr, Expr::Column(_));
        if above.expr != below.expr || above.expr.iter().all(is_plain) {
            return Ok(Transformed::no(plan));
        }
        let names = config.alias_generator();
        let names: Vec<String> = below.expr.iter().map(|_| names.next(BETWEEN)).collect();
        Ok(Transformed::yes(apart(above, below, &names)?))
    }
}

/// `above` over `below`, whose columns have these names between them.
fn apart(above: &Projection, below: &Projection, names: &[String]) -> Result<LogicalPlan> {
    let named = below.expr.iter().zip(names);
    let named = named.map(|(expr, name)| expr.clone().unalias().alias(name));
    let input = Projection::try_new(named.collect(), Arc::clone(&below.input))?;
    let preserver = NamePreserver::new_for_projection();
    let exprs = above.expr.iter().map(|expr| {
        let saved = preserver.save(expr);
        let renamed = expr.clone().transform_up(|part| match part {
            Expr::Column(column) => {
                let at = below.schema.index_of_column(&column)?;
                Ok(Transformed::yes(ident(&names[at])))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(saved.restore(renamed.data))
    });
    let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
    let input = Arc::new(LogicalPlan::Projection(input));
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
}
