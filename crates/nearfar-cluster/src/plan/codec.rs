//! Leaves as bytes.

use datafusion::common::{exec_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf::PhysicalExprNode;
use nearfar_sql::engine::wire;
use nearfar_sql::scan::RoutedScan;
use prost::Message;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Weak};

use super::in_place::InPlaceExec;
use super::leaf::{ClusterScan, ScanParts, Share};
use crate::error::failed_query;
use crate::node::Node;

/// How operators of ours travel.
#[derive(Debug, Clone)]
pub struct ClusterCodec(pub Weak<Node>);

#[derive(Serialize, Deserialize)]
enum Wire {
    Scan {
        table: String,
        projection: Vec<usize>,
        filters: Vec<Vec<u8>>,
        fetch: Option<usize>,
        pin: u64,
        shares: Vec<Share>,
        width: usize,
        task: Option<(usize, usize)>,
    },
    InPlace {
        columns: Vec<(String, usize)>,
        partitions: usize,
    },
    Operator(Vec<u8>),
}

/// A leaf as bytes.
///
/// # Errors
/// A filter that can't travel.
pub fn encoded(scan: &ClusterScan) -> Result<Vec<u8>> {
    let codec = ClusterCodec(Weak::new());
    let filters = scan.scan.filters.iter().map(|filter| {
        let node = serialize_physical_expr(filter, &codec)?;
        Ok(node.encode_to_vec())
    });
    let wire = Wire::Scan {
        table: scan.table.clone(),
        projection: scan.scan.projection.clone(),
        filters: filters.collect::<Result<_>>()?,
        fetch: scan.scan.fetch,
        pin: scan.pin,
        shares: scan.shares.clone(),
        width: scan.width,
        task: scan.task,
    };
    written(&wire)
}

fn written(wire: &Wire) -> Result<Vec<u8>> {
    serde_json::to_vec(wire).map_err(|error| failed_query(error.to_string()))
}

/// The leaf of such bytes, on the node that runs it.
///
/// # Errors
/// Bytes of another version; a table that this node does not have.
pub fn decoded(
    node: &Arc<Node>,
    bytes: &[u8],
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wire: Wire = serde_json::from_slice(bytes)
        .map_err(|error| exec_datafusion_err!("a plan of another version: {error}"))?;
    let Wire::Scan {
        table,
        projection,
        filters,
        fetch,
        pin,
        shares,
        width,
        task,
    } = wire
    else {
        return internal_err!("an operator in the place of a leaf");
    };
    let local = node.table(&table)?;
    let schema = local.table.schema();
    let codec = ClusterCodec(Arc::downgrade(node));
    let filters = filters.iter().map(|bytes| {
        let filter = PhysicalExprNode::decode(bytes.as_slice())
            .map_err(|error| exec_datafusion_err!("a filter of another version: {error}"))?;
        parse_physical_expr(&filter, context, schema, &codec)
    });
    let parts = ScanParts {
        scan: RoutedScan {
            projection,
            filters: filters.collect::<Result<_>>()?,
            fetch,
        },
        table,
        pin,
        shares,
        width,
        task,
    };
    Ok(Arc::new(ClusterScan::try_new(node, parts)?))
}

impl PhysicalExtensionCodec for ClusterCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match serde_json::from_slice(bytes) {
            Ok(Wire::Operator(bytes)) => return wire::decode_operator(&bytes, inputs),
            Ok(Wire::InPlace {
                columns,
                partitions,
            }) => {
                let [input] = inputs else {
                    return internal_err!("an exchange in place with {} inputs", inputs.len());
                };
                let columns = columns.iter().map(|(name, at)| Column::new(name, *at));
                let exchange =
                    InPlaceExec::try_new(Arc::clone(input), columns.collect(), partitions)?;
                // What cuts plans into stages has done that.
                return Ok(Arc::new(exchange.repartition()?));
            }
            _ => {}
        }
        let node = self.0.upgrade();
        let node = node.ok_or_else(|| failed_query("the node is being stopped"))?;
        decoded(&node, bytes, context)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let plan = node.as_ref() as &dyn std::any::Any;
        if let Some(scan) = plan.downcast_ref::<ClusterScan>() {
            bytes.extend(encoded(scan)?);
            return Ok(());
        }
        if let Some(exchange) = plan.downcast_ref::<InPlaceExec>() {
            let (columns, partitions) = exchange.hash();
            let columns = columns.iter().map(|it| (it.name().to_owned(), it.index()));
            let columns = columns.collect();
            bytes.extend(written(&Wire::InPlace {
                columns,
                partitions,
            })?);
            return Ok(());
        }
        if let Some(operator) = wire::encode_operator(node.as_ref()) {
            bytes.extend(written(&Wire::Operator(operator))?);
            return Ok(());
        }
        Err(failed_query(format!(
            "{} reads what is on this node only, and can't be run on others: query temporary tables, files and \
             system tables apart from those of the cluster",
            node.name()
        )))
    }
}
