//! Keyspace notifications: events of keys as messages of publish and subscribe
//! (<https://redis.io/docs/latest/develop/use/keyspace-notifications/>).
//!
//! The owner of a key publishes its events to the subscribers of all shards, in the order in which they happened. Events
//! of a command that ran on entries lent to a coordinator go home with the entries, so that the order holds for them, too.
//! Between events of keys that different shards own there is no order.

use crate::settings::Settings;
use crate::shard::Shard;
use crate::subscriptions::Publication;
use bytes::Bytes;
use kevy_engine::{Event, EventClasses};
use kevy_proto::ids::ShardId;

/// The classes that the settings want.
fn wanted(settings: &Settings) -> EventClasses {
    settings.monitoring.notify_keyspace_events
}

impl Shard {
    /// Takes what concerns notifications from settings that have just come into force.
    pub(crate) fn apply_notification_settings(&mut self) {
        let classes = wanted(&self.settings);
        self.keyspace.want_events(classes);
        self.meeting.want_events(classes);
    }

    /// Lets the events noted so far be announced.
    #[inline]
    pub(crate) fn gather_events(&mut self) {
        if self.keyspace.has_events() {
            let events = self.keyspace.take_events();
            self.notify(events);
        }
    }

    /// Lets events of our own keys be announced.
    #[cold]
    pub(crate) fn notify(&mut self, events: Vec<Event>) {
        let classes = wanted(&self.settings);
        for event in events {
            let key = Bytes::from(event.key);
            let name = Bytes::from_static(event.name.as_bytes());
            if classes.any(EventClasses::KEYSPACE) {
                self.gather_notification(b"__keyspace@0__:", &key, name.clone());
            }
            if classes.any(EventClasses::KEYEVENT) {
                self.gather_notification(b"__keyevent@0__:", &name, key);
            }
        }
    }

    fn gather_notification(&mut self, prefix: &'static [u8], topic: &[u8], message: Bytes) {
        let channel = [prefix, topic].concat().into();
        self.announcements.notifications.push(Publication {
            channel,
            message,
            sharded: false,
        });
    }

    /// Takes the events of what ran on lent entries: for each of `shards` those of its own keys.
    pub(crate) fn events_of_meeting(&mut self, shards: &[ShardId]) -> Vec<Vec<Event>> {
        let mut events: Vec<Vec<Event>> = shards.iter().map(|_| Vec::new()).collect();
        if self.meeting.has_events() {
            for event in self.meeting.take_events() {
                let owner = self.map.owner_of_key(&event.key);
                if let Some(index) = shards.iter().position(|shard| *shard == owner) {
                    events[index].push(event);
                }
            }
        }
        events
    }
}
