//! Drivers of other languages, where they are installed: what they send by themselves.

use std::process::Command;

use crate::support::{not_tested, start};

/// The exit code of `drivers.py` where a driver is not installed.
const MISSING: i32 = 77;

const DRIVERS: [&str; 7] = [
    "psycopg3",
    "psycopg2",
    "sqlalchemy",
    "asyncpg",
    "sqlalchemy_orm",
    "pandas",
    "adbc",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_drivers_send_by_themselves_is_answered() {
    let python = std::env::var("NEARFAR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "tests/integration/drivers.py";
    let server = start().await;
    for driver in DRIVERS {
        let port = server.address.port().to_string();
        let mut command = Command::new(&python);
        command.args([script, driver, &port]);
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let Ok(output) = ran.expect("no panic") else {
            return not_tested("there is no Python");
        };
        match output.status.code() {
            Some(0) => {}
            Some(MISSING) => not_tested(&format!("{driver} is not installed")),
            _ => panic!("{driver}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
