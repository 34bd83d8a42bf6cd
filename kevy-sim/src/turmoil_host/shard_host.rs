//! What one shard of a simulated node sees of the world.

use super::Process;
use super::clock::simulated_time;
use super::connection::Connection;
use crate::marks::{Mark, Marks};
use crate::trace;
use kevy_node::host::{
    Clock, Disk, Event, Mesh, Patience, Received, Sent, Slot, Storage, Transport,
};
use kevy_node::log::{DiskAction, DiskOperation, DiskTask};
use kevy_node::message::Message;
use kevy_proto::ids::ShardId;
use kevy_proto::log::{Entries, Entry, FRAME_HEADER_BYTES};
use kevy_proto::rng::Rng;
use kevy_proto::time::Now;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Turns in a row that a shard may take because it has work left, before simulated time goes on.
const TURNS_PER_MILLISECOND: u32 = 16;

/// The longest single sleep: a deadline further away is looked at again then.
const SLEEP_MAX: Duration = Duration::from_mins(1);

/// The host of one shard.
pub struct ShardHost {
    process: Rc<Process>,
    shard: ShardId,
    rng: Rng,
    slots: Vec<Option<Rc<Connection>>>,
    free: Vec<Slot>,
    /// Closed in this turn, free in the next.
    leaving: Vec<Slot>,
    turns_in_a_row: u32,
}

impl ShardHost {
    pub(crate) fn new(process: Rc<Process>, shard: ShardId, rng: Rng) -> Self {
        Self {
            process,
            shard,
            rng,
            slots: Vec::new(),
            free: Vec::new(),
            leaving: Vec::new(),
            turns_in_a_row: 0,
        }
    }

    fn record(&self, event: trace::Event<'_>) {
        self.process.trace.record(simulated_time(), event);
    }

    /// Lets others run, and now and then stands still, as a shard whose core was taken away.
    async fn interleave(&mut self) {
        for _ in 0..self.rng.below(self.process.options.yields + 1) {
            yield_now().await;
        }
        let faults = self.process.options.faults;
        if self.rng.below(1000) < faults.pause_permille {
            let millis = 1 + self.rng.below(faults.pause_max.as_millis() as u64);
            let shard = self.shard.0;
            self.record(trace::Event::Paused { shard, millis });
            self.process.marks.meet(Mark::ShardPaused);
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// A shard that never waits must not stop time.
    async fn take_time(&mut self) {
        self.turns_in_a_row += 1;
        if self.turns_in_a_row < TURNS_PER_MILLISECOND {
            yield_now().await;
        } else {
            self.turns_in_a_row = 0;
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn collect(&mut self, events: &mut Vec<Event>) {
        let inbox = Rc::clone(&self.process.inboxes[self.shard.index()]);
        while let Some(arrival) = inbox.arrivals.borrow_mut().pop_front() {
            let slot = self.free_slot();
            let options = Rc::clone(&self.process.options);
            let connection = Connection::start(
                slot,
                arrival.stream,
                Rc::clone(&inbox),
                &options,
                &mut self.rng,
            );
            self.slots[slot.index()] = Some(connection);
            self.record(trace::Event::Connected {
                shard: self.shard.0,
                slot: slot.0,
            });
            let peer = arrival.peer;
            events.push(Event::Connected { slot, peer });
        }
        inbox.collect(events);
    }

    fn free_slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot(self.slots.len() as u32 - 1)
        })
    }

    fn message_is_ready(&self) -> bool {
        let next = self.process.queues.next_delivery(self.shard);
        next.is_some_and(|at| at <= simulated_time())
    }

    /// Sleeps until the bell rings, the next message is ready, or `patience` is over.
    async fn sleep(&self, patience: Patience) {
        let clock = &self.process.clock;
        let until_deadline = clock.true_time_until(patience.deadline, clock.now());
        let next = self.process.queues.next_delivery(self.shard);
        let until_message = next.map(|at| at.saturating_sub(simulated_time()));
        let longest = until_deadline
            .min(until_message.unwrap_or(SLEEP_MAX))
            .min(SLEEP_MAX);
        let bell = &self.process.inboxes[self.shard.index()].bell;
        // Whether it was the bell or the time is seen by looking.
        let _ = timeout(longest, bell.notified()).await;
    }

    fn connection(&self, slot: Slot) -> Option<&Rc<Connection>> {
        self.slots.get(slot.index())?.as_ref()
    }
}

impl Storage for ShardHost {
    fn start(&mut self, operation: DiskOperation) {
        let DiskOperation { task, file, action } = operation;
        let Some(mut disk) = self.process.disk.clone() else {
            return;
        };
        if task == DiskTask::Load {
            // A node that cannot read its files does not start, which is right and teaches nothing.
            disk = disk.reliable();
        }
        let shard = self.shard.0;
        self.record(trace::Event::Disk {
            shard,
            what: action_name(&action),
        });
        note_files(&self.process.marks, &file, &action);
        let process = Rc::clone(&self.process);
        tokio::task::spawn_local(async move {
            let result = disk.perform(&file, action).await;
            if result.is_err() {
                process.marks.meet(Mark::DiskFailed);
            }
            process.inboxes[usize::from(shard)].report(Event::Disk { task, result });
        });
    }
}

/// What the node does to its files tells what it has met.
fn note_files(marks: &Marks, file: &str, action: &DiskAction) {
    match action {
        DiskAction::Replace(_) if file.contains(".torn-") => marks.meet(Mark::TornTail),
        DiskAction::Replace(text) if text.windows(9).any(|word| word == b"snapshot ") => {
            marks.meet(Mark::SnapshotTaken);
        }
        DiskAction::Write { bytes, .. } if bytes.len() > FRAME_HEADER_BYTES => {
            let mut entries = Entries::of(&bytes[FRAME_HEADER_BYTES..]);
            if matches!(
                entries.next(),
                Some(Ok(Entry::Dropped { .. } | Entry::Skipped { .. }))
            ) {
                marks.meet(Mark::TransactionDropped);
            }
        }
        DiskAction::Write { .. }
        | DiskAction::Sync
        | DiskAction::Replace(_)
        | DiskAction::Cut { .. }
        | DiskAction::Remove
        | DiskAction::Rename { .. }
        | DiskAction::Read { .. } => {}
    }
}

fn action_name(action: &DiskAction) -> &'static str {
    match action {
        DiskAction::Write { .. } => "write",
        DiskAction::Sync => "sync",
        DiskAction::Replace(_) => "replace",
        DiskAction::Cut { .. } => "cut",
        DiskAction::Remove => "remove",
        DiskAction::Rename { .. } => "rename",
        DiskAction::Read { .. } => "read",
    }
}

