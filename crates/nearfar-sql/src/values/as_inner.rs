//! What an aggregate function does as the one that it stands for.

/// Those methods of `AggregateUDFImpl` that a function in the place of another one, its `inner`, has from that.
macro_rules! as_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.inner().coerce_types(types)
        }

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }

        fn accumulator(
            &self,
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>,
        ) -> datafusion::error::Result<Box<dyn datafusion::logical_expr::Accumulator>> {
            self.inner.accumulator(arguments)
        }

        fn create_sliding_accumulator(
            &self,
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>,
        ) -> datafusion::error::Result<Box<dyn datafusion::logical_expr::Accumulator>> {
            self.inner.create_sliding_accumulator(arguments)
        }

        fn groups_accumulator_supported(
            &self,
            arguments: datafusion::logical_expr::function::AccumulatorArgs<'_>,
        ) -> bool {
            self.inner.groups_accumulator_supported(arguments)
        }
    };
}

pub(super) use as_inner;
