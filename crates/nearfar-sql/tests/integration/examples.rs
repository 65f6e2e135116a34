//! The examples that embed the engine run to their end.

#[path = "../../examples/embed.rs"]
mod embed;
#[path = "../../examples/restart.rs"]
mod restart;
#[path = "../../examples/transactions.rs"]
mod transactions;

#[test]
fn tables_lie_on_two_tiers() {
    embed::main().expect("the example");
}

#[test]
fn what_is_committed_is_there_after_a_restart() {
    restart::main().expect("the example");
}

#[test]
fn transactions_that_conflict_are_run_again() {
    transactions::main().expect("the example");
}
