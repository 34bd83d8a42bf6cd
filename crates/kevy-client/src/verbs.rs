//! The verbs: typed methods that every kind of client has, each written once.
//!
//! The tables below hold a verb's arguments, its command, and the type of its value. A client expands them into methods
//! of its own that hand the command to its `call`: to one connection, to the shard that owns the key, or to a replica.
//! So a verb cannot mean different things to different clients.

use crate::Call;

/// How the scores of one member in several sorted sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
}

impl Aggregate {
    fn word(self) -> &'static str {
        match self {
            Self::Sum => "SUM",
            Self::Min => "MIN",
            Self::Max => "MAX",
        }
    }
}

pub(crate) fn scan_arguments(call: Call, pattern: Option<&[u8]>, count: Option<usize>) -> Call {
    let call = match pattern {
        Some(pattern) => call.arg("MATCH").arg(pattern),
        None => call,
    };
    match count {
        Some(count) => call.arg("COUNT").count(count),
        None => call,
    }
}

pub(crate) fn with_pairs(call: Call, pairs: &[(&[u8], &[u8])]) -> Call {
    let pairs = pairs.iter();
    pairs.fold(call, |call, (field, value)| call.arg(field).arg(value))
}

pub(crate) fn with_keys(call: Call, pairs: &[(&[u8], &[u8])]) -> Call {
    let pairs = pairs.iter();
    pairs.fold(call, |call, (key, value)| call.key(key).arg(value))
}

pub(crate) fn with_scores(call: Call, members: &[(f64, &[u8])]) -> Call {
    let members = members.iter();
    members.fold(call, |call, (score, member)| call.float(*score).arg(member))
}

pub(crate) fn with_fields(call: Call, fields: &[&[u8]]) -> Call {
    call.arg("FIELDS").count(fields.len()).args(fields)
}

pub(crate) fn with_weights(call: Call, weights: &[f64], aggregate: Aggregate) -> Call {
    let call = if weights.is_empty() {
        call
    } else {
        let weights = weights.iter();
        weights.fold(call.arg("WEIGHTS"), |call, weight| call.float(*weight))
    };
    call.arg("AGGREGATE").arg(aggregate.word())
}

pub(crate) fn with_limit(call: Call, limit: Option<usize>) -> Call {
    match limit {
        Some(limit) => call.arg("LIMIT").count(limit),
        None => call,
    }
}

/// Expands every verb of the tables into blocking methods that hand it to `self.call`.
macro_rules! blocking_verbs {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty { $call:expr })*) => {
        $(
            $(#[$attribute])*
            ///
            /// # Errors
            ///
            /// As [`call`](Self::call).
            pub fn $name(&mut self, $($arg: $type),*) -> $crate::KevyResult<$value> {
                self.call(&$call)
            }
        )*
    };
}

/// As `blocking_verbs`, for methods to `.await`.
#[cfg(feature = "tokio")]
macro_rules! async_verbs {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty { $call:expr })*) => {
        $(
            $(#[$attribute])*
            ///
            /// # Errors
            ///
            /// As [`call`](Self::call).
            pub async fn $name(&mut self, $($arg: $type),*) -> $crate::KevyResult<$value> {
                self.call(&$call).await
            }
        )*
    };
}

