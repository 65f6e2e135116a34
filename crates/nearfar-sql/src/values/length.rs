//! Lengths of texts, and of bytes where DataFusion would take them for texts.

use arrow::array::{AsArray, Int32Array};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::functions::unicode::character_length;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

use super::bytes::is_bytes;

/// `length` and its other names: characters of a text, bytes of bytes.
pub fn length() -> ScalarUDF {
    ScalarUDF::from(Length {
        name: "length",
        texts: character_length(),
        aliases: ["char_length", "character_length"]
            .map(str::to_owned)
            .to_vec(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// `octet_length`.
pub fn octet_length() -> ScalarUDF {
    ScalarUDF::from(Length {
        name: "octet_length",
        texts: datafusion::functions::string::octet_length(),
        aliases: Vec::new(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    name: &'static str,
    texts: Arc<ScalarUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [given] if is_bytes(given) => Ok(vec![DataType::Binary]),
            [given] if given.is_string() => Ok(types.to_vec()),
            [DataType::Dictionary(_, value)] => self.coerce_types(&[value.as_ref().clone()]),
            [_] => Ok(vec![DataType::Utf8]),
            _ => datafusion::common::plan_err!("{} takes one argument", self.name),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !is_bytes(&arguments.args[0].data_type()) {
            let value = self.texts.inner().invoke_with_args(arguments)?;
            return value.cast_to(&DataType::Int32, None);
        }
        super::function::compute(arguments, |arrays, _| {
            let bytes = arrays[0].as_binary::<i32>().iter();
            let lengths = bytes.map(|bytes| bytes.and_then(|b| i32::try_from(b.len()).ok()));
            Ok(Arc::new(lengths.collect::<Int32Array>()))
        })
    }
}
