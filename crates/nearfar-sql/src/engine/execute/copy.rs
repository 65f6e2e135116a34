//! `COPY table FROM 'file'`.

use datafusion::datasource::file_format::options::ArrowReadOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{CsvReadOptions, DataFrame, ParquetReadOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::alter::table_reference;
use super::transaction::within;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::foreign::reading;
use crate::load::FileFormat;
use crate::sql::{CopyFrom, SqlError};
use nearfar_table::transaction::Transaction;

impl Session {
    /// Adds the rows of a file to a table, column by column in their order.
    pub(super) async fn copy_from(
        &self,
        transaction: &Arc<Transaction>,
        copy: &CopyFrom,
    ) -> Result<StatementResult, EngineError> {
        let name = table_reference(&copy.table)?;
        let table = self.memory_table(&name).await?;
        let unreadable = |source: EngineError| EngineError::Unreadable {
            path: PathBuf::from(&copy.path),
            source: Box::new(source),
        };
        let frame = self.read_file(copy).await?;
        let (state, input) = frame.into_parts();
        let state = within(transaction, state);
        let (given, wanted) = (input.schema().columns(), table.schema().fields());
        if given.len() != wanted.len() {
            return Err(unreadable(
                DataFusionError::Plan(format!(
                    "it has {} columns, but table `{name}` has {}",
                    given.len(),
                    wanted.len()
                ))
                .into(),
            ));
        }
        let sources = given.into_iter().map(|column| Some(Expr::Column(column)));
        let sources = sources.collect();
        let plan = self.insert_plan(input, name, &table, sources).await?;
        self.wait_for_tables(transaction, &plan, false).await?;
        self.write(transaction, &state, &plan)
            .await
            .map_err(|error| match error {
                error @ (EngineError::DataFusion(_) | EngineError::Arrow(_)) => unreadable(error),
                own => own,
            })
    }

    async fn read_file(&self, copy: &CopyFrom) -> Result<DataFrame, EngineError> {
        let path = Path::new(&copy.path);
        let format = match &copy.format {
            None => FileFormat::of_path(path)?,
            Some(name) => name.parse().map_err(|()| {
                SqlError::unsupported(
                    format!("COPY … FROM with FORMAT {name}"),
                    "parquet, csv and arrow are read",
                )
            })?,
        };
        let ending = path
            .extension()
            .and_then(|e| e.to_str())
            .map(|e| format!(".{e}"));
        let ending = ending.as_deref().unwrap_or_default();
        let context = self.context();
        let frame = async {
            match format {
                FileFormat::Parquet => {
                    let options = ParquetReadOptions {
                        file_extension: ending,
                        ..Default::default()
                    };
                    context.read_parquet(&copy.path, options).await
                }
                FileFormat::Csv => {
                    let options = CsvReadOptions::new()
                        .file_extension(ending)
                        .has_header(copy.header)
                        .delimiter(copy.delimiter as u8);
                    context.read_csv(&copy.path, options).await
                }
                FileFormat::Arrow => {
                    let options = ArrowReadOptions {
                        file_extension: ending,
                        ..Default::default()
                    };
                    context.read_arrow(&copy.path, options).await
                }
            }
        };
        reading(&[path.to_owned()], Some(format), path, frame).await
    }
}
