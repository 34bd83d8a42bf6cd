//! What an error reply tells a router.

use kevy_proto::resp::Reply;

use super::Address;

/// An error reply that says where, or when, the command would be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// `MOVED <slot> <host:port>`: the slot belongs there, from now on.
    Moved { slot: u16, to: Address },
    /// `ASK <slot> <host:port>`: this once, after `ASKING`.
    Ask { to: Address },
    /// `MISDIRECTED writer is <host:port>`: writes of this key's scope go there.
    Misdirected { to: Address },
    /// `QUIESCED`, `TRYAGAIN`, `LOADING`: the same again, later.
    Later,
    /// `CLUSTERDOWN`: later, and perhaps elsewhere.
    Down,
}

/// Reads an error reply; `None` for what is the caller's to judge. A host that is left out is `from`'s.
pub(crate) fn redirect(reply: &Reply, from: &Address) -> Option<Redirect> {
    let Reply::Error(text) = reply else {
        return None;
    };
    let text = str::from_utf8(text).ok()?;
    let mut words = text.split(' ');
    match words.next()? {
        "MOVED" => {
            let slot = words.next()?.parse().ok()?;
            let to = address(words.next()?, from)?;
            Some(Redirect::Moved { slot, to })
        }
        "ASK" => {
            let to = address(words.nth(1)?, from)?;
            Some(Redirect::Ask { to })
        }
        "MISDIRECTED" => {
            let to = address(text.strip_prefix("MISDIRECTED writer is ")?, from)?;
            Some(Redirect::Misdirected { to })
        }
        "QUIESCED" | "TRYAGAIN" | "LOADING" => Some(Redirect::Later),
        "CLUSTERDOWN" => Some(Redirect::Down),
        _ => None,
    }
}

fn address(text: &str, from: &Address) -> Option<Address> {
    let address = Address::parse(text.trim_end())?;
    if address.host().is_empty() {
        return Some(Address::new(from.host(), address.port()));
    }
    Some(address)
}

/// Whether the server refuses keys of several slots in one command, as a Redis Cluster does and kevy does not.
pub(crate) fn is_cross_slot(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(b"CROSSSLOT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_and_nothing_else() {
        let from = Address::new("h", 1);
        let read = |text: &'static str| redirect(&Reply::Error(text.into()), &from);
        let to = Address::new("10.0.0.2", 6005);
        let moved = |to| Some(Redirect::Moved { slot: 3999, to });
        assert_eq!(read("MOVED 3999 10.0.0.2:6005"), moved(to.clone()));
        assert_eq!(read("MOVED 3999 :7"), moved(Address::new("h", 7)));
        assert_eq!(
            read("ASK 3999 10.0.0.2:6005"),
            Some(Redirect::Ask { to: to.clone() })
        );
        assert_eq!(
            read("MISDIRECTED writer is 10.0.0.2:6005"),
            Some(Redirect::Misdirected { to })
        );
        assert_eq!(
            read("QUIESCED migrating to 10.0.0.2:6005"),
            Some(Redirect::Later)
        );
        assert_eq!(read("TRYAGAIN x"), Some(Redirect::Later));
        assert_eq!(read("LOADING x"), Some(Redirect::Later));
        assert_eq!(read("CLUSTERDOWN x"), Some(Redirect::Down));
        for other in [
            "ERR MOVED",
            "MOVED",
            "MOVED x h:1",
            "MOVED 1 h",
            "MISDIRECTED",
            "",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(redirect(&Reply::Simple("MOVED 1 h:1".into()), &from), None);
    }
}
