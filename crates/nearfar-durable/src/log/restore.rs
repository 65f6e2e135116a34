//! From a checkpoint to the tables of a database.

use std::sync::Arc;

use super::record::QualifiedName;
use super::replay::Definitions;
use crate::image::{DatabaseImage, ViewDefinition};
use nearfar_table::transaction::Database;

impl Definitions {
    /// What `image` holds, with its tables made part of `database`.
    pub(crate) fn of_image(image: DatabaseImage, database: &Arc<Database>) -> Self {
        let mut definitions = Self {
            schemas: image.schemas.into_iter().collect(),
            ..Self::default()
        };
        for image in &image.tables {
            let table = Arc::new(image.restore());
            table.keep();
            database.add(&table);
            let name = QualifiedName {
                schema: image.schema_name.clone(),
                name: image.name.clone(),
            };
            definitions.tables.insert(table.id(), (name, table));
        }
        let view = |view: ViewDefinition| {
            let (schema, name) = (view.schema, view.name);
            (QualifiedName { schema, name }, view.sql)
        };
        definitions.views = image.views.into_iter().map(view).collect();
        definitions
    }
}
