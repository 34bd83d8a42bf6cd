//! `[cluster]`: the shards as Redis Cluster nodes.

use super::super::kind::{Field, Kind};
use super::fields::{optional_number, optional_text, plain};
use super::{Directive, Live, RESTART, ROW};

/// Longest host name (RFC 1035).
const HOST_MAX_BYTES: usize = 253;

/// The rows.
pub(super) static ROWS: [Directive; 4] = [
    Directive {
        section: "cluster",
        key: "enabled",
        flag: Some("--cluster"),
        env: Some("KEVY_CLUSTER"),
        name: "cluster-enabled",
        kind: Kind::Switch(plain!(cluster.enabled)),
        live: Live::Immutable,
        about: "Shard i also listens on port_base + 1 + i and answers there as a Redis Cluster node.",
        ..ROW
    },
    Directive {
        section: "cluster",
        key: "port_base",
        name: "cluster-port-base",
        kind: Kind::Integer {
            min: 1,
            max: 65534,
            unit: "",
            field: optional_number!(cluster.port_base: u16),
        },
        live: Live::Fixed(RESTART),
        about: "Port below the shards' ports. Unset: the value of port.",
        ..ROW
    },
    Directive {
        section: "cluster",
        key: "announce_host",
        env: Some("KEVY_CLUSTER_ANNOUNCE_HOST"),
        name: "cluster-announce-host",
        kind: Kind::Text {
            max_bytes: HOST_MAX_BYTES,
            what: "a host name or an address",
            field: optional_text!(cluster.announce_host),
        },
        live: Live::Fixed(RESTART),
        about: "Host that cluster clients are told. Unset: the address that the client connected to.",
        ..ROW
    },
    Directive {
        section: "cluster",
        key: "announce_port_base",
        env: Some("KEVY_CLUSTER_ANNOUNCE_PORT_BASE"),
        name: "cluster-announce-port-base",
        kind: Kind::Integer {
            min: 1,
            max: 65534,
            unit: "",
            field: optional_number!(cluster.announce_port_base: u16),
        },
        live: Live::Fixed(RESTART),
        about: "Cluster clients are told this + 1 + i as the port of shard i, for a server behind a port mapping. Unset: the value of port_base.",
        ..ROW
    },
];
