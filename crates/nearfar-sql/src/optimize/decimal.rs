//! Decimal arithmetic in 64 bits wherever the values are known to fit.
//!
//! DataFusion multiplies and adds `Decimal128` values in 128 bits with a check per value. Where the
//! bounds of the columns prove that no intermediate result leaves 64 bits, the same expression is
//! computed on 64-bit integers without checks, and widened at the end. Bounds come from the
//! segments' statistics, through the operators between a scan and the expression; a table's
//! segments never change, so a bound that held when the plan was made holds while it runs.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// Smallest and largest value of an expression, in units of its scale.
pub type Bounds = (i128, i128);

/// A tree of 64-bit operations over the inputs of a [`NarrowDecimal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// One of the inputs.
    Input(usize),
    /// The same for all rows.
    Constant(i64),
    /// An operation on two others.
    Apply(Operation, Box<Node>, Box<Node>),
}

/// An operation on integers that is known to stay within 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
}

impl Operation {
    fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn bounds(self, (a, b): Bounds, (c, d): Bounds) -> Option<Bounds> {
        Some(match self {
            Self::Add => (a.checked_add(c)?, b.checked_add(d)?),
            Self::Subtract => (a.checked_sub(d)?, b.checked_sub(c)?),
            Self::Multiply => {
                let corners = [
                    a.checked_mul(c)?,
                    a.checked_mul(d)?,
                    b.checked_mul(c)?,
                    b.checked_mul(d)?,
                ];
                (*corners.iter().min()?, *corners.iter().max()?)
            }
        })
    }

    /// Its result.
    #[inline(always)]
    pub fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::Multiply => left.wrapping_mul(right),
        }
    }
}

/// A decimal expression that is computed in 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NarrowDecimal {
    root: Node,
    inputs: Vec<Arc<dyn PhysicalExpr>>,
    bounds: Bounds,
    precision: u8,
    scale: i8,
}

/// A node being built: its tree, bounds and scale.
struct Part {
    node: Node,
    bounds: Bounds,
    scale: i8,
}

impl Part {
    /// The same value in units of a larger scale.
    fn rescaled(self, scale: i8) -> Option<Self> {
        let shift = u32::try_from(scale - self.scale).ok()?;
        if shift == 0 {
            return Some(self);
        }
        let factor = 10i64.checked_pow(shift)?;
        let bounds = Operation::Multiply.bounds(self.bounds, (factor.into(), factor.into()))?;
        let node = match self.node {
            Node::Constant(value) => Node::Constant(value.checked_mul(factor)?),
            node => Node::Apply(
                Operation::Multiply,
                Box::new(node),
                Box::new(Node::Constant(factor)),
            ),
        };
        fits(bounds).then_some(Self {
            node,
            bounds,
            scale,
        })
    }
}

fn fits((low, high): Bounds) -> bool {
    i64::try_from(low).is_ok() && i64::try_from(high).is_ok()
}

impl NarrowDecimal {
    /// `expr` over a batch of `schema` in 64 bits, where it is arithmetic on decimals and `bounds`
    /// of the columns prove that it fits.
    pub fn of(
        expr: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
        bounds: &dyn Fn(usize) -> Option<Bounds>,
    ) -> Option<Self> {
        expr.downcast_ref::<BinaryExpr>()?;
        let DataType::Decimal128(precision, scale) = expr.data_type(schema).ok()? else {
            return None;
        };
        let mut inputs = Vec::new();
        let part = part(expr, schema, bounds, &mut inputs)?;
        (part.scale == scale && !inputs.is_empty()).then_some(Self {
            root: part.node,
            inputs,
            bounds: part.bounds,
            precision,
            scale,
        })
    }

    /// What is computed.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// What it is computed of.
    pub fn inputs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.inputs
    }

    /// The smallest and the largest value that it may have.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Digits behind the point of its values.
    pub fn scale(&self) -> i8 {
        self.scale
    }

    fn compute(&self, node: &Node, inputs: &[Vec<i64>], rows: usize) -> Vec<i64> {
        match node {
            Node::Input(index) => inputs[*index].clone(),
            Node::Constant(value) => vec![*value; rows],
            Node::Apply(operation, left, right) => match (left.as_ref(), right.as_ref()) {
                (Node::Constant(value), right) => {
                    let mut values = self.compute(right, inputs, rows);
                    values
                        .iter_mut()
                        .for_each(|v| *v = operation.apply(*value, *v));
                    values
                }
                (left, Node::Constant(value)) => {
                    let mut values = self.compute(left, inputs, rows);
                    values
                        .iter_mut()
                        .for_each(|v| *v = operation.apply(*v, *value));
                    values
                }
                (left, right) => {
                    let mut values = self.compute(left, inputs, rows);
                    let other = self.compute(right, inputs, rows);
                    for (value, other) in values.iter_mut().zip(other) {
                        *value = operation.apply(*value, other);
                    }
                    values
                }
            },
        }
    }
}

/// The bounds of a sum, a difference or a product, of those of its operands.
pub fn arithmetic_bounds(operator: Operator, left: Bounds, right: Bounds) -> Option<Bounds> {
    Operation::of(operator)?.bounds(left, right)
}

/// The bounds of any decimal expression, in units of its scale, and that scale.
pub fn bounds_of(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    bounds: &dyn Fn(usize) -> Option<Bounds>,
) -> Option<Bounds> {
    part(expr, schema, bounds, &mut Vec::new()).map(|part| part.bounds)
}

