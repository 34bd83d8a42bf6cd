//! Many elements in one allocation, for collections that are small and for the pieces of large lists.
//!
//! ```text
//! [room in front][element][element]..[element][room behind]
//! element: [length][bytes][length, mirrored]
//! length:  7 bits a byte, the lowest first; the high bit says that more follow
//! ```
//!
//! The length stands on both sides so that one walks from either end. The room in front makes pushing to the front as
//! cheap as to the back, and popping there a matter of moving `start`. Beside its own bytes it counts those that Redis's
//! listpack would take for the same elements, because Redis's limits are given in these.

use crate::number::parse_i64;
use alloc::vec::Vec;

/// What a listpack takes beside its elements: a header and an end mark, bytes.
const LISTPACK_FRAME_BYTES: u64 = 7;
/// Up to this size room is added in steps of [`SMALL_STEP_BYTES`]; beyond, an eighth at a time.
const SMALL_BYTES: usize = 256;
/// An allocator's step between small sizes.
const SMALL_STEP_BYTES: usize = 16;

/// Elements in order, in one allocation.
#[derive(Clone, Debug, Default)]
pub(in crate::value) struct Packed {
    /// Invariant: from `start` to the end, `count` whole elements.
    bytes: Vec<u8>,
    start: u32,
    count: u32,
    /// What the elements would take in a listpack, without its frame.
    listpack_bytes: u64,
}

impl Packed {
    /// Number of elements.
    #[inline]
    pub(in crate::value) fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no elements.
    #[inline]
    pub(in crate::value) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What a listpack of the same elements takes, bytes.
    pub(in crate::value) fn listpack_bytes(&self) -> u64 {
        LISTPACK_FRAME_BYTES + self.listpack_bytes
    }

