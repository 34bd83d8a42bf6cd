//! What Redis's types are, in plain collections: slow, and so simple that it is right.

use std::collections::{BTreeMap, BTreeSet};

type Bytes = Vec<u8>;

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(Bytes),
    /// A list.
    List(Vec<Bytes>),
    /// A hash.
    Hash(BTreeMap<Bytes, Bytes>),
    /// A set.
    Set(BTreeSet<Bytes>),
    /// A sorted set.
    Scored(BTreeMap<Bytes, f64>),
}

/// What a command replies.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// `+OK`
    Ok,
    /// An integer.
    Integer(i64),
    /// A string.
    Bulk(Bytes),
    /// None.
    Nil,
    /// Strings.
    Array(Vec<Bytes>),
    /// An error, whole.
    Error(&'static str),
}

const WRONG_TYPE: Answer =
    Answer::Error("WRONGTYPE Operation against a key holding the wrong kind of value");
const NOT_INTEGER: Answer = Answer::Error("ERR value is not an integer or out of range");
const OVERFLOW: Answer = Answer::Error("ERR increment or decrement would overflow");
const NO_KEY: Answer = Answer::Error("ERR no such key");
const NO_INDEX: Answer = Answer::Error("ERR index out of range");

impl Answer {
    /// In RESP2.
    pub fn encode(&self) -> Bytes {
        let bulk =
            |bytes: &Bytes| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        match self {
            Self::Ok => b"+OK\r\n".to_vec(),
            Self::Integer(number) => format!(":{number}\r\n").into_bytes(),
            Self::Bulk(bytes) => bulk(bytes),
            Self::Nil => b"$-1\r\n".to_vec(),
            Self::Error(text) => format!("-{text}\r\n").into_bytes(),
            Self::Array(items) => {
                let head = format!("*{}\r\n", items.len()).into_bytes();
                items.iter().fold(head, |mut all, item| {
                    all.extend(bulk(item));
                    all
                })
            }
        }
    }
}

/// The keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// By name.
    pub keys: BTreeMap<Bytes, Value>,
}

/// Access to a key of one type: `read!` gives a reference or answers, `write!` one that is created if missing.
macro_rules! typed {
    ($read:ident, $write:ident, $variant:ident, $type:ty) => {
        fn $read(&self, key: &[u8]) -> Result<Option<&$type>, Answer> {
            match self.keys.get(key) {
                None => Ok(None),
                Some(Value::$variant(found)) => Ok(Some(found)),
                Some(_) => Err(WRONG_TYPE),
            }
        }

        fn $write(&mut self, key: &[u8]) -> Result<&mut $type, Answer> {
            let value = self
                .keys
                .entry(key.to_vec())
                .or_insert_with(|| Value::$variant(Default::default()));
            match value {
                Value::$variant(found) => Ok(found),
                _ => Err(WRONG_TYPE),
            }
        }
    };
}

impl Model {
    typed!(text, text_mut, Text, Bytes);
    typed!(list, list_mut, List, Vec<Bytes>);
    typed!(hash, hash_mut, Hash, BTreeMap<Bytes, Bytes>);
    typed!(set, set_mut, Set, BTreeSet<Bytes>);
    typed!(scored, scored_mut, Scored, BTreeMap<Bytes, f64>);

    /// Runs a command that is one of those below, with as many words as it needs.
    pub fn run(&mut self, words: &[&[u8]]) -> Answer {
        let before = self.keys.clone();
        let answer = self.answer(words).unwrap_or_else(|error| error);
        if matches!(answer, Answer::Error(_)) {
            self.keys = before;
        }
        self.keys.retain(|_, value| match value {
            Value::Text(_) => true,
            Value::List(found) => !found.is_empty(),
            Value::Hash(found) => !found.is_empty(),
            Value::Set(found) => !found.is_empty(),
            Value::Scored(found) => !found.is_empty(),
        });
        answer
    }

    fn answer(&mut self, words: &[&[u8]]) -> Result<Answer, Answer> {
        let key = words[1];
        match words[0] {
            b"SET" | b"GET" | b"APPEND" | b"INCRBY" | b"STRLEN" => self.string_command(words, key),
            b"DEL" | b"RENAME" | b"COPY" | b"EXISTS" => Ok(self.key_command(words, key)),
            [b'L' | b'R', ..] => self.list_command(words, key),
            [b'H', ..] => self.hash_command(words, key),
            [b'S', ..] => self.set_command(words, key),
            _ => self.scored_command(words, key),
        }
    }

