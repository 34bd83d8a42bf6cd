//! Both servers side by side.

use std::io;

use super::compare::{same, sorted};
use super::values::{KEYS, SPOILERS};
use crate::connection::{Args, Connection};
use crate::reply::Reply;
use crate::server::{Redis, Server, Spec};

/// SCAN must come to its end within this many calls.
const SCAN_CALLS: usize = 10_000;

/// Redis and kevy, spoken to in the same protocol version.
#[derive(Debug)]
pub struct Pair {
    redis: Redis,
    kevy: Server,
    protocol: u8,
}

/// The first reply of a sequence that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which command of the sequence it answers.
    pub index: usize,
    /// What Redis said.
    pub redis: Vec<u8>,
    /// What kevy said.
    pub kevy: Vec<u8>,
}

impl Difference {
    /// What differences of one cause have in common, most often: the command and the starts of the replies.
    pub fn kind(&self, commands: &[Args]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let start = |bytes: &[u8]| bytes[..bytes.len().min(16)].to_vec();
        let name = commands[self.index][0].to_ascii_uppercase();
        (name, start(&self.redis), start(&self.kevy))
    }
}

impl Pair {
    /// Starts both; kevy with `shards` shards. `protocol` is 2 or 3.
    pub fn start(shards: u16, protocol: u8) -> Self {
        Self {
            redis: Redis::start(),
            kevy: Spec::threads(shards).start(),
            protocol,
        }
    }

    /// Runs `commands` on both from an empty keyspace, up to the first difference.
    pub fn first_difference(&self, commands: &[Args]) -> Option<Difference> {
        let mut redis = self.fresh(self.redis.connect());
        let mut kevy = self.fresh(self.kevy.connect());
        commands.iter().enumerate().find_map(|(index, args)| {
            let (a, b) = (perform(&mut redis, args), perform(&mut kevy, args));
            let differs = !same(args, &a, &b);
            differs.then_some(Difference {
                index,
                redis: a,
                kevy: b,
            })
        })
    }

    fn fresh(&self, mut connection: Connection) -> Connection {
        if self.protocol == 3 {
            let hello = connection.run("HELLO 3");
            assert_eq!(hello.at("proto"), &Reply::Integer(3));
        }
        assert_eq!(connection.run("FLUSHALL"), Reply::Simple("OK".into()));
        connection
    }
}

/// Runs one step and gives what is to be compared: the bytes of the reply, or a description where bytes
/// are free to differ.
fn perform(connection: &mut Connection, args: &Args) -> Vec<u8> {
    let outcome = match args[0].to_ascii_uppercase().as_slice() {
        b"KEYS" => keys(connection, args),
        b"SCAN" if args.get(1).is_some_and(|cursor| cursor == b"0") => scan(connection, args),
        b"RANDOMKEY" if args.len() == 1 => random_key(connection, args),
        b"DBSIZE" => size(connection, args),
        b"ROUNDTRIP" => round_trip(connection, args),
        _ => connection.try_ask_bytes(args),
    };
    outcome.unwrap_or_else(|error| format!("no reply: {error}").into_bytes())
}

fn keys(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    Ok(if bytes[0] == b'-' {
        bytes
    } else {
        sorted(&parsed(&bytes))
    })
}

/// A whole iteration: what it returns is a set.
fn scan(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let (mut args, mut found) = (args.clone(), Vec::new());
    for _ in 0..SCAN_CALLS {
        let bytes = connection.try_ask_bytes(&args)?;
        if bytes[0] == b'-' {
            return Ok(bytes);
        }
        let reply = parsed(&bytes);
        let [cursor, keys] = reply.items() else {
            return Ok(bytes);
        };
        found.extend_from_slice(keys.items());
        args[1] = cursor.text().into_bytes();
        if args[1] == b"0" {
            return Ok(sorted(&Reply::Array(found)));
        }
    }
    Ok(b"a SCAN without end".to_vec())
}

/// Any key will do if it exists.
fn random_key(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    let Reply::Bulk(key) = parsed(&bytes) else {
        return Ok(bytes);
    };
    let exists = connection.try_ask_bytes(&[b"EXISTS", key.as_slice()])?;
    Ok([b"some key, EXISTS says ", exists.as_slice()].concat())
}

/// Redis counts keys that have expired until it comes across them: look at each before.
fn size(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let mut touch: Args = vec![b"TOUCH".to_vec()];
    touch.extend(KEYS.iter().map(|key| key.to_vec()));
    touch.extend(SPOILERS.iter().map(|key| key.as_bytes().to_vec()));
    connection.try_ask_bytes(&touch)?;
    connection.try_ask_bytes(args)
}

/// `ROUNDTRIP <from> <to> <ttl> <options>`: RESTORE of what DUMP gave. The payload is each server's own.
fn round_trip(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let dumped = connection.try_ask_bytes(&[b"DUMP", args[1].as_slice()])?;
    let Reply::Bulk(payload) = parsed(&dumped) else {
        return Ok(dumped);
    };
    let restore = [
        b"RESTORE".to_vec(),
        args[2].clone(),
        args[3].clone(),
        payload,
    ];
    connection.try_ask_bytes(&[&restore, &args[4..]].concat())
}

fn parsed(bytes: &[u8]) -> Reply {
    let decoded = crate::reply::decode(bytes).unwrap_or_else(|error| panic!("{error}"));
    decoded.expect("a whole reply").0
}
