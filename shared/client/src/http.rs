//! The HTTP client that everything here asks through.

use reqwest::{Client, ClientBuilder};
use std::time::Duration;

/// Connecting takes no longer than this, whatever the whole request may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

/// Builds a client that trusts whom the machine trusts. A small image may have no list of authorities: there it trusts
/// nobody, and a plane without TLS can be asked all the same.
pub(crate) fn client(wishes: impl Fn() -> ClientBuilder) -> Client {
    let wishes = || wishes().user_agent(USER_AGENT).connect_timeout(CONNECT_DEADLINE);
    wishes().build().unwrap_or_else(|_| {
        tracing::error!(
            "This machine has no list of certificate authorities, so nothing can be asked over https. Install \
             ca-certificates, or set SSL_CERT_FILE"
        );
        wishes().tls_certs_only([]).build().expect("whoever trusts nobody needs nothing of the machine")
    })
}
