//! Everything that an agent reaches outside of its sandbox goes through here.
//!
//! - [`policy`]: which hosts an agent may connect to.
//! - [`proxy`]: the server that applies the policy to HTTP and SOCKS connections.
//! - [`endpoint`]: servers of a model or of a repository that put the real key into a request. The agent has a key that
//!   is worthless elsewhere.
//! - [`bridge`]: connects a network namespace with Unix sockets, because the namespace has no other network.
//!
//! Deliberately absent: the worker, its settings and its events. TLS is not intercepted: a proxied connection is either
//! allowed or denied, and keys are put in at endpoints that the agent addresses by plain HTTP on its loopback.

pub mod bridge;
pub mod endpoint;
mod listen;
pub mod policy;
pub mod proxy;

pub use listen::Listen;
