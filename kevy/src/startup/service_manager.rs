//! Tells systemd how it goes (`sd_notify`), if it asked: one datagram to the socket that `NOTIFY_SOCKET` names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What the service manager may hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Every shard accepts.
    Ready,
    /// A shutdown began.
    Stopping,
}

/// Sends `state`. A failure is logged: the server itself is well.
pub(crate) fn notify(state: State) {
    if let Ok(socket) = std::env::var("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, state)
    {
        tracing::warn!("Notifying the service manager at {socket}: {error}");
    }
}

fn send(socket: &str, state: State) -> io::Result<()> {
    let message: &[u8] = match state {
        State::Ready => b"READY=1",
        State::Stopping => b"STOPPING=1",
    };
    // A leading @ stands for the abstract name space.
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_socket_hear_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        send(path.to_str().unwrap(), State::Ready).unwrap();
        let name = format!("kevy-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_listener = UnixDatagram::bind_addr(&address).unwrap();
        send(&format!("@{name}"), State::Stopping).unwrap();
        let mut buffer = [0; 32];
        let count = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"READY=1");
        let count = abstract_listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"STOPPING=1");
    }
}
