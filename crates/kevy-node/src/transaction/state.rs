//! What a coordinator keeps about a transaction.

use super::exec::Exec;
use super::participate::{access, claim_keys};
use crate::host::Slot;
use crate::message::{Access, Claim, Lent, Obstacle, Partial, Restored};
use crate::query::{Answer, Finish};
use crate::tracking::Asker;
use bytes::BytesMut;
use kevy_engine::{Command, Wait};
use kevy_proto::command::{Flags, Keys};
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Args, RequestBuffer, RespVersion};

/// A transaction of one of our sessions.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) caller: Caller,
    pub(super) work: Work,
    pub(super) phase: Phase,
    /// Set if its command may have to wait.
    pub(super) attempt: Option<Attempt>,
    /// An entry that came by an offer.
    pub(super) offered: Option<(Party, Lent)>,
    /// Why it will not be carried out.
    pub(super) denial: Option<Denial>,
    /// In the order of the shards' numbers.
    pub(super) members: Vec<Member>,
}

/// Why a transaction is not carried out; an obstacle is told rather than a watch that was hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// A key that its connection watches was changed.
    WatchHit,
    /// A shard could not carry it out.
    Obstacle(Obstacle),
}

/// Whom the reply is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) slot: Slot,
    pub(crate) connection: ConnectionId,
    /// Its number among the session's replies.
    pub(crate) reply_number: u64,
    pub(crate) version: RespVersion,
    /// As parts of the transaction are told; tracks if any of it reads for a client that tracks.
    pub(crate) asker: Asker,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// Parts run on their shards.
    Parts(&'static Command, RequestBuffer),
    /// All entries come here.
    Together(&'static Command, RequestBuffer),
    /// Queued commands run step by step.
    Exec(Box<Exec>),
    /// The shards answer a question; no locks are taken.
    Asking(Finish),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Locks were asked for on all shards at once; so many have not answered.
    Trying { unanswered: usize },
    /// A shard refused: locks are taken one after the other, this member's next.
    InOrder { next: usize },
    /// Parts are running; so many have not answered.
    Running { unanswered: usize },
    /// It is not carried out.
    Denied,
}

/// Entries that have met here for a command.
#[derive(Debug)]
pub(crate) struct Meeting<'a> {
    pub(crate) asker: Asker,
    /// Their keys.
    pub(crate) keys: Args<'a>,
    /// Who lent them.
    pub(crate) parties: Vec<Party>,
    /// As they lent them.
    pub(crate) lent: Vec<Lent>,
    /// Whether the transaction goes on.
    pub(crate) keep_locks: bool,
    /// The offer that brought it about.
    pub(crate) offer: Option<TransactionId>,
}

/// Who lent entries for a command.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) shard: ShardId,
    /// What it knows the loan by: the transaction, or an offer of its own.
    pub(crate) transaction: TransactionId,
    /// The positions of their keys among the arguments.
    pub(crate) positions: Vec<usize>,
}

/// What came of a meeting.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) reply: BytesMut,
    /// The command found nothing and may wait.
    pub(crate) wait: Option<Box<Wait>>,
    /// The entries, on their way back.
    pub(crate) restored: Vec<(ShardId, Restored)>,
    /// For each of these owners whether somebody waits for keys there.
    pub(crate) waited_for: Vec<bool>,
    /// What the command's changes are logged as, or what has to be durable that it has read.
    pub(crate) settles: Option<TransactionId>,
    /// The shards whose entries it changed, if that is logged.
    pub(crate) writers: Vec<ShardId>,
}

impl Met {
    /// Lets owners whose waiters may have been woken tell when those are served; how many owners that is.
    pub(super) fn ask_to_be_told(&mut self) -> usize {
        let mut owners = 0;
        for ((_, restored), waited_for) in self.restored.iter_mut().zip(&self.waited_for) {
            restored.tell_served = *waited_for && !restored.changed.args().is_empty();
            owners += usize::from(restored.tell_served);
        }
        owners
    }
}

/// What a shard answers to a step of an `EXEC`.
#[derive(Debug)]
pub(super) enum StepAnswer {
    Ran(Partial),
    Lent(Lent),
    Told(Answer),
}

impl StepAnswer {
    pub(super) fn ran(self) -> Option<Partial> {
        match self {
            Self::Ran(partial) => Some(partial),
            Self::Lent(_) | Self::Told(_) => None,
        }
    }

    pub(super) fn lent(self) -> Option<Lent> {
        match self {
            Self::Lent(lent) => Some(lent),
            Self::Ran(_) | Self::Told(_) => None,
        }
    }