impl Clock for ShardHost {
    fn now(&self) -> Now {
        self.process.clock.now()
    }
}

impl Transport for ShardHost {
    async fn wait(&mut self, patience: Patience, events: &mut Vec<Event>) -> io::Result<()> {
        self.free.append(&mut self.leaving);
        self.interleave().await;
        let is_over = |host: &Self| patience.none || host.now().monotonic >= patience.deadline;
        if is_over(self) {
            self.take_time().await;
        } else {
            self.turns_in_a_row = 0;
        }
        loop {
            self.collect(events);
            let over = is_over(self);
            if !events.is_empty() || over || self.message_is_ready() {
                break;
            }
            self.sleep(patience).await;
        }
        let shard = self.shard.0;
        self.record(trace::Event::Turn { shard });
        Ok(())
    }

    fn receive_bytes(&mut self, slot: Slot, buffer: &mut [u8]) -> Received {
        let mut rng = self.rng.clone();
        let Some(connection) = self.connection(slot) else {
            return Received::Closed;
        };
        let moved = connection.receive(buffer, &mut rng);
        self.rng = rng;
        if moved.was_cut {
            self.process.marks.meet(Mark::PartialRead);
        }
        let (shard, slot) = (self.shard.0, slot.0);
        let (outcome, count) = moved.outcome;
        match outcome {
            Received::Bytes(_) => self.record(trace::Event::Received {
                shard,
                slot,
                bytes: &buffer[..count],
            }),
            Received::Closed => {
                self.record(trace::Event::Ended { shard, slot });
                if self.process.queues.coordinates(self.shard) {
                    self.process.marks.meet(Mark::ClosedMidTransaction);
                }
            }
            Received::Nothing => {}
        }
        outcome
    }

    fn send_bytes(&mut self, slot: Slot, bytes: &[u8]) -> Sent {
        let mut rng = self.rng.clone();
        let Some(connection) = self.connection(slot) else {
            return Sent::Closed;
        };
        let moved = connection.send(bytes, &mut rng);
        self.rng = rng;
        if moved.was_cut {
            self.process.marks.meet(Mark::PartialWrite);
        }
        if let Sent::Bytes(count) = moved.outcome {
            self.record(trace::Event::Sent {
                shard: self.shard.0,
                slot: slot.0,
                bytes: &bytes[..count],
            });
        }
        moved.outcome
    }

    fn close(&mut self, slot: Slot) {
        let Some(connection) = self.slots.get_mut(slot.index()).and_then(Option::take) else {
            return;
        };
        connection.close();
        self.leaving.push(slot);
        let connected = self.process.connected.get();
        self.process.connected.set(connected.saturating_sub(1));
        self.record(trace::Event::Closed {
            shard: self.shard.0,
            slot: slot.0,
        });
    }

    fn stop_accepting(&mut self) {
        self.process.stop_accepting();
    }
}

impl Mesh for ShardHost {
    fn send_message(&mut self, to: ShardId, message: Message) -> Result<(), Message> {
        let Process {
            queues,
            trace,
            marks,
            ..
        } = &*self.process;
        queues.send(self.shard, to, message, trace, marks)?;
        self.process.inboxes[to.index()].bell.notify_one();
        Ok(())
    }

    fn receive_message(&mut self) -> Option<(ShardId, Message)> {
        let Process { queues, trace, .. } = &*self.process;
        queues.receive(self.shard, trace)
    }
}
