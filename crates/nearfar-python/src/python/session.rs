//! Databases, sessions, statements and rows as Python has them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nearfar_sql::engine::StatementResult;
use nearfar_sql::sql::Statement;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::from_python::parameters;
use super::stream::{capsule_of, reader_of};
use super::to_python::tuples;
use crate::client::{Client, IngestMode};
use crate::database::{Database, OpenOptions};
use crate::failure::Failure;
use crate::placeholders::numbered;
use crate::python::raised;
use crate::rows::{Interrupt, LastFailure, Rows};

/// How long a thread waits for another one that reads the same rows, before it looks again.
const LOCK_WAIT: Duration = Duration::from_millis(1);

/// What is told of statements that are waited for: a function of Python's, and what the tiers had moved before.
#[derive(Default)]
struct Watch {
    tell: Mutex<Option<Py<PyAny>>>,
    bytes_before: AtomicU64,
}

impl Watch {
    /// Tells of so many rows, and of the bytes that were read of tiers since [`Self::begin`].
    fn tell(&self, py: Python<'_>, database: &Database, rows: u64) {
        let Some(tell) = self.tell.lock().as_ref().map(|tell| tell.clone_ref(py)) else {
            return;
        };
        let before = self.bytes_before.load(Ordering::Relaxed);
        let bytes = bytes_read(database).saturating_sub(before);
        if let Err(error) = tell.call1(py, (rows, bytes)) {
            // The statement is not to fail by what shows it.
            error.write_unraisable(py, Some(tell.bind(py)));
        }
    }

    fn begin(&self, database: &Database) {
        self.bytes_before
            .store(bytes_read(database), Ordering::Relaxed);
    }
}

/// Bytes that scans of all statements have read of all tiers.
fn bytes_read(database: &Database) -> u64 {
    let Ok(engine) = database.engine() else {
        return 0;
    };
    let tiers = engine.system().tiers();
    tiers.map(|(id, _)| engine.costs().bytes_read(id)).sum()
}

/// Asks the interpreter for Ctrl-C, where the caller's thread is the one that is told of it, and other threads whether
/// they have given the statement up; tells whoever watches how far it has come.
fn of_interpreter(
    given_up: Arc<AtomicBool>,
    watch: Arc<Watch>,
    database: Arc<Database>,
) -> Interrupt {
    Arc::new(move |rows| {
        if given_up.swap(false, Ordering::Relaxed) {
            return Err(Failure::GivenUp);
        }
        let asked = Python::try_attach(|py| {
            watch.tell(py, &database, rows);
            py.check_signals().is_err()
        });
        match asked {
            Some(false) => Ok(()),
            // There is no interpreter any more that could want the rows.
            Some(true) | None => Err(Failure::Interrupted),
        }
    })
}

/// A database, shared by its sessions.
#[pyclass(name = "Database", module = "nearfar._nearfar", frozen)]
pub struct PyDatabase(Arc<Database>);

#[pymethods]
impl PyDatabase {
    /// Opens a database.
    #[new]
    #[pyo3(signature = (path=None, profile=None, budgets=None, pool=None, pool_bytes=None, threads=None, memory_limit=None))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        profile: Option<String>,
        budgets: Option<BTreeMap<String, String>>,
        pool: Option<PathBuf>,
        pool_bytes: Option<String>,
        threads: Option<usize>,
        memory_limit: Option<String>,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            path,
            profile,
            budgets: budgets.unwrap_or_default().into_iter().collect(),
            pool,
            pool_bytes,
            threads,
            memory_limit,
        };
        let database = py.detach(|| Database::open(&options)).map_err(raised)?;
        Ok(Self(database))
    }

    /// Its number in this process, by which the ADBC driver finds it.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id()
    }

    /// A new session.
    fn session(&self) -> PyResult<PySession> {
        let (given_up, watch) = (Arc::default(), Arc::<Watch>::default());
        let database = Arc::clone(&self.0);
        let interrupt = of_interpreter(Arc::clone(&given_up), Arc::clone(&watch), database);
        let client = Client::new(Arc::clone(&self.0), interrupt).map_err(raised)?;
        Ok(PySession {
            database: Arc::clone(&self.0),
            client: Mutex::new(Some(client)),
            given_up,
            watch,
        })
    }

    /// The tiers as rows: name, budget and used bytes, and whether they are emulated.
    fn tiers(&self) -> PyResult<Vec<(String, u64, u64, bool)>> {
        let engine = self.0.engine().map_err(raised)?;
        let system = engine.system();
        let tiers = system.tiers().map(|(id, info)| {
            let usage = system.usage(id);
            let budget = usage.used_bytes() + usage.available_bytes();
            let is_emulated = engine.models().of(id).is_some();
            (info.name.clone(), budget, usage.used_bytes(), is_emulated)
        });
        Ok(tiers.collect())
    }

    /// Ends it.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// A statement that was read.
