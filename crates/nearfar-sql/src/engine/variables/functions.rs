//! `set_config` and `current_setting`.

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Variables, of_all_sessions};
use crate::error::EngineError;
use crate::settings::{Known, Scope};
use crate::sql::SqlError;

/// A function of settings. The settings know the session's state by a weak reference only, so that functions, which
/// are part of that, may keep them.
struct SettingFunction {
    sets: bool,
    variables: Arc<Variables>,
    signature: Signature,
}

/// The functions of a session with these settings.
pub fn functions(variables: &Arc<Variables>) -> [ScalarUDF; 2] {
    let get = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
    [(false, get), (true, vec![TypeSignature::Any(3)])].map(|(sets, signatures)| {
        ScalarUDF::from(SettingFunction {
            sets,
            variables: Arc::clone(variables),
            // What is read may be set by the same statement.
            signature: Signature::one_of(signatures, Volatility::Volatile),
        })
    })
}

impl std::fmt::Debug for SettingFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for SettingFunction {
    fn eq(&self, other: &Self) -> bool {
        self.sets == other.sets && Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for SettingFunction {}

impl Hash for SettingFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sets.hash(state);
    }
}

impl ScalarUDFImpl for SettingFunction {
    fn name(&self) -> &str {
        match self.sets {
            true => "set_config",
            false => "current_setting",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|value| value.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let names = cast(&arrays[0], &DataType::Utf8)?;
        let names = names.as_string::<i32>().iter();
        let values: StringArray = match &arrays[1..] {
            [values, flags] => {
                let (values, flags) = (
                    cast(values, &DataType::Utf8)?,
                    cast(flags, &DataType::Boolean)?,
                );
                let given = values.as_string::<i32>().iter().zip(flags.as_boolean());
                let set = names.zip(given).map(|(name, (value, is_local))| {
                    self.set_one(name, value, is_local.unwrap_or_default())
                });
                set.collect::<Result<_>>()?
            }
            [flags] => {
                let flags = cast(flags, &DataType::Boolean)?;
                let found = names.zip(flags.as_boolean());
                let found = found
                    .map(|(name, may_be_missing)| self.get_one(name, may_be_missing == Some(true)));
                found.collect::<Result<_>>()?
            }
            _ => names
                .map(|name| self.get_one(name, false))
                .collect::<Result<_>>()?,
        };
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

impl SettingFunction {
    fn get_one(&self, name: Option<&str>, may_be_missing: bool) -> Result<Option<String>> {
        let Some(name) = name else {
            return Ok(None);
        };
        match self.variables.get(&name.to_lowercase()) {
            Ok(value) => Ok(Some(value)),
            Err(EngineError::Sql(SqlError::UnknownSetting { .. })) if may_be_missing => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn set_one(
        &self,
        name: Option<&str>,
        value: Option<&str>,
        is_local: bool,
    ) -> Result<Option<String>> {
        let name = name.unwrap_or_default().to_lowercase();
        if self.variables.of_client(&name).is_none()
            && let Known::Own(setting) = Known::find(&name).map_err(EngineError::from)?
            && setting.scope == Scope::Shared
        {
            return Err(EngineError::from(of_all_sessions(&name, "use SET")).into());
        }
        self.variables.set(&name, value, is_local)?;
        self.get_one(Some(&name), false)
    }
}
