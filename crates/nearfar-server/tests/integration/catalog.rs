//! What clients find out about tables.

use std::process::Command;

use crate::support::{Running, not_tested, start};

const TABLES: &str = "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR, c DECIMAL(12, 2), d TIMESTAMP); \
                      CREATE VIEW v AS SELECT a FROM t; CREATE SCHEMA s; \
                      CREATE TABLE s.hidden AS SELECT 1 AS a";

/// What psql prints for a command, which must succeed; none if psql is not installed.
async fn psql(server: &Running, command: &'static str) -> Option<String> {
    let port = server.address.port().to_string();
    let run = move || {
        Command::new("psql")
            .args([
                "-X",
                "-A",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                "127.0.0.1",
                "-U",
                "me",
                "-p",
                &port,
            ])
            .args(["-d", "db", "-c", command])
            .output()
    };
    let output = tokio::task::spawn_blocking(run).await.expect("run").ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    // That there is nothing is told there too.
    assert!(
        output.status.success() && !errors.contains("ERROR"),
        "{command}: {errors}{text}"
    );
    Some(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_lists_and_describes() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(TABLES).await.expect("created");
    for (command, expected) in [
        (
            "\\d",
            &[
                "public|t|table|nearfar",
                "public|v|view|nearfar",
                "(2 rows)",
            ][..],
        ),
        ("\\dt", &["public|t|table|nearfar", "(1 row)"]),
        ("\\dt s.*", &["s|hidden|table|nearfar", "(1 row)"]),
        ("\\dt+", &["public|t|table|nearfar|permanent|nearfar"]),
        ("\\dv", &["public|v|view|nearfar", "(1 row)"]),
        (
            "\\d t",
            &[
                "Table \"public.t\"",
                "a|bigint||not null|",
                "b|text|||",
                "c|numeric(12,2)|||",
                "d|timestamp without time zone|||",
            ],
        ),
        ("\\d+ t", &["a|bigint||not null|"]),
        ("\\d v", &["View \"public.v\"", "a|bigint|"]),
        ("\\dn", &["public|nearfar", "s|nearfar"]),
        ("\\l", &["db|nearfar|UTF8"]),
        ("\\du", &["me|"]),
        ("\\df", &["(0 rows)"]),
        ("\\di", &[]),
    ] {
        let Some(text) = psql(&server, command).await else {
            not_tested("psql is not installed");
            return;
        };
        for part in expected {
            assert!(text.contains(part), "{command}: no {part} in {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_are_tables_and_follow_changes() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(TABLES).await.expect("created");
    let columns = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull \
                   FROM pg_attribute a WHERE a.attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum";
    let rows = client.query(columns, &[]).await.expect("columns");
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[2].get::<_, &str>(1), "numeric(12,2)");
    assert!(rows[0].get::<_, bool>(2) && !rows[1].get::<_, bool>(2));
    let names = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'public' AND relkind = ANY (ARRAY['r', 'v']) ORDER BY 1";
    assert_eq!(client.query(names, &[]).await.expect("tables").len(), 2);
    client
        .batch_execute("DROP VIEW v; CREATE TEMP TABLE w AS SELECT 1 AS a")
        .await
        .expect("changed");
    assert_eq!(client.query(names, &[]).await.expect("tables").len(), 1);
    let seen = "SELECT count(*) FROM pg_class WHERE relname = 'w' AND relpersistence = 't'";
    let seen_by = async |client: &tokio_postgres::Client| {
        let row = client.query_one(seen, &[]).await;
        row.expect("counted").get::<_, i64>(0)
    };
    assert_eq!(seen_by(&client).await, 1);
    assert_eq!(seen_by(&server.client().await).await, 0);
    let who = "SELECT current_user, current_schema(), current_database(), pg_catalog.version()";
    let who = client.query_one(who, &[]).await.expect("a row");
    assert_eq!(
        (who.get::<_, &str>(0), who.get::<_, &str>(1)),
        ("me", "public")
    );
    assert!(who.get::<_, &str>(3).starts_with("PostgreSQL 15"));
    let like = r"SELECT 'a%b' LIKE 'a/%_' ESCAPE '/', 'axb' LIKE 'a/%_' ESCAPE '/', 'a/\b' LIKE '_//\_' ESCAPE '/'";
    let like = client.query_one(like, &[]).await.expect("a row");
    let like: Vec<bool> = (0..3).map(|at| like.get(at)).collect();
    assert_eq!(like, [true, false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_declared_of_tables_is_in_the_catalogs() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (k BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \"A b\" INT DEFAULT 1 + 1, \
                             c VARCHAR NOT NULL, UNIQUE (c, k));
             CREATE INDEX t_b ON t USING masstree (\"A b\" DESC, c)",
        )
        .await
        .expect("a table");
    let texts = async |sql: &str| {
        let rows = client.query(sql, &[]).await.expect(sql);
        let text = |row: &tokio_postgres::Row| row.get::<_, Option<String>>(0);
        rows.iter().map(text).collect::<Vec<_>>()
    };
    let some = |all: &[&str]| -> Vec<_> { all.iter().map(|it| Some((*it).to_owned())).collect() };
    // As psql asks for the indexes of a table.
    let indexes = "SELECT pg_catalog.pg_get_indexdef(i.indexrelid, 0, true) FROM pg_catalog.pg_class c, \
                   pg_catalog.pg_class c2, pg_catalog.pg_index i LEFT JOIN pg_catalog.pg_constraint con ON \
                   (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x')) \
                   WHERE c.oid = 't'::regclass AND c.relhasindex AND c.oid = i.indrelid AND i.indexrelid = c2.oid \
                   AND c2.relkind = 'i' ORDER BY i.indisprimary DESC, c2.relname";
    let expected = some(&[
        "CREATE UNIQUE INDEX t_pkey ON public.t USING art (k)",
        "CREATE INDEX t_b ON public.t USING masstree (\"A b\" DESC, c)",
        "CREATE UNIQUE INDEX t_c_k_key ON public.t USING art (c, k)",
    ]);
    assert_eq!(texts(indexes).await, expected);
    let constraints = "SELECT conname || ' ' || contype || ' ' || array_to_string(conkey, ',') || ' ' || pg_get_constraintdef(oid) \
                       FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1";
    let expected = some(&[
        "t_c_k_key u 3,1 UNIQUE (c, k)",
        "t_pkey p 1 PRIMARY KEY (k)",
    ]);
    assert_eq!(texts(constraints).await, expected);
    let columns = "SELECT attname || ':' || attidentity || ':' || atthasdef || ':' || coalesce((SELECT \
                   pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = \
                   a.attnum AND a.atthasdef), '-') FROM pg_attribute a WHERE attrelid = 't'::regclass ORDER BY attnum";
    let expected = some(&["k:a:false:-", "A b::true:1 + 1", "c::false:-"]);
    assert_eq!(texts(columns).await, expected);
    let trees = "SELECT amname FROM pg_am JOIN pg_class c ON relam = pg_am.oid WHERE relname IN ('t', 't_b') ORDER BY 1";
    assert_eq!(texts(trees).await, some(&["masstree", "nearfar"]));
    let types = "SELECT format_type(to_regtype('character varying'), -1) || coalesce(to_regtype('hstore')::text, '')";
    assert_eq!(texts(types).await, some(&["character varying"]));
    client.batch_execute("DROP TABLE t").await.expect("dropped");
    assert_eq!(texts("SELECT conname FROM pg_constraint").await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rows_have_to_be_is_in_the_catalogs() {
    let server = start().await;
    let client = server.client().await;
    let declared = "CREATE TABLE t (k INT PRIMARY KEY, c VARCHAR);
                    CREATE TABLE u (k INT CHECK (k > 0) REFERENCES t ON DELETE CASCADE DEFERRABLE)";
    client.batch_execute(declared).await.expect(declared);
    let constraints = "SELECT conname || ' ' || contype || ' ' || condeferrable || ' ' || confdeltype || ' ' || \
                       coalesce(array_to_string(confkey, ','), '-') || ' ' || (confrelid = 't'::regclass) || ' ' || \
                       pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass ORDER BY 1";
    let expected = [
        "u_k_check c false   - false CHECK ((k > 0))",
        "u_k_fkey f true c 1 true FOREIGN KEY (k) REFERENCES t(k) ON DELETE CASCADE DEFERRABLE",
    ];
    let rows = client.query(constraints, &[]).await.expect(constraints);
    let found: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, expected);
    for (sql, state) in [
        ("INSERT INTO u VALUES (0)", "23514"),
        ("INSERT INTO u VALUES (77)", "23503"),
        (
            "ALTER TABLE u ADD CONSTRAINT u_k_fkey CHECK (k > 1)",
            "42710",
        ),
        (
            "ALTER TABLE u ADD FOREIGN KEY (k) REFERENCES t (c)",
            "42830",
        ),
        ("CREATE TABLE w (k INT CHECK (k))", "42804"),
        ("DROP TABLE t", "2BP01"),
        ("TRUNCATE t", "0A000"),
    ] {
        let error = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(error.code().map(|code| code.code()), Some(state), "{sql}");
    }
}

const REFERRING: &str = "CREATE TABLE pairs (x INT, y INT, PRIMARY KEY (x, y)); \
     CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, code INT, \
                        n INT CHECK (n > 0), UNIQUE (name, code)); \
     CREATE INDEX item_n ON item (n DESC, code NULLS FIRST); \
     CREATE TABLE line (id INT PRIMARY KEY, item INT NOT NULL REFERENCES item ON DELETE CASCADE, \
                        a INT, b INT, FOREIGN KEY (b, a) REFERENCES pairs (y, x) \
                        ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED)";

/// The rows of a query as texts, their columns between bars.
async fn rows_of(client: &tokio_postgres::Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("-").to_owned());
        columns.collect::<Vec<_>>().join("|")
    };
    rows.map(text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_shows_foreign_keys_at_both_ends() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(REFERRING).await.expect("created");
    for (command, expected) in [
        (
            "\\d item",
            &[
                "\"item_n\" art (n DESC, code NULLS FIRST)",
                "\"item_n_check\" CHECK (n > 0)",
                "Referenced by:",
                "TABLE \"line\" CONSTRAINT \"line_item_fkey\" FOREIGN KEY (item) REFERENCES item(id) ON DELETE CASCADE",
            ][..],
        ),
        (
            "\\d line",
            &[
                "Foreign-key constraints:",
                "\"line_b_a_fkey\" FOREIGN KEY (b, a) REFERENCES pairs(y, x) ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED",
                "\"line_item_fkey\" FOREIGN KEY (item) REFERENCES item(id) ON DELETE CASCADE",
            ],
        ),
        ("\\d pairs", &["Referenced by:", "\"line_b_a_fkey\""]),
    ] {
        let Some(text) = psql(&server, command).await else {
            not_tested("psql is not installed");
            return;
        };
        for part in expected {
            assert!(text.contains(part), "{command}: no {part} in {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_keys_are_arrays() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(REFERRING).await.expect("created");
    // As SQLAlchemy asks for keys.
    let keys = "SELECT attr.conname, array_to_string(array_agg(CAST(attr.attname AS TEXT) ORDER BY attr.ord), ',') \
                FROM (SELECT con.conname, con.ord, a.attname FROM pg_catalog.pg_attribute a JOIN \
                (SELECT c.conrelid, c.conname, unnest(i.indkey) AS attnum, generate_subscripts(i.indkey, 1) AS ord \
                FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_index i ON c.conindid = i.indexrelid \
                WHERE c.contype IN ('p', 'u')) AS con ON a.attnum = con.attnum AND a.attrelid = con.conrelid) AS attr \
                GROUP BY attr.conname ORDER BY 1";
    assert_eq!(
        rows_of(&client, keys).await,
        [
            "item_name_code_key|name,code",
            "item_pkey|id",
            "line_pkey|id",
            "pairs_pkey|x,y"
        ]
    );
    // As JDBC asks for foreign keys.
    let foreign = "SELECT con.conname, a.attname, b.attname, pos.n FROM pg_catalog.generate_series(1, 8) pos(n), \
                   pg_catalog.pg_constraint con, pg_catalog.pg_attribute a, pg_catalog.pg_attribute b \
                   WHERE con.contype = 'f' AND a.attrelid = con.conrelid AND a.attnum = con.conkey[pos.n] \
                   AND b.attrelid = con.confrelid AND b.attnum = con.confkey[pos.n] ORDER BY 1, 4";
    assert_eq!(
        rows_of(&client, foreign).await,
        [
            "line_b_a_fkey|b|y|1",
            "line_b_a_fkey|a|x|2",
            "line_item_fkey|item|id|1"
        ]
    );
    let options = "SELECT i.indkey, i.indoption, i.indkey::text FROM pg_index i JOIN pg_class c \
                   ON c.oid = i.indexrelid WHERE c.relname = 'item_n'";
    let row = &rows_of(&client, options).await[0];
    assert!(row.starts_with("4 3|3 2|"), "{row}");
    let column = client
        .prepare("SELECT indkey, indnatts FROM pg_index")
        .await;
    let column = column.expect("prepared");
    assert_eq!(column.columns()[0].type_().name(), "int2vector");
    let named = "SELECT pg_get_indexdef(c.oid, 2, true) FROM pg_class c WHERE relname = 'item_n'";
    assert_eq!(rows_of(&client, named).await, ["code"]);
    let any = "SELECT a.attname FROM pg_attribute a JOIN pg_constraint c ON a.attrelid = c.conrelid \
               AND a.attnum = ANY (c.conkey) WHERE c.conname = 'item_name_code_key' ORDER BY 1";
    assert_eq!(rows_of(&client, any).await, ["code", "name"]);
}

/// Queries of `information_schema`, and their rows.
const INFORMATION: &[(&str, &[&str])] = &[
    (
        "SELECT table_name, table_type FROM information_schema.tables \
             WHERE table_schema = 'public' ORDER BY 1",
        &[
            "item|BASE TABLE",
            "line|BASE TABLE",
            "numbered|BASE TABLE",
            "pairs|BASE TABLE",
        ],
    ),
    (
        "SELECT DISTINCT table_name FROM information_schema.columns \
             WHERE table_schema = 'public' ORDER BY 1",
        &["item", "line", "numbered", "pairs"],
    ),
    (
        "SELECT column_name, ordinal_position, data_type, is_nullable, character_maximum_length, numeric_precision, \
             udt_name, is_identity, is_updatable FROM information_schema.columns WHERE table_name = 'item' ORDER BY 2",
        &[
            "id|1|integer|NO|-|32|int4|NO|YES",
            "name|2|character varying|NO|20|-|varchar|NO|YES",
            "code|3|integer|YES|-|32|int4|NO|YES",
            "n|4|integer|YES|-|32|int4|NO|YES",
        ],
    ),
    (
        "SELECT table_name, constraint_name, constraint_type, is_deferrable, initially_deferred \
             FROM information_schema.table_constraints WHERE constraint_name NOT LIKE '%_not_null' ORDER BY 1, 2",
        &[
            "item|item_n_check|CHECK|NO|NO",
            "item|item_name_code_key|UNIQUE|NO|NO",
            "item|item_pkey|PRIMARY KEY|NO|NO",
            "line|line_b_a_fkey|FOREIGN KEY|YES|YES",
            "line|line_item_fkey|FOREIGN KEY|NO|NO",
            "line|line_pkey|PRIMARY KEY|NO|NO",
            "pairs|pairs_pkey|PRIMARY KEY|NO|NO",
        ],
    ),
    (
        "SELECT constraint_name, column_name, ordinal_position, position_in_unique_constraint \
             FROM information_schema.key_column_usage WHERE table_name = 'line' ORDER BY 1, 3",
        &[
            "line_b_a_fkey|b|1|2",
            "line_b_a_fkey|a|2|1",
            "line_item_fkey|item|1|1",
            "line_pkey|id|1|-",
        ],
    ),
    (
        "SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule \
             FROM information_schema.referential_constraints ORDER BY 1",
        &[
            "line_b_a_fkey|pairs_pkey|NONE|SET NULL|NO ACTION",
            "line_item_fkey|item_pkey|NONE|NO ACTION|CASCADE",
        ],
    ),
    (
        "SELECT check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'public' \
             AND check_clause NOT LIKE 'id %' ORDER BY 1",
        &[
            "((n > 0))",
            "item IS NOT NULL",
            "name IS NOT NULL",
            "x IS NOT NULL",
            "y IS NOT NULL",
        ],
    ),
    (
        "SELECT constraint_name, table_name, column_name FROM information_schema.constraint_column_usage \
             WHERE constraint_name LIKE 'line%' OR constraint_name LIKE '%check' ORDER BY 1, 3",
        &[
            "item_n_check|item|n",
            "line_b_a_fkey|pairs|x",
            "line_b_a_fkey|pairs|y",
            "line_item_fkey|item|id",
            "line_pkey|line|id",
        ],
    ),
    // As tools ask for the primary key.
    (
        "SELECT kcu.column_name FROM information_schema.table_constraints tc JOIN \
             information_schema.key_column_usage kcu ON tc.constraint_name = kcu.constraint_name \
             AND tc.table_schema = kcu.table_schema WHERE tc.constraint_type = 'PRIMARY KEY' \
             AND tc.table_name = 'pairs' ORDER BY kcu.ordinal_position",
        &["x", "y"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn information_schema_has_constraints_and_no_sequences() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(REFERRING).await.expect("created");
    let sequences = "CREATE SEQUENCE s; CREATE TABLE numbered (id SERIAL)";
    client.batch_execute(sequences).await.expect("created");
    for (sql, expected) in INFORMATION {
        assert_eq!(rows_of(&client, sql).await, *expected, "{sql}");
    }
    assert!(client.simple_query("SHOW TABLES").await.is_ok());
}

/// As JDBC's driver asks for the columns of a primary key.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_expanded_to_their_columns() {
    let server = start().await;
    let client = server.client().await;
    let table =
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (c, a)); CREATE INDEX i ON t (b DESC)";
    client.batch_execute(table).await.expect("created");
    let rows = client
        .query(
            "SELECT result.column_name, result.key_seq, result.pk_name FROM (\
             SELECT a.attname AS column_name, \
             (information_schema._pg_expandarray(i.indkey)).n AS key_seq, ci.relname AS pk_name, \
             information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS a_attnum \
             FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) \
             JOIN pg_catalog.pg_namespace n ON (ct.relnamespace = n.oid) \
             JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) \
             JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) \
             WHERE true AND ct.relname = 't' AND i.indisprimary) result \
             WHERE result.a_attnum = (result.keys).x \
             ORDER BY result.pk_name, result.key_seq",
            &[],
        )
        .await
        .expect("found");
    let found: Vec<(&str, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(found, [("c", 1), ("a", 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_schemas_are_told_as_drivers_ask() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("SET merge_rows = 77")
        .await
        .expect("set");
    let setting = "SELECT setting FROM pg_catalog.pg_settings WHERE name = $1";
    for (name, expected) in [("max_index_keys", "32"), ("nearfar.merge_rows", "77")] {
        let row = client.query_one(setting, &[&name]).await.expect(name);
        assert_eq!(row.get::<_, &str>(0), expected, "{name}");
    }
    let schemas = "SELECT current_schemas(true), current_schemas(false)";
    let row = client.query_one(schemas, &[]).await.expect("told");
    assert_eq!(row.get::<_, Vec<&str>>(0), ["pg_catalog", "public"]);
    assert_eq!(row.get::<_, Vec<&str>>(1), ["public"]);
    let named = "SELECT count(*) FROM pg_namespace WHERE nspname = ANY(current_schemas(true))";
    let row = client.query_one(named, &[]).await.expect("counted");
    assert_eq!(row.get::<_, i64>(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn information_schema_has_the_types_and_identities_of_columns() {
    let server = start().await;
    let client = server.client().await;
    let tables = "CREATE TABLE kinds (a SMALLINT, b BIGINT, c TEXT, d BOOLEAN, e NUMERIC(9, 2), f DATE, \
                  g TIMESTAMP, h TIMESTAMPTZ, i DOUBLE PRECISION, j REAL, k BYTEA, l CHAR(3), m INT[]); \
                  CREATE TABLE made (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5), \
                  other INT GENERATED BY DEFAULT AS IDENTITY, n INT DEFAULT 7); \
                  CREATE VIEW seen AS SELECT n FROM made";
    client.batch_execute(tables).await.expect("created");
    let kinds = "SELECT data_type FROM information_schema.columns WHERE table_name = 'kinds' \
                 ORDER BY ordinal_position";
    let expected = [
        "smallint",
        "bigint",
        "text",
        "boolean",
        "numeric",
        "date",
        "timestamp without time zone",
        "timestamp without time zone",
        "double precision",
        "real",
        "bytea",
        "character",
        "ARRAY",
    ];
    assert_eq!(rows_of(&client, kinds).await, expected);
    let numeric = "SELECT numeric_precision, numeric_precision_radix, numeric_scale \
                   FROM information_schema.columns WHERE table_name = 'kinds' AND column_name = 'e'";
    assert_eq!(rows_of(&client, numeric).await, ["9|10|2"]);
    let made = "SELECT column_name, is_identity, identity_generation, identity_start, column_default, is_updatable \
                FROM information_schema.columns WHERE table_name IN ('made', 'seen') \
                ORDER BY table_name, ordinal_position";
    let expected = [
        "id|YES|ALWAYS|5|-|YES",
        "other|YES|BY DEFAULT|1|-|YES",
        "n|NO|-|-|7|YES",
        "n|NO|-|-|-|NO",
    ];
    assert_eq!(rows_of(&client, made).await, expected);
}

/// What an error says of a constraint: its code, the schema, table, column and constraint, and the detail.
fn violated<T>(result: Result<T, tokio_postgres::Error>) -> [String; 6] {
    let Err(error) = result else {
        panic!("it succeeded");
    };
    let error = error.as_db_error().expect("of the server");
    [
        Some(error.code().code()),
        error.schema(),
        error.table(),
        error.column(),
        error.constraint(),
        error.detail(),
    ]
    .map(|field| field.unwrap_or("-").to_owned())
}

/// Statements, and what the error says of the constraint that their rows fail.
const VIOLATIONS: &[(&str, [&str; 6])] = &[
    (
        "INSERT INTO p VALUES (1, 1)",
        [
            "23505",
            "public",
            "p",
            "-",
            "p_pkey",
            "Key (id)=(1) already exists.",
        ],
    ),
    (
        "INSERT INTO p VALUES (2, 2), (2, 2)",
        [
            "23505",
            "public",
            "p",
            "-",
            "p_pkey",
            "Key (id)=(2) already exists.",
        ],
    ),
    (
        "INSERT INTO p SELECT 2, NULL",
        ["23502", "public", "p", "n", "-", "-"],
    ),
    (
        "INSERT INTO p VALUES (2, -1)",
        [
            "23514",
            "public",
            "p",
            "-",
            "positive",
            "Failing row contains (2, -1).",
        ],
    ),
    (
        "INSERT INTO s.c VALUES (1, 9)",
        [
            "23503",
            "s",
            "c",
            "-",
            "c_p_fkey",
            "Key (p)=(9) is not present in table \"p\".",
        ],
    ),
    (
        "DELETE FROM p WHERE id = 1",
        [
            "23503",
            "s",
            "c",
            "-",
            "c_p_fkey",
            "Key (id)=(1) is still referenced from table \"c\".",
        ],
    ),
    (
        "CREATE UNIQUE INDEX c_p ON s.c (p)",
        ["23505", "s", "c", "-", "c_p", "Key (p)=(1) already exists."],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn constraints_that_rows_fail_are_told_in_fields() {
    let server = start().await;
    let (client, other) = (server.client().await, server.client().await);
    let tables = "CREATE SCHEMA s; \
                  CREATE TABLE p (id INT PRIMARY KEY, n INT NOT NULL CONSTRAINT positive CHECK (n > 0)); \
                  CREATE TABLE s.c (id INT PRIMARY KEY, p INT REFERENCES p (id)); \
                  INSERT INTO p VALUES (1, 1); INSERT INTO s.c VALUES (7, 1), (8, 1)";
    client.batch_execute(tables).await.expect("created");
    for (sql, expected) in VIOLATIONS {
        assert_eq!(violated(client.simple_query(sql).await), *expected, "{sql}");
    }
    // Found when the transaction ends, and in a table that was defined anew.
    let insert = "INSERT INTO p (id, n) VALUES (3, 3)";
    for sql in ["ALTER TABLE p ADD COLUMN added INT", "BEGIN", insert] {
        client.batch_execute(sql).await.expect(sql);
    }
    other.batch_execute(insert).await.expect("inserted");
    let detail = "Key (id)=(3) already exists.";
    let expected = ["23505", "public", "p", "-", "p_pkey", detail];
    assert_eq!(violated(client.batch_execute("COMMIT").await), expected);
    let own = "CREATE TEMP TABLE mine (a INT UNIQUE); INSERT INTO mine VALUES (1)";
    client.batch_execute(own).await.expect("created");
    let expected = [
        "23505",
        "temporary",
        "mine",
        "-",
        "mine_a_key",
        "Key (a)=(1) already exists.",
    ];
    let again = client
        .execute("INSERT INTO mine VALUES ($1)", &[&1_i32])
        .await;
    assert_eq!(violated(again), expected);
}
