//! What a node does for others, as a Flight service.

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::prelude::SessionConfig;
use futures::stream::{BoxStream, StreamExt};
use futures::{TryStreamExt, stream};
use nearfar_sql::engine::ClientRows;
use nearfar_sql::error::EngineError;
use std::sync::Arc;
use tonic::{Request as Asked, Response, Status, Streaming};

use crate::messages::{Load, Read, Reply, Request};
use crate::node::{ACTION, Node, add_rows};

/// The service of a node.
#[derive(Debug, Clone)]
pub struct Service(pub Arc<Node>);

type Given<T> = Result<Response<T>, Status>;
type Stream<T> = BoxStream<'static, Result<T, Status>>;

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Does what must not end halfway, whether or not the connection lasts on which it was asked for.
async fn to_its_end(
    work: impl Future<Output = Result<Reply, EngineError>> + Send + 'static,
) -> Result<Reply, EngineError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(crate::error::failed(error.to_string())))
}

impl Service {
    async fn answer(&self, request: Request) -> Result<Reply, EngineError> {
        let node = &self.0;
        match request {
            Request::Hello(other) => {
                node.meet(&other).await;
                let own = node.hello().await;
                if node.file.index_of(&other.node).is_ok()
                    && let Some(message) = own.mismatch(&other, &other.node)
                {
                    return Ok(Reply::Refused { message });
                }
                Ok(Reply::Hello(own))
            }
            Request::Members => {
                let nodes = node.file.nodes.iter();
                Ok(Reply::Members {
                    cluster: node.file.name.clone(),
                    nodes: nodes
                        .map(|node| (node.name.clone(), node.address))
                        .collect(),
                })
            }
            Request::Pin { pin, coordinator } => Ok(node.pin(pin, coordinator).await),
            Request::Unpin { pin } => {
                node.unpin(pin);
                Ok(Reply::Done)
            }
            Request::Lock => node.lend().await,
            Request::Unlock { ticket } => {
                node.take_back(ticket);
                Ok(Reply::Done)
            }
            Request::Hold {
                step,
                change,
                coordinator,
            } => node.hold(step, change, coordinator).await,
            Request::Take { change } => {
                let node = Arc::clone(node);
                to_its_end(async move { node.take(change).await }).await
            }
            Request::Outcome { change } => Ok(Reply::Outcome(node.outcome(change).await)),
            Request::Definitions => Ok(Reply::Definitions(node.definitions())),
            Request::Abort { load } => {
                node.abort(load);
                Ok(Reply::Done)
            }
        }
    }

    async fn add(&self, rows: Streaming<FlightData>) -> Result<u64, Status> {
        let mut rows = rows.peekable();
        let first = std::pin::Pin::new(&mut rows).peek().await;
        let descriptor = match first {
            Some(Ok(data)) => data.flight_descriptor.clone().unwrap_or_default(),
            Some(Err(error)) => return Err(error.clone()),
            None => return Ok(0),
        };
        let load: Load = serde_json::from_slice(&descriptor.cmd).map_err(internal)?;
        let rows = rows.map_err(|status| FlightError::Tonic(Box::new(status)));
        let rows = FlightRecordBatchStream::new_from_flight_data(rows);
        let rows: ClientRows = rows
            .map_err(|error| crate::error::failed(error.to_string()))
            .boxed();
        let receiving = self.0.begin_load(&load).map_err(internal)?;
        let session = receiving.session().await.map_err(internal)?;
        let added = add_rows(session, &load.table, rows).await;
        let rows = added.map_err(internal)?;
        receiving.complete().map_err(internal)?;
        Ok(rows)
    }
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoActionStream = Stream<arrow_flight::Result>;
    type ListActionsStream = Stream<ActionType>;
    type DoExchangeStream = Stream<FlightData>;

    async fn do_action(&self, asked: Asked<Action>) -> Given<Self::DoActionStream> {
        let action = asked.into_inner();
        if action.r#type != ACTION {
            return Err(Status::unimplemented(action.r#type));
        }
        let reply = match serde_json::from_slice(&action.body) {
            Ok(request) => self
                .answer(request)
                .await
                .unwrap_or_else(|error| Reply::Refused {
                    message: error.to_string(),
                }),
            Err(error) => Reply::Refused {
                message: format!(
                    "node `{}` does not know what it is asked ({error}): run one version on all nodes",
                    self.0.name_of(self.0.me)
                ),
            },
        };
        let body = serde_json::to_vec(&reply).map_err(internal)?;
        let result = arrow_flight::Result { body: body.into() };
        Ok(Response::new(stream::iter([Ok(result)]).boxed()))
    }

    async fn do_put(&self, asked: Asked<Streaming<FlightData>>) -> Given<Self::DoPutStream> {
        let rows = self.add(asked.into_inner()).await?;
        let result = PutResult {
            app_metadata: rows.to_string().into_bytes().into(),
        };
        Ok(Response::new(stream::iter([Ok(result)]).boxed()))
    }

    async fn do_get(&self, asked: Asked<Ticket>) -> Given<Self::DoGetStream> {
        let read: Read = serde_json::from_slice(&asked.into_inner().ticket).map_err(internal)?;
        let state = self.0.worker_state(SessionConfig::new());
        let context = state.map_err(internal)?.task_ctx();
        let (plan, partition) = match read {
            Read::Plan { plan, partition } => {
                let plan = crate::plan::decoded(&self.0, &plan, &context).map_err(internal)?;
                (plan, partition)
            }
            Read::Kept { table, pin } => {
                let plan = self.0.kept_in_pin(&table, pin).map_err(internal)?;
                (plan, 0)
            }
        };
        let rows = plan.execute(partition, context).map_err(internal)?;
        let rows = rows.map_err(|error| FlightError::ExternalError(Box::new(error)));
        let data = FlightDataEncoderBuilder::new()
            .with_schema(plan.schema())
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(rows);
        Ok(Response::new(data.map_err(internal).boxed()))
    }

    async fn handshake(
        &self,
        _: Asked<Streaming<HandshakeRequest>>,
    ) -> Given<Self::HandshakeStream> {
        Err(Status::unimplemented(
            "nodes know each other by certificates",
        ))
    }

    async fn list_flights(&self, _: Asked<Criteria>) -> Given<Self::ListFlightsStream> {
        Err(Status::unimplemented("list_flights"))
    }

    async fn get_flight_info(&self, _: Asked<FlightDescriptor>) -> Given<FlightInfo> {
        Err(Status::unimplemented("get_flight_info"))
    }

    async fn poll_flight_info(&self, _: Asked<FlightDescriptor>) -> Given<PollInfo> {
        Err(Status::unimplemented("poll_flight_info"))
    }

    async fn get_schema(&self, _: Asked<FlightDescriptor>) -> Given<SchemaResult> {
        Err(Status::unimplemented("get_schema"))
    }

    async fn list_actions(&self, _: Asked<Empty>) -> Given<Self::ListActionsStream> {
        Err(Status::unimplemented("list_actions"))
    }

    async fn do_exchange(&self, _: Asked<Streaming<FlightData>>) -> Given<Self::DoExchangeStream> {
        Err(Status::unimplemented("do_exchange"))
    }
}
