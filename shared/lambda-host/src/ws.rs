//! WebSocket API: `$connect`, `$default`, `$disconnect`.

use crate::misplaced;
use contract::query::Query;
use domain::ConnectionId;
use edge::Plane;
use edge::registry::{Function, Trigger};
use edge::ws::{Opening, connect, disconnect, frame};
use http::{HeaderMap, HeaderName, HeaderValue};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What API Gateway tells of a socket. Only what we read.
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
}

/// What API Gateway is answered. Never a body where the socket is open: it might be sent to the client, and what
/// clients are told goes through the management API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    status_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

const DONE: Answer = Answer { status_code: 200, body: None };

/// The API has no paths. The one of every event, and what stands in for the one of a sandbox: `infra/console.yaml`
/// puts its id into the query.
const EVERYTHING: &str = "/api/v1/ws/events";
const SANDBOX: &str = "sandbox_id";

/// What happens to a socket to [`edge::ws`].
pub async fn invoke(
    plane: &Plane,
    function: &'static Function,
    event: LambdaEvent<SocketEvent>,
) -> Result<Answer, Error> {
    let event = event.payload;
    let connection = ConnectionId::parse(event.request_context.connection_id.clone())?;
    match function.trigger {
        Trigger::SocketConnect => match connect(plane, event.opening(connection)).await {
            Ok(_) => Ok(DONE),
            Err(refusal) => Ok(Answer {
                status_code: refusal.status().as_u16(),
                body: String::from_utf8(refusal.into_body().into()).ok(),
            }),
        },
        // Binary frames are not ours.
        Trigger::SocketFrame if event.is_base64_encoded => Ok(DONE),
        Trigger::SocketFrame => {
            frame(plane, &connection, event.body.as_deref().unwrap_or_default()).await?;
            Ok(DONE)
        }
        Trigger::SocketDisconnect => {
            disconnect(plane, &connection).await?;
            Ok(DONE)
        }
        _ => Err(misplaced(function)),
    }
}

impl SocketEvent {
    fn opening(self, connection: ConnectionId) -> Opening {
        let parameters = self.multi_value_query_string_parameters.unwrap_or_default();
        let pairs = parameters.into_iter().flat_map(|(name, values)| {
            values.into_iter().map(move |value| (name.clone(), value)).collect::<Vec<_>>()
        });
        let query = Query::of(pairs);
        let headers = self.headers.unwrap_or_default().into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        Opening {
            connection,
            path: match query.get(SANDBOX) {
                Some(id) => format!("/api/v1/sandbox/{id}/ws"),
                None => EVERYTHING.to_owned(),
            },
            query,
            headers: headers.collect::<HeaderMap>(),
        }
    }
}