fn part(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    bounds: &dyn Fn(usize) -> Option<Bounds>,
    inputs: &mut Vec<Arc<dyn PhysicalExpr>>,
) -> Option<Part> {
    let DataType::Decimal128(precision, scale) = expr.data_type(schema).ok()? else {
        return None;
    };
    if let Some(column) = expr.downcast_ref::<Column>() {
        let bounds = bounds(column.index()).filter(|b| fits(*b))?;
        let index = inputs
            .iter()
            .position(|known| known == expr)
            .unwrap_or_else(|| {
                inputs.push(Arc::clone(expr));
                inputs.len() - 1
            });
        return Some(Part {
            node: Node::Input(index),
            bounds,
            scale,
        });
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let ScalarValue::Decimal128(Some(value), ..) = literal.value() else {
            return None;
        };
        let node = Node::Constant(i64::try_from(*value).ok()?);
        return Some(Part {
            node,
            bounds: (*value, *value),
            scale,
        });
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        // A precision that holds every value changes none; DataFusion casts operands so.
        let inner = part(cast.expr(), schema, bounds, inputs)?;
        let largest = 10i128.checked_pow(u32::from(precision))? - 1;
        let holds = -largest <= inner.bounds.0 && inner.bounds.1 <= largest;
        return (inner.scale == scale && holds).then_some(inner);
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let operation = Operation::of(*binary.op())?;
    let mut left = part(binary.left(), schema, bounds, inputs)?;
    let mut right = part(binary.right(), schema, bounds, inputs)?;
    if operation == Operation::Multiply {
        if left.scale + right.scale != scale {
            return None;
        }
    } else {
        left = left.rescaled(scale)?;
        right = right.rescaled(scale)?;
    }
    let bounds = operation
        .bounds(left.bounds, right.bounds)
        .filter(|b| fits(*b))?;
    let node = Node::Apply(operation, Box::new(left.node), Box::new(right.node));
    Some(Part {
        node,
        bounds,
        scale,
    })
}

impl PhysicalExpr for NarrowDecimal {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, self.scale))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inputs
            .iter()
            .try_fold(false, |any, input| Ok(any | input.nullable(schema)?))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let arrays = self
            .inputs
            .iter()
            .map(|input| input.evaluate(batch)?.into_array(rows))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let nulls = arrays.iter().fold(None, |nulls, array| {
            NullBuffer::union(nulls.as_ref(), array.nulls())
        });
        let low = |value: &i128| *value as i64;
        let narrow: Vec<Vec<i64>> = arrays
            .iter()
            .map(|a| {
                a.as_primitive::<Decimal128Type>()
                    .values()
                    .iter()
                    .map(low)
                    .collect()
            })
            .collect();
        let values = self.compute(&self.root, &narrow, rows);
        let wide: Vec<i128> = values.into_iter().map(i128::from).collect();
        let array = Decimal128Array::new(wide.into(), nulls)
            .with_precision_and_scale(self.precision, self.scale)?;
        Ok(ColumnarValue::Array(Arc::new(array)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.inputs.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            inputs,
            ..self.as_ref().clone()
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NarrowDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("i64(")?;
        self.write(&self.root, f)?;
        f.write_str(")")
    }
}

impl NarrowDecimal {
    fn write(&self, node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match node {
            Node::Input(index) => write!(f, "{}", self.inputs[*index]),
            Node::Constant(value) => write!(f, "{value}"),
            Node::Apply(operation, left, right) => {
                let sign = match operation {
                    Operation::Add => '+',
                    Operation::Subtract => '-',
                    Operation::Multiply => '*',
                };
                f.write_str("(")?;
                self.write(left, f)?;
                write!(f, " {sign} ")?;
                self.write(right, f)?;
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{col, lit};
    use proptest::prelude::*;

    fn decimals(values: &[i64]) -> ArrayRef {
        let array = Decimal128Array::from_iter_values(values.iter().map(|v| i128::from(*v)));
        Arc::new(array.with_precision_and_scale(15, 2).expect("fits"))
    }

    fn schema() -> Schema {
        let field = |name| Field::new(name, DataType::Decimal128(15, 2), true);
        Schema::new(vec![field("a"), field("b")])
    }

    fn binary(
        l: Arc<dyn PhysicalExpr>,
        op: Operator,
        r: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(l, op, r))
    }

    /// a * (1 - b) * (a + b)
    fn expr(schema: &Schema) -> Arc<dyn PhysicalExpr> {
        let one = lit(ScalarValue::Decimal128(Some(1), 20, 0));
        let (a, b) = (col("a", schema).expect("a"), col("b", schema).expect("b"));
        let rest = binary(one, Operator::Minus, Arc::clone(&b));
        let product = binary(Arc::clone(&a), Operator::Multiply, rest);
        binary(product, Operator::Multiply, binary(a, Operator::Plus, b))
    }

    #[test]
    fn what_may_not_fit_is_left_alone() {
        let schema = schema();
        assert!(NarrowDecimal::of(&expr(&schema), &schema, &|_| Some((0, 1 << 40))).is_none());
        assert!(NarrowDecimal::of(&expr(&schema), &schema, &|_| None).is_none());
    }

    proptest! {
        #[test]
        fn gives_what_128_bits_give(
            rows in proptest::collection::vec((-100_000i64..100_000, -100_000i64..100_000), 1..50)
        ) {
            let schema = schema();
            let expr = expr(&schema);
            let (a, b): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
            let batch = RecordBatch::try_new(
                Arc::new(schema.clone()), vec![decimals(&a), decimals(&b)],
            ).expect("a batch");
            let narrow = NarrowDecimal::of(&expr, &schema, &|_| Some((-100_000, 100_000)))
                .expect("fits");
            let rows = batch.num_rows();
            let ours = narrow.evaluate(&batch).and_then(|v| v.into_array(rows)).expect("ours");
            let theirs = expr.evaluate(&batch).and_then(|v| v.into_array(rows)).expect("theirs");
            prop_assert_eq!(&ours, &theirs);
        }
    }
}
