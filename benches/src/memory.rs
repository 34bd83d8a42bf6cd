//! `--memory`: resident memory per key, side by side.
//!
//! A shape is one row of [`Shape`]: its request for a key and the reply to it. Keys are 16 bytes.

use clap::ValueEnum;
use serde::Serialize;

use crate::control::{Control, encode};
use crate::cores::Cores;
use crate::error::Error;
use crate::launch::{self, Target};
use crate::loader;
use crate::options::Options;
use crate::procfs;
use crate::reply::Reply;
use crate::stats::ratio;
use crate::table::aligned;
use crate::workload::{digits, key};

/// Length of a string's value, in bytes.
const VALUE_BYTES: usize = 64;
/// Elements of a small collection.
const ELEMENTS: u64 = 10;

/// What each key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A string of 64 bytes
    String,
    /// A hash of 10 fields with values of 12 bytes
    Hash,
    /// A set of 10 members of 12 bytes
    Set,
    /// A sorted set of 10 members of 12 bytes
    Zset,
    /// A list of 10 elements of 12 bytes
    List,
}

impl Shape {
    /// The command that makes such a key.
    fn command(self) -> &'static [u8] {
        match self {
            Self::String => b"SET",
            Self::Hash => b"HSET",
            Self::Set => b"SADD",
            Self::Zset => b"ZADD",
            Self::List => b"RPUSH",
        }
    }

    /// What follows command and key.
    fn arguments(self, id: u64) -> Vec<Vec<u8>> {
        let element = |n: u64| digits(id.wrapping_mul(ELEMENTS).wrapping_add(n)).to_vec();
        match self {
            Self::String => vec![vec![b'x'; VALUE_BYTES]],
            Self::Hash => (0..ELEMENTS)
                .flat_map(|n| [format!("field:{n}").into_bytes(), element(n)])
                .collect(),
            Self::Zset => (0..ELEMENTS)
                .flat_map(|n| [n.to_string().into_bytes(), element(n)])
                .collect(),
            Self::Set | Self::List => (0..ELEMENTS).map(element).collect(),
        }
    }

    fn accepts(self, reply: Reply<'_>) -> bool {
        match self {
            Self::String => reply == Reply::Status(b"OK"),
            Self::Hash | Self::Set | Self::Zset | Self::List => {
                reply == Reply::Integer(ELEMENTS as i64)
            }
        }
    }

    fn write(self, id: u64, out: &mut Vec<u8>) {
        let key = key(id);
        let arguments = self.arguments(id);
        let mut words: Vec<&[u8]> = vec![self.command(), &key];
        words.extend(arguments.iter().map(Vec::as_slice));
        out.extend_from_slice(&encode(words.into_iter()));
    }
}

/// One server with one shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryResult {
    /// What each key holds.
    pub shape: Shape,
    /// The server's name.
    pub name: String,
    /// Whether it is the kevy under test.
    pub is_kevy: bool,
    /// Growth of resident memory per key, in bytes.
    pub bytes_per_key: f64,
    /// Against the baseline.
    pub ratio: Option<f64>,
}

/// Fills a fresh instance of each target with each shape.
///
/// # Errors
/// When a server cannot be started, refuses a request or ends up with another number of keys.
pub fn weigh(
    targets: &[Target],
    baseline: &str,
    cores: Option<&Cores>,
    options: &Options,
) -> Result<Vec<MemoryResult>, Error> {
    let mut results = Vec::new();
    for shape in &options.shapes {
        let mut rows = Vec::new();
        for target in targets {
            eprintln!("{}: {} keys of {shape:?}", target.name, options.memory_keys);
            rows.push(weigh_one(target, *shape, options.memory_keys, cores)?);
        }
        let base = rows.iter().find(|row| row.name == baseline);
        let base = base.map_or(0.0, |row| row.bytes_per_key);
        for row in &mut rows {
            row.ratio = ratio(row.bytes_per_key, base);
        }
        results.append(&mut rows);
    }
    Ok(results)
}

fn weigh_one(
    target: &Target,
    shape: Shape,
    keys: u64,
    cores: Option<&Cores>,
) -> Result<MemoryResult, Error> {
    let running = launch::start(target, cores)?;
    let before = procfs::resident_bytes(running.pid())?;
    let write = |id, out: &mut Vec<u8>| shape.write(id, out);
    loader::fill(running.addr, 0..keys, write, |reply| shape.accepts(reply))?;
    let held = Control::connect(running.addr)?.key_count()?;
    if held != keys {
        return Err(Error::Reply(format!(
            "{} holds {held} keys, not {keys}",
            target.name
        )));
    }
    let grown = procfs::resident_bytes(running.pid())?.saturating_sub(before);
    Ok(MemoryResult {
        shape,
        name: target.name.clone(),
        is_kevy: target.kevy().is_some(),
        bytes_per_key: grown as f64 / keys as f64,
        ratio: None,
    })
}

/// The results as a table.
pub fn table(results: &[MemoryResult]) -> String {
    let head = ["shape", "server", "bytes/key", "ratio"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(results.iter().map(|result| {
        vec![
            format!("{:?}", result.shape).to_lowercase(),
            result.name.clone(),
            format!("{:.1}", result.bytes_per_key),
            result
                .ratio
                .map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
        ]
    }));
    aligned(&rows, 2)
}

/// Where kevy needs more than the ratio given.
pub fn findings(results: &[MemoryResult], most: Option<f64>) -> Vec<String> {
    let Some(most) = most else { return Vec::new() };
    results
        .iter()
        .filter(|result| result.is_kevy && result.ratio.is_none_or(|ratio| ratio > most))
        .map(|result| {
            format!(
                "{} needs {:.1} bytes per {:?}, above {most} of the baseline",
                result.name, result.bytes_per_key, result.shape
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_one_request() {
        for shape in Shape::value_variants() {
            let mut out = Vec::new();
            shape.write(3, &mut out);
            let text = String::from_utf8(out).unwrap();
            let words: usize = text[1..].split("\r\n").next().unwrap().parse().unwrap();
            assert_eq!(text.matches('$').count(), words, "{shape:?}");
            assert!(text.contains("key:000000000003"), "{shape:?}");
        }
    }

    #[test]
    fn elements_differ_between_keys() {
        assert_ne!(Shape::Set.arguments(1), Shape::Set.arguments(2));
        assert_eq!(Shape::String.arguments(1)[0].len(), VALUE_BYTES);
    }

    #[test]
    fn kevy_is_held_to_the_ratio() {
        let result = |is_kevy, ratio| MemoryResult {
            shape: Shape::String,
            name: "x".into(),
            is_kevy,
            bytes_per_key: 100.0,
            ratio,
        };
        let results = [result(true, Some(1.1)), result(false, Some(3.0))];
        assert_eq!(findings(&results, Some(1.0)).len(), 1);
        assert!(findings(&results, Some(1.2)).is_empty());
        assert!(findings(&results, None).is_empty());
        assert_eq!(findings(&[result(true, None)], Some(1.0)).len(), 1);
    }
}
