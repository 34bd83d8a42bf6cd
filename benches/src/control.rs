//! A blocking client for the few questions the gate asks a server: PING, INFO, DBSIZE, CLUSTER SLOTS.
//!
//! It shares no code with the server it judges, so a fault in the server's own codec cannot hide here.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Doing, Error};
use crate::reply::MAX_LINE_BYTES;

/// How long a server may take to answer a control question.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest bulk accepted, in bytes.
const MAX_BULK_BYTES: u64 = 16 << 20;
/// Most elements of one array.
const MAX_ELEMENTS: usize = 1 << 17;
/// Deepest nesting of arrays.
const MAX_DEPTH: usize = 8;

/// A decoded reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+text` or a bulk
    Text(Vec<u8>),
    /// `:number`
    Integer(i64),
    /// `*n`
    Array(Vec<Value>),
    /// `$-1`, `*-1` or `_`
    Nil,
    /// `-text`
    Error(String),
}

/// One blocking connection.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<TcpStream>,
}

impl Control {
    /// Connects, with [`ANSWER_TIMEOUT`] on reads and writes.
    ///
    /// # Errors
    /// [`Error::Io`] when nobody listens.
    pub fn connect(addr: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect_timeout(&addr, ANSWER_TIMEOUT)
            .doing(|| format!("connect to {addr}"))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_TIMEOUT)))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
        prepared.doing(|| format!("prepare the connection to {addr}"))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// [`Error::Io`] on a broken connection or a timeout; [`Error::Reply`] when the reply is malformed.
    /// An error *reply* is a [`Value::Error`].
    pub fn call(&mut self, words: &[&str]) -> Result<Value, Error> {
        let request = encode(words.iter().map(|word| word.as_bytes()));
        self.stream
            .get_mut()
            .write_all(&request)
            .doing(|| format!("send {words:?}"))?;
        read_value(&mut self.stream, MAX_DEPTH)
    }

    /// INFO's fields of one section.
    ///
    /// # Errors
    /// As [`Self::call`], and [`Error::Reply`] when INFO does not answer a text.
    pub fn info(&mut self, section: &str) -> Result<HashMap<String, String>, Error> {
        let reply = self.call(&["INFO", section])?;
        let Value::Text(text) = &reply else {
            return Err(Error::Reply(format!("INFO {section}: {reply:?}")));
        };
        Ok(info_fields(&String::from_utf8_lossy(text)))
    }

    /// INFO's `total_commands_processed`.
    ///
    /// # Errors
    /// As [`Self::info`], and [`Error::Reply`] when the field is missing.
    pub fn commands_processed(&mut self) -> Result<u64, Error> {
        self.info("stats")?
            .get("total_commands_processed")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| {
                Error::Reply("INFO stats has no total_commands_processed (see --count-at)".into())
            })
    }

    /// How many keys the server holds.
    ///
    /// # Errors
    /// As [`Self::call`], and [`Error::Reply`] when the reply is no number.
    pub fn key_count(&mut self) -> Result<u64, Error> {
        let reply = self.call(&["DBSIZE"])?;
        let Value::Integer(count) = reply else {
            return Err(Error::Reply(format!("DBSIZE: {reply:?}")));
        };
        Ok(count.unsigned_abs())
    }
}

/// One request as an array of bulks.
pub fn encode<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        push_bulk(&mut out, word);
    }
    out
}

/// Appends one bulk to a request.
pub fn push_bulk(out: &mut Vec<u8>, word: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn info_fields(text: &str) -> HashMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn read_value(from: &mut impl BufRead, depth: usize) -> Result<Value, Error> {
    let line = read_line(from)?;
    let bad = || Error::Reply(format!("{line:?}"));
    let rest = line.get(1..).ok_or_else(bad)?;
    match line.as_bytes()[0] {
        b'+' => Ok(Value::Text(rest.into())),
        b'-' => Ok(Value::Error(rest.into())),
        b'_' => Ok(Value::Nil),
        b':' => rest.parse().map(Value::Integer).map_err(|_| bad()),
        b'$' => match rest.parse().map_err(|_| bad())? {
            -1 => Ok(Value::Nil),
            length => read_bulk(
                from,
                u64::try_from(length).map_err(|_: std::num::TryFromIntError| bad())?,
            ),
        },
        b'*' => match rest.parse().map_err(|_| bad())? {
            -1 => Ok(Value::Nil),
            count => read_array(
                from,
                i64::try_into(count).map_err(|_: std::num::TryFromIntError| bad())?,
                depth,
            ),
        },
        _ => Err(bad()),
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String, Error> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES as u64)
        .read_until(b'\n', &mut line)
        .doing(|| "wait for a reply".to_owned())?;
    let text = line.strip_suffix(b"\r\n").map(String::from_utf8_lossy);
    match text {
        Some(text) if !text.is_empty() => Ok(text.into_owned()),
        _ => Err(Error::Reply(format!(
            "{:?} (connection closed?)",
            String::from_utf8_lossy(&line)
        ))),
    }
}

fn read_bulk(from: &mut impl BufRead, length: u64) -> Result<Value, Error> {
    if length > MAX_BULK_BYTES {
        return Err(Error::Reply(format!("a bulk of {length} bytes")));
    }
    let mut body = Vec::new();
    from.take(length + 2)
        .read_to_end(&mut body)
        .doing(|| "read a bulk".to_owned())?;
    if body.len() as u64 != length + 2 || !body.ends_with(b"\r\n") {
        return Err(Error::Reply("a bulk without its end".into()));
    }
    body.truncate(length as usize);
    Ok(Value::Text(body))
}

fn read_array(from: &mut impl BufRead, count: usize, depth: usize) -> Result<Value, Error> {
    if count > MAX_ELEMENTS || depth == 0 {
        return Err(Error::Reply(format!(
            "an array of {count}, too large or deep"
        )));
    }
    (0..count)
        .map(|_| read_value(from, depth - 1))
        .collect::<Result<_, _>>()
        .map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_replies_are_read() {
        let mut stream = &b"*3\r\n:1\r\n*2\r\n$2\r\nhi\r\n$-1\r\n-ERR x\r\n+OK\r\n"[..];
        let nested = Value::Array(vec![
            Value::Integer(1),
            Value::Array(vec![Value::Text(b"hi".into()), Value::Nil]),
            Value::Error("ERR x".into()),
        ]);
        assert_eq!(read_value(&mut stream, MAX_DEPTH).unwrap(), nested);
        assert_eq!(
            read_value(&mut stream, MAX_DEPTH).unwrap(),
            Value::Text(b"OK".into())
        );
        assert!(read_value(&mut stream, MAX_DEPTH).is_err());
    }

    #[test]
    fn bad_replies_are_errors() {
        let deep = b"*1\r\n".repeat(MAX_DEPTH + 2);
        for mut bad in [
            &b"$5\r\nab\r\n"[..],
            b"*-7\r\n",
            b"$99999999999\r\n",
            b"?\r\n",
            b"\r\n",
            &deep,
        ] {
            assert!(read_value(&mut bad, MAX_DEPTH).is_err());
        }
    }

    #[test]
    fn info_is_split_into_fields() {
        let fields = info_fields("# Stats\r\ntotal_commands_processed:12\r\nx:a:b\r\n\r\n");
        assert_eq!(fields["total_commands_processed"], "12");
        assert_eq!(fields["x"], "a:b");
    }

    #[test]
    fn requests_are_arrays_of_bulks() {
        let words: [&[u8]; 2] = [b"GET", b"k"];
        assert_eq!(encode(words.into_iter()), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
