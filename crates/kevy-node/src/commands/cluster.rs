//! `CLUSTER ...`: this process's shards as the nodes of a Redis cluster (spec C3, C7).

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, help, integer, ok, text};
use crate::host::Door;
use crate::query::{Answer, Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use kevy_proto::slot::{SLOTS, slot_of};
use std::fmt::Write;

const STALE: Flags = Flags::STALE;
const ADMIN: Flags = Flags::STALE.with(Flags::ADMIN);
const CHANGES: Flags = ADMIN.with(Flags::NO_ASYNC_LOADING);

const fn sub(
    name: &'static str,
    arity: i32,
    run: super::Run,
    summary: &'static str,
) -> NodeCommand {
    NodeCommand {
        name,
        arity,
        flags: STALE,
        group: "cluster",
        since: "3.0.0",
        summary,
        run,
        ..ROW
    }
}

const fn refused(name: &'static str, arity: i32, flags: Flags) -> NodeCommand {
    let summary = "Refused: the shards of a process are its cluster, by design.";
    NodeCommand {
        name,
        arity,
        flags,
        group: "cluster",
        since: "3.0.0",
        summary,
        run: fixed_by_design,
        ..ROW
    }
}

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "cluster",
        group: "cluster",
        since: "3.0.0",
        summary: "A container for cluster commands.",
        subcommands: SUBCOMMANDS,
        ..ROW
    },
    NodeCommand {
        name: "readonly",
        arity: 1,
        flags: ALWAYS.with(Flags::FAST),
        group: "cluster",
        since: "3.0.0",
        summary: "Enables reads from replicas; every shard is a primary.",
        run: read_only,
        ..ROW
    },
    NodeCommand {
        name: "readwrite",
        arity: 1,
        flags: ALWAYS.with(Flags::FAST),
        group: "cluster",
        since: "3.0.0",
        summary: "Ends READONLY.",
        run: read_write,
        ..ROW
    },
    NodeCommand {
        name: "asking",
        arity: 1,
        flags: Flags::FAST,
        group: "cluster",
        since: "3.0.0",
        summary: "Precedes a request redirected by ASK; kevy never sends one.",
        run: asking,
        ..ROW
    },
];

const SUBCOMMANDS: &[NodeCommand] = &[
    sub(
        "slots",
        2,
        slots,
        "Returns the slot ranges and who serves them.",
    ),
    sub(
        "shards",
        2,
        shards,
        "Returns the shards, their slots and nodes.",
    ),
    sub("nodes", 2, nodes, "Returns the nodes, a line each."),
    sub("info", 2, info, "Returns the state of the cluster."),
    sub("myid", 2, my_id, "Returns the id of this node."),
    sub(
        "myshardid",
        2,
        my_shard_id,
        "Returns the id of this node's shard.",
    ),
    sub(
        "links",
        2,
        links,
        "Returns the links to other nodes: none, they are threads.",
    ),
    sub("keyslot", 3, key_slot, "Returns the slot of a key."),
    sub(
        "countkeysinslot",
        3,
        count_keys_in_slot,
        "Counts the keys of a slot.",
    ),
    sub(
        "getkeysinslot",
        4,
        get_keys_in_slot,
        "Returns keys of a slot.",
    ),
    NodeCommand {
        flags: ADMIN,
        ..sub(
            "count-failure-reports",
            3,
            count_failure_reports,
            "Always 0: threads of a process fail together.",
        )
    },
    NodeCommand {
        flags: ADMIN,
        ..sub(
            "replicas",
            3,
            replicas,
            "Returns the replicas of a node: none.",
        )
    },
    NodeCommand {
        flags: ADMIN,
        ..sub(
            "slaves",
            3,
            replicas,
            "Returns the replicas of a node: none.",
        )
    },
    NodeCommand {
        flags: ALWAYS,
        ..sub("help", 2, help_cluster, "Lists the subcommands.")
    },
    refused("addslots", -3, CHANGES),
    refused("addslotsrange", -4, CHANGES),
    refused("bumpepoch", 2, CHANGES),
    refused("delslots", -3, CHANGES),
    refused("delslotsrange", -4, CHANGES),
    refused("failover", -2, CHANGES),
    refused("flushslots", 2, CHANGES),
    refused("forget", 3, CHANGES),
    refused("meet", -4, CHANGES),
    refused("replicate", 3, CHANGES),
    refused("reset", -2, ADMIN.with(Flags::NOSCRIPT)),
    refused("saveconfig", 2, CHANGES),
    refused("set-config-epoch", 3, CHANGES),
    refused("setslot", -4, CHANGES),
];

