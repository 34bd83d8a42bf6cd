//! Random command sequences from a seed.

use fastrand::Rng;

use super::args;
use super::sentence::sentence;
use super::syntax::{self, Syntax};
use super::values::{in_some_case, spoiler, word};
use super::words::key;
use super::{administration, generic, large, skipped, strings, words};
use crate::connection::{Args, Connection};

/// How often a command comes in relation to the others, and what makes it.
pub(super) type Row = (u32, fn(&mut Rng) -> Args);

/// One command in so many is spoiled.
const SPOILED_ONE_IN: u32 = 10;

/// In place of one command in so many, its keys are asked for.
const KEYS_ONE_IN: u32 = 60;

/// What a sequence is about. Transactions and subscriptions are kept apart: messages that arrive while a
/// transaction is answered would be told from replies by guessing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Commands on keys.
    Data,
    /// The same, with transactions between them.
    Transactions,
    /// Channels.
    PubSub,
}

/// The grammar of everything that is generated.
#[derive(Debug)]
pub struct Grammar {
    rows: Vec<Syntax>,
}

impl Grammar {
    /// Reads the grammar from a Redis, spoken to in RESP2.
    pub fn read(redis: &mut Connection) -> Self {
        let mut rows = syntax::read(redis);
        rows.retain(|row| skipped::reason(&row.name[0]).is_none());
        Self { rows }
    }

    /// The commands that are generated from their grammar.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(Syntax::full_name)
    }

    fn of(&self, groups: &[&str]) -> Vec<&Syntax> {
        let wanted = |row: &&Syntax| groups.contains(&row.group.as_str());
        self.rows.iter().filter(wanted).collect()
    }
}

/// An endless supply of commands that depends on its seed alone.
#[derive(Debug)]
pub struct Generator<'a> {
    rng: Rng,
    subject: Subject,
    step: u64,
    data: Vec<&'a Syntax>,
    pubsub: Vec<&'a Syntax>,
    weight: u32,
    by_hand_one_in: u8,
}

/// Commands without which others find nothing to do.
const FILLING: [&str; 9] = [
    "RPUSH",
    "HSET",
    "SADD",
    "ZADD",
    "GEOADD",
    "PFADD",
    "XADD",
    "XGROUP CREATE",
    "XREADGROUP",
];

/// How much more often they come.
const FILLING_TIMES: usize = 4;

const DATA: [&str; 10] = [
    "string",
    "bitmap",
    "generic",
    "list",
    "hash",
    "set",
    "sorted-set",
    "geo",
    "hyperloglog",
    "stream",
];

