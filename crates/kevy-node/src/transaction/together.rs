//! Commands that run where all their entries have met, and those among them that may have to wait.

use super::state::{Attempt, Caller, Meeting, Member, Met, Party, Phase, Transaction, Work};
use crate::durability::Commit;
use crate::message::{Lent, Message, Restored};
use crate::route::{Route, route};
use crate::session::State;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::{Command, Context, may_block};
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, RequestBuffer, RespVersion};

/// Whether work that a session begins may have to wait.
pub(super) fn attempt_of(work: &Work) -> Option<Attempt> {
    match work {
        Work::Together(command, request) if may_block(command, request.args()) => {
            Some(Attempt::First)
        }
        Work::Together(..) | Work::Parts(..) | Work::Exec(_) | Work::Asking(_) => None,
    }
}

impl Shard {
    /// All entries are here: runs the command, replies and sends them back, or lets the session wait.
    pub(super) fn carry_out_together(&mut self, id: TransactionId, mut transaction: Transaction) {
        let caller = transaction.caller;
        if transaction.attempt.is_some() && !self.still_waits(caller) {
            // Nobody would get what is popped.
            self.let_go(id, &mut transaction);
            return self.conclude(caller, BytesMut::new(), None);
        }
        let Work::Together(command, request) = transaction.work else {
            return;
        };
        let offer = transaction.offered.as_ref();
        let offer = offer.map(|(party, _)| party.transaction);
        let members = transaction.members.into_iter().map(|member| {
            let party = Party {
                shard: member.shard,
                transaction: id,
                positions: member.positions,
            };
            (party, member.lent)
        });
        let (parties, lent) = members.chain(transaction.offered).unzip();
        let meeting = Meeting {
            asker: caller.asker,
            keys: request.args(),
            parties,
            lent,
            keep_locks: false,
            offer,
        };
        let began = self.clock();
        let mut met = self.run_together(meeting, command, request.args(), caller.version);
        match (met.wait.take(), transaction.attempt) {
            (Some(wait), Some(Attempt::First)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.block_caller(caller, command, request.args(), &wait, &mut met.restored);
                self.send_back(met.restored);
            }
            (Some(_), Some(Attempt::Again)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.send_back(met.restored);
                self.wait_on(caller);
            }
            (None, Some(Attempt::Again)) => {
                self.log_served(caller.slot, request.args(), began);
                // Owners hear that the session waits no longer before they may serve the next.
                self.unblock(caller.slot, met.reply, met.settles);
                self.unanswered = self.unanswered.saturating_sub(1);
                self.send_back(met.restored);
            }
            (None, Some(Attempt::First)) | (_, None) => {
                let owners = met.ask_to_be_told();
                self.send_back(met.restored);
                self.conclude_served(id, caller, met.reply, met.settles, owners);
            }
        }
    }

    fn still_waits(&self, caller: Caller) -> bool {
        self.session(caller.slot).is_some_and(|session| {
            session.id == caller.connection && session.state == State::Blocked
        })
    }

