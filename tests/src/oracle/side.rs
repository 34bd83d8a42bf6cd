//! One server as the oracle sees it: its connections, and what became of each step.
//!
//! Most steps are one command and its reply. Some are more, so that both servers can be compared where
//! either is free to choose: an iteration is carried to its end, a random pop is undone, messages are
//! awaited. A step that a transaction cannot hold is left out inside one.

use std::io;

use super::administration;
use super::canonical::{canonical, sorted};
use crate::connection::{Args, Connection, quoted};
use crate::reply::{self, Reply};

/// An iteration must come to its end within this many calls.
const SCAN_CALLS: usize = 10_000;

/// What a server said to one command.
pub(super) type Answer = (Args, Vec<u8>);

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Side {
    main: Connection,
    other: Connection,
    observer: Connection,
    /// The commands of the transaction that the main connection is in.
    queue: Option<Vec<Args>>,
}

type Answers = io::Result<Vec<Answer>>;

impl Side {
    /// Three connections that `connect` makes, in protocol version `protocol`; the keyspace is emptied.
    pub(super) fn new(mut connect: impl FnMut() -> Connection, protocol: u8) -> Self {
        let mut side = Self {
            main: connect(),
            other: connect(),
            observer: connect(),
            queue: None,
        };
        if protocol == 3 {
            for connection in [&mut side.main, &mut side.other] {
                let hello = connection.run("HELLO 3");
                assert_eq!(hello.at("proto"), &Reply::Integer(3));
            }
        }
        assert_eq!(side.observer.run("FLUSHALL"), Reply::ok());
        administration::reset(&mut side.observer);
        side
    }

    /// Carries out one step and gives every answer to be compared.
    pub(super) fn perform(&mut self, args: &Args) -> Vec<Answer> {
        let name = args[0].to_ascii_uppercase();
        if self.queue.is_some() && left_out_of_transactions(&name, args) {
            return vec![(args.clone(), b"left out".to_vec())];
        }
        let answers = match name.as_slice() {
            b"OTHER" => self.other(&args[1..].to_vec()),
            b"STATE" => state(&mut self.observer),
            b"SUBSCRIBE" | b"UNSUBSCRIBE" | b"PSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SSUBSCRIBE"
            | b"SUNSUBSCRIBE" => confirmations(&mut self.main, args),
            _ => self.command(args, &name),
        };
        answers
            .unwrap_or_else(|error| vec![(args.clone(), format!("no reply: {error}").into_bytes())])
    }

    fn command(&mut self, args: &Args, name: &[u8]) -> Answers {
        let bytes = special(&mut self.main, args, name);
        let bytes = bytes.unwrap_or_else(|| self.main.try_ask_bytes(args))?;
        if name == b"EXEC" && bytes.starts_with(b"*") {
            let queue = self.queue.take().unwrap_or_default();
            return Ok(executed(args, queue, &bytes));
        }
        match bytes.as_slice() {
            b"+QUEUED\r\n" => self.queue.get_or_insert_default().push(args.clone()),
            b"+OK\r\n" if name == b"MULTI" => self.queue = Some(Vec::new()),
            b"+OK\r\n" if name == b"DISCARD" => self.queue = None,
            _ if name == b"EXEC" && ended(&bytes) => self.queue = None,
            _ => {}
        }
        Ok(vec![(args.clone(), canonical(args, bytes))])
    }

    /// A command on the second connection, and the messages that it brings to the first.
    fn other(&mut self, args: &Args) -> Answers {
        let name = args[0].to_ascii_uppercase();
        let special = special(&mut self.other, args, &name);
        let bytes = special.unwrap_or_else(|| self.other.try_ask_bytes(args))?;
        let mut answers = vec![(args.clone(), canonical(args, bytes.clone()))];
        if [&b"PUBLISH"[..], b"SPUBLISH"].contains(&name.as_slice()) {
            for _ in 0..parsed(&bytes).as_integer().unwrap_or(0) {
                answers.push((args.clone(), self.main.read_bytes()?));
            }
            // A channel and patterns that match it may be told in any order.
            answers[1..].sort();
        }
        Ok(answers)
    }
}

