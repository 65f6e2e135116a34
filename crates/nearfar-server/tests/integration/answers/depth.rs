//! Statements as deep as they may be, and deeper.

use super::super::support::{code, start};
use super::answer;

/// Less than the documented limit of 1,000: parts of a statement that surround what is repeated count too,
/// and planning takes the longer the deeper it is.
const DEEP: usize = 400;

fn statements(depth: usize) -> Vec<(&'static str, String)> {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!(
            "SELECT {}{inner}{}",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    vec![
        ("1", nested("(", "1", ")", depth)),
        ("1", nested("abs(", "1", ")", depth / 10)),
        ("t", format!("SELECT true{}", " AND true".repeat(depth))),
        (
            "t",
            format!("SELECT false{} OR true", " OR false".repeat(depth - 1)),
        ),
        ("1", nested("CASE WHEN true THEN ", "1", " END", depth)),
        ("401", format!("SELECT 1{}", " + 1".repeat(depth))),
        ("1", nested("+", "1", "", depth)),
        ("1", nested("(SELECT ", "1", ")", depth / 80)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_the_documented_depth_are_answered() {
    let server = start().await;
    let client = server.client().await;
    for (expected, sql) in statements(DEEP) {
        assert_eq!(answer(&client, &sql).await, expected, "{}…", &sql[..40]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deeper_statements_are_refused() {
    let server = start().await;
    let client = server.client().await;
    for (_, sql) in statements(1_200) {
        let refused = client.batch_execute(&sql).await;
        assert_eq!(code(refused), "54001", "{}…", &sql[..40]);
    }
    assert_eq!(answer(&client, "SELECT 1").await, "1");
}
