//! The loopback interface on which the agent's servers listen.

use confine::NetworkNamespace;
use egress::bridge::{self, Bridge};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// A connection to a server of the agent.
pub trait Connection: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Connection for T {}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Loopback {
    /// That of the machine.
    #[default]
    Machine,
    /// That of a network namespace, which is reached through a bridge.
    Namespace {
        /// A process in the namespace.
        process: u32,
        inbound: PathBuf,
        /// Ports of the bridge, which are not the agent's.
        of_bridge: Vec<u16>,
        /// The port of the plane. While the plane restarts, nothing of the agent may take its place.
        plane: Option<u16>,
    },
}

impl Loopback {
    pub fn of_namespace(network: &NetworkNamespace, bridge: &Bridge, plane: &str) -> Self {
        let plane = Url::parse(plane).ok().and_then(|url| url.port_or_known_default());
        Self::Namespace {
            process: network.process(),
            inbound: bridge.inbound.clone().unwrap_or_default(),
            of_bridge: bridge.ports.iter().map(|(port, _)| *port).collect(),
            plane,
        }
    }

    /// A process in the network namespace, if there is one.
    pub fn process(&self) -> Option<u32> {
        match self {
            Self::Machine => None,
            Self::Namespace { process, .. } => Some(*process),
        }
    }

    /// Whether a port can be one of the agent.
    pub fn is_of_agent(&self, port: u16) -> bool {
        match self {
            Self::Machine => true,
            Self::Namespace { of_bridge, .. } => !of_bridge.contains(&port),
        }
    }

    /// Connects to a port of the agent.
    ///
    /// # Errors
    /// If nothing accepts the connection.
    pub async fn connect(&self, address: IpAddr, port: u16) -> io::Result<Pin<Box<dyn Connection>>> {
        match self {
            Self::Machine => Ok(Box::pin(TcpStream::connect((address, port)).await?)),
            Self::Namespace { inbound, .. } => Ok(Box::pin(bridge::connect(inbound, port).await?)),
        }
    }

    /// Opens a port of the machine for a port of a namespace. The system chooses it: the agent must not be able to choose
    /// a port of the machine. Returns it with the server, which runs until it is dropped. `None` if the agent's port is one
    /// of the machine already.
    ///
    /// # Errors
    /// If no port can be opened.
    pub async fn forward(
        &self,
        port: u16,
    ) -> io::Result<Option<(u16, impl Future<Output = ()> + Send + use<>)>> {
        let Self::Namespace { inbound, plane, .. } = self else { return Ok(None) };
        // Both are open at the same time, so they differ.
        let (opened, listener) = not_at([bind().await?, bind().await?], *plane)?;
        Ok(Some((opened, bridge::forward_into(listener, inbound.clone(), port))))
    }
}

/// The first listener that has another port than this, with its port.
fn not_at(listeners: [TcpListener; 2], excluded: Option<u16>) -> io::Result<(u16, TcpListener)> {
    for listener in listeners {
        let port = listener.local_addr()?.port();
        if Some(port) != excluded {
            return Ok((port, listener));
        }
    }
    Err(io::ErrorKind::AddrNotAvailable.into())
}

async fn bind() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_the_bridge_are_not_the_agents() {
        let bridge = Bridge { ports: vec![(61001, "/sockets/endpoints".into())], inbound: None };
        let loopback = Loopback::Namespace {
            process: 1,
            inbound: "/sockets/inbound".into(),
            of_bridge: bridge.ports.iter().map(|(port, _)| *port).collect(),
            plane: None,
        };
        assert!(!loopback.is_of_agent(61001) && loopback.is_of_agent(3000));
        assert!(Loopback::Machine.is_of_agent(61001));
    }

    #[tokio::test]
    async fn forwarded_port_is_never_that_of_the_plane() {
        for of_plane in [0, 1] {
            let listeners = [bind().await.unwrap(), bind().await.unwrap()];
            let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
            let (opened, _listener) = not_at(listeners, Some(ports[of_plane])).unwrap();
            assert_eq!(opened, ports[1 - of_plane]);
        }
    }
}
