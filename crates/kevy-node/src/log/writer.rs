//! Collects entries into frames, has them written and synced, and knows how far the log is durable.
//!
//! At most one write and one sync are under way. Entries that come meanwhile meet in the next frame; so under load one
//! sync covers many turns (group commit), without a timer. What is not synced yet is kept: after a failed sync nobody knows
//! which of the written bytes are on the disk, so they are written again.

use bytes::{Bytes, BytesMut};
use kevy_proto::log::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, encode_frame};
use kevy_proto::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// How long after a failed operation it is tried again.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long entries are collected after a write before the next is begun, unless replies wait for them.
pub const WRITE_DELAY: Duration = Duration::from_millis(10);
/// How many bytes of entries are written without delay.
pub const WRITE_BYTES: usize = 64 * 1024;
/// How often `everysec` syncs.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Which part of the time the last sync took `always` waits before the next, for those who were just answered to ask
/// again. Else clients fall into two groups, each of which waits for the other's sync and then for its own.
const REGROUP_PART: u32 = 8;
/// How long it waits for them at most.
const REGROUP_DELAY: Duration = Duration::from_micros(500);

/// When what was written is made durable (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// At once: replies wait for it.
    Always,
    /// Every second.
    EverySecond,
    /// When the operating system likes to.
    Never,
}

/// Something to be done with the file of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write these bytes at this offset of the file; [`LogWriter::handle_written`] is told the end.
    Write {
        /// Which segment.
        segment: u64,
        /// Where in its file.
        offset: u64,
        /// What.
        bytes: Bytes,
    },
    /// Make everything written to the file durable; [`LogWriter::handle_synced`] is told the end.
    Sync {
        /// Which segment.
        segment: u64,
    },
}

/// The end of one shard's log, being written.
#[derive(Debug)]
pub struct LogWriter {
    policy: SyncPolicy,
    segment: u64,
    /// Where in the log the segment begins.
    segment_start: u64,
    /// Entries of the next frame.
    entries: BytesMut,
    /// When they were made, as shards count time together.
    epoch: u64,
    /// When the first of them came.
    collecting_since: Option<Instant>,
    /// Where the next segment is to begin; nothing is written from there on until it has.
    roll_at: Option<u64>,
    /// Whole frames that may have to be written (again), from `synced` on, or from `written` on if nothing is synced.
    frames: VecDeque<Bytes>,
    /// Where in the log the first of `frames` begins.
    frames_start: u64,
    /// Up to where the log was written. Invariant: `synced <= written <= sealed`.
    written: u64,
    /// Up to where it is durable.
    synced: u64,
    /// Up to where there are whole frames.
    sealed: u64,
    /// Where the write under way begins and ends.
    writing: Option<(u64, u64)>,
    /// Up to where the sync under way will make the log durable.
    syncing: Option<u64>,
    last_sync: Instant,
    /// Before that `always` begins no sync.
    sync_after: Instant,
    /// When a write was begun last.
    last_write: Option<Instant>,
    /// Something is to be made durable whatever the policy says.
    sync_up_to: u64,
    /// An operation failed; nothing is tried before.
    retry_at: Option<Instant>,
}

impl LogWriter {
    /// Goes on at `position` of the log, at which the segment `segment` has just begun.
    pub fn new(policy: SyncPolicy, segment: u64, position: u64, now: Instant) -> Self {
        Self {
            policy,
            segment,
            segment_start: position,
            entries: BytesMut::new(),
            epoch: 0,
            collecting_since: None,
            roll_at: None,
            frames: VecDeque::new(),
            frames_start: position,
            written: position,
            synced: position,
            sealed: position,
            writing: None,
            syncing: None,
            last_sync: now,
            sync_after: now,
            last_write: None,
            sync_up_to: position,
            retry_at: None,
        }
    }

