//! SOCKS5 (RFC 1928): `CONNECT` without authentication. `BIND` and UDP are not supported.

use super::{Failure, Proxy};
use crate::policy::{Denial, InvalidTarget, Target};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::time::timeout;

pub(super) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xFF;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Replies.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Serves a connection whose version byte has been read.
pub(super) async fn serve<S>(proxy: &Proxy, mut client: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = match timeout(proxy.limits.head, request(&mut client)).await?? {
        Ok(target) => target,
        Err(code) => return refuse(&mut client, code).await,
    };
    match proxy.connect(&target).await {
        Ok(mut server) => {
            reply(&mut client, SUCCEEDED).await?;
            copy_bidirectional(&mut client, &mut server).await?;
            Ok(())
        }
        Err(failure) => {
            let code = match failure {
                Failure::Denied(Denial::Off | Denial::NotListed | Denial::NotPublic) => NOT_ALLOWED,
                Failure::Unreachable(error) if error.kind() == io::ErrorKind::ConnectionRefused => REFUSED,
                Failure::NotResolved(_) | Failure::Unreachable(_) => HOST_UNREACHABLE,
            };
            refuse(&mut client, code).await
        }
    }
}

/// Negotiates the method and reads the request. The inner error is the reply.
async fn request<S>(client: &mut S) -> io::Result<Result<Target, u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut methods = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client requires authentication"));
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a SOCKS5 request"));
    }
    let name = match kind {
        IPV4 => Ipv4Addr::from_bits(client.read_u32().await?).to_string(),
        IPV6 => format!("[{}]", Ipv6Addr::from_bits(client.read_u128().await?)),
        NAME => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            let name = String::from_utf8_lossy(&name).into_owned();
            // Some clients send an IPv6 address as a name.
            name.parse::<Ipv6Addr>().map_or(name, |address| format!("[{address}]"))
        }
        _ => return Ok(Err(ADDRESS_NOT_SUPPORTED)),
    };
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Ok(Err(COMMAND_NOT_SUPPORTED));
    }
    Ok(Target::parse(&name, port).map_err(|InvalidTarget| ADDRESS_NOT_SUPPORTED))
}

async fn refuse(client: &mut (impl AsyncWrite + Unpin), code: u8) -> io::Result<()> {
    reply(client, code).await?;
    client.shutdown().await
}

/// The bound address is omitted: clients do not use it after `CONNECT`.
async fn reply(client: &mut (impl AsyncWrite + Unpin), code: u8) -> io::Result<()> {
    client.write_all(&[VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
}