/// Whether EXEC left the transaction: it does not when it is given arguments.
fn ended(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"-ERR wrong number")
}

/// Steps that are more than a single command or depend on what only a reply can tell; and PFCOUNT, which
/// keeps its estimate in the value, but not beside a transaction.
fn left_out_of_transactions(name: &[u8], args: &Args) -> bool {
    let names = [
        &b"SCAN"[..],
        b"HSCAN",
        b"SSCAN",
        b"ZSCAN",
        b"ROUNDTRIP",
        b"RANDOMKEY",
        b"DBSIZE",
        b"SPOP",
        b"SORT",
        b"SORT_RO",
        b"SRANDMEMBER",
        b"HRANDFIELD",
        b"ZRANDMEMBER",
        b"OBJECT",
        b"PFCOUNT",
    ];
    names.contains(&name)
        || by_member(name, args)
        || (name == b"XADD" && args.iter().any(|word| word == b"*"))
}

/// The bytes to be compared where one command and its reply will not do.
fn special(connection: &mut Connection, args: &Args, name: &[u8]) -> Option<io::Result<Vec<u8>>> {
    let is_start = |at: usize| args.get(at).is_some_and(|cursor| cursor == b"0");
    Some(match name {
        b"SCAN" if is_start(1) => scan(connection, args, 1),
        b"HSCAN" | b"SSCAN" | b"ZSCAN" if is_start(2) => scan(connection, args, 2),
        b"SCAN" | b"HSCAN" | b"SSCAN" | b"ZSCAN" => only_errors(connection, args),
        b"RANDOMKEY" if args.len() == 1 => random_key(connection, args),
        b"DBSIZE" => size(connection, args),
        b"ROUNDTRIP" => round_trip(connection, args),
        b"SPOP" => pop_and_return(connection, args),
        b"SRANDMEMBER" => random(connection, args, &["SMEMBERS"], &[]),
        b"HRANDFIELD" => random(connection, args, &["HGETALL"], &[]),
        b"ZRANDMEMBER" => random(connection, args, &["ZRANGE"], &["0", "-1", "WITHSCORES"]),
        b"SORT" | b"SORT_RO" => sort(connection, args),
        _ if by_member(name, args) => range_by_member(connection, args, name),
        b"OBJECT" if args.len() == 3 => encoding(connection, args),
        _ => return None,
    })
}

/// The header of the reply to EXEC, and the reply to each command.
fn executed(args: &Args, queue: Vec<Args>, bytes: &[u8]) -> Vec<Answer> {
    let header = line_end(bytes);
    let mut answers = vec![(args.clone(), bytes[..header].to_vec())];
    let mut rest = &bytes[header..];
    for queued in queue {
        let Ok(Some(length)) = reply::length(rest) else {
            break;
        };
        let answer = canonical(&queued, rest[..length].to_vec());
        answers.push((queued, answer));
        rest = &rest[length..];
    }
    answers
}

fn line_end(bytes: &[u8]) -> usize {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n");
    end.map_or(bytes.len(), |end| end + 2)
}

/// One confirmation for each channel: how many tells a PING behind them. Inside a transaction there is
/// only one reply, and after an error too.
fn confirmations(connection: &mut Connection, args: &Args) -> Answers {
    const TOKEN: &[u8] = b"after the confirmations";
    let mut bytes = connection.try_ask_bytes(args)?;
    let mut answers = Vec::new();
    if bytes.starts_with(b"-") || bytes == b"+QUEUED\r\n" {
        return Ok(vec![(args.clone(), bytes)]);
    }
    connection.send(&crate::connection::request(&[b"PING", TOKEN]))?;
    while !bytes.windows(TOKEN.len()).any(|part| part == TOKEN) {
        answers.push((args.clone(), bytes));
        bytes = connection.read_bytes()?;
    }
    // Without arguments the channels are left in any order, but the counts go down one by one.
    if args.len() == 1 {
        let mut lines: Vec<_> = answers
            .iter()
            .map(|(_, bytes)| without_count(bytes))
            .collect();
        lines.sort();
        return Ok(vec![(args.clone(), lines.concat())]);
    }
    Ok(answers)
}

