//! Where a command goes, and where it goes next: the decisions of a cluster's client, without I/O.
//!
//! A host takes a [`Journey`] for a command, waits and refreshes as it says, carries the command to its target, and hands
//! the outcome to [`Router::arrive`], until that gives the end of it. Redirects, pauses and failures are counted on the
//! journey, and each has its bound.

use std::collections::BTreeMap;
use std::time::Duration;

use kevy_proto::resp::Reply;
use kevy_proto::slot::slot_of;

use super::backoff::{backoff, jittered};
use super::redirect::{Redirect, redirect};
use super::{Address, ClusterOptions, Topology};
use crate::link::Failure;
use crate::{Access, Call, KevyError, KevyResult};

/// Prefixes whose writer is remembered; beyond it all are forgotten, and learned again as they are met.
const MAX_WRITERS: usize = 4096;

/// What a cluster's client knows.
#[derive(Debug)]
pub(crate) struct Router {
    seed: Address,
    topology: Topology,
    /// Who writes keys with a prefix, as `MISDIRECTED` said.
    writers: BTreeMap<Vec<u8>, Address>,
    options: ClusterOptions,
    rng: fastrand::Rng,
}

/// One command on its way.
///
/// In a pipeline many journeys begin at once, and end one after the other.
#[derive(Debug)]
pub(crate) struct Journey<'a> {
    call: &'a Call,
    target: Address,
    asking: bool,
    pause: Option<Duration>,
    refresh: bool,
    /// Whether the target is to be looked up again.
    reroute: bool,
    redirects: u32,
    pauses: u32,
    failures: u32,
}

impl<'a> Journey<'a> {
    /// The command.
    pub(crate) fn call(&self) -> &'a Call {
        self.call
    }

    /// Where to send it.
    pub(crate) fn target(&self) -> &Address {
        &self.target
    }

    /// Whether `ASKING` goes before it.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking
    }

    /// How long to wait before anything else.
    pub(crate) fn take_pause(&mut self) -> Option<Duration> {
        self.pause.take()
    }

    /// Whether to ask for the topology before sending.
    pub(crate) fn take_refresh(&mut self) -> bool {
        std::mem::take(&mut self.refresh)
    }
}

/// The command whose replies [`Router::learn`] reads.
pub(crate) fn topology_call() -> Call {
    Call::read("CLUSTER").arg("SLOTS")
}

impl Router {
    /// Knows nothing but the node to ask.
    pub(crate) fn new(seed: Address, options: ClusterOptions) -> Self {
        Self {
            topology: Topology::of_one(seed.clone()),
            seed,
            writers: BTreeMap::new(),
            options,
            rng: fastrand::Rng::new(),
        }
    }

    pub(crate) fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// The nodes that own slots.
    pub(crate) fn nodes(&self) -> &[Address] {
        self.topology.nodes()
    }

    /// Whether a connection to `address` may be of use again.
    pub(crate) fn knows(&self, address: &Address) -> bool {
        self.topology.nodes().contains(address)
            || self.writers.values().any(|writer| writer == address)
    }

    /// Whom to ask for the topology, in order.
    pub(crate) fn informants(&self) -> Vec<Address> {
        let mut informants = self.topology.nodes().to_vec();
        if !informants.contains(&self.seed) {
            informants.push(self.seed.clone());
        }
        informants
    }

    /// Takes the reply to [`topology_call`] that `from` gave.
    ///
    /// # Errors
    ///
    /// When it is no topology; the old one stays.
    pub(crate) fn learn(&mut self, reply: Reply, from: &Address) -> KevyResult<()> {
        self.topology = Topology::read(reply, from)?;
        Ok(())
    }

