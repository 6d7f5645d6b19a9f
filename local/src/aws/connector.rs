//! The HTTP client of the SDK: passes requests to engines in this process instead of a network.

use super::connections::Hub;
use super::dynamodb::DynamoDb;
use super::eventbridge::EventBridge;
use super::faults::Faults;
use super::meter::{self, Meter, MeteredCall};
use super::secrets::Secrets;
use super::sqs::Sqs;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use std::sync::Arc;

/// One for all services: the request names the service.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    services: Arc<Services>,
    faults: Faults,
    meter: Meter,
}

#[derive(Debug)]
pub(super) struct Services {
    pub(super) dynamodb: Arc<DynamoDb>,
    pub(super) sqs: Sqs,
    pub(super) bus: EventBridge,
    pub(super) secrets: Secrets,
    pub(super) hub: Arc<Hub>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    /// Value of the header [`Reply::QUERY_ERROR`]. Only SQS has it.
    pub query_error: Option<&'static str>,
}

impl Reply {
    /// Error code header for SDKs of services that migrated from the query protocol.
    pub const QUERY_ERROR: &'static str = "x-amzn-query-error";

    pub(super) fn new(status: u16, body: Vec<u8>) -> Self {
        Self { status, body, query_error: None }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, body.to_string().into_bytes())
    }
}

/// The reply to an invalid or unsupported call.
pub(super) fn validation_error(message: &str) -> Reply {
    let body = json!({"__type": "com.amazon.coral.validate#ValidationException", "message": message});
    Reply::json(400, &body)
}

impl Connector {
    pub(super) fn new(services: Services, faults: Faults, meter: Meter) -> Self {
        Self { services: Arc::new(services), faults, meter }
    }

    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    async fn send(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let body = request.body().bytes().unwrap_or_default();
        let target = request.headers().get("x-amz-target");
        let reply = self.call(target, request.method(), request.uri(), body).await?;
        let status = StatusCode::try_from(reply.status).map_err(|e| ConnectorError::other(e.into(), None))?;
        let mut response = HttpResponse::new(status, SdkBody::from(reply.body));
        if let Some(error) = reply.query_error {
            response.headers_mut().insert(Reply::QUERY_ERROR, error);
        }
        Ok(response)
    }

    /// `target` is the header that names service and operation. The management API has none and is identified by method and path.
    pub(super) async fn call(
        &self,
        target: Option<&str>,
        method: &str,
        uri: &str,
        body: &[u8],
    ) -> Result<Reply, ConnectorError> {
        let (service, operation) = match target.and_then(|target| target.split_once('.')) {
            Some(named) => named,
            None if method == "DELETE" => ("execute-api", meter::DELETE),
            None => ("execute-api", meter::POST),
        };
        self.faults.maybe_yield().await;
        if let Some(fault) = self.faults.next(service, operation) {
            return fault.reply();
        }
        let metered = self.meter.begin(service, operation, body);
        let body = metered.as_ref().map_or(body, MeteredCall::body);
        let services = &self.services;
        let reply = match service {
            "execute-api" => services.hub.call(method, uri, body),
            "AmazonSQS" => services.sqs.call(operation, body).await,
            "AWSEvents" => services.bus.call(operation, body),
            "secretsmanager" => services.secrets.call(operation, body),
            _ => services.dynamodb.call(operation, body).await,
        };
        if let Some(metered) = metered {
            self.meter.record(metered, &reply);
        }
        self.faults.maybe_yield().await;
        Ok(reply)
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().send(request))
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
