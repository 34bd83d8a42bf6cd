//! What clients do. A workload says what is there at first, what each client asks, and which checks its history must pass.

mod atomicity;
mod expiry;
mod mixed;
mod queues;
mod scan;
mod strings;

use crate::checks::{
    Violation, expiry as expiry_check, moves, order, queues as queues_check, register, transfers,
};
use crate::client::{Client, Failure, Player};
use crate::history::Operation;
use crate::turmoil_host::NodeClock;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Pipelines over all shards with keys of one's own: replies in order (A3).
    Strings,
    /// Groups of keys on several shards that are read and written as one (C4).
    Pairs,
    /// Transfers between accounts: a constant sum (C4).
    Transfers,
    /// Values that are renamed and copied over shards (C4).
    Moves,
    /// Single keys that everybody reads and writes: linearizability.
    Registers,
    /// Keys with deadlines.
    Expiry,
    /// Scans while keys come and go.
    Scan,
    /// Lists as queues, with consumers that wait and vanish.
    Queues,
    /// Everything at once, by clients that vanish: nothing leaks.
    Vanish,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 9] = [
        Self::Strings,
        Self::Pairs,
        Self::Transfers,
        Self::Moves,
        Self::Registers,
        Self::Expiry,
        Self::Scan,
        Self::Queues,
        Self::Vanish,
    ];

    /// Those that can tell, after crashes, what was lost.
    pub const DURABLE: [Self; 4] = [Self::Pairs, Self::Transfers, Self::Moves, Self::Registers];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strings => "strings",
            Self::Pairs => "pairs",
            Self::Transfers => "transfers",
            Self::Moves => "moves",
            Self::Registers => "registers",
            Self::Expiry => "expiry",
            Self::Scan => "scan",
            Self::Queues => "queues",
            Self::Vanish => "vanish",
        }
    }

    /// The workload of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|workload| workload.name() == name)
    }

    /// Prepares the node before clients start.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn prepare(self, client: &mut Client) -> Result<(), Failure> {
        match self {
            Self::Transfers => atomicity::prepare_transfers(client).await,
            Self::Moves => atomicity::prepare_moves(client).await,
            Self::Scan => scan::prepare(client).await,
            Self::Strings
            | Self::Pairs
            | Self::Registers
            | Self::Expiry
            | Self::Queues
            | Self::Vanish => Ok(()),
        }
    }

    /// Asks, when all clients have gone, for what the checks need to know.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn conclude(self, client: &mut Client) -> Result<(), Failure> {
        if self == Self::Queues {
            queues::conclude(client).await?;
        }
        Ok(())
    }

    /// Is one client.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn play(self, player: Player) -> Result<(), Failure> {
        match self {
            Self::Strings => strings::play(player).await,
            Self::Pairs => atomicity::play_pairs(player).await,
            Self::Transfers => atomicity::play_transfers(player).await,
            Self::Moves => atomicity::play_moves(player).await,
            Self::Registers => mixed::play_registers(player).await,
            Self::Expiry => expiry::play(player).await,
            Self::Scan => scan::play(player).await,
            Self::Queues => queues::play(player).await,
            Self::Vanish => mixed::play_vanish(player).await,
        }
    }

    /// Checks what clients were told.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn check(self, operations: &[Operation], clock: &NodeClock) -> Result<(), Violation> {
        match self {
            Self::Strings => order::check(operations),
            Self::Pairs | Self::Registers => register::check(operations),
            Self::Transfers => transfers::check(operations, atomicity::TOTAL),
            Self::Moves => moves::check(operations, &atomicity::TOKENS, atomicity::MOVES_KEYS),
            Self::Expiry => expiry_check::check(operations, clock),
            Self::Scan => crate::checks::scan::check(operations, &scan::stable_keys()),
            Self::Queues => queues_check::check(operations),
            Self::Vanish => Ok(()),
        }
    }
}