    /// Where the log ends, all that was appended included. What was appended last is durable once
    /// [`LogWriter::synced`] has come here.
    pub fn end(&self) -> u64 {
        if self.entries.is_empty() {
            self.sealed
        } else {
            self.sealed + (FRAME_HEADER_BYTES + self.entries.len()) as u64
        }
    }

    /// Up to where the log is durable.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether the last operation failed: writes are better refused than collected.
    pub fn is_failing(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Bytes that are held because they are not written, or not known to be durable.
    pub fn held_bytes(&self) -> u64 {
        self.end() - self.frames_start
    }

    /// The entries that are not known to be durable, encoded, frame by frame.
    pub fn undurable(&self) -> impl Iterator<Item = &[u8]> {
        let frames = self.frames.iter().map(|frame| &frame[FRAME_HEADER_BYTES..]);
        frames.chain(std::iter::once(&self.entries[..]))
    }

    /// Appends an entry of `epoch`: `push` encodes it. All entries of a frame are of one epoch.
    pub fn append(&mut self, now: Instant, epoch: u64, push: impl FnOnce(&mut BytesMut)) {
        if epoch != self.epoch {
            self.seal();
            self.epoch = epoch;
        }
        push(&mut self.entries);
        self.collecting_since.get_or_insert(now);
    }

    /// Where in the log the segment begins that is being written.
    pub fn segment_start(&self) -> u64 {
        self.segment_start
    }

    /// Lets the next segment begin behind all that was appended; where that is.
    pub fn roll(&mut self) -> u64 {
        self.seal();
        self.roll_at = Some(self.sealed);
        self.request_sync();
        self.sealed
    }

    /// Whether the segment is durable to its end, so that the next can begin.
    pub fn has_drained(&self) -> bool {
        self.roll_at == Some(self.synced) && self.writing.is_none() && self.syncing.is_none()
    }

    /// The next segment has begun, where [`LogWriter::roll`] said.
    pub fn begin_segment(&mut self, segment: u64) {
        if let Some(position) = self.roll_at.take() {
            self.segment = segment;
            self.segment_start = position;
        }
    }

    /// Whether entries are to be written at once.
    fn is_urgent(&self) -> bool {
        self.policy == SyncPolicy::Always
            || self.sync_up_to > self.sealed
            || self.entries.len() >= WRITE_BYTES
    }

    fn write_due(&self) -> Option<Instant> {
        let since = self.collecting_since?;
        Some(match self.last_write {
            Some(last) if !self.is_urgent() => since.max(last + WRITE_DELAY),
            Some(_) | None => since,
        })
    }

    /// Changes the policy from now on.
    pub fn set_policy(&mut self, policy: SyncPolicy) {
        self.policy = policy;
    }

    /// Wants all that was appended to be durable soon, whatever the policy says.
    pub fn request_sync(&mut self) {
        self.sync_up_to = self.end();
    }

    /// The next thing to be done, if there is one now.
    pub fn poll_operation(&mut self, now: Instant) -> Option<Operation> {
        if self.retry_at.is_some_and(|retry_at| now < retry_at) {
            return None;
        }
        self.poll_write(now).or_else(|| self.poll_sync(now))
    }

    fn poll_write(&mut self, now: Instant) -> Option<Operation> {
        if self.writing.is_some() || self.roll_at == Some(self.written) {
            return None;
        }
        if self.roll_at.is_none() && self.write_due().is_some_and(|due| due <= now) {
            self.seal();
        }
        let bytes = self.frame_at(self.written)?;
        self.last_write = Some(now);
        self.writing = Some((self.written, self.written + bytes.len() as u64));
        Some(Operation::Write {
            segment: self.segment,
            offset: SEGMENT_HEADER_BYTES as u64 + (self.written - self.segment_start),
            bytes,
        })
    }

    /// Makes a frame of the entries that were collected.
    fn seal(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        self.collecting_since = None;
        let entries = self.entries.split();
        let header = encode_frame(self.sealed, self.synced, self.epoch, &entries);
        let mut frame = BytesMut::with_capacity(header.len() + entries.len());
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&entries);
        self.sealed += frame.len() as u64;
        self.frames.push_back(frame.freeze());
    }