fn without_count(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|b| *b == b':');
    bytes[..end.unwrap_or(bytes.len())].to_vec()
}

/// Every key with its type, encoding, remaining time and contents.
fn state(connection: &mut Connection) -> Answers {
    let keys = vec![b"KEYS".to_vec(), b"*".to_vec()];
    let bytes = connection.try_ask_bytes(&keys)?;
    let mut names: Vec<_> = parsed(&bytes).items().iter().map(raw).collect();
    names.sort();
    let mut answers = vec![(keys.clone(), canonical(&keys, bytes))];
    for key in names {
        let kind = parsed(&connection.try_ask_bytes(&[b"TYPE", key.as_slice()])?).text();
        for words in looks(&kind) {
            let args: Args = words
                .iter()
                .map(|word| {
                    if *word == "KEY" {
                        key.clone()
                    } else {
                        word.as_bytes().to_vec()
                    }
                })
                .collect();
            let special = special(connection, &args, words[0].as_bytes());
            let bytes = special.unwrap_or_else(|| connection.try_ask_bytes(&args))?;
            answers.push((args.clone(), canonical(&args, bytes)));
        }
    }
    Ok(answers)
}

/// What to ask about a key of type `kind`.
fn looks(kind: &str) -> Vec<&'static [&'static str]> {
    let mut looks: Vec<&[&str]> = vec![&["TYPE", "KEY"]];
    looks.extend::<Vec<&[&str]>>(match kind {
        "string" => vec![&["GET", "KEY"]],
        "list" => vec![&["LRANGE", "KEY", "0", "-1"]],
        "hash" => vec![&["HGETALL", "KEY"]],
        "set" => vec![&["SMEMBERS", "KEY"]],
        "zset" => vec![&["ZRANGE", "KEY", "0", "-1", "WITHSCORES"]],
        "stream" => vec![
            &["XRANGE", "KEY", "-", "+"],
            &["XINFO", "STREAM", "KEY", "FULL", "COUNT", "0"],
        ],
        _ => vec![],
    });
    looks.extend([&["OBJECT", "ENCODING", "KEY"][..], &["PTTL", "KEY"]]);
    looks
}

fn raw(reply: &Reply) -> Vec<u8> {
    if let Reply::Bulk(bytes) = reply {
        bytes.clone()
    } else {
        format!("{reply:?}").into_bytes()
    }
}

/// A whole iteration: what it returns is a set.
fn scan(connection: &mut Connection, args: &Args, cursor_at: usize) -> io::Result<Vec<u8>> {
    let (mut args, mut found) = (args.clone(), Vec::new());
    let name = args[0].to_ascii_uppercase();
    let pairs = [&b"HSCAN"[..], b"ZSCAN"].contains(&name.as_slice());
    let scores = name == b"ZSCAN";
    for _ in 0..SCAN_CALLS {
        let bytes = connection.try_ask_bytes(&args)?;
        let reply = parsed(&bytes);
        let Some([cursor, items]) = reply.as_items() else {
            return Ok(bytes);
        };
        let width = if pairs { 2 } else { 1 };
        let items = items.items().chunks(width).map(<[Reply]>::to_vec);
        found.extend(items.map(|item| Reply::Array(same_digits(item, scores))));
        args[cursor_at] = cursor.text().into_bytes();
        if args[cursor_at] == b"0" {
            found.sort();
            found.dedup();
            return Ok(sorted(&Reply::Array(found)));
        }
    }
    Ok(b"a SCAN without end".to_vec())
}