    pub(super) fn told(self) -> Option<Answer> {
        match self {
            Self::Told(answer) => Some(answer),
            Self::Ran(_) | Self::Lent(_) => None,
        }
    }
}

/// The run of a command that may have to wait.
#[derive(Debug)]
pub(super) enum Attempt {
    /// If it finds nothing, its session is blocked.
    First,
    /// Its session is blocked, and stays so if it finds nothing.
    Again,
}

/// A shard that takes part.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) shard: ShardId,
    /// Positions of its keys among the arguments (empty: it takes part with its whole key space).
    pub(super) positions: Vec<usize>,
    pub(super) locked: bool,
    /// Entries that came with the lock, in the order of `positions`.
    pub(super) lent: Lent,
    pub(super) partial: Option<Partial>,
    pub(super) answer: Option<Answer>,
}

impl Member {
    pub(super) fn new(shard: ShardId, positions: Vec<usize>) -> Self {
        Self {
            shard,
            positions,
            locked: false,
            lent: Lent::default(),
            partial: None,
            answer: None,
        }
    }
}

impl Transaction {
    pub(super) fn member_mut(&mut self, shard: ShardId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.shard == shard)
    }

    pub(super) fn claim(&self, member: &Member) -> Claim {
        match &self.work {
            Work::Parts(command, _) if member.positions.is_empty() => Claim::Whole(access(command)),
            Work::Parts(command, request) => member.claim(request.args(), access(command)),
            // Its entries leave their shard for a while: nobody may look.
            Work::Together(_, request) => member.claim(request.args(), Access::Exclusive),
            Work::Exec(exec) => exec.claim(member.shard).0,
            Work::Asking(_) => Claim::Keys(Vec::new()),
        }
    }

    /// Whose watches the member is to look at.
    pub(super) fn watcher(&self, member: &Member) -> Option<ConnectionId> {
        match &self.work {
            Work::Exec(exec) => {
                let (_, watched) = exec.claim(member.shard);
                watched.then_some(self.caller.connection)
            }
            Work::Parts(..) | Work::Together(..) | Work::Asking(_) => None,
        }
    }

    /// Whether it may read for a client that tracks.
    pub(super) fn reads(work: &Work) -> bool {
        match work {
            Work::Parts(command, _) | Work::Together(command, _) => {
                command.flags.contains(Flags::READONLY)
            }
            Work::Exec(_) => true,
            Work::Asking(_) => false,
        }
    }

    /// Whether it may need more memory.
    pub(super) fn grows(&self) -> bool {
        match &self.work {
            Work::Parts(command, _) | Work::Together(command, _) => {
                command.flags.contains(Flags::DENYOOM)
            }
            Work::Exec(exec) => exec.grows,
            Work::Asking(_) => false,
        }
    }

    /// Whether it is more than a question.
    pub(crate) fn may_change(&self) -> bool {
        !matches!(self.work, Work::Asking(_))
    }

    /// Whether it may change something.
    pub(super) fn writes(&self) -> bool {
        match &self.work {
            Work::Parts(command, _) | Work::Together(command, _) => command.is_write(),
            Work::Exec(exec) => exec.writes,
            Work::Asking(_) => false,
        }
    }

    pub(super) fn taken(&self, member: &Member) -> RequestBuffer {
        match &self.work {
            Work::Together(_, request) => RequestBuffer::from_slices(
                member
                    .positions
                    .iter()
                    .map(|position| request.args().at(*position)),
            ),
            Work::Parts(..) | Work::Exec(_) | Work::Asking(_) => RequestBuffer::new(),
        }
    }
}

impl Member {
    pub(super) fn claim(&self, args: Args<'_>, access: Access) -> Claim {
        claim_keys(
            self.positions.iter().map(|position| args.at(*position)),
            access,
        )
    }
}

/// The arguments of one member's part: all of them without keys, else the name and, for each of its keys, the key and what
/// belongs to it (`MSET`'s value).
pub(super) fn part_of(keys: Keys, args: Args<'_>, positions: &[usize]) -> RequestBuffer {
    let Keys::Range { step, .. } = keys else {
        return RequestBuffer::from_args(args);
    };
    if positions.is_empty() {
        return RequestBuffer::from_args(args);
    }
    let mut part = RequestBuffer::from_slices([args.at(0)]);
    for &position in positions {
        (position..position + step.max(1) as usize).for_each(|at| part.push(args.at(at)));
    }
    part
}
