//! Values that come back, older kinds, and damage.

use super::*;
use crate::keyspace::{Encoding, Entry, Keyspace, Value};
use crate::value::stream::{Consumer, StreamId};
use crate::value::{Collection, EncodingLimits, Stream};
use crate::{Command, Context, Effects, commands};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use bytes::BytesMut;
use kevy_proto::resp::{Encoder, RequestBuffer, RespVersion};
use kevy_proto::time::{Instant, Now, UnixMillis};
use proptest::prelude::*;

pub(super) const NOW: Now = Now {
    monotonic: Instant::from_nanos(0),
    unix: UnixMillis(1_700_000_000_000),
};

/// Runs a command and gives its reply.
fn run(keyspace: &mut Keyspace, words: &[&[u8]]) -> Vec<u8> {
    let request = RequestBuffer::from_slices(words.iter().copied());
    let is = |row: &Command, word: &[u8]| word.eq_ignore_ascii_case(row.name.as_bytes());
    let mut rows = commands::families().flatten();
    let command = rows.find(|row| is(row, words[0])).expect("a command");
    let mut below = command.subcommands.iter();
    let command = below.find(|row| is(row, words[1])).unwrap_or(command);
    let mut out = BytesMut::new();
    let mut context = Context {
        keyspace,
        reply: Encoder::new(&mut out, RespVersion::V2),
        effects: &mut Effects::off(),
        now: NOW,
        wait: None,
    };
    // What it says is in the reply.
    let _ = context.run(command, request.args());
    out.to_vec()
}

pub(super) fn line(keyspace: &mut Keyspace, line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    run(keyspace, &words)
}

/// The keys of every type in both encodings, by the commands that make them.
pub(super) fn examples() -> Vec<(&'static str, Vec<String>)> {
    let many = |command: &str, each: fn(usize) -> String| {
        let elements: Vec<String> = (0..700).map(each).collect();
        alloc::format!("{command} k {}", elements.join(" "))
    };
    vec![
        ("string", vec!["SET k value".into()]),
        ("integer", vec!["SET k -70000".into()]),
        ("grown", vec!["APPEND k value".into()]),
        ("list", vec!["RPUSH k a 1 -5000 b".into()]),
        (
            "long list",
            vec![many("RPUSH", |i| alloc::format!("element-{i:020}"))],
        ),
        ("intset", vec!["SADD k 1 -70000 3".into()]),
        ("wide intset", vec!["SADD k 1 9223372036854775807".into()]),
        ("set", vec!["SADD k a 12 b".into()]),
        ("large set", vec![many("SADD", |i| alloc::format!("m{i}"))]),
        ("hash", vec!["HSET k f v n 12".into()]),
        (
            "large hash",
            vec![many("HSET", |i| alloc::format!("f{i} v{i}"))],
        ),
        (
            "hash with deadlines",
            vec![
                "HSET k f v n 12 g w".into(),
                "HPEXPIREAT k 1800000000000 FIELDS 1 f".into(),
                "HPEXPIREAT k 1700000000001 FIELDS 1 n".into(),
            ],
        ),
        (
            "large hash with deadlines",
            vec![
                many("HSET", |i| alloc::format!("f{i} v{i}")),
                "HPEXPIREAT k 1800000000000 FIELDS 2 f1 f2".into(),
                "HPEXPIREAT k 1900000000000 FIELDS 1 f3".into(),
            ],
        ),
        (
            "sorted set",
            vec!["ZADD k 1 a -2.5 b inf c 3000000000 d".into()],
        ),
        (
            "large sorted set",
            vec![many("ZADD", |i| alloc::format!("{}.25 m{i}", i * 7 % 13))],
        ),
        (
            "stream",
            vec![
                "XADD k 5-1 f v g 12".into(),
                "XADD k 5-2 f w g 13".into(),
                "XADD k 7-0 other 1".into(),
                "XADD k 9-0 f v g x".into(),
                "XDEL k 5-2".into(),
                "XGROUP CREATE k g1 0".into(),
                "XGROUP CREATE k g2 7-0 ENTRIESREAD 2".into(),
                "XREADGROUP GROUP g1 alice COUNT 2 STREAMS k >".into(),
                "XGROUP CREATECONSUMER k g1 bob".into(),
                "XDEL k 5-1".into(),
            ],
        ),
        ("empty stream", vec!["XGROUP CREATE k g $ MKSTREAM".into()]),
        (
            "long stream",
            (0..250)
                .map(|i| alloc::format!("XADD k {i}-5 n {i}"))
                .collect(),
        ),
    ]
}

