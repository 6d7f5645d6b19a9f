//! HTTP: `CONNECT host:port`, and requests with an absolute `http://` URL.

use super::{Failure, Proxy};
use crate::policy::{InvalidTarget, Target};
use bytes::Bytes;
use http::header::{self, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;

type Body = BoxBody<Bytes, hyper::Error>;

/// Headers of one connection, which a proxy does not pass on (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the headers of one connection, and those that `Connection` names.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.into_iter().chain(named) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

/// An accepted `CONNECT`.
type Tunnel = (OnUpgrade, TcpStream);

/// Serves a connection of a client until it ends.
pub(super) async fn serve<S>(proxy: &Proxy, stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tunnel: Mutex<Option<Tunnel>> = Mutex::default();
    let accepted = &tunnel;
    let service = move |request| async move {
        let response = match respond(proxy, request, accepted).await {
            Ok(response) | Err(response) => response,
        };
        Ok::<_, Infallible>(response)
    };
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(proxy.limits.head)
        .serve_connection(TokioIo::new(stream), service_fn(service))
        .with_upgrades()
        .await
        .map_err(io::Error::other)?;
    let accepted = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((client, mut server)) = accepted {
        let client = client.await.map_err(io::Error::other)?;
        copy_bidirectional(&mut TokioIo::new(client), &mut server).await?;
    }
    Ok(())
}

/// Both results are responses; the second is of the proxy itself.
async fn respond(
    proxy: &Proxy,
    mut request: Request<Incoming>,
    tunnel: &Mutex<Option<Tunnel>>,
) -> Result<Response<Body>, Response<Body>> {
    let target = target(&request).map_err(|why| text(StatusCode::BAD_REQUEST, format!("{why}\n")))?;
    let server = proxy.connect(&target).await.map_err(|failure| failed(&target, &failure))?;
    if request.method() == Method::CONNECT {
        let client = hyper::upgrade::on(&mut request);
        *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some((client, server));
        return Ok(text(StatusCode::OK, String::new()));
    }
    let unreachable = |error: hyper::Error| failed(&target, &Failure::Unreachable(io::Error::other(error)));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(server)).await.map_err(unreachable)?;
    // Ends with the body of the response.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let response = sender.send_request(forwarded(request, &target)).await.map_err(unreachable)?;
    let (mut head, body) = response.into_parts();
    strip_hop_by_hop(&mut head.headers);
    Ok(Response::from_parts(head, body.boxed()))
}

/// The host that a request names in its first line, or why the request is invalid. The `Host` header is ignored, and replaced when the request is
/// forwarded, so that both cannot differ.
fn target(request: &Request<Incoming>) -> Result<Target, &'static str> {
    let uri = request.uri();
    let Some(authority) = uri.authority() else {
        return Err("This is a proxy: request an absolute URL, or a tunnel with CONNECT.");
    };
    if authority.as_str().contains('@') {
        return Err("The URL must not contain a user name or password.");
    }
    let port = match (request.method(), uri.scheme_str(), authority.port_u16()) {
        (&Method::CONNECT, _, Some(port)) => port,
        (&Method::CONNECT, _, None) => return Err("CONNECT needs a host and a port."),
        (_, Some("http"), port) => port.unwrap_or(80),
        _ => return Err("Only http URLs are forwarded; use CONNECT for others."),
    };
    Target::parse(authority.host(), port).map_err(|InvalidTarget| "The host or port of the URL is not valid.")
}

/// The request as the server gets it.
fn forwarded(request: Request<Incoming>, target: &Target) -> Request<Incoming> {
    let (mut head, body) = request.into_parts();
    strip_hop_by_hop(&mut head.headers);
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    let host = if target.port() == 80 { target.host() } else { target.to_string() };
    if let Ok(host) = HeaderValue::from_str(&host) {
        head.headers.insert(HOST, host);
    }
    head.version = http::Version::HTTP_11;
    Request::from_parts(head, body)
}

fn failed(target: &Target, failure: &Failure) -> Response<Body> {
    match failure {
        Failure::Denied(denial) => {
            text(StatusCode::FORBIDDEN, format!("The connection to {target} is denied: {denial}.\n"))
        }
        Failure::NotResolved(_) | Failure::Unreachable(_) => {
            text(StatusCode::BAD_GATEWAY, format!("The connection to {target} failed: {failure}.\n"))
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if status != StatusCode::OK {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
    }
    response
}