    /// Bytes on the heap.
    #[inline]
    pub(in crate::value) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The elements in order.
    #[inline]
    pub(in crate::value) fn iter(&self) -> Iter<'_> {
        Iter {
            bytes: self.data(),
            left: self.len(),
        }
    }

    /// The element at `index`, sought from the nearer end.
    pub(in crate::value) fn get(&self, index: usize) -> Option<&[u8]> {
        let mut elements = self.iter();
        if index <= self.len() / 2 {
            elements.nth(index)
        } else {
            let from_end = self.len().checked_sub(index + 1)?;
            elements.nth_back(from_end)
        }
    }

    /// Adds an element at the end.
    pub(in crate::value) fn push_back(&mut self, element: &[u8]) {
        self.insert_at(self.data().len(), element);
    }

    /// Adds an element at the front.
    pub(in crate::value) fn push_front(&mut self, element: &[u8]) {
        self.insert_at(0, element);
    }

    /// Adds an element before the one at `index`, or at the end if `index` is the length.
    pub(in crate::value) fn insert(&mut self, index: usize, element: &[u8]) {
        self.insert_at(self.offset_of(index), element);
    }

    /// Puts `element` in the place of the one at `index`.
    pub(in crate::value) fn replace(&mut self, index: usize, element: &[u8]) {
        let offset = self.offset_of(index);
        self.remove_at(offset, 1);
        self.insert_at(offset, element);
    }

    /// Removes `count` elements from `index` on; there are as many.
    pub(in crate::value) fn remove(&mut self, index: usize, count: usize) {
        self.remove_at(self.offset_of(index), count);
        self.fit();
    }

    /// Removes the elements equal to `element`, the first `skip` of them excepted, at most `most`; says how many.
    pub(in crate::value) fn remove_equal(
        &mut self,
        element: &[u8],
        skip: usize,
        most: usize,
    ) -> usize {
        let start = self.start as usize;
        let (mut met, mut read, mut write) = (0, start, start);
        while read < self.bytes.len() {
            let (length, head) = read_length(self.bytes[read..].iter());
            let end = read + 2 * head + length;
            if met < skip.saturating_add(most)
                && self.bytes[read + head..read + head + length] == *element
            {
                met += 1;
                if met > skip {
                    read = end;
                    continue;
                }
            }
            if write < read {
                self.bytes.copy_within(read..end, write);
            }
            write += end - read;
            read = end;
        }
        self.bytes.truncate(write);
        let removed = met.saturating_sub(skip);
        self.count -= removed as u32;
        self.listpack_bytes -= removed as u64 * listpack_entry_bytes(element);
        self.fit();
        removed
    }

    /// Takes out the elements from `index` on.
    pub(in crate::value) fn split_off(&mut self, index: usize) -> Self {
        let mut tail = Self::default();
        let offset = self.offset_of(index);
        let moved = self.len() - index;
        tail.reserve_back(self.data().len() - offset);
        tail.bytes.extend_from_slice(&self.data()[offset..]);
        tail.count = moved as u32;
        tail.listpack_bytes = tail.iter().map(listpack_entry_bytes).sum();
        self.bytes.truncate(self.start as usize + offset);
        self.count -= moved as u32;
        self.listpack_bytes -= tail.listpack_bytes;
        self.fit();
        tail
    }

    /// Gives back the room on both sides: for what is unlikely to change.
    pub(in crate::value) fn shrink_to_fit(&mut self) {
        self.close_front();
        self.bytes.shrink_to_fit();
    }

    #[inline]
    fn data(&self) -> &[u8] {
        &self.bytes[self.start as usize..]
    }

    /// Where the element at `index` begins in the data.
    fn offset_of(&self, index: usize) -> usize {
        let mut elements = self.iter();
        if index == 0 {
            return 0;
        }
        if index <= self.len() / 2 {
            elements.nth(index - 1);
            return self.data().len() - elements.bytes.len();
        }
        if index < self.len() {
            elements.nth_back(self.len() - index - 1);
        }
        elements.bytes.len()
    }

    fn insert_at(&mut self, offset: usize, element: &[u8]) {
        let head = length_bytes(element.len());
        let place = self.open(offset, element.len() + 2 * head);
        let (front, rest) = place.split_at_mut(head);
        let (middle, back) = rest.split_at_mut(element.len());
        middle.copy_from_slice(element);
        write_length(front.iter_mut(), element.len());
        write_length(back.iter_mut().rev(), element.len());
        self.count += 1;
        self.listpack_bytes += listpack_entry_bytes(element);
    }

    /// Makes `room` bytes at `offset` of the data, to be written.
    fn open(&mut self, offset: usize, room: usize) -> &mut [u8] {
        if offset == 0 && !self.is_empty() && self.reserve_front(room) {
            let at = self.start as usize - room;
            self.start = at as u32;
            return &mut self.bytes[at..at + room];
        }
        self.reserve_back(room);
        let (at, end) = (self.start as usize + offset, self.bytes.len());
        self.bytes.resize(end + room, 0);
        self.bytes.copy_within(at..end, at + room);
        &mut self.bytes[at..at + room]
    }

    /// Removes `count` elements from `offset` of the data on; leaves the room.
    fn remove_at(&mut self, offset: usize, count: usize) {
        let data = &self.data()[offset..];
        let mut elements = Iter {
            bytes: data,
            left: count,
        };
        let mut listpack_bytes = 0;
        for element in elements.by_ref() {
            listpack_bytes += listpack_entry_bytes(element);
        }
        let freed = data.len() - elements.bytes.len();
        self.listpack_bytes -= listpack_bytes;
        self.count -= count as u32;
        if offset == 0 {
            self.skip_front(freed);
            return;
        }
        let at = self.start as usize + offset;
        self.bytes.copy_within(at + freed.., at);
        self.bytes.truncate(self.bytes.len() - freed);
    }

    /// Makes the first `freed` bytes of the data room in front. The room is never larger than the data, so that closing
    /// it costs no more than what made it.
    fn skip_front(&mut self, freed: usize) {
        let start = self.start as usize + freed;
        if let (Ok(small), true) = (u32::try_from(start), start <= self.bytes.len() / 2) {
            self.start = small;
        } else {
            self.bytes.drain(..start);
            self.start = 0;
        }
    }

    fn close_front(&mut self) {
        self.bytes.drain(..self.start as usize);
        self.start = 0;
    }

    fn reserve_back(&mut self, room: usize) {
        if self.bytes.capacity() - self.bytes.len() >= room {
            return;
        }
        let length = self.data().len();
        if self.start as usize >= room + length / 8 {
            self.close_front();
            return;
        }
        let wanted = self.start as usize + grown(length + room);
        self.bytes.reserve_exact(wanted - self.bytes.len());
    }

    /// Says whether there is room now: there is none for what `start` cannot count.
    fn reserve_front(&mut self, room: usize) -> bool {
        if self.start as usize >= room {
            return true;
        }
        let length = self.data().len();
        let Ok(start) = u32::try_from(grown(length + room) - length) else {
            return false;
        };
        let mut moved = Vec::new();
        moved.reserve_exact(start as usize + length);
        moved.resize(start as usize, 0);
        moved.extend_from_slice(self.data());
        self.bytes = moved;
        self.start = start;
        true
    }

    /// Gives memory back when most of it is room.
    fn fit(&mut self) {
        let length = self.data().len();
        if self.bytes.capacity() > SMALL_BYTES && length < self.bytes.capacity() / 4 {
            self.close_front();
            self.bytes.shrink_to(grown(length));
        }
    }
}

/// The elements of a [`Packed`], from either end.
#[derive(Clone, Debug)]
pub(in crate::value) struct Iter<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (length, head) = read_length(self.bytes.iter());
        let element = &self.bytes[head..head + length];
        self.bytes = &self.bytes[2 * head + length..];
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (length, head) = read_length(self.bytes.iter().rev());
        let end = self.bytes.len() - head;
        let element = &self.bytes[end - length..end];
        self.bytes = &self.bytes[..end - length - head];
        Some(element)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Bytes that a length takes.
