//! Replies in the form in which they are compared: unordered ones in order, times left out.

use super::side::parsed;
use crate::connection::{Args, quoted};
use crate::reply::Reply;

/// `bytes`, the reply to `args`, as it is compared.
pub(super) fn canonical(args: &Args, bytes: Vec<u8>) -> Vec<u8> {
    let kept = [&b"-"[..], b"+QUEUED", b":"];
    if kept.iter().any(|start| bytes.starts_with(start)) {
        return bytes;
    }
    let is = |at: usize, word: &str| {
        args.get(at)
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    match args[0].to_ascii_uppercase().as_slice() {
        b"KEYS" | b"SMEMBERS" | b"SUNION" | b"SINTER" | b"SDIFF" | b"HKEYS" | b"HVALS" => {
            sorted(&parsed(&bytes))
        }
        b"PUBSUB" if is(1, "CHANNELS") || is(1, "SHARDCHANNELS") => sorted(&parsed(&bytes)),
        b"CONFIG" if is(1, "GET") => sorted(&in_pairs(parsed(&bytes))),
        b"HGETALL" => sorted(&in_pairs(parsed(&bytes))),
        b"XPENDING" if args.len() > 3 => masked(&parsed(&bytes)),
        b"XINFO" => masked(&parsed(&bytes)),
        _ => bytes,
    }
}

/// A reply whose order is nobody's promise, in sorted order; what kind of reply it is stays visible.
pub(super) fn sorted(reply: &Reply) -> Vec<u8> {
    let (kind, mut items) = if let Reply::Map(pairs) = reply {
        let pairs = pairs.iter();
        let shown = pairs.map(|(k, v)| format!("{}: {}", show(k), show(v)));
        ("map", shown.collect())
    } else if let Some(items) = reply.as_items() {
        let is_set = matches!(reply, Reply::Set(_));
        (if is_set { "set" } else { "array" }, shown(items))
    } else {
        return show(reply).into_bytes();
    };
    items.sort();
    format!("{kind} in any order {{{}}}", items.join(", ")).into_bytes()
}

fn shown(items: &[Reply]) -> Vec<String> {
    items.iter().map(show).collect()
}

fn show(item: &Reply) -> String {
    if let Reply::Bulk(bytes) = item {
        quoted(&[bytes])
    } else if let Reply::Array(items) = item {
        format!("[{}]", shown(items).join(", "))
    } else {
        format!("{item:?}")
    }
}

/// A flat array of names and values as an array of pairs.
fn in_pairs(reply: Reply) -> Reply {
    if let Reply::Array(items) = reply {
        Reply::Array(
            items
                .chunks(2)
                .map(|pair| Reply::Array(pair.to_vec()))
                .collect(),
        )
    } else {
        reply
    }
}

/// Idle and delivery times depend on the moment of the question. They follow their names, or stand before
/// the delivery count of a pending entry.
fn masked(reply: &Reply) -> Vec<u8> {
    format!("{:?}", without_times(reply)).into_bytes()
}

const TIMES: [&str; 4] = ["idle", "inactive", "seen-time", "active-time"];

fn without_times(reply: &Reply) -> Reply {
    if let Reply::Map(pairs) = reply {
        let pairs = pairs.iter();
        let masked = pairs.map(|(name, value)| (name.clone(), masked_value(name, value)));
        Reply::Map(masked.collect())
    } else if let Reply::Array(items) = reply {
        Reply::Array(items_without_times(items))
    } else {
        reply.clone()
    }
}

fn items_without_times(items: &[Reply]) -> Vec<Reply> {
    if let [first @ .., Reply::Integer(_), count @ Reply::Integer(_)] = items
        && matches!(first, [Reply::Bulk(_)] | [Reply::Bulk(_), Reply::Bulk(_)])
    {
        return [first, &[Reply::Simple("some time".into()), count.clone()]].concat();
    }
    let before = std::iter::once(&Reply::Null).chain(items);
    before
        .zip(items)
        .map(|(name, value)| masked_value(name, value))
        .collect()
}

fn masked_value(name: &Reply, value: &Reply) -> Reply {
    let is_time =
        matches!(name, Reply::Bulk(name) if TIMES.iter().any(|time| time.as_bytes() == name));
    if is_time && value.as_integer().is_some() {
        Reply::Simple("some time".into())
    } else {
        without_times(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::args;

    #[test]
    fn order_is_forgotten_but_not_kind_or_number() {
        let keys = |bytes: &[u8]| canonical(&args!["KEYS", "*"], bytes.to_vec());
        assert_eq!(
            keys(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            keys(b"*2\r\n$1\r\nb\r\n$1\r\na\r\n")
        );
        assert_ne!(keys(b"*1\r\n$1\r\na\r\n"), keys(b"~1\r\n$1\r\na\r\n"));
        assert_ne!(
            keys(b"*1\r\n$1\r\na\r\n"),
            keys(b"*2\r\n$1\r\na\r\n$1\r\na\r\n")
        );
        let all = |bytes: &[u8]| canonical(&args!["HGETALL", "h"], bytes.to_vec());
        let (ab, ba) = (
            b"*4\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
            b"*4\r\n+c\r\n+d\r\n+a\r\n+b\r\n",
        );
        assert_eq!(all(ab), all(ba));
        assert_ne!(all(ab), all(b"*4\r\n+a\r\n+d\r\n+c\r\n+b\r\n"));
    }

    #[test]
    fn only_the_time_of_a_pending_entry_is_masked() {
        let of =
            |bytes: &[u8]| canonical(&args!["XPENDING", "x", "g", "-", "+", "1"], bytes.to_vec());
        let entry =
            |idle, count| format!("*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\na\r\n:{idle}\r\n:{count}\r\n");
        assert_eq!(of(entry(1, 2).as_bytes()), of(entry(9, 2).as_bytes()));
        assert_ne!(of(entry(1, 2).as_bytes()), of(entry(1, 3).as_bytes()));
    }
}
