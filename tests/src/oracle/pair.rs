//! Both servers side by side.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::compare::same;
use super::generator::Grammar;
use super::side::{Answer, Side, parsed};
use crate::connection::Args;
use crate::reply::Reply;
use crate::server::{Redis, Server, Spec};

/// Redis and kevy, spoken to in the same protocol version.
#[derive(Debug)]
pub struct Pair {
    redis: Redis,
    kevy: Server,
    protocol: u8,
    succeeded: RefCell<BTreeSet<Vec<u8>>>,
}

/// The first reply of a sequence that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// At which command of the sequence.
    pub index: usize,
    /// The command it answers: that one, or one that belongs to it (of a transaction, of a look at the state).
    pub args: Args,
    /// What Redis said.
    pub redis: Vec<u8>,
    /// What kevy said.
    pub kevy: Vec<u8>,
}

impl Difference {
    /// What differences of one cause have in common, most often: the command and the starts of the replies.
    pub fn kind(&self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let start = |bytes: &[u8]| bytes[..bytes.len().min(16)].to_vec();
        let name = self.args[0].to_ascii_uppercase();
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
            succeeded: RefCell::default(),
        }
    }

    /// The commands of `grammar` that never did anything but fail.
    pub fn never_succeeded(&self, grammar: &Grammar) -> Vec<String> {
        let succeeded = self.succeeded.borrow();
        let names = grammar.names();
        names
            .filter(|name| !succeeded.contains(name.as_bytes()))
            .collect()
    }

    /// Remembers which commands did something.
    fn note(&self, answers: &[Answer]) {
        for (args, bytes) in answers {
            let fails = [&b"-"[..], b"+QUEUED", b"left out", b"no reply"];
            if !args.is_empty() && !fails.iter().any(|start| bytes.starts_with(start)) {
                let mut succeeded = self.succeeded.borrow_mut();
                succeeded.insert(args[0].to_ascii_uppercase());
                succeeded.insert(args[..args.len().min(2)].join(&b' ').to_ascii_uppercase());
            }
        }
    }

    /// The grammar of the commands that this Redis has.
    pub fn grammar(&self) -> Grammar {
        Grammar::read(&mut self.redis.connect())
    }

    /// Runs `commands` on both from an empty keyspace, up to the first difference.
    pub fn first_difference(&self, commands: &[Args]) -> Option<Difference> {
        let mut redis = Side::new(|| self.redis.connect(), self.protocol);
        let mut kevy = Side::new(|| self.kevy.connect(), self.protocol);
        commands.iter().enumerate().find_map(|(index, args)| {
            let a = redis.perform(args);
            self.note(&a);
            let b = kevy.perform(&with_same_id(args, &a));
            unequal(&a, &b).map(|(args, redis, kevy)| Difference {
                index,
                args,
                redis,
                kevy,
            })
        })
    }
}

/// The first answers that differ.
fn unequal(redis: &[Answer], kevy: &[Answer]) -> Option<(Args, Vec<u8>, Vec<u8>)> {
    let none = (Args::new(), b"nothing".to_vec());
    (0..redis.len().max(kevy.len())).find_map(|at| {
        let (a, b) = (
            redis.get(at).unwrap_or(&none),
            kevy.get(at).unwrap_or(&none),
        );
        let args = if a.0.is_empty() { &b.0 } else { &a.0 };
        let differs = !same(args, &a.1, &b.1);
        differs.then(|| (args.clone(), a.1.clone(), b.1.clone()))
    })
}

/// Where the id of an `XADD` stands, whose options begin at `at`.
fn id_at(args: &Args, mut at: usize) -> Option<usize> {
    loop {
        match args.get(at)?.to_ascii_uppercase().as_slice() {
            b"NOMKSTREAM" | b"=" | b"~" => at += 1,
            b"MAXLEN" | b"MINID" => {
                let exact = args.get(at + 1)?;
                at += if exact == b"=" || exact == b"~" { 3 } else { 2 };
            }
            b"LIMIT" => at += 2,
            _ => return Some(at),
        }
    }
}

/// `XADD key *` takes its id from the clock: kevy is given the one that Redis chose.
fn with_same_id(args: &Args, redis: &[Answer]) -> Args {
    let mut args = args.clone();
    let name = usize::from(args[0] == b"OTHER");
    let is_xadd = args[name..]
        .first()
        .is_some_and(|name| name.eq_ignore_ascii_case(b"XADD"));
    if let Some(at) = id_at(&args, name + 2)
        && is_xadd
        && args[at] == b"*"
        && let Some((_, bytes)) = redis.first()
        && bytes.starts_with(b"$")
        && let Reply::Bulk(id) = parsed(bytes)
    {
        args[at] = id;
    }
    args
}
