//! What a reader finds in a file.

use super::super::Decoded;
use super::fault::ModuleId;
use alloc::borrow::Cow;
use kevy_proto::time::UnixMillis;

/// What there is next.
#[derive(Debug)]
pub enum Step<'a> {
    /// This.
    Item(Item<'a>),
    /// More bytes are needed to tell.
    NeedsMore,
    /// Nothing: the file has ended.
    Ended,
}

/// Something in a file.
#[derive(Debug)]
pub enum Item<'a> {
    /// The file's version.
    Version(u16),
    /// Something about the file: `redis-ver` and its like.
    Aux {
        /// What.
        name: Cow<'a, [u8]>,
        /// Its value.
        value: Cow<'a, [u8]>,
    },
    /// Keys from here on are of this database.
    Database(u64),
    /// How many keys the database has.
    Sizes {
        /// All of them.
        keys: u64,
        /// Those with a deadline.
        with_deadline: u64,
    },
    /// How many keys a slot of the database has, of a cluster's node.
    SlotSizes {
        /// The slot.
        slot: u64,
        /// All its keys.
        keys: u64,
        /// Those with a deadline.
        with_deadline: u64,
    },
    /// A library of functions, as code.
    Function(Cow<'a, [u8]>),
    /// What a module remembers. It was not looked at.
    ModuleAux(ModuleId),
    /// A key.
    Key(KeyItem<'a>),
    /// A key whose value has no elements, left by a fault of an old Redis: Redis leaves it out.
    EmptyKey(Cow<'a, [u8]>),
    /// The end. `checked`: there was a checksum, and it is right.
    End {
        /// Whether there was a checksum.
        checked: bool,
    },
}

/// A key.
#[derive(Debug)]
pub struct KeyItem<'a> {
    /// Its name.
    pub key: Cow<'a, [u8]>,
    /// What it holds.
    pub value: Decoded<'a>,
    /// When it goes. The time may have come.
    pub deadline: Option<UnixMillis>,
    /// Seconds since it was used.
    pub idle_seconds: u32,
    /// How often it was used, if that was counted.
    pub frequency: Option<u8>,
    /// Where in the file it begins.
    pub offset: u64,
}
