//! Binds every socket before any shard starts, so that a taken port is one clear message.
//!
//! Shards that accept on the main port each have a socket of their own there (`SO_REUSEPORT`): the kernel spreads
//! connections. The option is set only *after* the first socket is bound, since sockets that all have it would silently
//! share the port with another server of the same user. A shard's cluster port is bound by the shard itself, also when
//! it does not accept on the main port.

use super::StartError;
use crate::glommio_host::listener::{ListenAddress, Listener};
use kevy_node::host::Door;
use kevy_node::settings::Settings;
use kevy_proto::ids::ShardId;
use rustix::fd::OwnedFd;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What each shard accepts from.
pub(crate) type ListenersByShard = Vec<Vec<Listener>>;

/// Binds all sockets that `settings` ask for.
///
/// # Errors
/// The first that cannot be bound.
pub(crate) fn bind(settings: &Settings) -> Result<ListenersByShard, StartError> {
    let mut by_shard: ListenersByShard = (0..settings.server.threads).map(|_| Vec::new()).collect();
    let accepting = usize::from(settings.accepting_shards());
    for &ip in &settings.server.bind {
        let address = SocketAddr::new(ip, settings.server.port);
        bind_shared(settings, address, &mut by_shard[..accepting])?;
    }
    if settings.cluster.enabled {
        bind_cluster(settings, &mut by_shard)?;
    }
    if let Some(path) = &settings.server.unixsocket {
        by_shard[0].push(bind_unix(settings, Path::new(path))?);
    }
    Ok(by_shard)
}

/// One socket at `address` for each of `shards`.
fn bind_shared(
    settings: &Settings,
    address: SocketAddr,
    shards: &mut [Vec<Listener>],
) -> Result<(), StartError> {
    let fault = |error| listen_fault(address, error);
    let is_shared = shards.len() > 1;
    let mut sockets = Vec::with_capacity(shards.len());
    for index in 0..shards.len() {
        let socket = tcp_socket(settings, address.ip()).map_err(fault)?;
        let is_first = index == 0;
        if is_shared && !is_first {
            socket.set_reuse_port(true).map_err(fault)?;
        }
        socket.bind(&address.into()).map_err(fault)?;
        if is_shared && is_first {
            socket.set_reuse_port(true).map_err(fault)?;
        }
        sockets.push(socket);
    }
    for (socket, listeners) in sockets.into_iter().zip(shards) {
        listeners.push(listen(settings, socket, Door::Main, address).map_err(fault)?);
    }
    Ok(())
}

fn bind_cluster(settings: &Settings, by_shard: &mut [Vec<Listener>]) -> Result<(), StartError> {
    let first = u32::from(settings.port_base()) + 1;
    let last = u32::from(settings.port_base()) + by_shard.len() as u32;
    if last > u32::from(u16::MAX) {
        return Err(StartError::ClusterPorts { first, last });
    }
    for ((shard, port), listeners) in (0..).zip(first..).zip(by_shard) {
        for &ip in &settings.server.bind {
            let address = SocketAddr::new(ip, port as u16);
            let fault = |error| listen_fault(address, error);
            let socket = tcp_socket(settings, ip).map_err(fault)?;
            socket.bind(&address.into()).map_err(fault)?;
            let door = Door::Shard(ShardId(shard));
            listeners.push(listen(settings, socket, door, address).map_err(fault)?);
        }
    }
    Ok(())
}

/// A socket whose options its connections inherit.
fn tcp_socket(settings: &Settings, ip: IpAddr) -> io::Result<Socket> {
    let domain = if ip.is_ipv6() {
        Domain::IPV6
    } else {
        Domain::IPV4
    };
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(domain, kind, Some(Protocol::TCP))?;
    if ip.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Only for connections of an earlier server that linger; two listeners are still refused.
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(keepalive) = keepalive(settings.server.tcp_keepalive) {
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(socket)
}

/// As Redis: the first probe after `seconds` of silence, then three, a third of that apart.
fn keepalive(seconds: u32) -> Option<TcpKeepalive> {
    let probes = 3;
    (seconds > 0).then(|| {
        TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds.into()))
            .with_interval(Duration::from_secs((seconds / probes).max(1).into()))
            .with_retries(probes)
    })
}

fn listen(
    settings: &Settings,
    socket: Socket,
    door: Door,
    address: SocketAddr,
) -> io::Result<Listener> {
    socket.listen(backlog(settings))?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Listener::new(
        OwnedFd::from(socket),
        door,
        ListenAddress::Tcp(bound),
    ))
}

fn backlog(settings: &Settings) -> i32 {
    i32::try_from(settings.server.tcp_backlog).unwrap_or(i32::MAX)
}

fn listen_fault(address: SocketAddr, error: io::Error) -> StartError {
    let kind = error.kind();
    let advice = if kind == io::ErrorKind::AddrInUse {
        "stop the server that uses it or choose another with --port"
    } else if kind == io::ErrorKind::PermissionDenied {
        "ports below 1024 need a privilege; choose another with --port"
    } else if kind == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address; choose another with --bind"
    } else {
        "see `bind` and `port` in docs/CONFIGURATION.md"
    };
    StartError::Listen {
        address: address.to_string(),
        error,
        advice,
    }
}

