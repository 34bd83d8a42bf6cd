//! Who owns a slot, as `CLUSTER SLOTS` says. The client never deals out slots itself.

use std::fmt;
use std::sync::Arc;

use kevy_proto::resp::Reply;
use kevy_proto::slot::SLOTS;

use crate::from_reply::{FromReply, elements, no_error};
use crate::{KevyError, KevyResult};

/// Where a server listens. Cloning shares the host's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: Arc<str>,
    port: u16,
}

impl Address {
    /// A host's name or IP address (IPv6 without brackets), and a port.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Reads `host:port`; everything before the last colon is the host.
    ///
    /// ```
    /// let address = kevy_client::Address::parse("10.0.0.1:6005").unwrap();
    /// assert_eq!((address.host(), address.port()), ("10.0.0.1", 6005));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').unwrap_or(host);
        let host = host.strip_suffix(']').unwrap_or(host);
        Some(Self::new(host, port.parse().ok()?))
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// No shard owns the slot, as far as is known.
const NOBODY: u16 = u16::MAX;

/// Most nodes that one topology may name: each owns a slot at least.
const MAX_NODES: usize = SLOTS as usize;

/// The owner of each slot.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    nodes: Vec<Address>,
    /// Index into `nodes` for each slot, or [`NOBODY`].
    owners: Vec<u16>,
}

impl Topology {
    /// Knows one node, to which everything goes.
    pub(crate) fn of_one(node: Address) -> Self {
        Self {
            nodes: vec![node],
            owners: vec![0; usize::from(SLOTS)],
        }
    }

    /// Reads the reply of `CLUSTER SLOTS` that `from` gave: a node without a host is on `from`'s.
    ///
    /// # Errors
    ///
    /// When it is no such reply, or names no node.
    pub(crate) fn read(reply: Reply, from: &Address) -> KevyResult<Self> {
        let mut topology = Self {
            nodes: Vec::new(),
            owners: vec![NOBODY; usize::from(SLOTS)],
        };
        for range in elements(no_error(reply)?)? {
            let mut parts = elements(range)?.into_iter();
            let (Some(first), Some(last), Some(owner)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(malformed("a range without owner"));
            };
            let (first, last) = (slot(first)?, slot(last)?);
            let owner = topology.index(node(owner, from)?)?;
            if let Some(owners) = topology.owners.get_mut(first..=last) {
                owners.fill(owner);
            }
        }
        if topology.nodes.is_empty() {
            return Err(malformed("no node"));
        }
        Ok(topology)
    }

    /// The nodes that own slots, in the order they were named in.
    pub(crate) fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    /// The owner of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        let index = self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(*index))
    }

    /// The slot has moved.
    pub(crate) fn assign(&mut self, slot: u16, owner: Address) {
        if let (Ok(index), Some(place)) =
            (self.index(owner), self.owners.get_mut(usize::from(slot)))
        {
            *place = index;
        }
    }

    fn index(&mut self, node: Address) -> KevyResult<u16> {
        let known = self.nodes.iter().position(|known| *known == node);
        let index = known.unwrap_or(self.nodes.len());
        if index == MAX_NODES {
            return Err(malformed("more nodes than slots"));
        }
        if known.is_none() {
            self.nodes.push(node);
        }
        Ok(index as u16)
    }
}

fn slot(reply: Reply) -> KevyResult<usize> {
    let slot = usize::from_reply(reply)?;
    if slot >= usize::from(SLOTS) {
        return Err(malformed("a slot out of range"));
    }
    Ok(slot)
}

/// `[host, port, ..]`.
fn node(reply: Reply, from: &Address) -> KevyResult<Address> {
    let mut parts = elements(reply)?.into_iter();
    let (Some(host), Some(port)) = (parts.next(), parts.next()) else {
        return Err(malformed("a node without port"));
    };
    let host = Option::<String>::from_reply(host)?.unwrap_or_default();
    let port =
        u16::try_from(i64::from_reply(port)?).map_err(|_| malformed("a port out of range"))?;
    let host = if host.is_empty() { from.host() } else { &host };
    Ok(Address::new(host, port))
}

fn malformed(what: &str) -> KevyError {
    KevyError::Protocol(format!("CLUSTER SLOTS: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let node = Reply::Array(vec![host, Reply::Integer(port), Reply::Bulk("id".into())]);
        Reply::Array(vec![Reply::Integer(first), Reply::Integer(last), node])
    }

    fn seed() -> Address {
        Address::new("seed", 1)
    }

    #[test]
    fn ranges_are_read_and_a_missing_host_is_the_seed_s() {
        let slots = vec![
            range(0, 99, Reply::Bulk("a".into()), 1),
            range(100, 16382, Reply::Null, 2),
            range(50, 50, Reply::Bulk("".into()), 2),
        ];
        let mut topology = Topology::read(Reply::Array(slots), &seed()).unwrap();
        assert_eq!(topology.nodes().len(), 2);
        assert_eq!(topology.owner(49), Some(&Address::new("a", 1)));
        assert_eq!(topology.owner(50), Some(&Address::new("seed", 2)));
        assert_eq!(topology.owner(16382), Some(&Address::new("seed", 2)));
        assert_eq!(topology.owner(16383), None);
        topology.assign(16383, Address::new("b", 3));
        assert_eq!(topology.owner(16383), Some(&Address::new("b", 3)));
    }

    #[test]
    fn what_is_no_topology_is_an_error() {
        for reply in [
            Reply::Array(vec![]),
            Reply::OK,
            Reply::Error("ERR This instance has cluster support disabled".into()),
            Reply::Array(vec![range(0, 16384, Reply::Null, 1)]),
            Reply::Array(vec![range(0, 1, Reply::Null, 70_000)]),
            Reply::Array(vec![range(-1, 1, Reply::Null, 1)]),
            Reply::Array(vec![Reply::Array(vec![
                Reply::Integer(0),
                Reply::Integer(1),
            ])]),
        ] {
            assert!(Topology::read(reply.clone(), &seed()).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn addresses_are_read_back_from_their_text() {
        for address in [Address::new("10.0.0.1", 6005), Address::new("::1", 7)] {
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
        assert_eq!(Address::parse("[::1]:7"), Some(Address::new("::1", 7)));
        assert_eq!(Address::parse("a:99999"), None);
        assert_eq!(Address::parse("a"), None);
    }
}