    fn frame_at(&self, position: u64) -> Option<Bytes> {
        let mut start = self.frames_start;
        for frame in &self.frames {
            if start == position {
                return Some(frame.clone());
            }
            start += frame.len() as u64;
        }
        None
    }

    fn poll_sync(&mut self, now: Instant) -> Option<Operation> {
        if self.syncing.is_some() || self.written == self.synced || !self.sync_is_due(now) {
            return None;
        }
        self.syncing = Some(self.written);
        self.last_sync = now;
        Some(Operation::Sync {
            segment: self.segment,
        })
    }

    fn sync_is_due(&self, now: Instant) -> bool {
        self.synced < self.sync_up_to
            || match self.policy {
                SyncPolicy::Always => now >= self.sync_after,
                SyncPolicy::EverySecond => now >= self.last_sync + SYNC_INTERVAL,
                SyncPolicy::Never => false,
            }
    }

    /// The write under way has ended, well or not.
    pub fn handle_written(&mut self, well: bool, now: Instant) {
        let Some((start, end)) = self.writing.take() else {
            return;
        };
        if !well {
            return self.fail(now);
        }
        // After a failed sync writing starts anew further in front: then this has to be written once more.
        if start == self.written {
            self.written = end;
            self.retry_at = None;
        }
        if self.policy == SyncPolicy::Never && self.synced >= self.sync_up_to {
            self.forget_frames_before(self.written);
        }
    }

    /// The sync under way has ended, well or not.
    pub fn handle_synced(&mut self, well: bool, now: Instant) {
        let Some(end) = self.syncing.take() else {
            return;
        };
        if !well {
            // The kernel may have dropped the pages it could not write: what was written since is written again.
            self.written = self.synced.max(self.frames_start);
            return self.fail(now);
        }
        self.synced = end;
        self.retry_at = None;
        self.forget_frames_before(end);
        // A client alone never waits: nothing came after what it was answered.
        let took = now.saturating_since(self.last_sync);
        let others_wait = self.sealed > end;
        let delay = (took / REGROUP_PART).min(REGROUP_DELAY);
        self.sync_after = now + if others_wait { delay } else { Duration::ZERO };
    }

    fn fail(&mut self, now: Instant) {
        self.retry_at = Some(now + RETRY_AFTER);
    }

    fn forget_frames_before(&mut self, position: u64) {
        while self.frames_start < position
            && let Some(frame) = self.frames.pop_front()
        {
            self.frames_start += frame.len() as u64;
        }
    }