/// Binds the Unix socket. A file left by a server that was killed is replaced; one that somebody answers on is not.
fn bind_unix(settings: &Settings, path: &Path) -> Result<Listener, StartError> {
    let fault = |error| StartError::UnixSocket {
        path: path.to_owned(),
        error,
    };
    let is_left = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_left {
        if UnixStream::connect(path).is_ok() {
            return Err(StartError::UnixSocketInUse(path.to_owned()));
        }
        fs::remove_file(path).map_err(fault)?;
    }
    let socket =
        Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(fault)?;
    let address = SockAddr::unix(path).map_err(fault)?;
    socket.bind(&address).map_err(fault)?;
    if settings.server.unixsocketperm != 0 {
        let permissions = fs::Permissions::from_mode(settings.server.unixsocketperm);
        fs::set_permissions(path, permissions).map_err(fault)?;
    }
    socket.listen(backlog(settings)).map_err(fault)?;
    let address = ListenAddress::Unix(path.to_owned());
    Ok(Listener::new(OwnedFd::from(socket), Door::Unix, address))
}

/// Removes the socket file at the end.
pub(crate) fn remove_unix_socket(settings: &Settings) {
    if let Some(path) = &settings.server.unixsocket
        && let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("Removing the Unix socket {path}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Settings for a port that was free a moment ago.
    fn settings(threads: u16) -> Settings {
        let mut settings = Settings::default();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        settings.server.port = free.local_addr().unwrap().port();
        settings.server.threads = threads;
        settings
    }

    /// Binds at a port that was free a moment ago; if somebody has taken it meanwhile, at another one.
    fn bound(threads: u16, change: impl Fn(&mut Settings)) -> (Settings, ListenersByShard) {
        let mut attempts = (0..20).map(|_| {
            let mut settings = settings(threads);
            change(&mut settings);
            let listeners = bind(&settings)?;
            Ok::<_, StartError>((settings, listeners))
        });
        attempts.find_map(Result::ok).expect("a free port")
    }

    fn accept_all(listeners: &ListenersByShard) -> Vec<usize> {
        listeners
            .iter()
            .map(|listeners| std::iter::from_fn(|| listeners.first()?.accept().ok()).count())
            .collect()
    }

    #[test]
    fn only_accepting_shards_share_the_main_port() {
        let (settings, listeners) = bound(3, |settings| settings.server.accept_shards = Some(2));
        assert_eq!(
            listeners.iter().map(Vec::len).collect::<Vec<_>>(),
            [1, 1, 0]
        );
        let clients: Vec<_> = (0..200)
            .map(|_| TcpStream::connect(("127.0.0.1", settings.server.port)).unwrap())
            .collect();
        let accepted = accept_all(&listeners);
        assert_eq!(accepted.iter().sum::<usize>(), clients.len());
        assert!(accepted[0] > 0 && accepted[1] > 0, "{accepted:?}");
    }

    #[test]
    fn a_port_is_never_shared_with_another_server() {
        for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let (mut settings, _running) = bound(first, |_| {});
            settings.server.threads = second;
            let refused = bind(&settings).unwrap_err().to_string();
            assert!(refused.contains("ddress already in use"), "{refused}");
            assert!(refused.contains("--port"), "{refused}");
        }
    }

    #[test]
    fn every_shard_has_its_cluster_port() {
        let (mut settings, listeners) = bound(2, |settings| {
            settings.server.accept_shards = Some(1);
            settings.cluster.enabled = true;
        });
        let doors: Vec<Vec<_>> = listeners
            .iter()
            .map(|listeners| listeners.iter().map(Listener::door).collect())
            .collect();
        let own = |shard| Door::Shard(ShardId(shard));
        assert_eq!(doors, [vec![Door::Main, own(0)], vec![own(1)]]);
        settings.cluster.port_base = Some(65535);
        assert!(matches!(
            bind_cluster(&settings, &mut [vec![]]),
            Err(StartError::ClusterPorts { .. })
        ));
    }

    #[test]
    fn connections_inherit_their_options() {
        let (settings, listeners) = bound(1, |_| {});
        let _client = TcpStream::connect(("127.0.0.1", settings.server.port)).unwrap();
        let accepted = listeners[0][0].accept().unwrap();
        let socket = socket2::SockRef::from(&accepted.socket);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_mins(5));
        assert_eq!(accepted.local_ip.unwrap().to_string(), "127.0.0.1");
        assert!(
            accepted
                .local_address
                .ends_with(&format!(":{}", settings.server.port))
        );
    }

    #[test]
    fn a_unix_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kevy.sock");
        let mut settings = settings(1);
        settings.server.unixsocket = Some(path.display().to_string());
        settings.server.unixsocketperm = 0o600;
        let first = bind_unix(&settings, &path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            bind_unix(&settings, &path),
            Err(StartError::UnixSocketInUse(_))
        ));
        drop(first);
        bind_unix(&settings, &path).unwrap();
        remove_unix_socket(&settings);
        assert!(!path.exists());
        fs::write(&path, "a file of somebody's").unwrap();
        assert!(bind_unix(&settings, &path).is_err());
        assert!(path.exists());
    }
}
