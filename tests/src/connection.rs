//! A client connection that sends what it is told, well-formed or not, and reads whole replies.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::process::LIMIT;
use crate::reply::{self, Reply};

/// Arguments of a command, its name first.
pub type Args = Vec<Vec<u8>>;

/// A connection to a server over TCP or a Unix socket. Each read ends within [`LIMIT`].
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    received: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects to `port` of this machine.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self::over(Stream::Tcp(stream)))
    }

    /// Connects to the Unix socket at `path`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self::over(Stream::Unix(stream)))
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// A second handle on the same socket, for sending in one thread what another receives.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::over(match &self.stream {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        }))
    }

    /// Sends `bytes` as they are.
    ///
    /// # Errors
    /// When the server closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Tells the server that no more bytes will come.
    ///
    /// # Errors
    /// When the server closed the connection.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Reads one whole reply as the bytes it came in.
    ///
    /// # Errors
    /// When the connection ends or times out first, or the bytes are no reply.
    pub fn read_bytes(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let length = reply::length(&self.received);
            let length = length.map_err(|error| io::Error::other(error.to_string()))?;
            if let Some(length) = length {
                return Ok(self.received.drain(..length).collect());
            }
            if self.receive()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads one whole reply.
    ///
    /// # Errors
    /// As [`read_bytes`](Self::read_bytes).
    pub fn read(&mut self) -> io::Result<Reply> {
        Ok(parse(&self.read_bytes()?))
    }

    /// Reads until the server closes the connection.
    ///
    /// # Errors
    /// When it does not close it in time.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.receive() {
                Ok(0) => return Ok(std::mem::take(&mut self.received)),
                Ok(_) => {}
                // A server that closes with our bytes unread resets the connection: closed all the same.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(std::mem::take(&mut self.received));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 16_384];
        let count = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut chunk),
            Stream::Unix(stream) => stream.read(&mut chunk),
        }?;
        self.received.extend_from_slice(&chunk[..count]);
        Ok(count)
    }

    /// Sends a command and reads the bytes of its reply.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn try_ask_bytes<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Vec<u8>> {
        self.send(&request(args))?;
        self.read_bytes()
    }

    /// Sends a command and reads its reply.
    ///
    /// # Panics
    /// When the connection fails.
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        match self.try_ask_bytes(args) {
            Ok(bytes) => parse(&bytes),
            Err(error) => panic!("{}: {error}", quoted(args)),
        }
    }

    /// Sends a command given as words with single spaces between them, and reads its reply.
    ///
    /// # Panics
    /// When the connection fails.
    pub fn run(&mut self, line: &str) -> Reply {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }
}

fn parse(bytes: &[u8]) -> Reply {
    let decoded = reply::decode(bytes).unwrap_or_else(|error| panic!("{error}"));
    decoded.expect("a whole reply").0
}

/// A command as a client sends it: an array of bulk strings.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A command in the quoting that redis-cli reads, so that it can be pasted there.
pub fn quoted<A: AsRef<[u8]>>(args: &[A]) -> String {
    let words = args.iter().map(|arg| {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-+._:{}*#".contains(b);
        let arg = arg.as_ref();
        if !arg.is_empty() && arg.iter().all(plain) {
            return String::from_utf8_lossy(arg).into_owned();
        }
        let inside = arg.iter().map(|&byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        });
        format!("\"{}\"", inside.collect::<String>())
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_redis_cli() {
        let args: [&[u8]; 4] = [b"SET", b"", b"a\"b\n", b"-1.5"];
        assert_eq!(quoted(&args), r#"SET "" "a\"b\x0a" -1.5"#);
    }
}
