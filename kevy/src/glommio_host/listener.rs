//! A listening socket and what is known of everyone who comes through it.

use kevy_node::host::Door;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A socket that is bound and listens, without blocking.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    door: Door,
    address: ListenAddress,
}

/// Where a [`Listener`] listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A connection as it comes out of a listener.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The socket: non-blocking, closed on exec. A TCP socket has its listener's options (no delay, keep-alive).
    pub(crate) socket: OwnedFd,
    /// The client's address, as `CLIENT LIST` shows it.
    pub(crate) address: String,
    /// Our address, as `CLIENT LIST` shows it.
    pub(crate) local_address: String,
    /// The IP the client connected to.
    pub(crate) local_ip: Option<std::net::IpAddr>,
}

impl Listener {
    /// Wraps a socket that listens at `address` and does not block.
    pub(crate) fn new(socket: OwnedFd, door: Door, address: ListenAddress) -> Self {
        Self {
            socket,
            door,
            address,
        }
    }

    /// Which door this is.
    pub(crate) fn door(&self) -> Door {
        self.door
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The socket, to be polled.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next connection that waits.
    ///
    /// # Errors
    /// As accept(2); [`Errno::WOULDBLOCK`] if none waits.
    pub(crate) fn accept(&self) -> Result<Accepted, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = acceptfrom_with(&self.socket, flags)?;
        Ok(match &self.address {
            ListenAddress::Unix(path) => unix_connection(socket, &path.display().to_string()),
            ListenAddress::Tcp(listening) => tcp_connection(socket, peer, *listening)?,
        })
    }
}

/// As Redis shows them: the path of the socket and port 0, on both sides.
fn unix_connection(socket: OwnedFd, path: &str) -> Accepted {
    Accepted {
        socket,
        address: format!("{path}:0"),
        local_address: format!("{path}:0"),
        local_ip: None,
    }
}

fn tcp_connection(
    socket: OwnedFd,
    peer: Option<SocketAddrAny>,
    listening: SocketAddr,
) -> Result<Accepted, Errno> {
    let local = if listening.ip().is_unspecified() {
        tcp_address(Some(getsockname(socket.as_fd())?)).unwrap_or(listening)
    } else {
        listening
    };
    Ok(Accepted {
        socket,
        address: tcp_address(peer).map_or_else(|| "?:0".into(), |address| address.to_string()),
        local_address: local.to_string(),
        local_ip: Some(local.ip()),
    })
}

fn tcp_address(address: Option<SocketAddrAny>) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address?).ok()?;
    // A client of an IPv6 socket that spoke IPv4 is shown as what it is.
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
