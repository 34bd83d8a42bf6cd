//! `notify-keyspace-events`: which changes of keys are published, and how, as a set of classes in Redis's letters
//! (<https://redis.io/docs/latest/develop/use/keyspace-notifications/>).

use super::kind::Invalid;
use kevy_engine::EventClasses;

/// The set that `text` names.
///
/// # Errors
/// A letter that stands for no class.
pub(super) fn parse(text: &str) -> Result<EventClasses, Invalid> {
    EventClasses::parse(text.as_bytes()).ok_or(Invalid::Because(
        "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
    ))
}