/// A member and its score in digits that do not depend on the version of Redis.
fn same_digits(mut item: Vec<Reply>, scores: bool) -> Vec<Reply> {
    if scores
        && let [_, score] = item.as_mut_slice()
        && let Ok(number) = score.text().parse::<f64>()
    {
        *score = Reply::Double((number + 0.0).to_string());
    }
    item
}

/// From a cursor of its own invention a client may get anything but an error.
fn only_errors(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    let whole = bytes.starts_with(b"-") || bytes.starts_with(b"+QUEUED");
    Ok(if whole { bytes } else { bytes[..1].to_vec() })
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
    connection.try_ask_bytes(&["SCAN", "0", "COUNT", "100000"])?;
    connection.try_ask_bytes(args)
}

/// `ROUNDTRIP <from> <to> <ttl> <options>`: RESTORE of what DUMP gave. The payload is each server's own.
fn round_trip(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    // Shrinking leaves arguments out.
    let [_, from, _, _, ..] = args.as_slice() else {
        return connection.try_ask_bytes(&["RESTORE"]);
    };
    let dumped = connection.try_ask_bytes(&[b"DUMP", from.as_slice()])?;
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

/// SPOP, and what it took is put back, so that both servers have the same set afterwards. When it took
/// everything, both took the same.
fn pop_and_return(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    let reply = parsed(&bytes);
    let popped: Args = match reply.as_items() {
        Some(items) => items.iter().map(raw).collect(),
        None if reply == Reply::Null => vec![],
        None => vec![raw(&reply)],
    };
    if popped.is_empty() || bytes.starts_with(b"-") {
        return Ok(bytes);
    }
    let left = connection.try_ask_bytes(&[b"EXISTS", args[1].as_slice()])?;
    if left == b":0\r\n" {
        return Ok(sorted(&reply));
    }
    let mut back = vec![b"SADD".to_vec(), args[1].clone()];
    back.extend(popped);
    let added = connection.try_ask_bytes(&back)?;
    Ok([&bytes[..1], b" put back: ", &added].concat())
}

/// Random members: how many, in which shape, and that each is one. With a positive count no two are alike.
fn random(
    connection: &mut Connection,
    args: &Args,
    look: &[&str],
    options: &[&str],
) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    if bytes.starts_with(b"-") || args.len() < 2 {
        return Ok(bytes);
    }
    let mut ask: Args = look.iter().map(|word| word.as_bytes().to_vec()).collect();
    ask.push(args[1].clone());
    ask.extend(options.iter().map(|word| word.as_bytes().to_vec()));
    let all = parsed(&connection.try_ask_bytes(&ask)?);
    let known = pairs(&all);
    let drawn = parsed(&bytes);
    let with_values = args.len() > 3;
    let mut shape = bytes[..1].to_vec();
    let items = pairs_if(&drawn, with_values);
    let mut different = items.clone();
    different.sort();
    different.dedup();
    let strangers = items.iter().filter(|item| !is_known(item, &known));
    shape.extend(format!("{} drawn, {} strangers", items.len(), strangers.count()).into_bytes());
    if !args.get(2).is_some_and(|count| count.starts_with(b"-")) {
        shape.extend(format!(", {} different", different.len()).into_bytes());
    }
    Ok(shape)
}

fn is_known(item: &[Reply], known: &[Vec<Reply>]) -> bool {
    known.iter().any(|entry| entry.starts_with(item))
}

/// Entries of a hash or sorted set as pairs, of a set as single members.
fn pairs(all: &Reply) -> Vec<Vec<Reply>> {
    if let Reply::Map(pairs) = all {
        let pairs = pairs.iter().map(|(k, v)| vec![k.clone(), v.clone()]);
        return pairs.collect();
    }
    let items = all.as_items().unwrap_or_default();
    if items.iter().all(|item| item.as_items().is_some()) {
        return items.iter().map(|item| item.items().to_vec()).collect();
    }
    // SMEMBERS has single members: each may be the first of a pair.
    let single = items.iter().map(|item| vec![item.clone()]);
    items
        .chunks(2)
        .map(<[Reply]>::to_vec)
        .chain(single)
        .collect()
}

