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

        fn is_nullable(&self) -> bool {
            self.inner.is_nullable()
        }

        fn default_value(
            &self,
            data_type: &arrow::datatypes::DataType,
        ) -> datafusion::error::Result<datafusion::scalar::ScalarValue> {
            self.inner.default_value(data_type)
        }

        fn state_fields(
            &self,
            arguments: datafusion::logical_expr::function::StateFieldsArgs<'_>,
        ) -> datafusion::error::Result<Vec<arrow::datatypes::FieldRef>> {
            self.inner.state_fields(arguments)
        }

        fn reverse_expr(&self) -> datafusion::logical_expr::ReversedUDAF {
            datafusion::logical_expr::ReversedUDAF::Identical
        }
    };
}

/// The same of what is told of a function, and of its value.
macro_rules! told_as_inner {
    () => {
        fn value_from_stats(
            &self,
            statistics: &datafusion::logical_expr::StatisticsArgs<'_>,
        ) -> Option<datafusion::scalar::ScalarValue> {
            self.inner.value_from_stats(statistics)
        }

        fn set_monotonicity(
            &self,
            data_type: &arrow::datatypes::DataType,
        ) -> datafusion::logical_expr::SetMonotonicity {
            self.inner.inner().set_monotonicity(data_type)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

pub(super) use {as_inner, told_as_inner};
