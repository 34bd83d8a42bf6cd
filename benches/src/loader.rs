//! Filling a server with data before it is measured: pipelined in chunks over one connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::control::ANSWER_TIMEOUT;
use crate::error::{Doing, Error};
use crate::interrupt;
use crate::reply::{Reply, Skipper};

/// A chunk is sent once it has this many bytes ...
const CHUNK_BYTES: usize = 128 << 10;
/// ... or this many requests: their replies must fit the socket buffers while nobody reads.
const CHUNK_REQUESTS: usize = 1000;
/// What one read may take, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Sends what `write` appends for each item and checks every reply.
///
/// # Errors
/// [`Error::Reply`] at the first reply that `accepts` refuses, [`Error::Io`] when the connection breaks.
pub fn fill<T>(
    addr: SocketAddr,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>),
    accepts: impl Fn(Reply<'_>) -> bool,
) -> Result<(), Error> {
    let mut stream =
        TcpStream::connect_timeout(&addr, ANSWER_TIMEOUT).doing(|| format!("connect to {addr}"))?;
    stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .doing(|| "set a timeout".to_owned())?;
    let mut skipper = Skipper::default();
    let mut items = items.into_iter();
    let mut chunk = Vec::with_capacity(2 * CHUNK_BYTES);
    loop {
        interrupt::check()?;
        chunk.clear();
        let mut count = 0;
        while count < CHUNK_REQUESTS && chunk.len() < CHUNK_BYTES {
            let Some(item) = items.next() else { break };
            write(item, &mut chunk);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        stream
            .write_all(&chunk)
            .doing(|| "send data to load".to_owned())?;
        await_replies(&mut stream, &mut skipper, count, &accepts)?;
    }
}

fn await_replies(
    stream: &mut TcpStream,
    skipper: &mut Skipper,
    count: usize,
    accepts: &impl Fn(Reply<'_>) -> bool,
) -> Result<(), Error> {
    let mut buffer = [0; READ_BYTES];
    let mut seen = 0;
    let mut wrong = None;
    while seen < count {
        let length = stream
            .read(&mut buffer)
            .doing(|| "wait for loaded data".to_owned())?;
        if length == 0 {
            return Err(Error::Reply("the connection ended while loading".into()));
        }
        let fed = skipper.feed(&buffer[..length], |reply| {
            seen += 1;
            if wrong.is_none() && !accepts(reply) {
                wrong = Some(reply.to_string());
            }
        });
        fed.map_err(|broken| Error::Reply(broken.to_string()))?;
    }
    wrong.map_or(Ok(()), |text| Err(Error::Reply(text)))
}