impl<'a> Generator<'a> {
    /// A generator that starts from `seed`.
    pub fn new(grammar: &'a Grammar, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let subject = match rng.u8(..8) {
            0 => Subject::PubSub,
            1 | 2 => Subject::Transactions,
            _ => Subject::Data,
        };
        let mut generator = Self {
            rng,
            subject,
            step: 0,
            data: grammar.of(&DATA),
            pubsub: grammar.of(&["pubsub"]),
            weight: rows().map(|row| row.0).sum(),
            by_hand_one_in: 4,
        };
        generator.choose_families();
        generator
    }

    /// Most sequences keep to one or two families, so that each key sees much. What fills a key comes more often.
    fn choose_families(&mut self) {
        if self.rng.u8(..4) > 0 {
            let chosen = [0; 2].map(|_| DATA[self.rng.usize(..DATA.len())]);
            self.data.retain(|row| chosen.contains(&row.group.as_str()));
            self.by_hand_one_in = 12;
        }
        let filling = |row: &&&Syntax| FILLING.contains(&row.full_name().as_str());
        let more: Vec<_> = self.data.iter().filter(filling).copied().collect();
        for _ in 1..FILLING_TIMES {
            self.data.extend(&more);
        }
    }

    /// `count` commands or a few more, and a look at everything they left.
    pub fn sequence(&mut self, count: usize) -> Vec<Args> {
        let mut commands = Vec::new();
        while commands.len() < count {
            let next = self.next();
            self.step += next.len() as u64;
            commands.extend(next);
        }
        commands.push(args!["STATE"]);
        commands
    }

    fn next(&mut self) -> Vec<Args> {
        match self.subject {
            Subject::PubSub => vec![self.about_channels()],
            Subject::Transactions if self.rng.u8(..12) == 0 => self.transaction(),
            Subject::Data | Subject::Transactions if self.rng.u8(..40) == 0 => {
                large::burst(&mut self.rng)
            }
            Subject::Data | Subject::Transactions => vec![self.about_data()],
        }
    }

    fn transaction(&mut self) -> Vec<Args> {
        let mut commands = Vec::new();
        if self.rng.bool() {
            commands.push(args!["WATCH", key(&mut self.rng, "transactions")]);
            if self.rng.bool() {
                let other = self.about_data();
                commands.push([args!["OTHER"], other].concat());
            }
        }
        commands.push(args!["MULTI"]);
        for _ in 0..self.rng.usize(..8) {
            commands.push(self.about_data());
        }
        let odd = ["MULTI", "WATCH a", "UNWATCH", "DISCARD", "EXEC x", "NOSUCH"];
        if self.rng.u8(..6) == 0 {
            let odd = word(&mut self.rng, &odd);
            commands.push(odd.split(|b| *b == b' ').map(<[u8]>::to_vec).collect());
        }
        commands.push(args![word(
            &mut self.rng,
            &["EXEC", "EXEC", "EXEC", "DISCARD"]
        )]);
        commands
    }

    fn about_channels(&mut self) -> Args {
        let row = self.pubsub[self.rng.usize(..self.pubsub.len())];
        let mut args = self.sentence_of(row);
        if args[0] == b"PUBLISH" || args[0] == b"SPUBLISH" {
            args.insert(0, b"OTHER".to_vec());
        }
        match self.rng.u8(..8) {
            0 => self.about_data(),
            _ => args,
        }
    }

    fn about_data(&mut self) -> Args {
        let mut args = if self.rng.u8(..self.by_hand_one_in) == 0 {
            self.pick()(&mut self.rng)
        } else {
            let row = self.data[self.rng.usize(..self.data.len())];
            self.sentence_of(row)
        };
        if !steps_of_the_harness(&args[0]) {
            args[0] = in_some_case(&mut self.rng, &args[0]);
            if self.rng.u32(..KEYS_ONE_IN) == 0 {
                args.splice(..0, args!["COMMAND", "GETKEYS"]);
            } else if self.rng.u32(..SPOILED_ONE_IN) == 0 && !is_delicate(&args) {
                self.spoil(&mut args);
            }
        }
        args.truncate(longest(&args[0]));
        args
    }

    fn sentence_of(&mut self, row: &Syntax) -> Args {
        sentence(&mut self.rng, row, self.step)
    }

    fn pick(&mut self) -> fn(&mut Rng) -> Args {
        let mut left = self.rng.u32(..self.weight);
        let chosen = rows().find(|row| {
            let here = left < row.0;
            left = left.saturating_sub(row.0);
            here
        });
        chosen.expect("a number below the sum of weights").1
    }

    /// Breaks a command: an argument too few, too many, twice, or of the wrong kind.
    fn spoil(&mut self, args: &mut Args) {
        let at = self.rng.usize(..args.len());
        match self.rng.u8(..6) {
            0 if at > 0 => drop(args.remove(at)),
            1 => args.push(spoiler(&mut self.rng)),
            2 if at > 0 => args.insert(at, args[at].clone()),
            3 => args.truncate(at.max(1)),
            4 if at > 0 => args.extend_from_within(at..),
            _ if at > 0 => args[at] = spoiler(&mut self.rng),
            _ => {}
        }
    }
}

/// Redis 7.2 takes more arguments of some commands than 7.0, which would refuse the number before all else.
fn longest(name: &[u8]) -> usize {
    match name.to_ascii_uppercase().as_slice() {
        b"ZRANK" | b"ZREVRANK" => 3,
        _ => usize::MAX,
    }
}

/// Commands of which the harness makes several: a spoiled one would not be one command any more.
fn steps_of_the_harness(name: &[u8]) -> bool {
    [&b"SCAN"[..], b"ROUNDTRIP", b"RANDOMKEY", b"DBSIZE"].contains(&name)
}

/// Whether the command may wait, spoiled for ever, or could say what only one of two servers can.
fn is_delicate(args: &Args) -> bool {
    let name = args[0].to_ascii_uppercase();
    let option = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"BLOCK");
    let is_blocking = name.starts_with(b"BL") || name.starts_with(b"BR") || name.starts_with(b"BZ");
    let of_the_server = [
        &b"WAIT"[..],
        b"CLIENT",
        b"CONFIG",
        b"HELLO",
        b"LATENCY",
        b"MEMORY",
        b"RESET",
        b"SLOWLOG",
    ];
    let stays = of_the_server.contains(&name.as_slice());
    is_blocking || stays || args.iter().any(option)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    let data = strings::ROWS.iter().chain(generic::ROWS).chain(words::ROWS);
    data.chain(administration::ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Redis;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_decides_the_sequence_and_every_command_comes_up() {
        let grammar = Grammar::read(&mut Redis::start().connect());
        let of = |seed| Generator::new(&grammar, seed).sequence(200);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let names: BTreeSet<_> = (0..400)
            .flat_map(of)
            .map(|command| command[usize::from(command[0] == b"OTHER")].to_ascii_uppercase())
            .collect();
        for name in ["ROUNDTRIP", "FLUSHDB", "NOSUCH", "MULTI"].map(str::to_owned) {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        for name in grammar.names() {
            let first = name.split(' ').next().unwrap_or_default();
            assert!(names.contains(first.as_bytes()), "{name}");
        }
    }
}
