//! Which keys `SORT` looks at beside those it names: where keys have several owners they have to be brought together first.

use super::{Options, Order, elements, pattern};
use crate::Context;
use crate::commands::is_option;
use alloc::vec::Vec;
use kevy_proto::resp::{Args, RequestBuffer};

/// Whether `args` are a `SORT` or `SORT_RO` whose patterns lead to keys that it does not name.
pub fn sort_follows_patterns(args: Args<'_>) -> bool {
    let Some(options) = sort_options(args) else {
        return false;
    };
    let mut patterns = options.patterns();
    patterns.any(|pattern| pattern.contains(&b'*'))
}

/// Every key that a `SORT` or `SORT_RO` with `args` would look at now, each once: those that it names, and those that its
/// patterns lead to from the elements of its collection, which has to be in the keyspace. If that cannot be sorted, only the
/// named ones: the command then says why.
pub fn sort_reach(cx: &mut Context<'_>, args: Args<'_>) -> RequestBuffer {
    let mut keys = alloc::vec![args.at(1).to_vec()];
    if let Some(options) = sort_options(args) {
        keys.extend(options.destination.map(<[u8]>::to_vec));
        if let Ok((elements, options)) = elements::load(cx, args.at(1), options) {
            for element in &elements {
                let targets = options
                    .patterns()
                    .filter_map(|to| pattern::target(to, element));
                keys.extend(targets.map(|(key, _)| key));
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    RequestBuffer::from_slices(keys.iter().map(Vec::as_slice))
}

fn sort_options(args: Args<'_>) -> Option<Options<'_>> {
    let may_store = is_option(args, 0, "sort");
    if !may_store && !is_option(args, 0, "sort_ro") {
        return None;
    }
    Options::read(args, may_store).ok()
}

impl<'a> Options<'a> {
    /// The patterns that elements are put into.
    fn patterns(&self) -> impl Iterator<Item = &'a [u8]> {
        let by = match self.order {
            Order::By { pattern, .. } => pattern,
            Order::AsTheyAre => None,
        };
        by.into_iter().chain(self.gets.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follows(words: &[&str]) -> bool {
        let request = RequestBuffer::from_slices(words.iter().map(|word| word.as_bytes()));
        sort_follows_patterns(request.args())
    }

    #[test]
    fn only_patterns_with_a_star_lead_elsewhere() {
        assert!(follows(&["SORT", "k", "BY", "w_*"]));
        assert!(follows(&["sort_ro", "k", "BY", "nosort", "GET", "o_*->f"]));
        assert!(!follows(&["SORT", "k", "BY", "nosort", "GET", "#"]));
        assert!(!follows(&["SORT", "k", "LIMIT", "0", "1", "STORE", "*"]));
        assert!(!follows(&["SORT_RO", "k", "BY", "w_*", "STORE", "d"]));
        assert!(!follows(&["SORT", "k", "BY"]));
        assert!(!follows(&["GET", "k", "BY", "w_*"]));
    }
}
