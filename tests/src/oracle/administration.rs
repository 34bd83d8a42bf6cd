//! Generators of what is said to the server and about the connection, as far as two servers can say the same: settings that
//! both have, `CLIENT`, `WAIT`, the containers' `HELP`, and errors.

use fastrand::Rng;

use super::args;
use super::generator::Row;
use super::values::{spoiler, word};
use crate::connection::{Args, Connection};
use crate::reply::Reply;

/// Settings that both servers have and that change no reply but their own, with a default that both can go back to.
const SETTINGS: [(&str, &str); 16] = [
    ("maxmemory-samples", "5"),
    ("maxmemory-eviction-tenacity", "10"),
    ("active-expire-effort", "1"),
    ("slowlog-log-slower-than", "10000"),
    ("slowlog-max-len", "128"),
    ("latency-monitor-threshold", "0"),
    ("latency-tracking", "yes"),
    ("latency-tracking-info-percentiles", "50 99 99.9"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("list-compress-depth", "0"),
    ("stream-node-max-bytes", "4096"),
    ("tracking-table-max-keys", "1000000"),
    ("hll-sparse-max-bytes", "3000"),
    ("busy-reply-threshold", "5000"),
    ("lazyfree-lazy-server-del", "no"),
];

/// How often each command comes, and what makes it.
pub(super) const ROWS: &[Row] = &[
    (6, |rng| args!["CONFIG", "GET", name(rng)]),
    (1, |rng| args!["CONFIG", "GET", name(rng), name(rng)]),
    (10, set),
    (1, |rng| {
        args![
            "CONFIG",
            word(rng, &["SET", "GET", "NOSUCH", "HELP", "RESETSTAT"])
        ]
    }),
    (2, |rng| args!["CLIENT", "SETNAME", client_name(rng)]),
    (2, |_| args!["CLIENT", "GETNAME"]),
    (2, |rng| {
        args!["CLIENT", "NO-EVICT", word(rng, &["on", "OFF", "x"])]
    }),
    (3, client),
    (2, |rng| {
        let wanted = word(rng, &["0", "1", "-1", "x"]);
        args!["WAIT", wanted, word(rng, &["1", "2", "-1", "x"])]
    }),
    (2, |rng| {
        args![container(rng), word(rng, &["HELP", "NOSUCH"])]
    }),
    (1, |rng| {
        args!["SLOWLOG", "GET", word(rng, &["-2", "x", "0"])]
    }),
    (1, |_| args!["SLOWLOG", "RESET"]),
    (1, |rng| args!["LATENCY", "HISTORY", spoiler(rng)]),
    (1, |rng| {
        args!["MEMORY", "USAGE", "nosuch", word(rng, &["SAMPLES", "x"])]
    }),
    (1, |rng| args!["HELLO", word(rng, &["4", "x", "1", "-1"])]),
    (1, |rng| args!["RESET", spoiler(rng)]),
];

fn name(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 => word(
            rng,
            &["nosuch", "MAXMEMORY-Samples", "", "maxmemory-sample?"],
        ),
        _ => SETTINGS[rng.usize(..SETTINGS.len())].0.into(),
    }
}

fn set(rng: &mut Rng) -> Args {
    let mut args = args!["CONFIG", "SET"];
    for _ in 0..=usize::from(rng.u8(..4) == 0) {
        let (name, default) = SETTINGS[rng.usize(..SETTINGS.len())];
        args.extend(args![name, setting_value(rng, default)]);
    }
    args
}

fn setting_value(rng: &mut Rng, default: &str) -> Vec<u8> {
    match (rng.u8(..6), default) {
        (0, _) => word(
            rng,
            &["x", "", "-2", "1.5", "1kb", "yes", "99999999999999999999"],
        ),
        (_, "yes" | "no") => word(rng, &["yes", "no", "YES", "on"]),
        (1 | 2, _) => default.into(),
        _ => word(rng, &["1", "2", "10", "64", "100", "1000", "0", "-1"]),
    }
}

fn client_name(rng: &mut Rng) -> Vec<u8> {
    word(rng, &["a", "name", "two words", "", "line\r\n", "\u{e9}"])
}

fn client(rng: &mut Rng) -> Args {
    match rng.u8(..16) {
        0 => args![
            "CLIENT",
            "UNBLOCK",
            "99999999",
            word(rng, &["TIMEOUT", "error", "x"])
        ],
        1 => args!["CLIENT", "UNBLOCK", spoiler(rng)],
        2 => args!["CLIENT", "KILL", word(rng, &["127.0.0.1:1", "x", ""])],
        3 => args![
            "CLIENT",
            "KILL",
            "ID",
            word(rng, &["99999999", "0", "-1", "x"])
        ],
        4 => args!["CLIENT", "KILL", "TYPE", word(rng, &["replica", "x"])],
        5 => args!["CLIENT", "KILL", "USER", "nosuch"],
        6 => args!["CLIENT", "CACHING", word(rng, &["yes", "no", "x"])],
        7 => args!["CLIENT", "GETREDIR"],
        8 => args!["CLIENT", "TRACKINGINFO"],
        9 => args!["CLIENT", "TRACKING", word(rng, &["off", "x", "OFF"])],
        10 => {
            let first = word(rng, &["OPTIN", "PREFIX", "NOLOOP", "x"]);
            args![
                "CLIENT",
                "TRACKING",
                "ON",
                first,
                word(rng, &["OPTOUT", "99999999", "x"]),
                "x"
            ]
        }
        11 => args![
            "CLIENT",
            "PAUSE",
            word(rng, &["x", "-1", "1"]),
            word(rng, &["WRITE", "x"])
        ],
        12 => args!["CLIENT", "UNPAUSE"],
        13 => args![
            "CLIENT",
            "LIST",
            word(rng, &["TYPE", "ID", "x"]),
            word(rng, &["x", "99999999"])
        ],
        14 => args!["CLIENT", "REPLY", "x"],
        _ => args!["CLIENT", spoiler(rng)],
    }
}

fn container(rng: &mut Rng) -> Vec<u8> {
    let containers = [
        "CONFIG", "OBJECT", "XINFO", "XGROUP", "PUBSUB", "MEMORY", "SLOWLOG", "LATENCY",
    ];
    word(rng, &containers)
}

/// Sets everything back that outlives a sequence.
pub(super) fn reset(connection: &mut Connection) {
    let mut args = args!["CONFIG", "SET"];
    for (name, default) in SETTINGS {
        args.extend(args![name, default]);
    }
    let bytes = connection.try_ask_bytes(&args).expect("a reply");
    assert_eq!(super::side::parsed(&bytes), Reply::ok());
}