    fn string_command(&mut self, words: &[&[u8]], key: &[u8]) -> Result<Answer, Answer> {
        Ok(match words[0] {
            b"SET" => {
                self.keys
                    .insert(key.to_vec(), Value::Text(words[2].to_vec()));
                Answer::Ok
            }
            b"GET" => self.text(key)?.cloned().map_or(Answer::Nil, Answer::Bulk),
            b"STRLEN" => length(self.text(key)?.map(Vec::len)),
            b"APPEND" => {
                let text = self.text_mut(key)?;
                text.extend_from_slice(words[2]);
                length(Some(text.len()))
            }
            _ => {
                let more = integer(words[2]).ok_or(NOT_INTEGER)?;
                let old = self.text(key)?.map_or(Some(0), |text| integer(text));
                let sum = old.ok_or(NOT_INTEGER)?.checked_add(more).ok_or(OVERFLOW)?;
                *self.text_mut(key)? = sum.to_string().into_bytes();
                Answer::Integer(sum)
            }
        })
    }

    fn key_command(&mut self, words: &[&[u8]], key: &[u8]) -> Answer {
        match words[0] {
            b"DEL" => Answer::Integer(self.keys.remove(key).is_some().into()),
            b"EXISTS" => Answer::Integer(self.keys.contains_key(key).into()),
            b"RENAME" => match self.keys.remove(key) {
                None => NO_KEY,
                Some(value) => {
                    self.keys.insert(words[2].to_vec(), value);
                    Answer::Ok
                }
            },
            _ => match self.keys.get(key).cloned() {
                Some(value) if !self.keys.contains_key(words[2]) => {
                    self.keys.insert(words[2].to_vec(), value);
                    Answer::Integer(1)
                }
                _ => Answer::Integer(0),
            },
        }
    }

    fn list_command(&mut self, words: &[&[u8]], key: &[u8]) -> Result<Answer, Answer> {
        let empty = Vec::new();
        let list = self.list(key)?.unwrap_or(&empty);
        let count = list.len();
        Ok(match words[0] {
            b"LLEN" => length(Some(count)),
            b"LINDEX" => {
                place(words[2], count).map_or(Answer::Nil, |at| Answer::Bulk(list[at].clone()))
            }
            b"LRANGE" => Answer::Array(list[range(words[2], words[3], count)].to_vec()),
            b"LPUSH" => {
                let list = self.list_mut(key)?;
                words[2..]
                    .iter()
                    .for_each(|word| list.insert(0, word.to_vec()));
                length(Some(list.len()))
            }
            b"RPUSH" => {
                let list = self.list_mut(key)?;
                list.extend(words[2..].iter().map(|word| word.to_vec()));
                length(Some(list.len()))
            }
            _ if count == 0 => match words[0] {
                b"LSET" => NO_KEY,
                b"LTRIM" => Answer::Ok,
                b"LPOP" | b"RPOP" => Answer::Nil,
                _ => Answer::Integer(0),
            },
            _ => change_list(self.list_mut(key)?, words),
        })
    }

    fn hash_command(&mut self, words: &[&[u8]], key: &[u8]) -> Result<Answer, Answer> {
        let empty = BTreeMap::new();
        let more = match words[0] {
            b"HINCRBY" => integer(words[3]).ok_or(NOT_INTEGER)?,
            _ => 0,
        };
        let hash = self.hash(key)?.unwrap_or(&empty);
        Ok(match words[0] {
            b"HLEN" => length(Some(hash.len())),
            b"HGET" => hash
                .get(words[2])
                .cloned()
                .map_or(Answer::Nil, Answer::Bulk),
            b"HGETALL" => Answer::Array(
                hash.iter()
                    .flat_map(|(n, v)| [n.clone(), v.clone()])
                    .collect(),
            ),
            b"HSET" => {
                let old = self
                    .hash_mut(key)?
                    .insert(words[2].to_vec(), words[3].to_vec());
                Answer::Integer(old.is_none().into())
            }
            b"HINCRBY" => {
                let old = hash.get(words[2]).map_or(Some(0), |text| integer(text));
                let old = old.ok_or(Answer::Error("ERR hash value is not an integer"))?;
                let sum = old.checked_add(more).ok_or(OVERFLOW)?;
                self.hash_mut(key)?
                    .insert(words[2].to_vec(), sum.to_string().into_bytes());
                Answer::Integer(sum)
            }
            _ => Answer::Integer(self.hash_mut(key)?.remove(words[2]).is_some().into()),
        })
    }

    fn set_command(&mut self, words: &[&[u8]], key: &[u8]) -> Result<Answer, Answer> {
        let empty = BTreeSet::new();
        let set = self.set(key)?.unwrap_or(&empty);
        Ok(match words[0] {
            b"SCARD" => length(Some(set.len())),
            b"SISMEMBER" => Answer::Integer(set.contains(words[2]).into()),
            b"SMEMBERS" => Answer::Array(set.iter().cloned().collect()),
            b"SINTER" => {
                let other = self.set(words[2])?.unwrap_or(&empty);
                Answer::Array(set.intersection(other).cloned().collect())
            }
            b"SDIFF" => {
                let other = self.set(words[2])?.unwrap_or(&empty);
                Answer::Array(set.difference(other).cloned().collect())
            }
            b"SADD" => Answer::Integer(self.set_mut(key)?.insert(words[2].to_vec()).into()),
            _ => Answer::Integer(self.set_mut(key)?.remove(words[2]).into()),
        })
    }

