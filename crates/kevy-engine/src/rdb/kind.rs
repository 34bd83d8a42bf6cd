//! The kinds of values, as the byte before each says.

/// How a value is laid out. The numbers are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A string.
    String = 0,
    /// A list: its elements as strings.
    List = 1,
    /// A set: its members as strings.
    Set = 2,
    /// A sorted set: members as strings, scores as text.
    SortedSetText = 3,
    /// A hash: names and values as strings.
    Hash = 4,
    /// A sorted set: members as strings, scores in binary.
    SortedSet = 5,
    /// A hash in a zipmap (Redis 2.4).
    HashZipmap = 9,
    /// A list in a ziplist.
    ListZiplist = 10,
    /// A set of integers in an intset.
    SetIntset = 11,
    /// A sorted set in a ziplist.
    SortedSetZiplist = 12,
    /// A hash in a ziplist.
    HashZiplist = 13,
    /// A list of ziplists.
    ListZiplists = 14,
    /// A stream (Redis 5).
    Stream1 = 15,
    /// A hash in a listpack.
    HashListpack = 16,
    /// A sorted set in a listpack.
    SortedSetListpack = 17,
    /// A list of listpacks and single elements.
    ListListpacks = 18,
    /// A stream that knows its counters (Redis 7.0).
    Stream2 = 19,
    /// A set in a listpack (Redis 7.2).
    SetListpack = 20,
    /// A stream that knows when its consumers were active (Redis 7.2).
    Stream3 = 21,
    /// A hash whose fields have deadlines: these, names and values as strings (Redis 7.4).
    HashDeadlines = 24,
    /// A hash whose fields have deadlines, in a listpack (Redis 7.4).
    HashDeadlinesListpack = 25,
}

impl Kind {
    /// The kind with this number; `None` for modules and for what is not known.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::String,
            1 => Self::List,
            2 => Self::Set,
            3 => Self::SortedSetText,
            4 => Self::Hash,
            5 => Self::SortedSet,
            9 => Self::HashZipmap,
            10 => Self::ListZiplist,
            11 => Self::SetIntset,
            12 => Self::SortedSetZiplist,
            13 => Self::HashZiplist,
            14 => Self::ListZiplists,
            15 => Self::Stream1,
            16 => Self::HashListpack,
            17 => Self::SortedSetListpack,
            18 => Self::ListListpacks,
            19 => Self::Stream2,
            20 => Self::SetListpack,
            21 => Self::Stream3,
            24 => Self::HashDeadlines,
            25 => Self::HashDeadlinesListpack,
            _ => return None,
        })
    }

    /// The byte that says this kind.
    pub fn to_byte(self) -> u8 {
        self as u8
    }

    /// The first RDB version that has this kind, counting those that kevy writes only.
    pub(super) fn version(self) -> u16 {
        match self {
            Self::HashDeadlines | Self::HashDeadlinesListpack => 12,
            Self::Stream3 | Self::SetListpack => 11,
            Self::String
            | Self::List
            | Self::Set
            | Self::SortedSetText
            | Self::Hash
            | Self::SortedSet
            | Self::HashZipmap
            | Self::ListZiplist
            | Self::SetIntset
            | Self::SortedSetZiplist
            | Self::HashZiplist
            | Self::ListZiplists
            | Self::Stream1
            | Self::HashListpack
            | Self::SortedSetListpack
            | Self::ListListpacks
            | Self::Stream2 => 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_byte() {
        let known: alloc::vec::Vec<u8> = (0..=255)
            .filter(|&byte| Kind::from_byte(byte).is_some_and(|kind| kind.to_byte() == byte))
            .collect();
        assert_eq!(known.len(), 21);
        assert_eq!((known[0], known[20]), (0, 25));
    }
}