const DISABLED: ErrorReply = ErrorReply::text("ERR This instance has cluster support disabled");

fn fixed_by_design(
    shard: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    let name = text(args.at(1)).to_ascii_uppercase();
    let error = format!(
        "ERR CLUSTER {name} is not supported: the shards of this process are its cluster, and their slots are fixed"
    );
    Err(ErrorReply::Other(error.into()))
}

fn read_only(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    session.client.readonly = true;
    ok(session, reply)
}

fn read_write(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    session.client.readonly = false;
    ok(session, reply)
}

fn asking(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    ok(session, reply)
}

impl Shard {
    fn require_cluster(&self) -> Result<(), ErrorReply> {
        if self.settings.cluster.enabled {
            Ok(())
        } else {
            Err(DISABLED)
        }
    }

    /// `cluster` or `standalone`, as `HELLO` and `INFO` say it.
    pub(crate) fn mode(&self) -> &'static str {
        if self.settings.cluster.enabled {
            "cluster"
        } else {
            "standalone"
        }
    }

    fn shard_ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards()).map(ShardId)
    }
}

/// A node's id: 40 hex digits that only depend on the shard's number, so that a restart changes nothing for clients.
pub(crate) fn node_id(shard: ShardId) -> String {
    format!(
        "{:040x}",
        0x6b65_7679_0000_0000_0000_0000_u128 + u128::from(shard.0)
    )
}

fn shard_id_text(shard: ShardId) -> String {
    format!(
        "{:040x}",
        0x7368_6172_6400_0000_0000_0000_u128 + u128::from(shard.0)
    )
}

/// The shard whose node the client talks to: that of the port, or the one that accepted it.
fn own(shard: &Shard, session: &Session) -> ShardId {
    match session.peer.door {
        Door::Shard(own) => own,
        Door::Main | Door::Unix => shard.id(),
    }
}

fn slots(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(usize::from(shard.shards()));
    for id in shard.shard_ids() {
        let range = shard.map.range(id);
        let (host, port) = shard.shard_endpoint(id, session);
        reply.array(3);
        reply.integer(i64::from(*range.start()));
        reply.integer(i64::from(*range.end()));
        reply.array(4);
        reply.bulk(host.as_bytes());
        reply.integer(i64::from(port));
        reply.bulk(node_id(id).as_bytes());
        reply.array(0);
    }
    Ok(Outcome::Replied)
}

fn shards(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(usize::from(shard.shards()));
    for id in shard.shard_ids() {
        let range = shard.map.range(id);
        let (host, port) = shard.shard_endpoint(id, session);
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2);
        reply.integer(i64::from(*range.start()));
        reply.integer(i64::from(*range.end()));
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        reply.bulk(b"id");
        reply.bulk(node_id(id).as_bytes());
        reply.bulk(b"port");
        reply.integer(i64::from(port));
        reply.bulk(b"ip");
        reply.bulk(host.as_bytes());
        reply.bulk(b"endpoint");
        reply.bulk(host.as_bytes());
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"replication-offset");
        reply.integer(0);
        reply.bulk(b"health");
        reply.bulk(b"online");
    }
    Ok(Outcome::Replied)
}

/// `<id> <ip:port@cport> <flags> <primary> <ping-sent> <pong-recv> <config-epoch> <link-state> <slots>`, a line each.
/// There is no bus; its port is given as 0.
fn nodes(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    let own = own(shard, session);
    let mut lines = String::new();
    for id in shard.shard_ids() {
        let range = shard.map.range(id);
        let address = shard.shard_address(id, session);
        let flags = if id == own { "myself,master" } else { "master" };
        let epoch = id.0 + 1;
        let _ = writeln!(
            lines,
            "{} {address}@0 {flags} - 0 0 {epoch} connected {}-{}",
            node_id(id),
            range.start(),
            range.end()
        );
    }
    Encoder::new(reply, session.client.version).verbatim(b"txt", lines.as_bytes());
    Ok(Outcome::Replied)
}

