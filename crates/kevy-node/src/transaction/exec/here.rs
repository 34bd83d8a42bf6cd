//! An `EXEC` whose keys are all of one shard, which nobody else has locked.

use super::Queued;
use crate::command_table::Handler;
use crate::commands::{Answered, Outcome};
use crate::durability::{Commit, Logging};
use crate::session::Session;
use crate::shard::Shard;
use crate::transaction::queue::aborted_because;
use bytes::BytesMut;
use kevy_proto::resp::Encoder;

impl Shard {
    /// Everything is ours, and nobody is in the way.
    pub(super) fn exec_here(
        &mut self,
        session: &mut Session,
        commands: &[Queued],
        grows: bool,
        reply: &mut BytesMut,
    ) -> Answered {
        let hit = self.is_watch_hit(session.id);
        session.watched.clear();
        self.unwatch(session.id);
        let version = session.client.version;
        let writes = commands.iter().any(Queued::writes);
        if let Some(obstacle) = self.obstacle(writes, grows) {
            return Err(aborted_because(&obstacle.error().to_string()));
        }
        if hit {
            Encoder::new(reply, version).null_array();
            return Ok(Outcome::Replied);
        }
        Encoder::new(reply, version).array(commands.len());
        self.keyspace.set_touching(!session.client.no_touch);
        let began = self.stopwatch.current;
        self.asker = session.asker();
        let id = self.new_transaction_id();
        self.logging = Logging::Within(id);
        for queued in commands {
            self.show(&session.peer.address, queued.found, queued.request.args());
            if let Handler::Engine(command) = queued.found.handler {
                let args = queued.request.args();
                self.measure(queued.found.index, args.len());
                self.run_command(command, args, version, reply);
                self.stopwatch.note_run();
                if self.stopwatch.is_due() {
                    self.settle_request(session, args);
                }
            }
        }
        self.logging = Logging::Alone;
        self.commit(&Commit::alone(id, self.id));
        self.measure(began, 0);
        self.keyspace.set_touching(true);
        Ok(Outcome::Replied)
    }
}
