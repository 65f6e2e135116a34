//! Subqueries as values and conditions, comparisons of rows, and what guards other conditions.

use super::{Answer, SETUP, check};

/// Subqueries in every place.
const SUBQUERIES: &[Answer] = &[
    (
        "SELECT t.a, u.v FROM t LEFT JOIN u ON t.a = u.k AND u.v IN (SELECT b * 10 FROM t) ORDER BY 1,2",
        "1|100\n2|200\n2|200\n3|\n|",
    ),
    (
        "SELECT t.a, u.v FROM t RIGHT JOIN u ON t.a = u.k AND t.b IN (SELECT v / 10 FROM u) ORDER BY 1,2",
        "1|100\n2|200\n2|201\n|7\n|",
    ),
    (
        "SELECT a FROM t WHERE s >= ALL (SELECT s FROM t WHERE s IS NOT NULL)",
        "3",
    ),
    ("SELECT a FROM t WHERE s >= ALL (SELECT s FROM t)", ""),
    (
        "SELECT a FROM t WHERE b > ANY (SELECT b FROM t) ORDER BY 1",
        "2\n3",
    ),
    (
        "SELECT a, b > ANY (SELECT v FROM u) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|\n3|t\n|t",
    ),
    (
        "SELECT a, b > ALL (SELECT v FROM u) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|\n3|f\n|f",
    ),
    (
        "SELECT a, b < ALL (SELECT v FROM u WHERE v IS NOT NULL) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|\n3|f\n|f",
    ),
    (
        "SELECT a, a = ANY (SELECT k FROM u) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|t\n3|\n|",
    ),
    (
        "SELECT a, a <> ALL (SELECT k FROM u) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|f\n3|\n|",
    ),
    (
        "SELECT a, a <> ANY (SELECT k FROM u WHERE k = 2) FROM t ORDER BY 1,2",
        "1|t\n2|f\n2|f\n3|t\n|",
    ),
    (
        "SELECT a, a = ALL (SELECT k FROM u WHERE k = 2) FROM t ORDER BY 1,2",
        "1|f\n2|t\n2|t\n3|f\n|",
    ),
    (
        "SELECT a, a > ALL (SELECT k FROM e), a > ANY (SELECT k FROM e), a = ALL (SELECT k FROM e), a <> ANY (SELECT k FROM e) FROM t ORDER BY 1,2",
        "1|t|f|t|f\n2|t|f|t|f\n2|t|f|t|f\n3|t|f|t|f\n|t|f|t|f",
    ),
    (
        "SELECT a, a = SOME (SELECT k FROM u WHERE u.v > t.b) FROM t ORDER BY 1,2",
        "1|t\n2|f\n2|t\n3|f\n|",
    ),
    (
        "SELECT a, b < ANY (SELECT v FROM u WHERE u.k = t.a) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|\n3|f\n|f",
    ),
    (
        "SELECT a, b < ALL (SELECT v FROM u WHERE u.k < t.a) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|\n3|t\n|t",
    ),
    (
        "SELECT a, a IN (SELECT k FROM u), a NOT IN (SELECT k FROM u) FROM t ORDER BY 1,2",
        "1|t|f\n2|t|f\n2|t|f\n3||\n||",
    ),
    (
        "SELECT a, (a IN (SELECT k FROM u)) IS NULL FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|f\n3|t\n|t",
    ),
    (
        "SELECT a FROM t WHERE (a IN (SELECT k FROM u)) IS NULL ORDER BY 1",
        "3",
    ),
    (
        "SELECT a FROM t WHERE (a NOT IN (SELECT k FROM u)) IS NULL ORDER BY 1",
        "3",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM u) ORDER BY 1",
        "",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM u WHERE k IS NOT NULL) ORDER BY 1",
        "3",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM e) ORDER BY 1",
        "1\n2\n2\n3",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM u WHERE u.v > t.b * 9) ORDER BY 1",
        "2\n3",
    ),
    (
        "SELECT a FROM t WHERE NOT (a IN (SELECT k FROM u)) ORDER BY 1",
        "",
    ),
    (
        "SELECT a FROM t WHERE a IN (SELECT k FROM u) OR b = 40 ORDER BY 1",
        "1\n2\n2",
    ),
    (
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM u) OR b = 40 ORDER BY 1",
        "",
    ),
    (
        "SELECT a, (a IN (SELECT k FROM e)) IS NULL FROM t ORDER BY 1",
        "1|f\n2|f\n2|f\n3|f\n|f",
    ),
    (
        "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.k = t.a) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|t\n3|f\n|f",
    ),
    (
        "SELECT a, NOT EXISTS (SELECT 1 FROM u WHERE u.k > t.a) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|f\n3|f\n|t",
    ),
    (
        "SELECT EXISTS (SELECT 1 FROM u), EXISTS (SELECT 1 FROM e), NOT EXISTS(SELECT 1 FROM e)",
        "t|f|t",
    ),
    (
        "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k < t.a) THEN 'y' ELSE 'n' END FROM t ORDER BY 1,2",
        "1|n\n2|y\n2|y\n3|y\n|n",
    ),
    (
        "SELECT a, (SELECT max(v) FROM u WHERE u.k < t.a) FROM t ORDER BY 1,2",
        "1|\n2|100\n2|100\n3|201\n|",
    ),
    (
        "SELECT a, (SELECT count(*) FROM u WHERE u.k < t.a) FROM t ORDER BY 1,2",
        "1|0\n2|1\n2|1\n3|3\n|0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM u WHERE u.k = t.a) FROM t ORDER BY 1,2",
        "1|1\n2|2\n2|2\n3|0\n|0",
    ),
    (
        "SELECT a, (SELECT count(*)+1 FROM u WHERE u.k > t.a) FROM t ORDER BY 1,2",
        "1|4\n2|2\n2|2\n3|2\n|1",
    ),
    (
        "SELECT a, (SELECT sum(v) FROM u WHERE u.k <> t.a) FROM t ORDER BY 1,2",
        "1|401\n2|100\n2|100\n3|501\n|",
    ),
    (
        "SELECT a FROM t WHERE b > (SELECT avg(v)/10 FROM u WHERE u.k <= t.a) ORDER BY 1",
        "2\n3",
    ),
    (
        "SELECT a, (SELECT v FROM u WHERE u.k = t.a) FROM t ORDER BY 1",
        "!21000",
    ),
    (
        "SELECT a, (SELECT v FROM u WHERE u.k = t.a) FROM t WHERE a = 1 OR a = 3 ORDER BY 1",
        "1|100\n3|",
    ),
    (
        "SELECT a, (SELECT v FROM u WHERE u.k = t.a ORDER BY v DESC LIMIT 1) FROM t ORDER BY 1",
        "1|100\n2|201\n2|201\n3|\n|",
    ),
    (
        "SELECT a, (SELECT v FROM u WHERE u.k > t.a ORDER BY v DESC NULLS LAST LIMIT 1) FROM t ORDER BY 1",
        "1|201\n2|\n2|\n3|\n|",
    ),
    (
        "SELECT a, (SELECT v FROM u WHERE u.k >= t.a ORDER BY v OFFSET 1 LIMIT 1) FROM t ORDER BY 1,2",
        "1|200\n2|201\n2|201\n3|\n|",
    ),
    ("SELECT (SELECT v FROM u)", "!21000"),
    (
        "SELECT a, (SELECT t.b + 1) FROM t ORDER BY 1,2",
        "1|11\n2|21\n2|\n3|31\n|41",
    ),
    (
        "SELECT a, (SELECT max(x) FROM (SELECT v AS x FROM u WHERE u.k < t.a UNION ALL SELECT t.b) q) FROM t ORDER BY 1,2",
        "1|10\n2|100\n2|100\n3|201\n|40",
    ),
    (
        "SELECT a, (SELECT count(*) FROM u LEFT JOIN e ON u.k = e.k WHERE u.v > t.b) FROM t ORDER BY 1,2",
        "1|3\n2|0\n2|3\n3|3\n|3",
    ),
    (
        "SELECT a, (SELECT count(*) FROM u WHERE u.v > t.b AND EXISTS (SELECT 1 FROM u u2 WHERE u2.k > t.a)) FROM t ORDER BY 1,2",
        "1|3\n2|0\n2|3\n3|3\n|0",
    ),
    (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.a AND u.v > (SELECT min(v) FROM u u2 WHERE u2.k < t.b)) ORDER BY 1",
        "2",
    ),
    (
        "SELECT a FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.k > t.a HAVING count(*) > 1) ORDER BY 1",
        "1",
    ),
    (
        "SELECT a, (SELECT count(*) FROM u WHERE u.k > t.a HAVING count(*) > 1) FROM t ORDER BY 1,2",
        "1|3\n2|\n2|\n3|\n|",
    ),
    (
        "SELECT a, (SELECT count(DISTINCT w) FROM u WHERE u.k >= t.a) FROM t ORDER BY 1,2",
        "1|3\n2|2\n2|2\n3|0\n|0",
    ),
    (
        "SELECT a FROM t ORDER BY (SELECT max(v) FROM u WHERE u.k = t.a), a",
        "1\n2\n2\n3",
    ),
    (
        "SELECT sum((SELECT max(v) FROM u WHERE u.k < t.a)) FROM t",
        "401",
    ),
    (
        "SELECT a FROM t GROUP BY a HAVING a > (SELECT min(k) FROM u WHERE u.k < t.a) ORDER BY 1",
        "2\n3",
    ),
    (
        "SELECT (SELECT max(v) FROM u WHERE u.k <= q.a) FROM (SELECT a FROM t ORDER BY b LIMIT 2) q ORDER BY 1",
        "100\n201",
    ),
    (
        "SELECT a, (SELECT k FROM u WHERE u.k = t.a LIMIT 1) FROM t ORDER BY 1,2",
        "1|1\n2|2\n2|2\n3|\n|",
    ),
    (
        "SELECT a FROM t WHERE (SELECT u.k + 1 FROM u WHERE u.k = t.a LIMIT 1) = 3 ORDER BY 1",
        "2\n2",
    ),
    (
        "SELECT a, (SELECT w FROM u WHERE u.k = t.a ORDER BY v DESC LIMIT 1) FROM t ORDER BY 1,2",
        "1|p\n2|r\n2|r\n3|\n|",
    ),
    (
        "SELECT a, (SELECT w FROM u WHERE u.k <= t.a ORDER BY v DESC OFFSET 1 LIMIT 1) FROM t ORDER BY 1,2",
        "1|\n2|q\n2|q\n3|q\n|",
    ),
    (
        "SELECT a FROM t WHERE (SELECT w FROM (SELECT w FROM u WHERE u.k <= t.a ORDER BY v) q LIMIT 1) = 'p' ORDER BY 1",
        "1\n2\n2\n3",
    ),
    (
        "VALUES ((SELECT 1), (SELECT max(v) FROM u)), (5, 6), (7, 8)",
        "1|201\n5|6\n7|8",
    ),
    (
        "SELECT x, y FROM (VALUES (1, 'a'), ((SELECT min(v) FROM u), NULL)) AS n (x, y) ORDER BY x",
        "1|a\n7|",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_stand_everywhere() {
    check(SETUP, SUBQUERIES).await;
}
