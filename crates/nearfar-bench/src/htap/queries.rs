//! What analysts ask.

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The query of TPC-H that it is like.
    pub name: &'static str,
    /// Its text, for Nearfar and PostgreSQL. Rows come in one order only.
    pub sql: &'static str,
}

/// All questions. Sums and counts are exact, so that all systems give the same.
pub const QUERIES: [Query; 12] = [
    Query {
        name: "q1",
        sql: "SELECT ol_number, count(*), sum(ol_quantity), sum(ol_amount) FROM order_line \
              WHERE ol_delivery_d IS NOT NULL GROUP BY ol_number ORDER BY ol_number",
    },
    Query {
        name: "q3",
        sql: "SELECT o_w_id, o_d_id, o_id, sum(ol_amount) AS revenue, o_entry_d FROM customer \
              JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
              JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE c_credit = 'BC' GROUP BY o_w_id, o_d_id, o_id, o_entry_d \
              ORDER BY revenue DESC, o_w_id, o_d_id, o_id LIMIT 10",
    },
    Query {
        name: "q4",
        sql: "SELECT o_ol_cnt, count(*) FROM orders WHERE EXISTS (SELECT 1 FROM order_line \
              WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              AND ol_delivery_d IS NULL AND ol_quantity > 4) GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    },
    Query {
        name: "q6",
        sql: "SELECT count(*), sum(ol_amount) FROM order_line \
              WHERE ol_quantity BETWEEN 2 AND 6 AND ol_amount BETWEEN 1000.00 AND 5000.00",
    },
    Query {
        name: "q11",
        sql: "SELECT s_i_id, sum(s_quantity) AS quantity FROM stock GROUP BY s_i_id \
              HAVING sum(s_quantity) > (SELECT 1.6 * sum(s_quantity) / count(DISTINCT s_i_id) \
              FROM stock) ORDER BY quantity DESC, s_i_id LIMIT 100",
    },
    Query {
        name: "q12",
        sql: "SELECT o_ol_cnt, sum(CASE WHEN o_carrier_id <= 2 THEN 1 ELSE 0 END), \
              sum(CASE WHEN o_carrier_id > 2 THEN 1 ELSE 0 END) FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE ol_quantity >= 5 GROUP BY o_ol_cnt ORDER BY o_ol_cnt",
    },
    Query {
        name: "q13",
        sql: "SELECT orders, count(*) AS customers FROM (SELECT c_w_id, c_d_id, c_id, \
              count(o_id) AS orders FROM customer LEFT JOIN orders ON o_w_id = c_w_id \
              AND o_d_id = c_d_id AND o_c_id = c_id AND o_carrier_id > 5 \
              GROUP BY c_w_id, c_d_id, c_id) AS c GROUP BY orders \
              ORDER BY customers DESC, orders DESC",
    },
    Query {
        name: "q14",
        sql: "SELECT sum(CASE WHEN i_data LIKE '%ORIGINAL%' THEN ol_amount ELSE 0 END), \
              sum(ol_amount) FROM order_line JOIN item ON i_id = ol_i_id \
              WHERE ol_delivery_d IS NULL",
    },
    Query {
        name: "q17",
        sql: "SELECT count(*), sum(ol_amount) FROM order_line JOIN (SELECT ol_i_id AS item, \
              sum(ol_quantity) AS total, count(*) AS lines FROM order_line GROUP BY ol_i_id) AS m \
              ON item = ol_i_id WHERE 2 * ol_quantity * lines < total",
    },
    Query {
        name: "q18",
        sql: "SELECT c_w_id, c_d_id, c_id, o_id, sum(ol_amount) AS amount FROM customer \
              JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              GROUP BY c_w_id, c_d_id, c_id, o_id HAVING sum(ol_amount) > 80000 \
              ORDER BY amount DESC, c_w_id, c_d_id, c_id, o_id LIMIT 100",
    },
    Query {
        name: "q19",
        sql: "SELECT count(*), sum(ol_amount) FROM order_line JOIN item ON i_id = ol_i_id \
              WHERE (i_data LIKE '%a' AND ol_quantity BETWEEN 1 AND 5 AND i_price < 40) \
              OR (i_data LIKE '%b' AND ol_quantity BETWEEN 4 AND 8 AND i_price < 70) \
              OR (i_data LIKE '%c' AND ol_quantity > 4)",
    },
    Query {
        name: "q22",
        sql: "SELECT substr(c_phone, 1, 1) AS country, count(*), sum(c_balance) FROM customer \
              WHERE c_balance >= (SELECT min(c_balance) FROM customer WHERE c_d_id = 1) \
              AND NOT EXISTS (SELECT 1 FROM orders WHERE o_w_id = c_w_id AND o_d_id = c_d_id \
              AND o_c_id = c_id AND o_carrier_id IS NULL) \
              GROUP BY substr(c_phone, 1, 1) ORDER BY country",
    },
];

/// The number of the next order of every district.
pub const NEXT_ORDERS: &str = "SELECT d_w_id, d_id, d_next_o_id FROM district";

/// Orders are never removed: as many as districts say.
pub const ORDERS: &str = "SELECT count(*) FROM orders";