    /// When [`LogWriter::poll_operation`] is to be called at the latest, if anything is left to be done.
    pub fn deadline(&self) -> Option<Instant> {
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at);
        }
        let waits = self.written > self.synced && self.syncing.is_none();
        let sync = match self.policy {
            SyncPolicy::EverySecond if waits => Some(self.last_sync + SYNC_INTERVAL),
            SyncPolicy::Always if waits => Some(self.sync_after),
            SyncPolicy::EverySecond | SyncPolicy::Always | SyncPolicy::Never => None,
        };
        let may_write = self.writing.is_none() && self.roll_at.is_none();
        let write = self.write_due().filter(|_| may_write);
        [sync, write].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::log::{Entries, Entry, FrameFault, decode_frame, push_effects};
    use kevy_proto::resp::RequestBuffer;
    use kevy_proto::rng::Rng;

    const BEGIN: u64 = 1000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn writer(policy: SyncPolicy) -> LogWriter {
        LogWriter::new(policy, 7, BEGIN, at(0))
    }

    /// Appends one entry that carries `number`; the position behind it.
    fn append(log: &mut LogWriter, number: u64) -> u64 {
        let request = RequestBuffer::from_slices([&b"SET"[..], &number.to_le_bytes()]);
        log.append(at(0), 1, |out| {
            push_effects(out, [request.args()].into_iter());
        });
        log.end()
    }

    /// The numbers that can be read back from the file's bytes behind the segment's header.
    fn read_back(file: &[u8]) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut at = 0;
        loop {
            match decode_frame(&file[at..], BEGIN + at as u64) {
                Ok(frame) => {
                    for entry in Entries::of(frame.entries) {
                        let Ok(Entry::Effects(requests)) = entry else {
                            panic!("{entry:?}");
                        };
                        requests.for_each(|args| {
                            let number = args.at(1).try_into().expect("eight bytes");
                            numbers.push(u64::from_le_bytes(number));
                        });
                    }
                    at += frame.len_bytes();
                }
                Err(FrameFault::Short | FrameFault::Misplaced | FrameFault::Checksum) => {
                    return numbers;
                }
            }
        }
    }

    #[test]
    fn always_syncs_at_once_and_collects_meanwhile() {
        let mut log = writer(SyncPolicy::Always);
        let first = append(&mut log, 1);
        let Some(Operation::Write {
            segment: 7,
            offset: 64,
            bytes,
        }) = log.poll_operation(at(0))
        else {
            panic!("nothing is written");
        };
        assert_eq!(bytes.len() as u64, first - BEGIN);
        assert_eq!(
            log.poll_operation(at(0)),
            None,
            "one write at a time, and nothing to sync"
        );
        log.handle_written(true, at(1));
        assert_eq!(
            log.poll_operation(at(1)),
            Some(Operation::Sync { segment: 7 })
        );
        append(&mut log, 2);
        let third = append(&mut log, 3);
        let written = log.poll_operation(at(1));
        assert!(
            matches!(written, Some(Operation::Write { .. })),
            "beside the sync"
        );
        log.handle_synced(true, at(2));
        assert_eq!(log.synced(), first);
        log.handle_written(true, at(2));
        assert_eq!(log.poll_operation(at(2)), None, "who was answered may join");
        let due = at(2) + Duration::from_millis(1) / REGROUP_PART;
        assert_eq!(log.deadline(), Some(due));
        assert_eq!(
            log.poll_operation(due),
            Some(Operation::Sync { segment: 7 })
        );
        log.handle_synced(true, at(3));
        assert_eq!(
            (log.synced(), log.held_bytes()),
            (third, 0),
            "both by one sync"
        );
        assert_eq!(log.deadline(), None);
        assert_eq!(log.poll_operation(at(3)), None);
    }

    #[test]
    fn everysec_syncs_once_a_second_and_on_request() {
        let mut log = writer(SyncPolicy::EverySecond);
        append(&mut log, 1);
        assert!(matches!(
            log.poll_operation(at(10)),
            Some(Operation::Write { .. })
        ));
        log.handle_written(true, at(11));
        assert_eq!(log.poll_operation(at(999)), None);
        assert_eq!(log.deadline(), Some(at(1000)));
        assert!(log.poll_operation(at(1000)).is_some());
        log.handle_synced(true, at(1001));
        assert_eq!(log.deadline(), None, "nothing is left to be done");
        append(&mut log, 2);
        log.request_sync();
        assert!(log.poll_operation(at(1002)).is_some());
        log.handle_written(true, at(1003));
        assert_eq!(
            log.poll_operation(at(1003)),
            Some(Operation::Sync { segment: 7 })
        );
    }

    #[test]
    fn never_keeps_nothing_that_is_written() {
        let mut log = writer(SyncPolicy::Never);
        append(&mut log, 1);
        assert!(log.poll_operation(at(0)).is_some(), "the first at once");
        log.handle_written(true, at(0));
        append(&mut log, 2);
        assert_eq!(log.poll_operation(at(9)), None, "more may come");
        assert_eq!(log.deadline(), Some(at(10)));
        assert!(log.poll_operation(at(10)).is_some());
        log.handle_written(true, at(10));
        assert_eq!(log.held_bytes(), 0);
        assert_eq!(log.poll_operation(at(100_000)), None);
    }

    #[test]
    fn what_failed_is_tried_again_after_a_while() {
        let mut log = writer(SyncPolicy::Always);
        append(&mut log, 1);
        let write = log.poll_operation(at(0)).expect("a write");
        log.handle_written(false, at(5));
        assert!(log.is_failing());
        assert_eq!(
            (log.poll_operation(at(6)), log.deadline()),
            (None, Some(at(1005)))
        );
        assert_eq!(log.poll_operation(at(1005)), Some(write.clone()));
        log.handle_written(true, at(1006));
        assert!(!log.is_failing());
        assert!(log.poll_operation(at(1006)).is_some());
        log.handle_synced(false, at(1007));
        assert!(log.is_failing());
        assert_eq!(
            log.poll_operation(at(3000)),
            Some(write),
            "written again, not only synced again"
        );
    }

    #[test]
    fn a_segment_begins_once_the_one_before_is_durable() {
        let mut log = writer(SyncPolicy::EverySecond);
        append(&mut log, 1);
        let end = log.roll();
        append(&mut log, 2);
        assert!(log.poll_operation(at(0)).is_some(), "at once");
        log.handle_written(true, at(0));
        assert!(!log.has_drained());
        assert_eq!(
            log.poll_operation(at(0)),
            Some(Operation::Sync { segment: 7 })
        );
        log.handle_synced(true, at(1));
        assert!(log.has_drained());
        assert_eq!(
            log.poll_operation(at(100)),
            None,
            "it goes into the next segment"
        );
        log.begin_segment(8);
        assert_eq!(log.segment_start(), end);
        let Some(Operation::Write {
            segment: 8,
            offset: 64,
            ..
        }) = log.poll_operation(at(100))
        else {
            panic!("nothing is written");
        };
    }

    /// Random turns, failures and power cuts: what was said to be durable is read back, in order, and nothing else comes
    /// in between.
    #[test]
    fn what_is_durable_survives_any_crash() {
        for seed in 0..300 {
            let mut rng = Rng::from_seed(seed);
            let policy = [
                SyncPolicy::Always,
                SyncPolicy::EverySecond,
                SyncPolicy::Never,
            ][rng.below(3) as usize];
            let mut log = writer(policy);
            let (mut cache, mut disk) = (Vec::new(), Vec::new());
            let (mut writes, mut syncs) = (VecDeque::new(), VecDeque::new());
            let mut ends = Vec::new();
            for step in 0..200 {
                let now = at(step * 37);
                if rng.below(2) == 0 {
                    ends.push(append(&mut log, ends.len() as u64));
                }
                while let Some(operation) = log.poll_operation(now) {
                    match operation {
                        Operation::Write { offset, bytes, .. } => {
                            writes.push_back((offset as usize - 64, bytes));
                        }
                        Operation::Sync { .. } => syncs.push_back(cache.clone()),
                    }
                }
                if rng.below(3) == 0
                    && let Some((offset, bytes)) = writes.pop_front()
                {
                    let well = rng.below(10) > 0;
                    let count = if well {
                        bytes.len()
                    } else {
                        rng.below(bytes.len() as u64) as usize
                    };
                    cache.resize(cache.len().max(offset + count), 0);
                    cache[offset..offset + count].copy_from_slice(&bytes[..count]);
                    log.handle_written(well, now);
                }
                if rng.below(3) == 0
                    && let Some(content) = syncs.pop_front()
                {
                    let well = rng.below(10) > 0;
                    if well {
                        disk = content;
                    }
                    log.handle_synced(well, now);
                }
                let durable = ends.iter().filter(|end| **end <= log.synced()).count();
                let read = read_back(&disk);
                assert!(
                    read.len() >= durable,
                    "seed {seed}: {} of {durable}",
                    read.len()
                );
                let counted: Vec<u64> = (0..read.len() as u64).collect();
                assert_eq!(read, counted, "seed {seed}");
            }
        }
    }
}
