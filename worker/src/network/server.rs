//! Where the servers of a worker listen, and their addresses for the agent.

use anyhow::Context;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// Where the servers listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// On free ports of the machine's loopback.
    Loopback,
    /// On Unix sockets in this directory, for a bridge in the agent's network namespace. The agent must not be able to
    /// write to the directory.
    Namespace(&'a Path),
}

/// An open server.
#[derive(Debug)]
pub(super) struct Server {
    pub listener: Listener,
    /// Its address for the agent.
    pub address: SocketAddr,
}

#[derive(Debug)]
pub(super) enum Listener {
    Loopback(TcpListener),
    Socket(UnixListener, PathBuf),
}

/// Ports in a network namespace. Above those that systems give to connections, and not used by common servers.
pub(super) const NAMESPACE_PORTS: [(&str, u16); 2] = [(ENDPOINTS, 61_001), (PROXY, 61_002)];

pub(super) const ENDPOINTS: &str = "endpoints";
pub(super) const PROXY: &str = "proxy";

impl Server {
    pub(super) async fn open(place: Place<'_>, name: &str) -> anyhow::Result<Self> {
        match place {
            Place::Loopback => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
                let listener = listener.context("cannot listen on the loopback, for the agent's network")?;
                Ok(Self { address: listener.local_addr()?, listener: Listener::Loopback(listener) })
            }
            Place::Namespace(directory) => {
                let port = NAMESPACE_PORTS.iter().find(|(server, _)| *server == name).map(|(_, port)| *port);
                Self::on_socket(directory, name, port.expect("every server has a port"))
            }
        }
    }

    pub(super) fn on_socket(directory: &Path, name: &str, port: u16) -> anyhow::Result<Self> {
        let path = directory.join(name);
        let listener = UnixListener::bind(&path);
        let listener = listener.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { listener: Listener::Socket(listener, path), address: (Ipv4Addr::LOCALHOST, port).into() })
    }
}
