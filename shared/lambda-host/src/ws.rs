//! WebSocket API: `$connect`, `$default`, `$disconnect`.

use crate::unexpected_payload;
use contract::query::Query;
use domain::ConnectionId;
use edge::Plane;
use edge::http::SourceIp;
use edge::registry::{Function, Trigger};
use edge::ws::{Opening, connect, disconnect, frame};
use http::{HeaderMap, HeaderName, HeaderValue};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A WebSocket event of API Gateway, with the fields we read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SocketEvent {
    request_context: RequestContext,
    #[serde(default)]
    headers: Option<HashMap<String, String>>,
    #[serde(default)]
    multi_value_query_string_parameters: Option<HashMap<String, Vec<String>>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    connection_id: String,
    #[serde(default)]
    identity: Identity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    source_ip: Option<String>,
}

/// The response to API Gateway. It has no body while the socket is open: API Gateway might send it to the client, and frames
/// go through the management API only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SocketResponse {
    status_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

const OK: SocketResponse = SocketResponse { status_code: 200, body: None };

/// API Gateway's sockets have no paths. The parameter `sandbox_id` selects the events of one sandbox.
const ALL_EVENTS_PATH: &str = "/api/v1/ws/events";

/// Passes socket events to [`edge::ws`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<SocketEvent>,
) -> Result<SocketResponse, Error> {
    let event = event.payload;
    let connection = ConnectionId::parse(event.request_context.connection_id.clone())?;
    match function.trigger {
        Trigger::SocketConnect => match connect(plane, event.opening(connection)).await {
            Ok(_) => Ok(OK),
            Err(refusal) => Ok(SocketResponse {
                status_code: refusal.status().as_u16(),
                body: String::from_utf8(refusal.into_body().into()).ok(),
            }),
        },
        // The protocol has no binary frames.
        Trigger::SocketFrame if event.is_base64_encoded => Ok(OK),
        Trigger::SocketFrame => {
            frame(plane, &connection, event.body.as_deref().unwrap_or_default()).await?;
            Ok(OK)
        }
        Trigger::SocketDisconnect => {
            disconnect(plane, &connection).await?;
            Ok(OK)
        }
        _ => Err(unexpected_payload(function)),
    }
}

impl SocketEvent {
    fn opening(self, connection: ConnectionId) -> Opening {
        let parameters = self.multi_value_query_string_parameters.unwrap_or_default();
        let pairs = parameters.into_iter().flat_map(|(name, values)| {
            values.into_iter().map(move |value| (name.clone(), value)).collect::<Vec<_>>()
        });
        let headers = self.headers.unwrap_or_default().into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        let source = self.request_context.identity.source_ip.and_then(|ip| ip.parse().ok());
        Opening {
            connection,
            path: ALL_EVENTS_PATH.to_owned(),
            query: Query::of(pairs),
            headers: headers.collect::<HeaderMap>(),
            source: source.map(SourceIp),
        }
    }
}