/// What can be seen of `k`.
pub(super) fn shown(keyspace: &mut Keyspace) -> Vec<Vec<u8>> {
    let kind = line(keyspace, "TYPE k");
    let looks: &[&str] = match &kind[..] {
        b"+string\r\n" => &["GET k"],
        b"+list\r\n" => &["LRANGE k 0 -1"],
        b"+set\r\n" => &["SORT k ALPHA"],
        b"+hash\r\n" => &["HLEN k"],
        b"+zset\r\n" => &["ZRANGE k 0 -1 WITHSCORES"],
        b"+stream\r\n" => &["XRANGE k - +", "XINFO STREAM k FULL COUNT 0"],
        _ => &[],
    };
    let mut seen = vec![kind];
    seen.extend(looks.iter().map(|look| line(keyspace, look)));
    if let Some(Entry::Object(object)) = keyspace.held(b"k")
        && let Value::Hash(hash) = object.value()
    {
        let mut fields: Vec<Vec<u8>> = hash
            .fields(i64::MIN)
            .map(|f| alloc::format!("{f:?}").into_bytes())
            .collect();
        fields.sort();
        seen.extend(fields);
    }
    seen
}

fn restore(keyspace: &mut Keyspace, payload: &[u8]) -> Vec<u8> {
    run(keyspace, &[b"RESTORE", b"k", b"0", payload, b"REPLACE"])
}

fn payload_of(keyspace: &mut Keyspace) -> Vec<u8> {
    let entry = keyspace.held(b"k").expect("the key");
    Encoded::of(entry, NOW.unix.0)
        .expect("a value")
        .into_payload()
}

#[test]
fn every_type_comes_back() {
    for (name, commands) in examples() {
        let mut keyspace = Keyspace::new(1);
        for command in &commands {
            let reply = line(&mut keyspace, command);
            assert!(!reply.starts_with(b"-"), "{name}: {command}");
        }
        let payload = payload_of(&mut keyspace);
        let mut other = Keyspace::new(2);
        assert_eq!(restore(&mut other, &payload), b"+OK\r\n", "{name}");
        assert_eq!(shown(&mut other), shown(&mut keyspace), "{name}");
        let encoding = |keyspace: &Keyspace| keyspace.held(b"k").map(Entry::encoding);
        if name != "grown" {
            assert_eq!(encoding(&other), encoding(&keyspace), "{name}");
        }
        // Tables are in no order: only their size is the same.
        assert_eq!(payload_of(&mut other).len(), payload.len(), "{name}");
        let deadlines = name.ends_with("deadlines");
        assert_eq!(payload[payload.len() - 10], if deadlines { 12 } else { 10 });
    }
}

#[test]
fn fields_whose_time_has_come_stay_behind() {
    let mut keyspace = Keyspace::new(1);
    line(&mut keyspace, "HSET k f v g w");
    line(&mut keyspace, "HPEXPIREAT k 1700000000001 FIELDS 1 f");
    let entry = keyspace.held(b"k").unwrap();
    let later = Encoded::of(entry, 1_700_000_000_002).unwrap();
    assert_eq!(later.kind, Kind::HashListpack);
    line(&mut keyspace, "HDEL k g");
    assert_eq!(
        Encoded::of(keyspace.held(b"k").unwrap(), 1_700_000_000_002),
        None
    );
}

fn value(kind: Kind, bytes: &[u8]) -> Option<Value> {
    let limits = EncodingLimits::default();
    match decode(kind, &mut Reader::new(bytes), &limits)? {
        Decoded::Collection(value) => Some(value),
        Decoded::String(_) => None,
    }
}

/// "a" and 300 as a string with a ziplist in it.
const ZIPLIST: &[u8] = b"\x12\x12\0\0\0\x0d\0\0\0\x02\0\x00\x01a\x03\xc0\x2c\x01\xff";

#[test]
fn older_kinds_are_read() {
    for (kind, bytes, encoding) in [
        (Kind::List, &b"\x02\x01a\xc0\x05"[..], Encoding::Listpack),
        (Kind::ListZiplist, ZIPLIST, Encoding::Listpack),
        (
            Kind::ListZiplists,
            &[b"\x02", ZIPLIST, ZIPLIST].concat(),
            Encoding::Listpack,
        ),
        (Kind::HashZiplist, ZIPLIST, Encoding::Listpack),
        (Kind::SortedSetZiplist, ZIPLIST, Encoding::Listpack),
        (
            Kind::HashZipmap,
            b"\x0b\x01\x03foo\x03\x00bar\xff",
            Encoding::Listpack,
        ),
        (
            Kind::SortedSetText,
            b"\x02\x01a\x041.25\x01b\xfe",
            Encoding::Listpack,
        ),
        (
            Kind::SetListpack,
            b"\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
            Encoding::Listpack,
        ),
        (Kind::ListListpacks, b"\x01\x01\x03abc", Encoding::Listpack),
    ] {
        let found = value(kind, bytes).map(|value| value.encoding());
        assert_eq!(found, Some(encoding), "{kind:?}");
    }
}