    /// Runs a command on the entries of all owners.
    pub(crate) fn run_together(
        &mut self,
        meeting: Meeting<'_>,
        command: &'static Command,
        args: Args<'_>,
        version: RespVersion,
    ) -> Met {
        debug_assert!(
            self.meeting.is_empty(),
            "the meeting place is left as it was found"
        );
        let wants_changes = meeting.lent.iter().any(|lent| lent.wants_changes);
        let waited_for: Vec<bool> = meeting.lent.iter().map(|lent| lent.has_waiters).collect();
        let wants_effects = meeting.lent.iter().any(|lent| lent.wants_effects);
        let entries = meeting.lent.into_iter().flat_map(|lent| lent.entries);
        entries.flatten().for_each(|entry| self.meeting.put(entry));
        // Only the owners know who waits for what: they are told which keys were changed.
        self.effects.want(wants_changes || wants_effects);
        let mut reply = BytesMut::new();
        let expired_before = self.meeting.stats().expired;
        let mut context = Context {
            keyspace: &mut self.meeting,
            reply: Encoder::new(&mut reply, version),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        let result = context.run(command, args);
        let wait = context.wait.take();
        if let Err(error) = result {
            self.count_failed(command.name, &error);
        }
        let shards: Vec<ShardId> = meeting.parties.iter().map(|party| party.shard).collect();
        let effects = self.effects_by_owner(&shards, wants_effects);
        let changed = self.changed_keys(&shards);
        let events = self.events_of_meeting(&shards);
        let mut asker = meeting.asker;
        if self.meeting.stats().expired != expired_before {
            // Not the connection's doing, so that it must hear of it whatever it wants.
            asker.connection = None;
        }
        self.renew_wish_for_changes();
        let written = shards.iter().zip(&effects);
        let written = written.filter(|(_, effects)| !effects.is_empty());
        let writers: Vec<ShardId> = written.map(|(shard, _)| *shard).collect();
        let id = self.new_transaction_id();
        let commit = if meeting.keep_locks {
            None
        } else {
            self.commit_meeting(id, &shards, &writers)
        };
        let mut restored = Vec::new();
        let news = changed.into_iter().zip(events).zip(effects);
        for (party, ((changed, events), effects)) in meeting.parties.into_iter().zip(news) {
            let keys = party.positions.iter();
            let keys = keys.map(|position| meeting.keys.at(*position));
            let entries = keys.filter_map(|key| self.meeting.take(key)).collect();
            let back = Restored {
                changed,
                commit: commit.clone().filter(|_| !effects.is_empty()),
                effects,
                events,
                asker,
                keep_locks: meeting.keep_locks,
                offer: meeting.offer,
                ..Restored::unchanged(party.transaction, entries)
            };
            restored.push((party.shard, back));
        }
        Met {
            reply,
            wait,
            restored,
            waited_for,
            settles: Some(id),
            writers,
        }
    }

    /// The end of a command that ran on entries of `shards` and changed those of `writers`.
    fn commit_meeting(
        &mut self,
        id: TransactionId,
        shards: &[ShardId],
        writers: &[ShardId],
    ) -> Option<Commit> {
        let commit = self.commit_of(id, writers.to_vec());
        let readers = shards.iter().filter(|shard| !writers.contains(shard));
        self.settle_readers(id, readers.copied());
        commit
    }

    /// Sends entries back to their owners.
    pub(crate) fn send_back(&mut self, restored: Vec<(ShardId, Restored)>) {
        for (shard, restored) in restored {
            self.send(shard, Message::Restore(Box::new(restored)));
        }
    }

    /// Begins the command of a blocked session with an entry that was offered to it, and tries to lock the keys at the
    /// positions `others`.
    pub(crate) fn begin_with_offer(
        &mut self,
        caller: Caller,
        command: &'static Command,
        request: RequestBuffer,
        offered: (Party, Lent),
        others: &[usize],
    ) {
        let mut members: Vec<Member> = Vec::new();
        for &position in others {
            let owner = self.map.owner_of_key(request.args().at(position));
            match members.iter_mut().find(|member| member.shard == owner) {
                Some(member) => member.positions.push(position),
                None => members.push(Member::new(owner, vec![position])),
            }
        }
        let id = self.new_transaction_id();
        self.stats.transactions += 1;
        self.unanswered += 1;
        let transaction = Transaction {
            caller,
            work: Work::Together(command, request),
            phase: Phase::Trying {
                unanswered: members.len(),
            },
            attempt: Some(Attempt::Again),
            offered: Some(offered),
            denial: None,
            members,
        };
        self.transactions.insert(id.sequence, transaction);
        self.try_locks(id);
    }

    /// Gives an entry that was offered back, unchanged.
    pub(super) fn give_back_offered(&mut self, transaction: &mut Transaction) {
        if let Some((party, lent)) = transaction.offered.take() {
            let entries = lent.entries.into_iter().flatten().collect();
            let unchanged = Restored::unchanged(party.transaction, entries);
            self.send(party.shard, Message::Restore(Box::new(unchanged)));
        }
    }

    /// If an entry was offered, which has gone back: it is to be locked like the others from now on.
    pub(super) fn ask_for_offered_again(&mut self, transaction: &mut Transaction) {
        let Work::Together(command, request) = &transaction.work else {
            return;
        };
        if !matches!(transaction.attempt, Some(Attempt::Again)) {
            return;
        }
        let args = request.args();
        let door = crate::host::Door::Main;
        let owners = match route(command, args, self.map, self.id, door) {
            Route::Owners(owners) => owners,
            Route::One(shard) => {
                let mut positions = Vec::new();
                command.keys.positions(args, &mut positions);
                vec![(shard, positions)]
            }
            Route::Moved { .. } | Route::Everywhere => return,
        };
        let members = owners.into_iter();
        transaction.members = members
            .map(|(shard, positions)| Member::new(shard, positions))
            .collect();
    }
}
