//! The settings of a session by their names, those of its client included, and what becomes of them when a transaction
//! ends.

mod functions;
mod scopes;

use datafusion::common::config::ConfigField;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::{SessionContext, SessionState};
use datafusion::logical_expr::ScalarUDF;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use crate::error::EngineError;
use crate::settings::{Given, Known, Scope, Settings, all_settings, library_values};
use crate::sql::SqlError;
use scopes::{Restored, Scopes};

/// Settings that a session's client has beside those of the engine, such as those of a protocol. What a transaction
/// sets is undone with it as for all settings.
pub trait ClientSettings: Send + Sync {
    /// The value of a setting, whose name is in lower case; none where there is no such setting.
    fn get(&self, name: &str) -> Option<String>;

    /// Gives a setting a value, or with none the one that it had at first.
    ///
    /// # Errors
    /// A value that it can't have.
    fn set(&self, name: &str, value: Option<&str>) -> Result<(), SqlError>;

    /// The settings whose values are not those that they had at first.
    fn changed(&self) -> Vec<&'static str>;
}

/// The settings of one session.
pub(super) struct Variables {
    scopes: Mutex<Scopes>,
    /// The session's state, which is not kept alive: it has functions that know these settings.
    state: Weak<RwLock<SessionState>>,
    client: OnceLock<Arc<dyn ClientSettings>>,
    threads: usize,
    /// What settings of the library were at first.
    library_defaults: BTreeMap<&'static str, Option<String>>,
}

impl Variables {
    /// Those of a session with this state, whose queries are read by `threads` threads.
    pub fn new(context: &SessionContext, threads: usize) -> Self {
        let state = context.state_ref();
        let library_defaults = library_values(state.read().config_options());
        Self {
            scopes: Mutex::default(),
            state: Arc::downgrade(&state),
            client: OnceLock::new(),
            threads,
            library_defaults,
        }
    }

    /// The functions that read and set them.
    pub fn functions(self: &Arc<Self>) -> [ScalarUDF; 2] {
        functions::functions(self)
    }

    /// Has the settings of a client be among them, from now on.
    pub fn add_client(&self, client: Arc<dyn ClientSettings>) {
        // A session has one client.
        let _ = self.client.set(client);
    }

    /// The value of a setting, as text.
    ///
    /// # Errors
    /// A setting that there is not.
    pub fn get(&self, name: &str) -> Result<String, EngineError> {
        if let Some(value) = self.of_client(name) {
            return Ok(value);
        }
        let known = Known::find(name)?;
        let state = self.state()?;
        let state = state.read();
        let options = state.config_options();
        Ok(match known {
            Known::Own(setting) => {
                let settings = options.extensions.get::<Settings>();
                settings.map(setting.show).unwrap_or_default()
            }
            Known::Library(setting) => {
                let value = library_values(options).remove(setting.name);
                value.flatten().unwrap_or_default()
            }
        })
    }