    /// Begins a command's journey.
    pub(crate) fn depart<'a>(&self, call: &'a Call) -> Journey<'a> {
        Journey {
            target: self.target(call, 0),
            call,
            asking: false,
            pause: None,
            refresh: false,
            reroute: false,
            redirects: 0,
            pauses: 0,
            failures: 0,
        }
    }

    /// Looks the target up again if the last one failed. After a refresh.
    pub(crate) fn reroute(&self, journey: &mut Journey<'_>) {
        if std::mem::take(&mut journey.reroute) {
            journey.target = self.target(journey.call, journey.failures);
        }
    }

    /// Commands without key go to the first node; if nodes fail, to the next.
    fn target(&self, call: &Call, failures: u32) -> Address {
        let Some(key) = call.key_bytes() else {
            return self.any(failures);
        };
        if call.access() == Access::Write
            && let Some(writer) = self.writers.get(prefix(key))
        {
            return writer.clone();
        }
        let owner = self.topology.owner(slot_of(key));
        owner.cloned().unwrap_or_else(|| self.any(failures))
    }

    fn any(&self, failures: u32) -> Address {
        let nodes = self.topology.nodes();
        let node = nodes.get(failures as usize % nodes.len().max(1));
        node.unwrap_or(&self.seed).clone()
    }

    /// Takes the outcome of an attempt; gives the end of the journey, or `None` if it goes on.
    pub(crate) fn arrive(
        &mut self,
        journey: &mut Journey<'_>,
        outcome: Result<Reply, Failure>,
    ) -> Option<KevyResult<Reply>> {
        journey.asking = false;
        let reply = match outcome {
            Ok(reply) => reply,
            Err(failure) => return self.failed(journey, failure).map(Err),
        };
        let Some(redirect) = redirect(&reply, &journey.target) else {
            return Some(Ok(reply));
        };
        if self.follow(journey, redirect) {
            None
        } else {
            Some(Ok(reply))
        }
    }

    /// Whether the journey goes on.
    fn follow(&mut self, journey: &mut Journey<'_>, redirect: Redirect) -> bool {
        match redirect {
            Redirect::Moved { slot, to } => {
                // What a node outside of this cluster says of slots is true of its own only.
                let news = self.topology.owner(slot) != Some(&to);
                if news && self.topology.nodes().contains(&journey.target) {
                    self.topology.assign(slot, to.clone());
                    journey.refresh = true;
                }
                self.send_on(journey, to)
            }
            Redirect::Ask { to } => {
                journey.asking = true;
                self.send_on(journey, to)
            }
            Redirect::Misdirected { to } => {
                if let Some(key) = journey.call.key_bytes() {
                    self.remember_writer(prefix(key), to.clone());
                }
                self.send_on(journey, to)
            }
            Redirect::Later => self.pause(journey),
            Redirect::Down => {
                journey.refresh = true;
                journey.reroute = true;
                self.pause(journey)
            }
        }
    }

    fn send_on(&self, journey: &mut Journey<'_>, to: Address) -> bool {
        journey.target = to;
        journey.redirects += 1;
        journey.redirects <= self.options.max_redirects
    }

    fn pause(&mut self, journey: &mut Journey<'_>) -> bool {
        journey.pause = Some(jittered(self.options.pause, &mut self.rng));
        journey.pauses += 1;
        journey.pauses <= self.options.max_pauses
    }

    fn remember_writer(&mut self, prefix: &[u8], writer: Address) {
        if self.writers.len() >= MAX_WRITERS && !self.writers.contains_key(prefix) {
            self.writers.clear();
        }
        self.writers.insert(prefix.to_vec(), writer);
    }

    /// Gives the error if it ends the journey: a write that may have arrived is never sent again.
    fn failed(&mut self, journey: &mut Journey<'_>, failure: Failure) -> Option<KevyError> {
        let Failure { error, sent } = failure;
        let lost = sent && journey.call.access() == Access::Write;
        let passing = match error {
            KevyError::Io(_) | KevyError::Closed => true,
            KevyError::TimedOut => !sent,
            KevyError::Store(_)
            | KevyError::Protocol(_)
            | KevyError::ReadOnly
            | KevyError::InvalidInput(_)
            | KevyError::NotFound
            | KevyError::Unsupported(_) => false,
        };
        let failed = &journey.target;
        self.writers.retain(|_, writer| writer != failed);
        journey.failures += 1;
        if lost || !passing || journey.failures > self.options.max_failures {
            return Some(error);
        }
        journey.pause = Some(backoff(
            journey.failures,
            self.options.min_backoff,
            self.options.max_backoff,
            &mut self.rng,
        ));
        journey.refresh = true;
        journey.reroute = true;
        None
    }
}

/// What keys with the same writer begin with, as far as can be guessed: everything up to the last colon. A wrong guess
/// costs a redirect.
fn prefix(key: &[u8]) -> &[u8] {
    let colon = key.iter().rposition(|byte| *byte == b':');
    colon.map_or(key, |colon| &key[..=colon])
}

/// What became of the commands of a pipeline, by position. `None` is to be sent again by itself: it was not sent, or it is
/// a read and its connection failed after another command's failure was noted.
pub(crate) type Outcomes = Vec<Option<Result<Reply, Failure>>>;

/// Notes that a connection failed while the commands at `positions` were on it: the first of them has the error, and each
/// write that may have arrived has one, too.
pub(crate) fn note_failure(
    journeys: &[Journey<'_>],
    positions: &[usize],
    failure: Failure,
    outcomes: &mut Outcomes,
) {
    let sent = failure.sent;
    let mut failure = Some(failure);
    for at in positions {
        let write = journeys[*at].call.access() == Access::Write;
        let later = || {
            let error = KevyError::Closed;
            (sent && write).then_some(Failure { error, sent })
        };
        outcomes[*at] = failure.take().or_else(later).map(Err);
    }
}

/// Which journeys of a pipeline go to the same target: positions in order, by target in the order of their first.
pub(crate) fn by_target(journeys: &[Journey<'_>]) -> Vec<(Address, Vec<usize>)> {
    let mut groups: Vec<(Address, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<&Address, usize> = BTreeMap::new();
    for (position, journey) in journeys.iter().enumerate() {
        let place = *places.entry(&journey.target).or_insert_with(|| {
            groups.push((journey.target.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(position);
    }
    groups
}

#[cfg(test)]
mod tests;