#[pyclass(name = "Statement", module = "nearfar._nearfar", frozen)]
pub struct PyStatement(Statement);

#[pymethods]
impl PyStatement {
    /// As it was written.
    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }
}

/// A session. Its statements run one after another.
#[pyclass(name = "Session", module = "nearfar._nearfar", frozen)]
pub struct PySession {
    database: Arc<Database>,
    client: Mutex<Option<Client>>,
    /// Whether another thread wants the end of what runs.
    given_up: Arc<AtomicBool>,
    watch: Arc<Watch>,
}

impl PySession {
    /// The client, for what begins now: what was to be given up before is over.
    fn client(&self) -> PyResult<Client> {
        self.given_up.store(false, Ordering::Relaxed);
        let client = self.client.lock().clone();
        client.ok_or_else(|| raised(Failure::Closed("connection")))
    }
}

#[pymethods]
impl PySession {
    /// The statements of a script; with `?` for parameters if `has_marks`.
    fn read(&self, py: Python<'_>, sql: &str, has_marks: bool) -> PyResult<Vec<PyStatement>> {
        let client = self.client()?;
        let text = match has_marks {
            true => numbered(sql),
            false => sql.to_owned(),
        };
        let statements = py.detach(|| client.read(&text)).map_err(raised)?;
        Ok(statements.into_iter().map(PyStatement).collect())
    }

    /// Runs a statement: rows, or the tag of a command and how many rows it has changed.
    #[pyo3(signature = (statement, values=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        statement: &PyStatement,
        values: Option<Vec<Bound<'py, PyAny>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client()?;
        let values = values.as_deref().map(parameters).transpose()?;
        let run = || client.run(&statement.0, values.as_ref());
        match py.detach(run).map_err(raised)? {
            StatementResult::Rows(stream) => {
                let rows = PyRows::new(client.rows(stream));
                Ok(Bound::new(py, rows)?.into_any())
            }
            StatementResult::Command(tag) => {
                let tag = (tag.to_string(), tag.rows).into_pyobject(py)?;
                Ok(tag.into_any())
            }
        }
    }

    /// Has `tell` called now and then while a statement or its rows are waited for, with the rows that were read or
    /// given, and the bytes that were read of tiers meanwhile; nothing if it is None.
    fn watch(&self, py: Python<'_>, tell: Option<Py<PyAny>>) {
        self.watch.begin(&self.database);
        let before = std::mem::replace(&mut *self.watch.tell.lock(), tell);
        // Its end may run code of Python's, which may come back here.
        drop(before.map(|before| before.into_bound(py)));
    }

    /// Gives up what another thread waits for.
    fn interrupt(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// The names and types of a query's columns; nothing for another statement.
    fn describe(
        &self,
        py: Python<'_>,
        statement: &PyStatement,
    ) -> PyResult<Option<Vec<(String, String)>>> {
        let client = self.client()?;
        let described = py
            .detach(|| client.describe(&statement.0))
            .map_err(raised)?;
        let columns = described.columns.map(|schema| columns(&schema));
        Ok(columns)
    }

    /// The names of tables in a statement that there are not: as written, and as they are looked up.
    fn missing_tables(
        &self,
        py: Python<'_>,
        statement: &PyStatement,
    ) -> PyResult<BTreeMap<String, String>> {
        let client = self.client()?;
        py.detach(|| client.missing_tables(&statement.0))
            .map_err(raised)
    }

    /// The columns of a table, if it is there.
    fn columns_of(&self, py: Python<'_>, table: &str) -> PyResult<Option<Vec<(String, String)>>> {
        let client = self.client()?;
        let schema = py.detach(|| client.columns_of(table)).map_err(raised)?;
        Ok(schema.map(|schema| columns(&schema)))
    }

    /// Makes an object's rows known under a name, where they are.
    fn attach(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let client = self.client()?;
        let reader = reader_of(object)?;
        let attach = || -> Result<(), Failure> {
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            Ok(client.session().attach(name, schema, &batches)?)
        };
        py.detach(attach).map_err(raised)
    }

    /// Takes them away; whether they were there.
    fn detach(&self, name: &str) -> PyResult<bool> {
        Ok(self.client()?.session().detach(name))
    }

    /// Gives an object's rows to a table. How many they were.
    fn ingest(
        &self,
        py: Python<'_>,
        table: &str,
        object: &Bound<'_, PyAny>,
        mode: &str,
    ) -> PyResult<u64> {
        let mode = match mode {
            "create" => IngestMode::Create,
            "append" => IngestMode::Append,
            "replace" => IngestMode::Replace,
            "create_append" => IngestMode::CreateAppend,
            other => {
                let message =
                    format!("there is no mode {other:?}: create, append, replace, create_append");
                return Err(raised(Failure::Argument(message)));
            }
        };
        let client = self.client()?;
        let reader = reader_of(object)?;
        py.detach(|| client.ingest(table, reader, mode))
            .map_err(raised)
    }

    /// Ends the session.
    fn close(&self, py: Python<'_>) {
        let client = self.client.lock().take();
        py.detach(|| drop(client));
    }
}

