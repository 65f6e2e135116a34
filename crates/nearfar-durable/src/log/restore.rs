//! From a checkpoint to the tables of a database.

use std::sync::Arc;

use super::record::QualifiedName;
use super::replay::Definitions;
use crate::manifest::{DatabaseManifest, ViewDefinition};
use nearfar_table::transaction::Database;

impl Definitions {
    /// What `manifest` holds, with its tables made part of `database`.
    pub(crate) fn of_manifest(manifest: DatabaseManifest, database: &Arc<Database>) -> Self {
        let mut definitions = Self {
            schemas: manifest.schemas.into_iter().collect(),
            ..Self::default()
        };
        for manifest in &manifest.tables {
            let table = Arc::new(manifest.restore());
            table.keep();
            database.add(&table);
            let name = QualifiedName {
                schema: manifest.schema_name.clone(),
                name: manifest.name.clone(),
            };
            definitions.tables.insert(table.id(), (name, table));
        }
        let sequences = manifest.sequences.into_iter().map(|sequence| {
            let name = QualifiedName {
                schema: sequence.schema,
                name: sequence.name,
            };
            (name, (sequence.definition, sequence.value))
        });
        definitions.sequences = sequences.collect();
        let view = |view: ViewDefinition| {
            let (schema, name) = (view.schema, view.name);
            (QualifiedName { schema, name }, view.sql)
        };
        definitions.views = manifest.views.into_iter().map(view).collect();
        definitions
    }
}
