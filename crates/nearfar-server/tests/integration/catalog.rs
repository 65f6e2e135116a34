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
    assert!(who.get::<_, &str>(3).starts_with("PostgreSQL 16"));
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
    let constraints = "SELECT conname || ' ' || contype || ' ' || conkey || ' ' || pg_get_constraintdef(oid) \
                       FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1";
    let expected = some(&[
        "t_c_k_key u {3,1} UNIQUE (c, k)",
        "t_pkey p {1} PRIMARY KEY (k)",
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
                       coalesce(confkey, '-') || ' ' || (confrelid = 't'::regclass) || ' ' || \
                       pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass ORDER BY 1";
    let expected = [
        "u_k_check c false   - false CHECK ((k > 0))",
        "u_k_fkey f true c {1} true FOREIGN KEY (k) REFERENCES t(k) ON DELETE CASCADE DEFERRABLE",
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