    /// Gives a setting a value, or with none the one that it had at first: for the session, or to the end of the
    /// transaction. Outside of a transaction the latter has no effect.
    ///
    /// # Errors
    /// A setting that there is not; a value that it can't have; one of all sessions for a transaction only.
    pub fn set(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<(), EngineError> {
        let name = match self.of_client(name) {
            Some(_) => name,
            // One name for all spellings of it.
            None => match Known::find(name)? {
                Known::Own(setting) if setting.scope == Scope::Shared && is_local => {
                    return Err(of_all_sessions(name, "use SET without LOCAL").into());
                }
                Known::Own(setting) if setting.scope == Scope::Shared => {
                    return self.put(setting.name, value);
                }
                Known::Own(setting) => setting.name,
                Known::Library(setting) => setting.name,
            },
        };
        let before = self.get(name)?;
        self.put(name, value)?;
        let mut scopes = self.scopes.lock();
        match scopes.are_open() {
            true => scopes.note(name, before, is_local),
            false if is_local => {
                tracing::warn!("SET LOCAL can only be used in transaction blocks");
                self.put(name, Some(&before))?;
            }
            false => {}
        }
        Ok(())
    }

    /// Gives all settings that are the session's own the values that they had at first. Those of all
    /// sessions stay as they are: drivers and poolers send this by themselves.
    ///
    /// # Errors
    /// An end of the session.
    pub fn reset_all(&self) -> Result<(), EngineError> {
        for setting in all_settings().filter(|setting| setting.scope == Scope::Session) {
            self.set(setting.name, None, false)?;
        }
        let values = library_values(self.state()?.read().config_options());
        let is_first = |name, value| self.library_defaults.get(name) == Some(value);
        for (name, _) in values
            .iter()
            .filter(|(name, value)| !is_first(**name, *value))
        {
            self.set(name, None, false)?;
        }
        let of_client = self.client.get().map(|client| client.changed());
        for name in of_client.unwrap_or_default() {
            self.set(name, None, false)?;
        }
        Ok(())
    }

    /// A transaction begins.
    pub fn begin(&self) {
        self.scopes.lock().begin();
    }

    /// A savepoint begins.
    pub fn set_savepoint(&self, name: &str) {
        self.scopes.lock().set_savepoint(name);
    }

    /// A savepoint is released.
    pub fn release(&self, savepoint: &str) {
        self.scopes.lock().release(savepoint);
    }

    /// What came behind a savepoint is undone.
    pub fn roll_back_to(&self, savepoint: &str) {
        let restored = self.scopes.lock().roll_back_to(savepoint);
        self.restore(restored);
    }

    /// The transaction ends, if one is open.
    pub fn end(&self, is_committed: bool) {
        let restored = self.scopes.lock().end(is_committed);
        self.restore(restored);
    }

    fn restore(&self, restored: Restored) {
        for (name, value) in restored {
            if let Err(error) = self.put(&name, Some(&value)) {
                tracing::warn!(name, %error, "a setting does not get back its value");
            }
        }
    }

    fn of_client(&self, name: &str) -> Option<String> {
        self.client.get()?.get(name)
    }

    fn state(&self) -> Result<Arc<RwLock<SessionState>>, EngineError> {
        self.state.upgrade().ok_or_else(|| EngineError::Internal {
            message: "the session has ended".to_owned(),
        })
    }

    /// Gives a setting a value, whatever transaction is open.
    fn put(&self, name: &str, value: Option<&str>) -> Result<(), EngineError> {
        if let Some(client) = self.client.get()
            && client.get(name).is_some()
        {
            return Ok(client.set(name, value)?);
        }
        match Known::find(name)? {
            Known::Own(setting) => {
                let state = self.state()?;
                let mut state = state.write();
                let options = state.config_mut().options_mut();
                let name = format!("nearfar.{}", setting.name);
                Ok(options.set(&name, value.unwrap_or_default())?)
            }
            Known::Library(setting) => {
                let name = setting.name;
                // Where it has none, as there is no time zone at first, that is shown as nothing.
                let value = match value.filter(|text| !text.is_empty()) {
                    Some(text) => {
                        let given = Given { name, text };
                        Some(setting.allowed.check(&given, self.threads)?)
                    }
                    None => self.library_defaults.get(name).cloned().flatten(),
                };
                self.put_of_library(name, value)
            }
        }
    }

    /// Sets a setting of DataFusion, and makes the functions known anew that read it.
    fn put_of_library(&self, name: &str, value: Option<String>) -> Result<(), EngineError> {
        let state = self.state()?;
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        match value {
            Some(value) => options.set(name, &value)?,
            None => options.reset(name)?,
        }
        let options = state.config().options();
        let functions = state.scalar_functions().values();
        let updated =
            functions.filter_map(|function| function.inner().with_updated_config(options));
        let updated: Vec<ScalarUDF> = updated.collect();
        for function in updated {
            // None of these names is taken by another, and nothing refuses them.
            let _replaced = state.register_udf(Arc::new(function))?;
        }
        Ok(())
    }
}

/// The error of a setting that all sessions share, where it can't be set.
fn of_all_sessions(name: &str, instead: &str) -> SqlError {
    SqlError::FixedSetting {
        name: name.to_owned(),
        instead: format!("it is one of all sessions; {instead}"),
    }
}