    fn scored_command(&mut self, words: &[&[u8]], key: &[u8]) -> Result<Answer, Answer> {
        let empty = BTreeMap::new();
        let set = self.scored(key)?.unwrap_or(&empty);
        let order = ranked(set);
        Ok(match words[0] {
            b"ZCARD" => length(Some(set.len())),
            b"ZSCORE" => set.get(words[2]).map_or(Answer::Nil, |score| {
                Answer::Bulk(score.to_string().into_bytes())
            }),
            b"ZRANK" => match order.iter().position(|member| member == words[2]) {
                Some(rank) => length(Some(rank)),
                None => Answer::Nil,
            },
            b"ZRANGE" => Answer::Array(order[range(words[2], words[3], order.len())].to_vec()),
            b"ZCOUNT" => {
                let (low, high) = (number(words[2]), number(words[3]));
                length(Some(
                    set.values()
                        .filter(|score| (low..=high).contains(*score))
                        .count(),
                ))
            }
            b"ZADD" => {
                let old = self
                    .scored_mut(key)?
                    .insert(words[3].to_vec(), number(words[2]));
                Answer::Integer(old.is_none().into())
            }
            b"ZINCRBY" => {
                let score = self
                    .scored_mut(key)?
                    .entry(words[3].to_vec())
                    .or_insert(0.0);
                *score += number(words[2]);
                Answer::Bulk(score.to_string().into_bytes())
            }
            b"ZREMRANGEBYRANK" => {
                let gone = order[range(words[2], words[3], order.len())].to_vec();
                let set = self.scored_mut(key)?;
                gone.iter().for_each(|member| {
                    set.remove(member);
                });
                length(Some(gone.len()))
            }
            _ => Answer::Integer(self.scored_mut(key)?.remove(words[2]).is_some().into()),
        })
    }
}

/// Changes a list that is not empty.
fn change_list(list: &mut Vec<Bytes>, words: &[&[u8]]) -> Answer {
    match words[0] {
        b"LPOP" => Answer::Bulk(list.remove(0)),
        b"RPOP" => list.pop().map_or(Answer::Nil, Answer::Bulk),
        b"LSET" => match place(words[2], list.len()) {
            None => NO_INDEX,
            Some(at) => {
                list[at] = words[3].to_vec();
                Answer::Ok
            }
        },
        b"LTRIM" => {
            *list = list[range(words[2], words[3], list.len())].to_vec();
            Answer::Ok
        }
        b"LINSERT" => match list.iter().position(|element| element == words[3]) {
            None => Answer::Integer(-1),
            Some(at) => {
                let at = at + usize::from(words[2] == b"AFTER");
                list.insert(at, words[4].to_vec());
                length(Some(list.len()))
            }
        },
        _ => remove_equal(list, integer(words[2]).unwrap_or(0), words[3]),
    }
}

fn remove_equal(list: &mut Vec<Bytes>, count: i64, element: &[u8]) -> Answer {
    let most = if count == 0 {
        u64::MAX
    } else {
        count.unsigned_abs()
    };
    let mut removed = 0;
    let mut keep = |found: &Bytes| {
        let gone = found == element && removed < most;
        removed += u64::from(gone);
        !gone
    };
    if count < 0 {
        list.reverse();
        list.retain(&mut keep);
        list.reverse();
    } else {
        list.retain(&mut keep);
    }
    Answer::Integer(removed as i64)
}

/// Members in the order of score and member.
fn ranked(set: &BTreeMap<Bytes, f64>) -> Vec<Bytes> {
    let mut all: Vec<(&f64, &Bytes)> = set.iter().map(|(member, score)| (score, member)).collect();
    all.sort_by(|a, b| a.0.total_cmp(b.0).then(a.1.cmp(b.1)));
    all.into_iter().map(|(_, member)| member.clone()).collect()
}

fn length(length: Option<usize>) -> Answer {
    Answer::Integer(length.unwrap_or(0) as i64)
}

/// A canonical integer.
fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn number(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or(0.0)
}

/// The place that an index names, negative ones from the end.
fn place(index: &[u8], count: usize) -> Option<usize> {
    let index = integer(index)?;
    let index = if index < 0 {
        index + count as i64
    } else {
        index
    };
    usize::try_from(index).ok().filter(|&at| at < count)
}

/// The places from one index to another.
fn range(start: &[u8], stop: &[u8], count: usize) -> std::ops::Range<usize> {
    let from_end = |index: &[u8]| {
        let index = integer(index).unwrap_or(0);
        if index < 0 {
            index + count as i64
        } else {
            index
        }
    };
    let start = from_end(start).clamp(0, count as i64) as usize;
    let end = (from_end(stop) + 1).clamp(0, count as i64) as usize;
    start.min(end)..end
}
