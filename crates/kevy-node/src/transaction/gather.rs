//! Commands that tell which keys they look at only once the entry they start from is at hand: `SORT` with patterns.
//!
//! They run as steps under exclusive locks on all shards, as a command of an `EXEC` does: the entry of their first key is
//! lent here, asked where it leads to and sent back; then all entries are lent, the command runs on them, and they go back.

use super::exec::{Exec, Owners, Step};
use super::needs::Needs;
use super::queue::Queued;
use super::state::Work;
use crate::command_table::{Found, Handler};
use crate::message::{Lent, Message, Restored};
use crate::session::Session;
use crate::shard::Shard;
use crate::tracking::Asker;
use bytes::BytesMut;
use kevy_engine::commands::sort_reach;
use kevy_engine::keyspace::ExpiryMode;
use kevy_engine::{Command, Context};
use kevy_proto::command::Flags;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, RequestBuffer, RespVersion};

impl Shard {
    /// Begins such a command outside of `EXEC`.
    pub(crate) fn begin_with_gathering(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
    ) {
        let shards: Vec<ShardId> = (0..self.shards()).map(ShardId).collect();
        let queued = Queued {
            found: Found {
                handler: Handler::Engine(command),
                // Was counted already.
                index: 0,
            },
            request: RequestBuffer::from_args(args),
        };
        let needs = shards.iter().map(|shard| (*shard, Needs::everything()));
        let grows = command.flags.contains(Flags::DENYOOM);
        let exec = Exec::single(queued, needs.collect(), grows, self.now);
        self.begin_on_members(session, Work::Exec(Box::new(exec)), shards);
    }

    /// All locks are held: asks for the entry that the command starts from.
    pub(super) fn begin_gathering(
        &mut self,
        id: TransactionId,
        exec: &mut Exec,
        (command, request): (&'static Command, RequestBuffer),
        asker: Asker,
    ) {
        let key = request.args().at(1);
        let owner = self.map.owner_of_key(key);
        let wish = Message::Lend(id, asker, Box::new(RequestBuffer::from_slices([key])));
        self.send(owner, wish);
        exec.expect(Step::Gathering(command, request), 1);
    }

    /// The entry came: sends it back and asks for all entries that it leads to.
    pub(super) fn gather(
        &mut self,
        id: TransactionId,
        exec: &mut Exec,
        command: &'static Command,
        request: RequestBuffer,
        lent: Vec<Lent>,
    ) {
        let args = request.args();
        let own = std::mem::replace(&mut self.now, exec.now);
        let entries = lent.into_iter().flat_map(|lent| lent.entries).flatten();
        entries.for_each(|entry| self.meeting.put(entry));
        let keys = self.reach(args);
        self.now = own;
        let entry = self.meeting.take(args.at(1)).into_iter().collect();
        let restored = Restored {
            keep_locks: true,
            ..Restored::unchanged(id, entry)
        };
        let owner = self.map.owner_of_key(args.at(1));
        self.send(owner, Message::Restore(Box::new(restored)));
        let owners = self.owners_of(keys.args());
        for (shard, positions) in &owners {
            let keys = positions.iter().map(|position| keys.args().at(*position));
            let wish = RequestBuffer::from_slices(keys);
            let wish = Message::Lend(id, Asker::default(), Box::new(wish));
            self.send(*shard, wish);
        }
        let count = owners.len();
        exec.expect(Step::Together(command, request, keys, owners), count);
    }

    /// Where the entry at the meeting place leads to. It is only looked at: what has expired is removed by the command.
    fn reach(&mut self, args: Args<'_>) -> RequestBuffer {
        self.meeting.set_expiry_mode(ExpiryMode::Hide);
        let mut nothing = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.meeting,
            reply: Encoder::new(&mut nothing, RespVersion::default()),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        let keys = sort_reach(&mut context, args);
        self.meeting.set_expiry_mode(ExpiryMode::Remove);
        // What is missed is missed when the command runs.
        self.meeting.take_events();
        keys
    }

    fn owners_of(&self, keys: Args<'_>) -> Owners {
        let mut owners: Owners = (0..self.shards())
            .map(|index| (ShardId(index), Vec::new()))
            .collect();
        for (position, key) in keys.iter().enumerate() {
            let owner = usize::from(self.map.owner_of_key(key).0);
            owners[owner].1.push(position);
        }
        owners.retain(|(_, positions)| !positions.is_empty());
        owners
    }
}
