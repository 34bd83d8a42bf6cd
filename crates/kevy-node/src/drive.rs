//! The loop that joins a [`Shard`] to its [`Host`]: the only async code of the node.
//!
//! A turn: wait; hand in what happened (connections, bytes, messages, files, time); then drain what came out: what is to be
//! written first, then messages so that other shards start early, then replies. The shard decides everything; the loop only carries.

use crate::host::{Event, Host, Patience, Received, Sent, Slot};
use crate::shard::Shard;
use kevy_proto::ids::ShardId;
use std::collections::VecDeque;
use std::io;

/// Size of the buffer that bytes are read into, one per shard.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;
/// How many buffers are read from one connection before the others get their turn.
pub const READS_PER_TURN: usize = 8;
/// How many messages are handled before connections get their turn again.
pub const MESSAGES_PER_TURN: usize = 1024;

/// Runs `shard` on `host` until it has shut down. Calls `on_open` once it serves clients.
///
/// # Errors
/// What [`Transport::wait`](crate::host::Transport::wait) says: the host cannot go on. Or what the shard says: its data
/// cannot be loaded, or not be written.
pub async fn drive<H: Host>(
    mut shard: Shard,
    mut host: H,
    on_open: impl FnOnce(),
) -> io::Result<()> {
    let mut driver = Driver::new();
    let mut on_open = Some(on_open);
    while !shard.has_finished() {
        let patience = Patience {
            none: driver.has_work_left,
            deadline: shard.deadline(),
            expects_messages: shard.expects_messages(),
        };
        host.wait(patience, &mut driver.events).await?;
        driver.turn(&mut shard, &mut host);
        if let Some(failure) = shard.failure() {
            return Err(io::Error::other(failure.to_owned()));
        }
        if !shard.is_loading()
            && let Some(on_open) = on_open.take()
        {
            on_open();
        }
        if shard.is_shutting_down() {
            host.stop_accepting();
        }
    }
    Ok(())
}

/// What the loop keeps between turns.
struct Driver {
    events: Vec<Event>,
    buffer: Box<[u8]>,
    /// Connections that had more bytes than one turn reads.
    unread: VecDeque<Slot>,
    has_work_left: bool,
}

impl Driver {
    fn new() -> Self {
        let buffer = vec![0; READ_BUFFER_BYTES].into_boxed_slice();
        Self {
            events: Vec::new(),
            buffer,
            unread: VecDeque::new(),
            has_work_left: false,
        }
    }

    fn turn<H: Host>(&mut self, shard: &mut Shard, host: &mut H) {
        shard.handle_time(host.now());
        for _ in 0..self.unread.len() {
            if let Some(slot) = self.unread.pop_front() {
                self.read(shard, host, slot);
            }
        }
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.handle(shard, host, event);
        }
        self.events = events;
        let messages_left = take_messages(shard, host);
        while let Some(slot) = shard.poll_readable() {
            self.read(shard, host, slot);
        }
        while let Some(operation) = shard.poll_disk() {
            host.start(operation);
        }
        let blocked = send_messages(shard, host);
        send_replies(shard, host);
        shard.end_turn();
        self.has_work_left =
            messages_left || blocked || !self.unread.is_empty() || shard.has_output();
    }

    fn handle<H: Host>(&mut self, shard: &mut Shard, host: &mut H, event: Event) {
        match event {
            Event::Connected { slot, peer } => shard.handle_connected(slot, peer),
            Event::Readable(slot) => self.read(shard, host, slot),
            Event::Writable(slot) => send(shard, host, slot),
            Event::ShutdownRequested => shard.handle_shutdown(),
            Event::Disk { task, result } => shard.handle_disk(task, result),
        }
    }

    /// Reads `slot` until it has no more, the session wants no more, or it had its share of the turn.
    fn read<H: Host>(&mut self, shard: &mut Shard, host: &mut H, slot: Slot) {
        for _ in 0..READS_PER_TURN {
            if !shard.wants_bytes(slot) {
                return;
            }
            match host.receive_bytes(slot, &mut self.buffer) {
                Received::Bytes(count) => {
                    shard.handle_bytes(slot, &self.buffer[..count]);
                    if count < self.buffer.len() {
                        return;
                    }
                }
                Received::Nothing => return,
                Received::Closed => return shard.handle_disconnected(slot),
            }
        }
        if !self.unread.contains(&slot) {
            self.unread.push_back(slot);
        }
    }
}

/// Hands in messages of other shards; whether there may be more.
fn take_messages<H: Host>(shard: &mut Shard, host: &mut H) -> bool {
    for _ in 0..MESSAGES_PER_TURN {
        let Some((from, message)) = host.receive_message() else {
            return false;
        };
        shard.handle_message(from, message);
    }
    true
}

/// Sends what is for other shards; whether a full queue kept something back.
fn send_messages<H: Host>(shard: &mut Shard, host: &mut H) -> bool {
    let mut blocked = false;
    for index in 0..shard.shards() {
        let to = ShardId(index);
        while let Some(message) = shard.poll_message(to) {
            if let Err(message) = host.send_message(to, message) {
                shard.take_back(to, message);
                blocked = true;
                break;
            }
        }
    }
    blocked
}

fn send_replies<H: Host>(shard: &mut Shard, host: &mut H) {
    while let Some(slot) = shard.poll_output() {
        send(shard, host, slot);
    }
    while let Some(slot) = shard.poll_close() {
        host.close(slot);
    }
}

fn send<H: Host>(shard: &mut Shard, host: &mut H, slot: Slot) {
    let output = shard.output(slot);
    if output.is_empty() {
        return;
    }
    match host.send_bytes(slot, output) {
        Sent::Bytes(count) => shard.handle_sent(slot, count),
        Sent::Closed => shard.handle_disconnected(slot),
    }
}
