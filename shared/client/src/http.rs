//! The HTTP client of this crate.

use reqwest::{Client, ClientBuilder};
use std::time::Duration;

/// Timeout for establishing a connection, independent of the request timeout.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

/// Builds a client that trusts the machine's certificate authorities. A minimal image may have none: then the client
/// trusts no certificate, and can still reach a plane without TLS.
pub(crate) fn client(builder: impl Fn() -> ClientBuilder) -> Client {
    let builder = || builder().user_agent(USER_AGENT).connect_timeout(CONNECT_DEADLINE);
    builder().build().unwrap_or_else(|_| {
        tracing::error!(
            "No certificate authorities found, so HTTPS requests will fail. Install ca-certificates or set SSL_CERT_FILE"
        );
        builder().tls_certs_only([]).build().expect("an empty trust store needs no certificates of the machine")
    })
}
