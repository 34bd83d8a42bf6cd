//! Where a URL points to.

use std::path::PathBuf;

use crate::{KevyError, KevyResult};

/// The port of a URL that names none (as Redis's URLs have it; a kevy listens on 6004 unless told otherwise).
pub const DEFAULT_PORT: u16 = 6379;

/// A server's address and the database to select.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) database: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Reads `kevy://host[:port][/db]`, `redis://..` (the same), `tcp://host[:port]` and `unix:///path`.
pub(crate) fn parse(url: &str) -> KevyResult<Target> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(invalid(url, "it has no scheme"));
    };
    match scheme {
        "kevy" | "redis" => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let database = database(url, path)?;
            Ok(Target {
                place: tcp(url, authority)?,
                database,
            })
        }
        "tcp" => Ok(Target {
            place: tcp(url, rest.trim_end_matches('/'))?,
            database: None,
        }),
        "unix" | "redis+unix" if !rest.is_empty() => Ok(Target {
            place: Place::Unix(PathBuf::from(rest)),
            database: None,
        }),
        "mem" | "file" => Err(KevyError::Unsupported(format!(
            "{scheme}:// opens a store inside this process, which is the embedded store's work and not this client's"
        ))),
        "rediss" | "kevys" => Err(KevyError::Unsupported(
            "TLS: kevy speaks none, put a proxy before it".to_owned(),
        )),
        _ => Err(invalid(url, "its scheme is none of kevy, redis, tcp, unix")),
    }
}

fn database(url: &str, path: &str) -> KevyResult<Option<u32>> {
    if path.is_empty() {
        return Ok(None);
    }
    let number = path
        .parse()
        .map_err(|_| invalid(url, "its database is no number"))?;
    Ok(Some(number))
}

fn tcp(url: &str, authority: &str) -> KevyResult<Place> {
    if authority.contains('@') {
        return Err(KevyError::Unsupported(
            "a user or a password in a URL: kevy has neither".to_owned(),
        ));
    }
    let (host, port) = split(authority).ok_or_else(|| invalid(url, "its port is no number"))?;
    if host.is_empty() {
        return Err(invalid(url, "it has no host"));
    }
    Ok(Place::Tcp {
        host: host.to_owned(),
        port,
    })
}

/// A host, in brackets if it is an IPv6 address, and its port.
fn split(authority: &str) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = rest.strip_prefix(':').map_or(Ok(DEFAULT_PORT), str::parse);
        return Some((host, port.ok()?));
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((authority, DEFAULT_PORT)),
    }
}

fn invalid(url: &str, why: &str) -> KevyError {
    KevyError::InvalidInput(format!("{url:?} is no address: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, host, port, database) in [
            ("kevy://localhost", "localhost", 6379, None),
            ("redis://127.0.0.1:6004/0", "127.0.0.1", 6004, Some(0)),
            ("redis://h:1/", "h", 1, None),
            ("tcp://[::1]:7", "::1", 7, None),
            ("tcp://[::1]", "::1", 6379, None),
        ] {
            let host = host.to_owned();
            let place = Place::Tcp { host, port };
            assert_eq!(parse(url).unwrap(), Target { place, database }, "{url}");
        }
        let place = Place::Unix("/tmp/kevy.sock".into());
        assert_eq!(parse("unix:///tmp/kevy.sock").unwrap().place, place);
    }

    #[test]
    fn what_is_not_spoken_is_refused_by_name() {
        for url in [
            "mem://",
            "mem://a",
            "file:///a",
            "rediss://h",
            "redis://u:p@h:1",
        ] {
            assert!(
                matches!(parse(url), Err(KevyError::Unsupported(_))),
                "{url}"
            );
        }
        for url in [
            "h:1",
            "http://h",
            "tcp://",
            "tcp://h:x",
            "redis://h/x",
            "unix://",
            "tcp://[::1",
        ] {
            assert!(
                matches!(parse(url), Err(KevyError::InvalidInput(_))),
                "{url}"
            );
        }
    }
}
