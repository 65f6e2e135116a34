//! Arithmetic on columns of 64-bit integers, each step of which is done once.

use crate::optimize::{Node, Operation};

/// A column of values, or the same for all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// What a step gives.
    Step(usize),
    /// A value.
    Constant(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Reads a column.
    Read(usize),
    /// Computes one of others, or of constants, not both.
    Apply(Operation, Operand, Operand),
}

/// Steps, each of which has what those before it give.
#[derive(Debug, Default)]
pub struct Program {
    steps: Vec<Step>,
}

impl Program {
    /// The values of a column.
    pub fn column(&mut self, column: usize) -> Operand {
        self.step(Step::Read(column))
    }

    /// The values of an expression over `inputs`.
    pub fn node(&mut self, node: &Node, inputs: &[Operand]) -> Operand {
        match node {
            Node::Input(index) => inputs[*index],
            Node::Constant(value) => Operand::Constant(*value),
            Node::Apply(operation, left, right) => {
                let (left, right) = (self.node(left, inputs), self.node(right, inputs));
                match (left, right) {
                    (Operand::Constant(left), Operand::Constant(right)) => {
                        Operand::Constant(operation.apply(left, right))
                    }
                    _ => self.step(Step::Apply(*operation, left, right)),
                }
            }
        }
    }

    fn step(&mut self, step: Step) -> Operand {
        let known = self.steps.iter().position(|known| *known == step);
        Operand::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// What each step gives, where `read` gives the values of a column.
    ///
    /// # Errors
    /// What `read` reports.
    pub fn run<E>(
        &self,
        mut read: impl FnMut(usize) -> Result<Vec<i64>, E>,
    ) -> Result<Vec<Vec<i64>>, E> {
        let mut given: Vec<Vec<i64>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            given.push(match step {
                Step::Read(column) => read(*column)?,
                Step::Apply(operation, left, right) => applied(*operation, (*left, *right), &given),
            });
        }
        Ok(given)
    }
}

fn applied(operation: Operation, operands: (Operand, Operand), given: &[Vec<i64>]) -> Vec<i64> {
    match operation {
        Operation::Add => combined(operands, given, i64::wrapping_add),
        Operation::Subtract => combined(operands, given, i64::wrapping_sub),
        Operation::Multiply => combined(operands, given, i64::wrapping_mul),
    }
}

#[inline(always)]
fn combined(
    operands: (Operand, Operand),
    given: &[Vec<i64>],
    combine: impl Fn(i64, i64) -> i64,
) -> Vec<i64> {
    match operands {
        (Operand::Step(left), Operand::Step(right)) => {
            let pairs = given[left].iter().zip(&given[right]);
            pairs.map(|(a, b)| combine(*a, *b)).collect()
        }
        (Operand::Step(left), Operand::Constant(b)) => {
            given[left].iter().map(|a| combine(*a, b)).collect()
        }
        (Operand::Constant(a), Operand::Step(right)) => {
            given[right].iter().map(|b| combine(a, *b)).collect()
        }
        (Operand::Constant(a), Operand::Constant(b)) => vec![combine(a, b)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_twice_is_one_step() {
        let apply = |operation, a: &Node, b: &Node| {
            Node::Apply(operation, Box::new(a.clone()), Box::new(b.clone()))
        };
        let (a, b) = (Node::Input(0), Node::Input(1));
        let rest = apply(Operation::Subtract, &Node::Constant(100), &b);
        let price = apply(Operation::Multiply, &a, &rest);
        let more = apply(Operation::Add, &Node::Constant(60), &Node::Constant(40));
        let charge = apply(Operation::Multiply, &price, &more);
        let mut program = Program::default();
        let inputs = [program.column(7), program.column(3)];
        let price = program.node(&price, &inputs);
        let charge = program.node(&charge, &inputs);
        assert_eq!(program.column(7), inputs[0]);
        assert_eq!((price, charge), (Operand::Step(3), Operand::Step(4)));
        let read = |column| match column {
            7 => Ok(vec![2, 4]),
            _ => Ok(vec![10, -5]),
        };
        let given = program.run::<()>(read).expect("values");
        assert_eq!(given[3], [180, 420]);
        assert_eq!(given[4], [18_000, 42_000]);
    }
}