fn length_bytes(length: usize) -> usize {
    let bits = usize::BITS - (length | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn write_length<'a>(places: impl Iterator<Item = &'a mut u8>, length: usize) {
    let mut left = length;
    for place in places {
        let more = if left > 0x7f { 0x80 } else { 0 };
        *place = (left & 0x7f) as u8 | more;
        left >>= 7;
    }
}

/// A length and how many bytes it takes.
#[inline]
fn read_length<'a>(bytes: impl Iterator<Item = &'a u8>) -> (usize, usize) {
    let (mut length, mut used) = (0, 0);
    for &byte in bytes {
        length |= usize::from(byte & 0x7f) << (7 * used);
        used += 1;
        if byte < 0x80 {
            break;
        }
    }
    (length, used)
}

/// The size of an allocation for `length` bytes that will become more.
fn grown(length: usize) -> usize {
    if length <= SMALL_BYTES {
        return length.next_multiple_of(SMALL_STEP_BYTES);
    }
    let wanted = length + length / 8;
    wanted.next_multiple_of(wanted.next_power_of_two() / 16)
}

/// What `element` takes in Redis's listpack, bytes (<https://github.com/antirez/listpack/blob/master/listpack.md>):
/// integers in as few bytes as they need, other strings with their length, and the size of all that once more.
pub(in crate::value) fn listpack_entry_bytes(element: &[u8]) -> u64 {
    let content = match parse_i64(element) {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(-2_147_483_648..=2_147_483_647) => 5,
        Some(_) => 9,
        None => {
            element.len() as u64
                + match element.len() {
                    0..=63 => 1,
                    64..=4095 => 2,
                    _ => 5,
                }
        }
    };
    content + length_bytes(content as usize).min(5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn packed(elements: &[&[u8]]) -> Packed {
        let mut packed = Packed::default();
        elements.iter().for_each(|e| packed.push_back(e));
        packed
    }

    fn listed(packed: &Packed) -> Vec<Vec<u8>> {
        let list: Vec<Vec<u8>> = packed.iter().map(<[u8]>::to_vec).collect();
        let mut backwards: Vec<Vec<u8>> = packed.iter().rev().map(<[u8]>::to_vec).collect();
        backwards.reverse();
        assert_eq!(list, backwards);
        assert_eq!(list.len(), packed.len());
        let bytes: u64 = packed.iter().map(listpack_entry_bytes).sum();
        assert_eq!(packed.listpack_bytes(), LISTPACK_FRAME_BYTES + bytes);
        list
    }

    #[test]
    fn elements_of_any_length_come_back_from_both_ends() {
        let lengths = [0, 1, 63, 64, 127, 128, 16_383, 16_384, 3_000_000];
        let elements: Vec<Vec<u8>> = lengths.iter().map(|&n| vec![b'x'; n]).collect();
        let mut packed = Packed::default();
        elements.iter().for_each(|e| packed.push_back(e));
        assert_eq!(listed(&packed), elements);
        for (index, element) in elements.iter().enumerate() {
            assert_eq!(packed.get(index), Some(element.as_slice()));
        }
        assert_eq!(packed.get(elements.len()), None);
    }

    #[test]
    fn equal_elements_go_from_either_side() {
        let mut numbers = packed(&[b"a", b"b", b"a", b"c", b"a"]);
        assert_eq!(numbers.remove_equal(b"a", 1, 1), 1);
        assert_eq!(listed(&numbers), [b"a", b"b", b"c", b"a"]);
        assert_eq!(numbers.remove_equal(b"a", 0, usize::MAX / 2), 2);
        assert_eq!(numbers.remove_equal(b"a", 0, 5), 0);
        assert_eq!(listed(&numbers), [b"b", b"c"]);
    }

    #[test]
    fn a_queue_keeps_its_size() {
        let mut queue = packed(&[b"first", b"second"]);
        for _ in 0..10_000 {
            queue.push_back(b"something");
            queue.remove(0, 1);
        }
        assert!(queue.heap_bytes() <= 128, "{}", queue.heap_bytes());
        for _ in 0..10_000 {
            queue.push_front(b"something");
            queue.remove(queue.len() - 1, 1);
        }
        assert!(queue.heap_bytes() <= 128, "{}", queue.heap_bytes());
    }

    #[test]
    fn little_room_is_left_in_small_ones() {
        let mut ten = Packed::default();
        (0..10).for_each(|_| ten.push_back(b"0123456789"));
        assert_eq!(ten.heap_bytes(), 128);
        (0..1000).for_each(|_| ten.push_back(b"0123456789"));
        ten.remove(3, 1000);
        assert!(ten.heap_bytes() <= 256, "{}", ten.heap_bytes());
        ten.shrink_to_fit();
        assert_eq!(ten.heap_bytes(), 120);
    }

    #[test]
    fn listpack_sizes_are_those_of_the_format() {
        for (element, bytes) in [
            (&b""[..], 2),
            (b"0", 2),
            (b"127", 2),
            (b"128", 3),
            (b"-1", 3),
            (b"4096", 4),
            (b"40000", 5),
            (b"-8388609", 6),
            (b"2147483648", 10),
            (b"01", 4),
            (&[b'x'; 63], 65),
            (&[b'x'; 64], 67),
            (&[b'x'; 126], 130),
            (&[b'x'; 4096], 4103),
        ] {
            assert_eq!(listpack_entry_bytes(element), bytes, "{element:?}");
        }
    }
}
