//! What random queries have found.

use super::engines::Engine;
use crate::asked::Rows;
use crate::support::start;

/// Statements that make tables, a query, and its values.
type Found = (
    &'static str,
    &'static str,
    &'static [&'static [&'static str]],
);

const FOUND: &[Found] = &[
    // A cast is named as what it casts.
    (
        "CREATE TABLE ta (a INTEGER); INSERT INTO ta VALUES (1), (1), (2)",
        "SELECT a, CAST(a AS BIGINT), sum(a) FROM ta GROUP BY 1, 2 ORDER BY 1",
        &[&["1", "1", "2"], &["2", "2", "2"]],
    ),
    (
        "CREATE TABLE tb (a TEXT); INSERT INTO tb VALUES ('9'), ('10')",
        "SELECT max(a), max(CAST(a AS INTEGER)), max(a::BIGINT) + 1 FROM tb",
        &[&["9", "10", "11"]],
    ),
    // The largest value so far is null before it is something.
    (
        "CREATE TABLE wa (x INTEGER, y INTEGER); INSERT INTO wa VALUES (NULL, 1), (5, 2)",
        "SELECT max(x) OVER (ORDER BY y) FROM wa ORDER BY 1",
        &[&["5"], &["NULL"]],
    ),
    (
        "CREATE TABLE wb (x INTEGER, y INTEGER); INSERT INTO wb VALUES (5, 1), (NULL, 2)",
        "SELECT min(x) OVER (ORDER BY y ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM wb \
         ORDER BY 1 DESC",
        &[&["NULL"], &["5"]],
    ),
    // The total of no rows is a row.
    (
        "CREATE TABLE wd (a INTEGER); INSERT INTO wd VALUES (1)",
        "SELECT a, count(*) FROM wd GROUP BY ROLLUP (a) HAVING CASE WHEN a IS NOT NULL THEN NULL > 1 END",
        &[],
    ),
    // What is left of a union has the union's names.
    (
        "CREATE TABLE wc (a INTEGER); INSERT INTO wc VALUES (1)",
        "SELECT x FROM (SELECT a + 1 AS x FROM wc WHERE 1 > 2 UNION SELECT DISTINCT a + 3 FROM wc) AS q \
         ORDER BY x",
        &[&["4"]],
    ),
    // A list that begins with a query.
    (
        "CREATE TABLE tc (a INTEGER); INSERT INTO tc VALUES (1), (2), (3)",
        "SELECT a FROM tc WHERE a IN ((SELECT max(a) FROM tc), 1) AND a NOT IN ((SELECT 7), (SELECT 8)) \
         AND a IN ((SELECT a FROM tc)) ORDER BY a",
        &[&["1"], &["3"]],
    ),
    // A rule knows of a value that it is never null, which the operators do not.
    (
        "CREATE TABLE a (c INTEGER)",
        "SELECT bool_or(k), count(*) FROM (SELECT CASE WHEN 1 = c THEN TRUE ELSE TRUE END AS k FROM a \
         WHERE c IS NULL UNION ALL SELECT CASE WHEN 1 = c THEN TRUE ELSE TRUE END AS k FROM a) AS u",
        &[&["NULL", "0"]],
    ),
    (
        "CREATE TABLE b (c INTEGER)",
        "SELECT DISTINCT 1, 'a', ((1 > c) IS NOT UNKNOWN) FROM b",
        &[],
    ),
    (
        "CREATE TABLE d (c BOOLEAN); CREATE TABLE e (c INTEGER); INSERT INTO e VALUES (1), (1)",
        "SELECT DISTINCT e.c, (d.c IS TRUE) AS k FROM d RIGHT JOIN e ON TRUE",
        &[&["1", "f"]],
    ),
    // A function is called with a constant over a batch of no rows.
    (
        "CREATE TABLE f (c DOUBLE PRECISION); CREATE TABLE g (c DECIMAL(18,4))",
        "SELECT floor(CASE WHEN c IS NULL THEN CAST(1 AS DECIMAL(10,2)) WHEN c IS NULL \
         THEN CAST(1 AS DECIMAL(10,2)) ELSE CAST(1 AS DECIMAL(10,2)) END) FROM f \
         WHERE CAST(1 AS DECIMAL(10,2)) IN (SELECT c FROM g)",
        &[],
    ),
    // Columns of two sides of a join that share a name are not each other.
    (
        "CREATE TABLE m (a INTEGER, b INTEGER); INSERT INTO m VALUES (1, 5)",
        "SELECT y.b FROM m AS x RIGHT JOIN m AS y ON x.a = y.a AND x.b > 9 WHERE x.b IS NULL",
        &[&["5"]],
    ),
    (
        "CREATE TABLE n (a INTEGER, b INTEGER); INSERT INTO n VALUES (1, 5)",
        "SELECT y.b FROM n AS x RIGHT JOIN n AS y ON x.a = y.a AND x.b > 9 WHERE (y.b <= x.b) IS NULL",
        &[&["5"]],
    ),
    // What is searched for among the rows of a subquery is a subquery itself.
    (
        "CREATE TABLE ma (a INTEGER); CREATE TABLE mb (c TEXT); INSERT INTO ma VALUES (1); INSERT INTO mb VALUES (NULL)",
        "SELECT 'null' FROM mb WHERE ((SELECT min(c) FROM mb) NOT IN (SELECT 'b' FROM ma)) IS NULL",
        &[&["null"]],
    ),
    (
        "CREATE TABLE mc (a INTEGER); INSERT INTO mc VALUES (1), (2), (NULL)",
        "SELECT a, ((SELECT max(a) FROM mc AS i WHERE i.a <= mc.a) IN (SELECT 2)), \
         (SELECT max(a) FROM mc AS i) IN (SELECT a FROM mc AS i WHERE i.a = mc.a) FROM mc ORDER BY a",
        &[&["1", "f", "f"], &["2", "t", "t"], &["NULL", "NULL", "f"]],
    ),
    // Sorts of first rows that leave out a column, constant in each of their partitions.
    (
        "CREATE TABLE md AS SELECT value AS a FROM generate_series(1, 60); \
         CREATE TABLE me (c TEXT); INSERT INTO me VALUES ('x'), ('9')",
        "SELECT CAST(NULL AS INTEGER), 'aab' FROM md UNION ALL SELECT DISTINCT 2, c FROM me \
         ORDER BY 1, 2 DESC NULLS LAST LIMIT 3",
        &[&["2", "x"], &["2", "9"], &["NULL", "aab"]],
    ),
    // Rows that are there several times, on both sides.
    (
        "CREATE TABLE ea (a INTEGER); CREATE TABLE eb (a BIGINT); \
         INSERT INTO ea VALUES (1), (1), (1), (NULL), (NULL), (2); INSERT INTO eb VALUES (1), (NULL), (3)",
        "SELECT a FROM ea EXCEPT ALL SELECT a FROM eb ORDER BY a",
        &[&["1"], &["1"], &["2"], &["NULL"]],
    ),
    (
        "CREATE TABLE ia (a INTEGER); CREATE TABLE ib (a BIGINT); \
         INSERT INTO ia VALUES (1), (1), (1), (NULL), (2); INSERT INTO ib VALUES (1), (1), (NULL), (NULL)",
        "SELECT a FROM ia INTERSECT ALL SELECT a FROM ib ORDER BY a",
        &[&["1"], &["1"], &["NULL"]],
    ),
    // The subquery becomes a join on the nulls of x, whose condition has nulls that are no match.
    (
        "CREATE TABLE xa (x BOOLEAN, y TIMESTAMP); INSERT INTO xa VALUES (NULL, NULL); CREATE TABLE xb (d DATE)",
        "SELECT 'none' FROM xa WHERE NOT (CAST((SELECT min(d) FROM xb WHERE xa.x) AS TIMESTAMP) <> xa.y)",
        &[],
    ),
    // What is left of the condition has no columns, and an aggregate over no rows gives a row.
    (
        "CREATE TABLE ha (a INTEGER)",
        "SELECT max(a) FROM ha HAVING NOT (max(a) = max(a))",
        &[],
    ),
    // What is constant on one side of an outer join is null beside rows that have no match.
    (
        "CREATE TABLE oa (a INTEGER); CREATE TABLE ob (a INTEGER, k INTEGER); \
         INSERT INTO oa VALUES (1), (2), (3), (4); INSERT INTO ob VALUES (1, 5), (3, 5), (4, 6)",
        "SELECT b.k, oa.a FROM oa LEFT JOIN (SELECT * FROM ob WHERE k = 5) AS b ON oa.a = b.a ORDER BY 1, 2",
        &[&["5", "1"], &["5", "3"], &["NULL", "2"], &["NULL", "4"]],
    ),
    (
        "CREATE TABLE oc (a INTEGER, t TEXT); INSERT INTO oc VALUES (1, 'a'), (2, 'b'), (NULL, 'c'), (NULL, 'd')",
        "SELECT one.k, oc.t, max(oc.t) OVER (PARTITION BY one.k ORDER BY oc.t \
         ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM (SELECT 5 AS k, a FROM oc) AS one \
         RIGHT JOIN oc ON one.a = oc.a ORDER BY 1, 2",
        &[
            &["5", "a", "b"],
            &["5", "b", "b"],
            &["NULL", "c", "d"],
            &["NULL", "d", "d"],
        ],
    ),
    // A filter that a join makes while it runs, on one of two columns with the same name.
    (
        "CREATE TABLE na (a DATE, t INTEGER, n INTEGER); CREATE TABLE nb (b BOOLEAN); INSERT INTO nb VALUES (TRUE); \
         INSERT INTO na VALUES (NULL, 7, 99), ('2019-12-31', 7, 1)",
        "SELECT x.a, x.t FROM na AS x JOIN na AS y ON x.t = y.t AND y.n <= 1 \
         RIGHT JOIN (SELECT DATE '2019-12-31' AS k FROM nb) AS z ON y.a = z.k ORDER BY 1",
        &[&["2019-12-31", "7"], &["NULL", "7"]],
    ),
    // A sum of integers that is computed from the sums of groups.
    (
        "CREATE TABLE sa (a INTEGER, b INTEGER); INSERT INTO sa VALUES (1, 2), (1, 3), (2, 3), (3, NULL)",
        "SELECT sum(a), count(DISTINCT b), max(a) FROM sa",
        &[&["7", "2", "3"]],
    ),
    (
        "CREATE TABLE sb (a SMALLINT, b INTEGER, k BIGINT, d DECIMAL(10,2)); \
         INSERT INTO sb VALUES (1, 2, 7, 0.5), (1, 3, 7, 0.25), (2, 3, 8, 1)",
        "SELECT k, sum(a), count(DISTINCT b), sum(k), sum(d) FROM sb GROUP BY k ORDER BY k",
        &[
            &["7", "2", "2", "14", "0.75"],
            &["8", "2", "1", "8", "1.00"],
        ],
    ),
    (
        "CREATE TABLE sc (a INTEGER)",
        "SELECT - max(DISTINCT 61) * - sum(+23)",
        &[&["1403"]],
    ),
    // A column of small integers in the query around a subquery.
    (
        "CREATE TABLE sd (a BIGINT, b INTEGER); INSERT INTO sd VALUES (1, 1), (2, 2)",
        "SELECT k, (SELECT count(*) FROM sd WHERE sd.b = x.k), k IN (SELECT a FROM sd WHERE b = x.k), \
         EXISTS (SELECT 1 FROM sd WHERE a > x.k) FROM (VALUES (1), (2), (3)) AS x (k) ORDER BY k",
        &[
            &["1", "1", "t", "t"],
            &["2", "1", "t", "f"],
            &["3", "0", "f", "f"],
        ],
    ),
    // Small integers for columns of large ones.
    (
        "CREATE TABLE se (a BIGINT, b SMALLINT); INSERT INTO se SELECT 1, 2; INSERT INTO se VALUES (3, 4); \
         UPDATE se SET a = 5, b = 6 WHERE a = 3; \
         INSERT INTO se SELECT k, k FROM (VALUES (7), (8)) AS x (k) WHERE k < 8",
        "SELECT a, b, 3000000000 + a FROM se ORDER BY a",
        &[
            &["1", "2", "3000000001"],
            &["5", "6", "3000000005"],
            &["7", "7", "3000000007"],
        ],
    ),
    (
        "CREATE TABLE sf AS SELECT 1 AS a UNION ALL SELECT 3000000000",
        "WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 3) \
         SELECT sum(k), (SELECT max(a) FROM sf) FROM n",
        &[&["6", "3000000000"]],
    ),
    // Digits of a decimal that follow from how many are asked for.
    (
        "CREATE TABLE sg (a DECIMAL(18,4)); INSERT INTO sg VALUES (1.5), (NULL)",
        "SELECT a FROM sg INTERSECT SELECT DISTINCT round(a, 1) FROM sg ORDER BY 1",
        &[&["1.5000"], &["NULL"]],
    ),
    (
        "CREATE TABLE sh (a DECIMAL(18,4)); INSERT INTO sh VALUES (1.5), (2.25)",
        "SELECT a, round(a, 1 + 1), trunc(a, 1) FROM sh WHERE ceil(a) > round(a, 1) ORDER BY a",
        &[&["1.5000", "1.50", "1.5"], &["2.2500", "2.25", "2.2"]],
    ),
    // Keys of joins that are casts of columns which the join has too.
    (
        "CREATE TABLE si (a DECIMAL(18,4), b INTEGER); INSERT INTO si VALUES (1.5, 1), (2, 7)",
        "SELECT floor(a), b FROM si EXCEPT SELECT a, 1 FROM si ORDER BY 1, 2",
        &[&["1", "1"], &["2", "7"]],
    ),
    (
        "CREATE TABLE sj (a TEXT); INSERT INTO sj VALUES ('1'), ('2'); CREATE TABLE sk (b BIGINT); INSERT INTO sk VALUES (2)",
        "SELECT x.a, y.a, b FROM sj AS x JOIN sk ON CAST(x.a AS BIGINT) = b LEFT JOIN sj AS y ON CAST(y.a AS INTEGER) = b - 1",
        &[&["2", "1", "2"]],
    ),
    // Whether a quotient is a whole number follows from types that are known only once small integers are.
    (
        "CREATE TABLE sl (a INTEGER); INSERT INTO sl VALUES (1)",
        "SELECT count(*) / + sum(ALL + - 4), nullif(max(- 4), avg(92)) / 20, 7 / coalesce(2, sum(8)), k / 3, k / 3.0 > 2.6 \
         FROM sl, (SELECT sum(8) AS k) AS q GROUP BY k",
        &[&["0", "0", "3", "2", "t"]],
    ),
    // A union is named as its first part.
    (
        "CREATE TABLE sm (a TEXT, b TEXT); INSERT INTO sm VALUES ('ab', 'cd')",
        "SELECT 'b', reverse(a), 1 FROM sm UNION SELECT lower('C'), b, 2 FROM sm ORDER BY 1, 2",
        &[&["b", "ba", "1"], &["c", "cd", "2"]],
    ),
    // Many times are of one day, many numbers have one half: no sort may be left out for it.
    (
        "CREATE TABLE sp (k INTEGER, a TIMESTAMP); INSERT INTO sp VALUES (1, '2020-02-29 10:00:00'), \
         (2, '2020-02-29 01:00:00'), (3, '2020-02-28 01:00:00'), (4, '2020-02-29 05:00:00')",
        "SELECT m::text FROM (SELECT k, min(a) AS m FROM sp GROUP BY k) AS q \
         WHERE m::date = date '2020-02-29' ORDER BY m",
        &[
            &["2020-02-29 01:00:00"],
            &["2020-02-29 05:00:00"],
            &["2020-02-29 10:00:00"],
        ],
    ),
    (
        "CREATE TABLE sq (k INTEGER, a INTEGER); INSERT INTO sq VALUES (1, 7), (2, 6), (3, 7), (4, 6), (5, 9)",
        "SELECT m FROM (SELECT k, min(a) AS m FROM sq GROUP BY k) AS q WHERE m / 2 = 3 ORDER BY m DESC, k",
        &[&["7"], &["7"], &["6"], &["6"]],
    ),
    (
        "CREATE TABLE sr (a TIMESTAMP); INSERT INTO sr VALUES ('1969-12-31 23:59:59'), ('2020-02-29 00:00:01')",
        "SELECT a, min(a::date) FROM sr GROUP BY a HAVING min(a::date) < a::date",
        &[],
    ),
    (
        "CREATE TABLE ss (k INTEGER, a BIGINT); INSERT INTO ss VALUES (20, 10), (30, 9), (3, 2)",
        "SELECT m FROM (SELECT k, min(a) AS m FROM ss GROUP BY k) AS q WHERE m::text < k::text ORDER BY m",
        &[&["2"], &["10"]],
    ),
    // A searched column that is cast, beside itself in the condition.
    (
        "CREATE TABLE su (a INTEGER, b NUMERIC(10,2)); INSERT INTO su VALUES (1, 1.5), (2, 2), (5, 2)",
        "SELECT a FROM su WHERE floor(b) IN (SELECT x.a FROM su AS x WHERE su.a <> x.a) ORDER BY a",
        &[&["5"]],
    ),
    // A key of a join that is cast, beside itself.
    (
        "CREATE TABLE sv (k TIMESTAMP, a NUMERIC(12,3), b DOUBLE PRECISION); \
         INSERT INTO sv VALUES ('2020-02-29 12:30:00', 2, 2), ('2020-02-29 12:30:00', 3, 4)",
        "SELECT count(*) FROM (SELECT k, a FROM sv) AS q WHERE CAST(q.k AS DATE) NOT IN \
         (SELECT DATE '2020-02-29' FROM sv AS x WHERE q.a = x.b)",
        &[&["1"]],
    ),
    // Parts of a union that are in order for several reasons.
    (
        "CREATE TABLE sw (a NUMERIC(10,2), k INTEGER); INSERT INTO sw VALUES (1, 3), (2, 6), (2, 6)",
        "SELECT y.a, y.a FROM sw AS x RIGHT JOIN sw AS y ON x.k = y.k \
         UNION ALL SELECT CAST(99.99 AS DECIMAL(10,2)), CAST(-0.01 AS DECIMAL(10,2)) FROM sw AS z \
         WHERE CAST(z.k / 6 AS DECIMAL(12,3)) IN (SELECT CAST(0 AS DECIMAL(10,2)) FROM sw) \
         ORDER BY 1, 2 DESC NULLS LAST",
        &[
            &["1.00", "1.00"],
            &["2.00", "2.00"],
            &["2.00", "2.00"],
            &["2.00", "2.00"],
            &["2.00", "2.00"],
            &["99.99", "-0.01"],
        ],
    ),
    // A constant that an outer join makes null, which is sorted by while the query runs.
    (
        "CREATE TABLE sx (a DATE); INSERT INTO sx VALUES ('2100-06-15'), ('2020-02-29'); \
         CREATE TABLE sy (b INTEGER); INSERT INTO sy VALUES (7)",
        "SELECT q.b, dense_rank() OVER (ORDER BY q.k NULLS FIRST) FROM sx FULL JOIN sy ON TRUE \
         LEFT JOIN (SELECT b, DATE '2020-02-29' AS k FROM sy) AS q ON sx.a = q.k ORDER BY 2",
        &[&["NULL", "1"], &["7", "2"]],
    ),
    // Zero and negative zero are equal everywhere.
    (
        "CREATE TABLE sz (a DOUBLE PRECISION, b REAL); INSERT INTO sz VALUES (0, '-0'), (1, 1)",
        "SELECT nullif(-a, 0), CASE -a WHEN 0 THEN 'z' END, ARRAY[a] = ARRAY[a * -1], -a IN (0, 7), \
         (SELECT count(*) FROM sz AS x WHERE x.a = -sz.a), (SELECT count(*) FROM sz AS x WHERE x.b = sz.a), \
         rank() OVER (ORDER BY CASE WHEN b = 0 THEN -a / 2 ELSE 0 END) FROM sz ORDER BY a",
        &[
            &["NULL", "z", "t", "t", "1", "1", "1"],
            &["-1", "NULL", "f", "f", "0", "1", "1"],
        ],
    ),
    // Totals of what is equal, or in order, below them.
    (
        "CREATE TABLE ua (a INTEGER); CREATE TABLE ub (b INTEGER); INSERT INTO ua VALUES (1), (2); \
         INSERT INTO ub VALUES (1), (2)",
        "SELECT ua.a, ub.b, count(*) OVER (PARTITION BY ua.a), count(*) OVER (PARTITION BY ub.b) \
         FROM ua JOIN ub ON ua.a = ub.b GROUP BY ROLLUP (ua.a, ub.b) ORDER BY 1, 2",
        &[
            &["1", "1", "2", "1"],
            &["1", "NULL", "2", "3"],
            &["2", "2", "2", "1"],
            &["2", "NULL", "2", "3"],
            &["NULL", "NULL", "1", "3"],
        ],
    ),
    (
        "CREATE TABLE uc (a INTEGER); INSERT INTO uc VALUES (1), (2)",
        "SELECT a, count(*) FROM (SELECT a FROM uc ORDER BY a LIMIT 10) AS q GROUP BY ROLLUP (a) ORDER BY a",
        &[&["1", "1"], &["2", "1"], &["NULL", "2"]],
    ),
    // Counts of the last rows fall where a partition begins, and where nulls come.
    (
        "CREATE TABLE ud (p INTEGER, x INTEGER); INSERT INTO ud VALUES (1, 1), (1, 2), (2, 1), (2, 2)",
        "SELECT count(*) OVER (PARTITION BY p ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c \
         FROM ud ORDER BY c",
        &[&["1"], &["1"], &["2"], &["2"]],
    ),
    (
        "CREATE TABLE ue (x INTEGER); INSERT INTO ue VALUES (1), (2), (NULL), (NULL)",
        "SELECT count(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c, \
         avg(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) IS NULL FROM ue ORDER BY c",
        &[&["0", "t"], &["1", "f"], &["1", "f"], &["2", "f"]],
    ),
    (
        "CREATE TABLE uf (a INTEGER, b INTEGER); INSERT INTO uf VALUES (1, 1), (2, 3)",
        "SELECT a FROM uf WHERE a IN (SELECT x.a + 0 AS a FROM uf AS x WHERE uf.b <> x.a)",
        &[&["2"]],
    ),
    // What is constant below grouping sets is null in their totals.
    (
        "CREATE TABLE sn (a TEXT); INSERT INTO sn VALUES ('x')",
        "SELECT k, a, sum(2) FROM (SELECT 5 AS k, a FROM sn) AS q GROUP BY CUBE (k, a) \
         ORDER BY k DESC NULLS LAST, a NULLS FIRST",
        &[
            &["5", "NULL", "2"],
            &["5", "x", "2"],
            &["NULL", "NULL", "2"],
            &["NULL", "x", "2"],
        ],
    ),
    // An average of what is cast, beside the number of what is not.
    (
        "CREATE TABLE so (a INTEGER); INSERT INTO so VALUES (1), (2), (NULL)",
        "SELECT avg(CAST(a AS DOUBLE PRECISION)), count(a), sum(a), avg(DISTINCT a::float8) FROM so",
        &[&["1.5", "2", "3", "1.5"]],
    ),
    // A projection above its like is no less than the first of them.
    (
        "CREATE TABLE o (x INTEGER, y INTEGER); INSERT INTO o VALUES (1, 2)",
        "SELECT x + x AS x FROM (SELECT x + x AS x FROM (SELECT x + x AS x FROM o) AS a) AS b",
        &[&["8"]],
    ),
    (
        "CREATE TABLE p (x INTEGER, y INTEGER); INSERT INTO p VALUES (1, 2)",
        "SELECT y AS x, x AS y FROM (SELECT y AS x, x AS y FROM p) AS a",
        &[&["1", "2"]],
    ),
    (
        "CREATE TABLE q (x TEXT); INSERT INTO q VALUES ('a')",
        "SELECT x || 'b' AS x FROM (SELECT x || 'b' AS x FROM q) AS a",
        &[&["abb"]],
    ),
    // The sum of none is null, of a constant no less than of a column.
    (
        "CREATE TABLE l (c INTEGER)",
        "SELECT sum(k) FROM (SELECT 2 AS k FROM l) AS u",
        &[&["NULL"]],
    ),
    // Nothing is known not to be among values of which one is null, constants no more than columns.
    (
        "CREATE TABLE h (c INTEGER); INSERT INTO h VALUES (5), (NULL)",
        "SELECT 1 WHERE 7 NOT IN (SELECT c FROM h) UNION ALL SELECT 2 WHERE NOT 7 IN (SELECT c FROM h)",
        &[],
    ),
    (
        "CREATE TABLE i (c INTEGER); INSERT INTO i VALUES (5), (6)",
        "SELECT c FROM i WHERE CAST(NULL AS INTEGER) NOT IN (SELECT c FROM i) \
         OR FALSE",
        &[],
    ),
    (
        "CREATE TABLE j (c INTEGER); INSERT INTO j VALUES (5), (NULL)",
        "SELECT c FROM j WHERE c = 5 AND 7 NOT IN (SELECT c FROM j WHERE c = 5)",
        &[&["5"]],
    ),
    (
        "CREATE TABLE k (c INTEGER); INSERT INTO k VALUES (5)",
        "SELECT c FROM k WHERE CAST(NULL AS INTEGER) NOT IN (SELECT c FROM k WHERE c = 6)",
        &[&["5"]],
    ),
    // A condition on the query around alone is null of a null.
    (
        "CREATE TABLE self (c INTEGER); INSERT INTO self VALUES (5), (NULL)",
        "SELECT c FROM self WHERE NOT EXISTS (SELECT 1 FROM k WHERE self.c = self.c)",
        &[&["NULL"]],
    ),
    // Nothing is computed beside a null, so that nothing overflows.
    (
        "CREATE TABLE beside (c INTEGER); INSERT INTO beside VALUES (2000000000)",
        "SELECT CAST(NULL AS INTEGER) - c * c IS NULL FROM beside \
         WHERE (c * c + CAST(NULL AS INTEGER)) IS NULL",
        &[&["t"]],
    ),
    // A product with zero has the digits of a product.
    (
        "CREATE TABLE product (d DECIMAL(10, 2) NOT NULL); INSERT INTO product VALUES (1.5)",
        "SELECT d * 0, 0 * d, CASE d WHEN d * 0 THEN 1 ELSE 2 END FROM product",
        &[&["0.00", "0.00", "2"]],
    ),
    // A list is no constant for being one of no rows.
    (
        "CREATE TABLE listed (b BOOLEAN, d DECIMAL(18, 4)); INSERT INTO listed VALUES (TRUE, -2)",
        "SELECT d FROM listed WHERE 1 NOT IN (CASE WHEN b THEN d WHEN NULL THEN 1 ELSE 1 END, 1.5)",
        &[&["-2.0000"]],
    ),
    // What is searched for is searched for itself.
    (
        "CREATE TABLE sought (c INTEGER); INSERT INTO sought VALUES (5), (6), (NULL)",
        "SELECT c FROM sought WHERE CASE WHEN c IN (SELECT c FROM k) THEN 6 ELSE c END \
         IN (SELECT c FROM i) ORDER BY c",
        &[&["5"], &["6"]],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_were_wrong_stay_right() {
    let server = start().await;
    let engine = Engine::Wire(server.client().await);
    for (tables, query, expected) in FOUND {
        engine.ask(tables).await.expect("tables");
        let rows = engine.ask(query).await;
        let rows = rows.unwrap_or_else(|failure| panic!("{query}: {failure:?}"));
        let value = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
        let expected: Rows = expected
            .iter()
            .map(|row| row.iter().map(value).collect())
            .collect();
        assert_eq!(rows, expected, "{query}");
    }
}
