//! The consistency conditions (clause 3.3.2).

use super::connection::Database;
use super::error::Failure;
use super::rows::Sizes;

/// Lines that are delivered, as what they cost each customer.
const DELIVERED: &str = "SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders \
     JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
     WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id";

/// The condition of each number from 1, as a query that counts what breaks it.
///
/// Number 11 holds as it is written only before anything is delivered. After that, the deliveries that customers
/// count are added to the 2,100 orders of a district that are delivered at first.
fn queries(sizes: Sizes) -> [String; 12] {
    [
        "SELECT count(*) FROM warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district \
         GROUP BY d_w_id) AS d ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd"
            .to_owned(),
        "SELECT count(*) FROM district LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last \
         FROM orders GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest FROM new_order \
         GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE (d_next_o_id - 1 IS DISTINCT FROM last) OR d_next_o_id - 1 <> newest"
            .to_owned(),
        "SELECT count(*) FROM (SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id \
         HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS gaps"
            .to_owned(),
        "SELECT count(*) FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS expected FROM orders \
         GROUP BY o_w_id, o_d_id) AS o FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines \
         FROM order_line GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
         WHERE expected IS DISTINCT FROM lines"
            .to_owned(),
        "SELECT count(*) FROM orders FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id \
         AND no_o_id = o_id WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)"
            .to_owned(),
        "SELECT count(*) FROM orders FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, \
         count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_ol_cnt IS DISTINCT FROM lines"
            .to_owned(),
        "SELECT count(*) FROM order_line JOIN orders ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
         AND ol_o_id = o_id WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)"
            .to_owned(),
        "SELECT count(*) FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid \
         FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id WHERE w_ytd IS DISTINCT FROM paid"
            .to_owned(),
        "SELECT count(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid \
         FROM history GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id \
         WHERE d_ytd IS DISTINCT FROM paid"
            .to_owned(),
        format!(
            "SELECT count(*) FROM customer LEFT JOIN ({DELIVERED}) AS d ON o_w_id = c_w_id \
             AND o_d_id = c_d_id AND o_c_id = c_id LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, \
             sum(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
             ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
             WHERE c_balance IS DISTINCT FROM coalesce(delivered, 0) - coalesce(paid, 0)"
        ),
        format!(
            "SELECT count(*) FROM (SELECT o_w_id, o_d_id, count(*) AS orders FROM orders \
             GROUP BY o_w_id, o_d_id) AS o LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS waiting \
             FROM new_order GROUP BY no_w_id, no_d_id) AS n ON no_w_id = o_w_id \
             AND no_d_id = o_d_id LEFT JOIN (SELECT c_w_id, c_d_id, \
             sum(c_delivery_cnt) AS deliveries FROM customer GROUP BY c_w_id, c_d_id) AS c \
             ON c_w_id = o_w_id AND c_d_id = o_d_id \
             WHERE orders - coalesce(waiting, 0) IS DISTINCT FROM {} + deliveries",
            sizes.delivered()
        ),
        format!(
            "SELECT count(*) FROM customer LEFT JOIN ({DELIVERED}) AS d ON o_w_id = c_w_id \
             AND o_d_id = c_d_id AND o_c_id = c_id \
             WHERE c_balance + c_ytd_payment IS DISTINCT FROM coalesce(delivered, 0)"
        ),
    ]
}

/// The numbers of the conditions that do not hold, while nothing changes.
pub async fn broken_conditions<D: Database>(
    database: &D,
    sizes: Sizes,
) -> Result<Vec<usize>, Failure> {
    let mut broken = Vec::new();
    for (number, query) in (1..).zip(queries(sizes)) {
        let rows = database.query(&query).await?;
        let count = rows.first().map_or(Ok(0), |row| row.long(0))?;
        if count != 0 {
            broken.push(number);
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use nearfar_sql::engine::{Engine, EngineOptions};
    use nearfar_topology::Topology;

    use super::super::in_process::EngineDatabase;
    use super::super::load::load;
    use super::super::random::Constants;
    use super::super::rows::Rows;
    use super::*;

    /// A change that breaks the condition of each number from 1, and others with it.
    const BREAKING: [&str; 12] = [
        "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 2",
        "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 25",
        "DELETE FROM order_line WHERE ol_d_id = 4 AND ol_o_id = 1 AND ol_number = 1",
        "UPDATE orders SET o_carrier_id = 1 WHERE o_d_id = 5 AND o_id = 30",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 6 AND o_id = 1",
        "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 7 AND ol_o_id = 1",
        "DELETE FROM history WHERE h_d_id = 8 AND h_c_id = 1",
        "UPDATE district SET d_ytd = d_ytd + 0.02 WHERE d_id = 9",
        "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_d_id = 10 AND c_id = 1",
        "UPDATE customer SET c_delivery_cnt = 1 WHERE c_d_id = 1 AND c_id = 1",
        "UPDATE customer SET c_ytd_payment = 11.00 WHERE c_d_id = 2 AND c_id = 1",
    ];

    #[tokio::test]
    async fn every_condition_holds_at_first_and_can_be_broken() {
        let topology = Topology::this_machine().expect("a machine");
        let engine = Engine::new(EngineOptions::new(topology)).expect("an engine");
        let database = EngineDatabase(engine);
        let rows = Rows {
            sizes: Sizes::new(1, 100),
            constants: Constants::new(5),
            seed: 5,
            time_us: 0,
        };
        load(&database, rows, &[], |_| ()).await.expect("loaded");
        let broken = broken_conditions(&database, rows.sizes).await;
        assert_eq!(broken.expect("checked"), [0; 0]);
        for (number, change) in (1..).zip(BREAKING) {
            database.run(change).await.expect(change);
            let query = &queries(rows.sizes)[number - 1];
            let answer = database.query(query).await.expect("an answer");
            assert_ne!(answer[0].long(0).expect("a count"), 0, "after {change}");
        }
        let broken = broken_conditions(&database, rows.sizes).await;
        assert_eq!(broken.expect("checked"), (1..=12).collect::<Vec<_>>());
    }
}