/// The names and types of columns.
fn columns(schema: &arrow::datatypes::Schema) -> Vec<(String, String)> {
    let fields = schema.fields().iter();
    fields
        .map(|field| (field.name().clone(), field.data_type().to_string()))
        .collect()
}

/// The rows of a query, once.
#[pyclass(name = "Rows", module = "nearfar._nearfar", frozen)]
pub struct PyRows {
    columns: Vec<(String, String)>,
    failure: LastFailure,
    read: Mutex<Read>,
}

struct Read {
    rows: Option<Rows>,
    /// Those of the last batch that were not asked for yet, the last one first.
    left: Vec<Py<PyTuple>>,
}

impl PyRows {
    fn new(rows: Rows) -> Self {
        use arrow::array::RecordBatchReader;
        Self {
            columns: columns(&rows.schema()),
            failure: Arc::clone(rows.failure()),
            read: Mutex::new(Read {
                rows: Some(rows),
                left: Vec::new(),
            }),
        }
    }

    /// The lock, which is never waited for with the interpreter's own: who has it may want that one.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Read> {
        loop {
            if let Some(read) = self.read.try_lock() {
                return read;
            }
            py.detach(|| std::thread::sleep(LOCK_WAIT));
        }
    }
}

#[pymethods]
impl PyRows {
    /// The columns' names and types.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.columns.clone()
    }

    /// All rows as a stream of Arrow's, which takes them.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may give what it has where it can't give what was asked for.
        drop(requested_schema);
        let rows = self.lock(py).rows.take();
        let rows = rows.ok_or_else(|| raised(Failure::Closed("stream of rows")))?;
        capsule_of(py, Box::new(rows))
    }

    /// At most so many rows as tuples; fewer at the end.
    fn fetchmany(&self, py: Python<'_>, count: usize) -> PyResult<Vec<Py<PyTuple>>> {
        let mut guard = self.lock(py);
        let read = &mut *guard;
        let mut fetched = Vec::new();
        while fetched.len() < count {
            match read.left.pop() {
                Some(row) => fetched.push(row),
                None => {
                    let Some(rows) = &mut read.rows else { break };
                    let Some(batch) = py.detach(|| rows.next_batch()).map_err(raised)? else {
                        break;
                    };
                    read.left = tuples(py, &batch)?;
                    read.left.reverse();
                }
            }
        }
        Ok(fetched)
    }

    /// Raises why rows have ended early, if they have.
    fn reraise(&self) -> PyResult<()> {
        let failure = self.failure.lock().take();
        failure.map_or(Ok(()), |failure| Err(raised(failure)))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let row = self.fetchmany(py, 1)?.pop();
        row.ok_or_else(|| PyStopIteration::new_err(()))
    }
}
