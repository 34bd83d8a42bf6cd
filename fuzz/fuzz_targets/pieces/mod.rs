//! Inputs that arrive in pieces: the first byte says how many of the next are cuts, each a fraction of what follows.

/// How many cuts an input has at most.
const MAX_CUTS: usize = 15;

/// What arrives, and where its pieces end, in order; the last is its length. None for an input that says nothing.
pub fn cut(data: &[u8]) -> Option<(&[u8], Vec<usize>)> {
    let (count, rest) = data.split_first()?;
    let count = usize::from(*count).min(MAX_CUTS).min(rest.len());
    let (cuts, input) = rest.split_at(count);
    let place = |cut: &u8| usize::from(*cut) * input.len() / 255;
    let mut ends: Vec<usize> = cuts.iter().map(place).collect();
    ends.sort_unstable();
    ends.push(input.len());
    Some((input, ends))
}
