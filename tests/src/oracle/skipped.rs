//! Commands that the oracle leaves out, each for a reason.

/// Names (of a command or a whole container) and why random sequences do without them.
const SKIPPED: &[(&[&str], &str)] = &[
    (
        &["WAIT", "CONFIG", "CLIENT", "SELECT", "FLUSHALL", "FLUSHDB"],
        "made by hand: `administration` and `generic` say what two servers answer alike, and emptying is seldom",
    ),
    (
        &["DUMP", "RESTORE", "RESTORE-ASKING"],
        "payloads are each server's own: ROUNDTRIP joins the two",
    ),
    (
        &[
            "ACL",
            "AUTH",
            "CLUSTER",
            "ASKING",
            "READONLY",
            "READWRITE",
            "MIGRATE",
            "MODULE",
            "SWAPDB",
            "MOVE",
        ],
        "differ by design",
    ),
    (
        &[
            "EVAL",
            "EVAL_RO",
            "EVALSHA",
            "EVALSHA_RO",
            "FCALL",
            "FCALL_RO",
            "FUNCTION",
            "SCRIPT",
        ],
        "no scripting",
    ),
    (
        &[
            "BGREWRITEAOF",
            "BGSAVE",
            "SAVE",
            "LASTSAVE",
            "PSYNC",
            "SYNC",
            "REPLCONF",
            "REPLICAOF",
            "SLAVEOF",
            "FAILOVER",
            "ROLE",
            "SHUTDOWN",
        ],
        "persistence and replication have tests of their own",
    ),
    (
        &[
            "DEBUG",
            "INFO",
            "LATENCY",
            "MEMORY",
            "MONITOR",
            "SLOWLOG",
            "TIME",
            "LOLWUT",
            "COMMAND",
            "HELLO",
            "RESET",
            "QUIT",
            "PFDEBUG",
            "PFSELFTEST",
        ],
        "what they say is about the server or the connection, not the data",
    ),
];

/// Why `name` (in upper case) is left out, if it is.
pub(super) fn reason(name: &[u8]) -> Option<&'static str> {
    let row = SKIPPED
        .iter()
        .find(|(names, _)| names.iter().any(|skipped| skipped.as_bytes() == name));
    row.map(|(_, reason)| *reason)
}