/// The verbs that one shard answers, whatever their keys.
macro_rules! for_each_verb {
    ($emit:ident) => {
        $emit! {
            /// Asks for a sign of life.
            fn ping() -> () {
                Call::read("PING")
            }
            /// Publishes a message; gives how many subscribers it reached.
            fn publish(channel: &[u8], message: &[u8]) -> usize {
                Call::write("PUBLISH").key(channel).arg(message)
            }
            /// How many keys there are, on all shards.
            fn dbsize() -> usize {
                Call::read("DBSIZE")
            }
            /// Removes every key of all shards.
            fn flushall() -> () {
                Call::write("FLUSHALL")
            }
            /// The keys that match a glob pattern, on all shards. Blocks the server while it looks: prefer `scan`.
            fn keys(pattern: &[u8]) -> Vec<Vec<u8>> {
                Call::read("KEYS").arg(pattern)
            }
            /// Any key, or `None` if there is none.
            fn randomkey() -> Option<Vec<u8>> {
                Call::read("RANDOMKEY")
            }
            /// One step of an iteration over the keys of all shards. Start with cursor 0, and stop when it is 0 again.
            fn scan(cursor: u64, pattern: Option<&[u8]>, count: Option<usize>) -> Page<Vec<u8>> {
                scan_arguments(Call::read("SCAN").arg(cursor.to_string()), pattern, count)
            }
            /// The type of the value: `string`, `hash`, `list`, `set`, `zset`, `stream`, or `none`.
            fn type_of(key: &[u8]) -> String {
                Call::read("TYPE").key(key)
            }
            // Strings.
            /// The string at `key`.
            fn get(key: &[u8]) -> Option<Vec<u8>> {
                Call::read("GET").key(key)
            }
            /// Sets a string, and drops its expiry.
            fn set(key: &[u8], value: &[u8]) -> () {
                Call::write("SET").key(key).arg(value)
            }
            /// Sets a string that lives for `ttl`, in steps of a millisecond.
            fn set_with_ttl(key: &[u8], value: &[u8], ttl: Duration) -> () {
                Call::write("SET").key(key).arg(value).arg("PX").milliseconds(ttl)
            }
            /// Sets a string unless there is a value; gives whether it did.
            fn set_nx(key: &[u8], value: &[u8]) -> bool {
                Call::write("SETNX").key(key).arg(value)
            }
            /// Gives the string and removes it.
            fn getdel(key: &[u8]) -> Option<Vec<u8>> {
                Call::write("GETDEL").key(key)
            }
            /// Appends to a string; gives its new length in bytes.
            fn append(key: &[u8], value: &[u8]) -> usize {
                Call::write("APPEND").key(key).arg(value)
            }
            /// The length of a string in bytes; 0 if there is none.
            fn strlen(key: &[u8]) -> usize {
                Call::read("STRLEN").key(key)
            }
            /// Adds 1 to the integer at `key`; gives the sum.
            fn incr(key: &[u8]) -> i64 {
                Call::write("INCR").key(key)
            }
            /// Adds `by` to the integer at `key`; gives the sum.
            fn incr_by(key: &[u8], by: i64) -> i64 {
                Call::write("INCRBY").key(key).number(by)
            }
            /// Adds `by` to the number at `key`; gives the sum.
            fn incr_by_float(key: &[u8], by: f64) -> f64 {
                Call::write("INCRBYFLOAT").key(key).float(by)
            }
            // Expiry.
            /// Lets the key live for `ttl` from now, in steps of a millisecond; gives whether there is such a key.
            fn expire(key: &[u8], ttl: Duration) -> bool {
                Call::write("PEXPIRE").key(key).milliseconds(ttl)
            }
            /// Drops the key's expiry; gives whether it had one.
            fn persist(key: &[u8]) -> bool {
                Call::write("PERSIST").key(key)
            }
            /// How long the key lives yet, in milliseconds; -1 without an expiry, -2 without a key.
            fn ttl_ms(key: &[u8]) -> i64 {
                Call::read("PTTL").key(key)
            }
            // Hashes.
            /// Sets fields of a hash; gives how many are new.
            fn hset(key: &[u8], pairs: &[(&[u8], &[u8])]) -> usize {
                with_pairs(Call::write("HSET").key(key), pairs)
            }
            /// The value of a field.
            fn hget(key: &[u8], field: &[u8]) -> Option<Vec<u8>> {
                Call::read("HGET").key(key).arg(field)
            }
            /// The values of fields, in their order.
            fn hmget(key: &[u8], fields: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
                Call::read("HMGET").key(key).args(fields)
            }
            /// Removes fields; gives how many there were.
            fn hdel(key: &[u8], fields: &[&[u8]]) -> usize {
                Call::write("HDEL").key(key).args(fields)
            }
            /// Whether the hash has the field.
            fn hexists(key: &[u8], field: &[u8]) -> bool {
                Call::read("HEXISTS").key(key).arg(field)
            }
            /// How many fields the hash has.
            fn hlen(key: &[u8]) -> usize {
                Call::read("HLEN").key(key)
            }
            /// Adds `by` to the integer of a field; gives the sum.
            fn hincr_by(key: &[u8], field: &[u8], by: i64) -> i64 {
                Call::write("HINCRBY").key(key).arg(field).number(by)
            }
            /// All fields with their values, in no order.
            fn hgetall(key: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
                Call::read("HGETALL").key(key)
            }
            /// All fields, in no order.
            fn hkeys(key: &[u8]) -> Vec<Vec<u8>> {
                Call::read("HKEYS").key(key)
            }
            /// All values, in no order.
            fn hvals(key: &[u8]) -> Vec<Vec<u8>> {
                Call::read("HVALS").key(key)
            }
            /// One step of an iteration over the fields of a hash.
            fn hscan(key: &[u8], cursor: u64, pattern: Option<&[u8]>, count: Option<usize>) -> Page<(Vec<u8>, Vec<u8>)> {
                scan_arguments(Call::read("HSCAN").key(key).arg(cursor.to_string()), pattern, count)
            }
            /// Lets fields live for `ttl`, in whole seconds (0 removes them). For each: 1 done, 2 removed, 0 refused, -2 no
            /// such field.
            fn hexpire(key: &[u8], ttl: Duration, fields: &[&[u8]]) -> Vec<i64> {
                with_fields(Call::write("HEXPIRE").key(key).arg(ttl.as_secs().to_string()), fields)
            }
            /// As `hexpire`, in milliseconds.
            fn hpexpire(key: &[u8], ttl: Duration, fields: &[&[u8]]) -> Vec<i64> {
                with_fields(Call::write("HPEXPIRE").key(key).arg(ttl.as_millis().to_string()), fields)
            }
            /// Drops the expiry of fields. For each: 1 done, -1 it had none, -2 no such field.
            fn hpersist(key: &[u8], fields: &[&[u8]]) -> Vec<i64> {
                with_fields(Call::write("HPERSIST").key(key), fields)
            }
            /// How long fields live yet, in seconds; -1 without an expiry, -2 without a field.
            fn httl(key: &[u8], fields: &[&[u8]]) -> Vec<i64> {
                with_fields(Call::read("HTTL").key(key), fields)
            }
            /// As `httl`, in milliseconds.
            fn hpttl(key: &[u8], fields: &[&[u8]]) -> Vec<i64> {
                with_fields(Call::read("HPTTL").key(key), fields)
            }
            // Lists.
            /// Puts elements before a list, one after the other; gives its new length.
            fn lpush(key: &[u8], elements: &[&[u8]]) -> usize {
                Call::write("LPUSH").key(key).args(elements)
            }
            /// Puts elements after a list; gives its new length.
            fn rpush(key: &[u8], elements: &[&[u8]]) -> usize {
                Call::write("RPUSH").key(key).args(elements)
            }
            /// Takes the first element.
            fn lpop(key: &[u8]) -> Option<Vec<u8>> {
                Call::write("LPOP").key(key)
            }
            /// Takes the last element.
            fn rpop(key: &[u8]) -> Option<Vec<u8>> {
                Call::write("RPOP").key(key)
            }
            /// The length of a list.
            fn llen(key: &[u8]) -> usize {
                Call::read("LLEN").key(key)
            }
            /// The element at `index`; negative ones count from the end.
            fn lindex(key: &[u8], index: i64) -> Option<Vec<u8>> {
                Call::read("LINDEX").key(key).number(index)
            }
            /// The elements from `start` to `stop`, both included; negative ones count from the end.
            fn lrange(key: &[u8], start: i64, stop: i64) -> Vec<Vec<u8>> {
                Call::read("LRANGE").key(key).number(start).number(stop)
            }
            /// Keeps the elements from `start` to `stop` only.
            fn ltrim(key: &[u8], start: i64, stop: i64) -> () {
                Call::write("LTRIM").key(key).number(start).number(stop)
            }
            /// Takes the first element of the first list that has one, and waits for one; `None` waits for ever, a `timeout`
            /// of 0 is refused. Gives the key and the element.
            fn blpop(keys: &[&[u8]], timeout: Option<Duration>) -> Option<(Vec<u8>, Vec<u8>)> {
                Call::write("BLPOP").keys(keys).blocking_for(timeout)
            }
            /// As `blpop`, from the end.
            fn brpop(keys: &[&[u8]], timeout: Option<Duration>) -> Option<(Vec<u8>, Vec<u8>)> {
                Call::write("BRPOP").keys(keys).blocking_for(timeout)
            }
            // Sets.
            /// Adds members to a set; gives how many are new.
            fn sadd(key: &[u8], members: &[&[u8]]) -> usize {
                Call::write("SADD").key(key).args(members)
            }
            /// Removes members; gives how many there were.
            fn srem(key: &[u8], members: &[&[u8]]) -> usize {
                Call::write("SREM").key(key).args(members)
            }
            /// All members, in no order.
            fn smembers(key: &[u8]) -> Vec<Vec<u8>> {
                Call::read("SMEMBERS").key(key)
            }
            /// How many members the set has.
            fn scard(key: &[u8]) -> usize {
                Call::read("SCARD").key(key)
            }
            /// Whether it is a member.
            fn sismember(key: &[u8], member: &[u8]) -> bool {
                Call::read("SISMEMBER").key(key).arg(member)
            }
            /// Takes a random member.
            fn spop(key: &[u8]) -> Option<Vec<u8>> {
                Call::write("SPOP").key(key)
            }
            /// What all the sets hold. Goes to the shard of the first key.
            fn sinter(keys: &[&[u8]]) -> Vec<Vec<u8>> {
                Call::read("SINTER").keys(keys)
            }
            /// What any of the sets holds. Goes to the shard of the first key.
            fn sunion(keys: &[&[u8]]) -> Vec<Vec<u8>> {
                Call::read("SUNION").keys(keys)
            }
            /// What the first set holds and no other does. Goes to the shard of the first key.
            fn sdiff(keys: &[&[u8]]) -> Vec<Vec<u8>> {
                Call::read("SDIFF").keys(keys)
            }
            /// One step of an iteration over the members of a set.
            fn sscan(key: &[u8], cursor: u64, pattern: Option<&[u8]>, count: Option<usize>) -> Page<Vec<u8>> {
                scan_arguments(Call::read("SSCAN").key(key).arg(cursor.to_string()), pattern, count)
            }
            // Sorted sets.
            /// Adds members with their scores, or changes their scores; gives how many are new.
            fn zadd(key: &[u8], members: &[(f64, &[u8])]) -> usize {
                with_scores(Call::write("ZADD").key(key), members)
            }
            /// Removes members; gives how many there were.
            fn zrem(key: &[u8], members: &[&[u8]]) -> usize {
                Call::write("ZREM").key(key).args(members)
            }
            /// The score of a member.
            fn zscore(key: &[u8], member: &[u8]) -> Option<f64> {
                Call::read("ZSCORE").key(key).arg(member)
            }
            /// Adds `by` to the score of a member; gives the sum.
            fn zincr_by(key: &[u8], by: f64, member: &[u8]) -> f64 {
                Call::write("ZINCRBY").key(key).float(by).arg(member)
            }
            /// How many members come before it.
            fn zrank(key: &[u8], member: &[u8]) -> Option<usize> {
                Call::read("ZRANK").key(key).arg(member)
            }
            /// How many members the sorted set has.
            fn zcard(key: &[u8]) -> usize {
                Call::read("ZCARD").key(key)
            }
            /// How many members have a score from `min` to `max`, both included.
            fn zcount(key: &[u8], min: f64, max: f64) -> usize {
                Call::read("ZCOUNT").key(key).float(min).float(max)
            }
            /// The members from rank `start` to `stop`, both included; negative ones count from the end.
            fn zrange(key: &[u8], start: i64, stop: i64) -> Vec<Vec<u8>> {
                Call::read("ZRANGE").key(key).number(start).number(stop)
            }
            /// As `zrange`, with their scores.
            fn zrange_with_scores(key: &[u8], start: i64, stop: i64) -> Vec<(Vec<u8>, f64)> {
                Call::read("ZRANGE").key(key).number(start).number(stop).arg("WITHSCORES")
            }
            /// Takes the member with the least score; empty if there is none.
            fn zpopmin(key: &[u8]) -> Vec<(Vec<u8>, f64)> {
                Call::write("ZPOPMIN").key(key).count(1)
            }
            /// Takes the member with the least score of the first sorted set that has one, and waits as `blpop` does. Gives
            /// the key, the member and its score.
            fn bzpopmin(keys: &[&[u8]], timeout: Option<Duration>) -> Option<(Vec<u8>, Vec<u8>, f64)> {
                Call::write("BZPOPMIN").keys(keys).blocking_for(timeout)
            }
            /// As `bzpopmin`, with the greatest score.
            fn bzpopmax(keys: &[&[u8]], timeout: Option<Duration>) -> Option<(Vec<u8>, Vec<u8>, f64)> {
                Call::write("BZPOPMAX").keys(keys).blocking_for(timeout)
            }
            /// Stores what all the sorted sets hold, scores summed; gives how many members that is.
            fn zinterstore(destination: &[u8], keys: &[&[u8]]) -> usize {
                Call::write("ZINTERSTORE").key(destination).count(keys.len()).keys(keys)
            }
            /// As `zinterstore`, each set's scores times its weight (none: 1), and joined as `aggregate` says.
            fn zinterstore_with(destination: &[u8], keys: &[&[u8]], weights: &[f64], aggregate: Aggregate) -> usize {
                with_weights(Call::write("ZINTERSTORE").key(destination).count(keys.len()).keys(keys), weights, aggregate)
            }
            /// Stores what any of the sorted sets holds, scores summed; gives how many members that is.
            fn zunionstore(destination: &[u8], keys: &[&[u8]]) -> usize {
                Call::write("ZUNIONSTORE").key(destination).count(keys.len()).keys(keys)
            }
            /// As `zunionstore`, each set's scores times its weight (none: 1), and joined as `aggregate` says.
            fn zunionstore_with(destination: &[u8], keys: &[&[u8]], weights: &[f64], aggregate: Aggregate) -> usize {
                with_weights(Call::write("ZUNIONSTORE").key(destination).count(keys.len()).keys(keys), weights, aggregate)
            }
            /// How many members all the sorted sets hold; stops counting at `limit`.
            fn zintercard(keys: &[&[u8]], limit: Option<usize>) -> usize {
                with_limit(Call::read("ZINTERCARD").count(keys.len()).keys(keys), limit)
            }
        }
    };
}

/// The verbs over several keys that a cluster's client may split.
macro_rules! for_each_verb_of_many_keys {
    ($emit:ident) => {
        $emit! {
            /// Removes keys; gives how many there were.
            fn del(keys: &[&[u8]]) -> usize {
                Call::write("DEL").keys(keys)
            }
            /// How many of the keys exist; one that is named twice counts twice.
            fn exists(keys: &[&[u8]]) -> usize {
                Call::read("EXISTS").keys(keys)
            }
            /// The strings at keys, in their order; `None` for what is no string.
            fn mget(keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
                Call::read("MGET").keys(keys)
            }
            /// Sets strings, all at once.
            fn mset(pairs: &[(&[u8], &[u8])]) -> () {
                with_keys(Call::write("MSET"), pairs)
            }
        }
    };
}

#[cfg(feature = "tokio")]
pub(crate) use async_verbs;
pub(crate) use {blocking_verbs, for_each_verb, for_each_verb_of_many_keys};

/// What the tables name.
pub(crate) mod prelude {
    pub(crate) use super::{
        Aggregate, scan_arguments, with_fields, with_limit, with_pairs, with_scores, with_weights,
    };
    pub(crate) use crate::{Call, Page};
    pub(crate) use std::time::Duration;
}