fn info(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    let shards = shard.shards();
    let epoch = own(shard, session).0 + 1;
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\ncluster_slots_pfail:0\r\n\
         cluster_slots_fail:0\r\ncluster_known_nodes:{shards}\r\ncluster_size:{shards}\r\n\
         cluster_current_epoch:{shards}\r\ncluster_my_epoch:{epoch}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    Encoder::new(reply, session.client.version).verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Replied)
}

fn my_id(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    Encoder::new(reply, session.client.version).bulk(node_id(own(shard, session)).as_bytes());
    Ok(Outcome::Replied)
}

fn my_shard_id(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    Encoder::new(reply, session.client.version).bulk(shard_id_text(own(shard, session)).as_bytes());
    Ok(Outcome::Replied)
}

fn links(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.require_cluster()?;
    Encoder::new(reply, session.client.version).array(0);
    Ok(Outcome::Replied)
}

fn key_slot(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    Encoder::new(reply, session.client.version).integer(i64::from(slot_of(args.at(2))));
    Ok(Outcome::Replied)
}

fn slot_argument(arg: &[u8]) -> Result<u16, ErrorReply> {
    let slot = u16::try_from(
        integer(arg).map_err(|_| ErrorReply::text("ERR Invalid or out of range slot"))?,
    );
    slot.ok()
        .filter(|slot| *slot < SLOTS)
        .ok_or(ErrorReply::text("ERR Invalid slot"))
}

fn count_keys_in_slot(
    shard: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    let slot = slot_argument(args.at(2))?;
    let finish = Finish::new(|_, _, answers, reply| reply.length(Answer::total(&answers)));
    Ok(Outcome::Ask(Query::CountKeys(slot), finish))
}

fn get_keys_in_slot(
    shard: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    let slot = slot_argument(args.at(2))?;
    let limit = usize::try_from(integer(args.at(3))?)
        .map_err(|_| ErrorReply::text("ERR Invalid number of keys"))?;
    let finish = Finish::new(|_, _, answers, reply| {
        // Only the owner of the slot has any.
        let keys: Vec<Vec<u8>> = answers.into_iter().flat_map(Answer::keys).collect();
        reply.array(keys.len());
        keys.iter().for_each(|key| reply.bulk(key));
    });
    Ok(Outcome::Ask(Query::Keys(slot, limit), finish))
}

fn known_node(shard: &Shard, id: &[u8]) -> Result<(), ErrorReply> {
    if shard
        .shard_ids()
        .any(|shard| node_id(shard).as_bytes() == id)
    {
        return Ok(());
    }
    Err(ErrorReply::quoting("ERR Unknown node ", id, ""))
}

fn count_failure_reports(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    known_node(shard, args.at(2))?;
    Encoder::new(reply, session.client.version).integer(0);
    Ok(Outcome::Replied)
}

fn replicas(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.require_cluster()?;
    known_node(shard, args.at(2))?;
    Encoder::new(reply, session.client.version).array(0);
    Ok(Outcome::Replied)
}

fn help_cluster(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "COUNT-FAILURE-REPORTS <node-id>",
            "    Return number of failure reports for <node-id>.",
            "COUNTKEYSINSLOT <slot>",
            "    Return the number of keys in <slot>.",
            "GETKEYSINSLOT <slot> <count>",
            "    Return key names stored by current node in a slot.",
            "INFO",
            "    Return information about the cluster.",
            "KEYSLOT <key>",
            "    Return the hash slot for <key>.",
            "LINKS",
            "    Return information about all network links between this node and its peers.",
            "MYID",
            "    Return the node id.",
            "MYSHARDID",
            "    Return the node's shard id.",
            "NODES",
            "    Return cluster configuration seen by node.",
            "REPLICAS <node-id>",
            "    Return <node-id> replicas.",
            "SHARDS",
            "    Return information about slot range mappings and the nodes associated with them.",
            "SLOTS",
            "    Return information about slots range mappings.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