#[test]
fn what_redis_refuses_is_refused() {
    let pack = |elements: &[&[u8]]| {
        let mut packed = listpack::Builder::new();
        elements.iter().for_each(|e| packed.push(e));
        let mut bytes = Vec::new();
        primitive::put_bytes(&mut bytes, &packed.finish());
        bytes
    };
    for (kind, bytes, why) in [
        (Kind::List, b"\x00".to_vec(), "empty"),
        (
            Kind::Set,
            b"\x02\x01a\x01a".to_vec(),
            "twice the same member",
        ),
        (
            Kind::Set,
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a".to_vec(),
            "too few members",
        ),
        (
            Kind::Hash,
            b"\x02\x01a\x01b\x01a\x01c".to_vec(),
            "twice the same field",
        ),
        (Kind::HashListpack, pack(&[b"a"]), "a field without value"),
        (
            Kind::HashListpack,
            pack(&[b"a", b"1", b"a", b"1"]),
            "twice the same field",
        ),
        (Kind::HashListpack, pack(&[]), "empty"),
        (Kind::SortedSetListpack, pack(&[b"a", b"x"]), "no score"),
        (Kind::SortedSetListpack, pack(&[b"a", b"nan"]), "no number"),
        (
            Kind::SortedSetListpack,
            pack(&[b"a", b"1", b"a", b"1"]),
            "twice the same member",
        ),
        (
            Kind::SetListpack,
            pack(&[b"a", b"a"]),
            "twice the same member",
        ),
        (
            Kind::ListListpacks,
            b"\x01\x03\x01a".to_vec(),
            "neither plain nor packed",
        ),
        (
            Kind::ListListpacks,
            [&b"\x01\x02"[..], &pack(&[])].concat(),
            "empty",
        ),
        (
            Kind::HashDeadlinesListpack,
            [&[1; 8][..], &pack(&[b"a", b"b", b"c"])].concat(),
            "no deadline",
        ),
        (
            Kind::HashDeadlinesListpack,
            [&[1; 8][..], &pack(&[b"a", b"b", b"70368744177664"])].concat(),
            "a deadline that no command sets",
        ),
    ] {
        assert!(value(kind, &bytes).is_none(), "{kind:?}: {why}");
    }
}

fn stream_payload() -> Vec<u8> {
    let mut keyspace = Keyspace::new(1);
    let (_, commands) = examples()
        .into_iter()
        .find(|(name, _)| *name == "stream")
        .unwrap();
    for command in commands {
        line(&mut keyspace, &command);
    }
    let entry = keyspace.held(b"k").unwrap();
    Encoded::of(entry, 0).unwrap().bytes
}

#[test]
fn a_damaged_stream_is_refused_or_sound() {
    let good = stream_payload();
    for at in 0..good.len() {
        assert!(value(Kind::Stream2, &good[..at]).is_none(), "cut at {at}");
        for flip in [1, 2, 0x40, 0x80, 0xff] {
            let mut damaged = good.clone();
            damaged[at] ^= flip;
            if let Some(found) = value(Kind::Stream2, &damaged) {
                check_stream(Stream::view(&found).unwrap());
            }
        }
    }
}

fn check_stream(stream: &Stream) {
    let entries = stream.entries();
    let ids: Vec<_> = entries
        .range(StreamId::MIN, StreamId::MAX)
        .map(|e| e.id)
        .collect();
    assert_eq!(ids.len() as u64, entries.len());
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert!(ids.last().is_none_or(|last| *last <= entries.last_id()));
    let back: Vec<_> = entries
        .range_back(StreamId::MIN, StreamId::MAX)
        .map(|e| e.id)
        .collect();
    assert!(ids.iter().rev().eq(&back));
    for (_, group) in stream.groups() {
        let owned: usize = group.consumers().map(Consumer::pending_len).sum();
        assert_eq!(owned, group.pending_len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_bytes_are_a_panic(kind: u8, bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Some(kind) = Kind::from_byte(kind % 26) {
            let limits = EncodingLimits::default();
            let _ = decode(kind, &mut Reader::new(&bytes), &limits);
        }
    }
}