fn pairs_if(drawn: &Reply, with_values: bool) -> Vec<Vec<Reply>> {
    match drawn.as_items() {
        None if *drawn == Reply::Null => vec![],
        None => vec![vec![drawn.clone()]],
        Some(items) if items.iter().any(|item| item.as_items().is_some()) => {
            items.iter().map(|item| item.items().to_vec()).collect()
        }
        Some(items) => items
            .chunks(if with_values { 2 } else { 1 })
            .map(<[Reply]>::to_vec)
            .collect(),
    }
}

/// Left out where the order is that of a hash table, so that nobody promises it: sorting a set by nothing, and
/// by words that many elements share (Redis sorts less than seven elements stably).
fn sort(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let is = |word: &Vec<u8>, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let by = args.windows(2).rfind(|pair| is(&pair[0], "BY"));
    if let Some(by) = by {
        let kind = connection.try_ask_bytes(&[b"TYPE", args[1].as_slice()])?;
        let length = connection.try_ask_bytes(&[b"LLEN", args[1].as_slice()])?;
        let short_list = parsed(&length)
            .as_integer()
            .is_some_and(|length| length < 7);
        let alpha = args.iter().any(|word| is(word, "ALPHA"));
        let by_nothing = !by[1].contains(&b'*');
        if (by_nothing && kind == b"+set\r\n") || (!by_nothing && alpha && !short_list) {
            return Ok(b"left out".to_vec());
        }
    }
    connection.try_ask_bytes(args)
}

/// Whether the command takes a range by member.
fn by_member(name: &[u8], args: &Args) -> bool {
    let option = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"BYLEX");
    name.starts_with(b"Z")
        && (name.windows(3).any(|part| part == b"LEX") || args.iter().any(option))
}

/// Left out where the members have several scores: what such a range holds is then unspecified, and in Redis
/// the toss of a skip list's coins.
fn range_by_member(connection: &mut Connection, args: &Args, name: &[u8]) -> io::Result<Vec<u8>> {
    let source = if name == b"ZRANGESTORE" { 2 } else { 1 };
    if let Some(key) = args.get(source) {
        let mut score = |rank: &str| {
            let ask = [
                &b"ZRANGE"[..],
                key,
                rank.as_bytes(),
                rank.as_bytes(),
                b"WITHSCORES",
            ];
            let entry = parsed(&connection.try_ask_bytes(&ask)?);
            let entry = entry.as_items().and_then(<[Reply]>::last).cloned();
            io::Result::Ok(
                entry.map(|last| last.as_items().map_or(last.clone(), |pair| pair[1].clone())),
            )
        };
        if score("0")? != score("-1")? {
            return Ok(b"left out".to_vec());
        }
    }
    connection.try_ask_bytes(args)
}

/// What OBJECT says, with the type of the key before it: the same words mean sets and hashes.
fn encoding(connection: &mut Connection, args: &Args) -> io::Result<Vec<u8>> {
    let bytes = connection.try_ask_bytes(args)?;
    if !bytes.starts_with(b"$") || bytes.starts_with(b"$-1") {
        return Ok(bytes);
    }
    let kind = parsed(&connection.try_ask_bytes(&[b"TYPE", args[2].as_slice()])?);
    Ok(format!("{}, a {}", parsed(&bytes).text(), kind.text()).into_bytes())
}

/// The single reply that `bytes` are.
pub(super) fn parsed(bytes: &[u8]) -> Reply {
    match reply::decode(bytes) {
        Ok(Some((reply, _))) => reply,
        Ok(None) | Err(_) => panic!("no whole reply: {}", quoted(&[bytes])),
    }
}
