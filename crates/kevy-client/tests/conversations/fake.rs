//! A server that answers as a test's script says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::BytesMut;
use kevy_client::protocol::{Conversation, Event};
use kevy_client::{Address, Reply};

/// What the server does about a request.
pub(crate) enum Step {
    /// Sends these bytes.
    Send(String),
    /// Closes the connection without an answer.
    Cut,
    /// Says nothing.
    Silence,
}

/// Sends a line.
pub(crate) fn line(text: impl AsRef<str>) -> Step {
    Step::Send(format!("{}\r\n", text.as_ref()))
}

/// A running server, and what it was asked. Its threads end with the test's process.
pub(crate) struct Fake {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Starts one; `script` gets every request as one line of words, from all connections.
    pub(crate) fn start(script: impl FnMut(&str) -> Step + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(script));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                thread::spawn(move || serve(stream.unwrap(), &script, &log));
            }
        });
        Self { port, seen }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> Address {
        Address::new("127.0.0.1", self.port)
    }

    /// The requests so far, but for those about the topology.
    pub(crate) fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let of_interest = seen.iter().filter(|request| *request != "CLUSTER SLOTS");
        of_interest.cloned().collect()
    }

    /// How often it was asked for the topology.
    pub(crate) fn topologies(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|request| *request == "CLUSTER SLOTS")
            .count()
    }
}

fn serve(
    mut stream: TcpStream,
    script: &Mutex<impl FnMut(&str) -> Step>,
    log: &Mutex<Vec<String>>,
) {
    // A request has the form of a reply: an array of strings.
    let mut requests = Conversation::listening();
    let mut chunk = [0; 4096];
    loop {
        let Ok(count @ 1..) = stream.read(&mut chunk) else {
            return;
        };
        requests.handle_bytes(&chunk[..count]);
        while let Some(event) = requests.poll_event().unwrap() {
            let words = words(event);
            log.lock().unwrap().push(words.clone());
            match script.lock().unwrap()(&words) {
                Step::Send(text) => stream.write_all(text.as_bytes()).unwrap(),
                Step::Cut => return,
                Step::Silence => {}
            }
        }
    }
}

fn words(event: Event) -> String {
    let Event::Reply(Reply::Array(words)) = event else {
        panic!("no request: {event:?}");
    };
    let words = words.iter().map(|word| word.as_bytes().unwrap());
    let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

/// The reply of `CLUSTER SLOTS`: each `(first, last, node)`.
pub(crate) fn slots(ranges: &[(i64, i64, &Address)]) -> Step {
    let range = |(first, last, node): &(i64, i64, &Address)| {
        let host = Reply::Bulk(node.host().to_owned().into());
        let node = Reply::Array(vec![host, Reply::Integer(node.port().into())]);
        Reply::Array(vec![Reply::Integer(*first), Reply::Integer(*last), node])
    };
    let mut bytes = BytesMut::new();
    Reply::Array(ranges.iter().map(range).collect()).encode(&mut bytes);
    Step::Send(String::from_utf8(bytes.to_vec()).unwrap())
}
