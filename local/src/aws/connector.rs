//! The HTTP client that the SDK is given: requests go to an engine in this process instead of a network.

use super::connections::Hub;
use super::dynamodb::DynamoDb;
use super::faults::Faults;
use super::meter::{self, Meter, Watched};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use std::sync::Arc;

/// One for all services: the operation shows which is meant.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    dynamodb: Arc<DynamoDb>,
    hub: Arc<Hub>,
    faults: Faults,
    meter: Meter,
}

/// An answer: status and body.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Connector {
    pub(super) fn new(dynamodb: Arc<DynamoDb>, hub: Arc<Hub>, faults: Faults, meter: Meter) -> Self {
        Self { dynamodb, hub, faults, meter }
    }

    async fn answer(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let body = request.body().bytes().unwrap_or_default();
        let target = request.headers().get("x-amz-target").and_then(|target| target.rsplit('.').next());
        let reply = match (target, target.and_then(|operation| self.faults.next(operation))) {
            (_, Some(fault)) => fault.reply()?,
            (Some(operation), None) => {
                let watched = self.meter.watch(operation, body);
                let body = watched.as_ref().map_or(body, |watched| watched.body());
                self.measured(self.dynamodb.call(operation, body).await, watched)
            }
            (None, None) => {
                let operation = if request.method() == "DELETE" { meter::DELETE } else { meter::POST };
                let watched = self.meter.watch(operation, body);
                self.measured(self.hub.call(request.method(), request.uri(), body), watched)
            }
        };
        let status = StatusCode::try_from(reply.status).map_err(|e| ConnectorError::other(e.into(), None))?;
        Ok(HttpResponse::new(status, SdkBody::from(reply.body)))
    }

    fn measured(&self, reply: Reply, watched: Option<Watched>) -> Reply {
        if let Some(watched) = watched {
            self.meter.record(watched, &reply);
        }
        reply
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().answer(request))
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
