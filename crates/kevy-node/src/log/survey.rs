//! Which transactions count after a crash: those of which every participant's log has its part.
//!
//! Each shard looks through its log once before anything is carried out, and keeps the parts that may be missing
//! elsewhere. Parts name up to where their coordinator knew transactions to be durable everywhere; so what is kept is
//! bounded by what was in flight. [`judge`] compares what all shards found. Pure: who reads the logs is somebody else.
//!
//! An *isolated* part that lacks its counterpart is dropped, and nothing else: its keys were locked until it was durable
//! everywhere. On any other one later entries may depend, on whatever shard. So everything of its epoch and later is
//! dropped on all shards: whatever depends on something has no earlier epoch, so that what is left makes sense. Epochs
//! follow a clock: what is lost is what was done in the time that was not durable anyway.

use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{Entry, SurveyedRun, TransactionPart};
use std::collections::{BTreeMap, BTreeSet};

/// What one shard's log tells about transactions over several shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    runs: BTreeMap<u64, Run>,
    /// The runs in the order in which they wrote; the last is the one whose entries are being read.
    order: Vec<u64>,
    /// The run that knew everything before it to be settled.
    settled_before: Option<u64>,
    /// The latest epoch met.
    epoch: u64,
}

/// Transactions of one run of the process, of each run its own numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    /// For each coordinator: before this number all are durable everywhere.
    settled_below: BTreeMap<ShardId, u64>,
    /// Parts that are here and may be missing elsewhere.
    open: BTreeMap<TransactionId, OpenPart>,
    /// Transactions that an earlier recovery has found incomplete.
    dropped: BTreeSet<TransactionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenPart {
    participants: Vec<ShardId>,
    epoch: u64,
    is_isolated: bool,
}

impl Run {
    fn has_settled(&self, id: &TransactionId) -> bool {
        let below = self.settled_below.get(&id.coordinator);
        below.is_some_and(|below| id.sequence < *below)
    }

    fn note(&mut self, part: &TransactionPart) {
        let coordinator = part.id.coordinator;
        let settled = self.settled_below.entry(coordinator).or_default();
        *settled = part.settled_below.max(*settled);
        let settled = *settled;
        self.open
            .retain(|id, _| id.coordinator != coordinator || id.sequence >= settled);
        let open = OpenPart {
            participants: part.participants.clone(),
            epoch: part.epoch,
            is_isolated: part.is_isolated,
        };
        self.open.insert(part.id, open);
    }
}

/// What all surveys together say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Of each run the transactions that are not to be carried out.
    pub dropped: BTreeMap<u64, BTreeSet<TransactionId>>,
    /// The last epoch that counts, if not all do.
    pub above: Option<u64>,
    /// The latest epoch that any log has met.
    pub epoch: u64,
}

impl Survey {
    /// Entries from now on were written by `run`.
    pub fn begin_run(&mut self, run: u64) {
        if self.order.last() != Some(&run) {
            self.order.push(run);
        }
    }

    /// The frames that follow are of `epoch`.
    pub fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Looks at the next entry of the log.
    pub fn note(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Effects(_) | Entry::SnapshotEnd { .. } => {}
            Entry::Part(part, _) => self.note_part(part),
            Entry::Dropped { run, transactions } => {
                let run = self.runs.entry(*run).or_default();
                run.dropped.extend(transactions);
            }
            Entry::Skipped { above } => {
                for run in self.runs.values_mut() {
                    run.open.retain(|_, part| part.epoch <= *above);
                }
            }
            Entry::EarlierRunsSettled => self.settle_earlier_runs(),
            Entry::SnapshotBegin(runs) => self.adopt(runs),
        }
    }

    /// Looks at a part that the run under way writes.
    pub fn note_part(&mut self, part: &TransactionPart) {
        let run = self.order.last().copied().unwrap_or_default();
        self.runs.entry(run).or_default().note(part);
        self.note_epoch(part.epoch);
    }

    fn settle_earlier_runs(&mut self) {
        self.settled_before = self.order.last().copied();
        let last = self.settled_before.unwrap_or_default();
        self.order.retain(|run| *run == last);
        self.runs.retain(|run, _| *run == last);
    }

    /// What a snapshot said of the log before it. It took the place of the log only when all of its parts were settled; only
    /// that it has them is still of interest.
    fn adopt(&mut self, runs: &[SurveyedRun]) {
        for surveyed in runs {
            self.begin_run(surveyed.run);
            let open = surveyed.open.iter().map(|(id, participants)| {
                let part = OpenPart {
                    participants: participants.clone(),
                    epoch: 0,
                    is_isolated: false,
                };
                (*id, part)
            });
            let run = Run {
                settled_below: surveyed.settled_below.iter().copied().collect(),
                open: open.collect(),
                dropped: surveyed.dropped.iter().copied().collect(),
            };
            self.runs.insert(surveyed.run, run);
        }
    }

    /// For a snapshot: what is known so far, by runs in their order. Whether earlier runs are settled is said again behind
    /// it, by who takes the snapshot.
    pub fn surveyed_runs(&self) -> Vec<SurveyedRun> {
        let empty = Run::default();
        let surveyed = self.order.iter().map(|number| {
            let run = self.runs.get(number).unwrap_or(&empty);
            let open = run.open.iter();
            SurveyedRun {
                run: *number,
                settled_below: run.settled_below.iter().map(|(c, b)| (*c, *b)).collect(),
                open: open
                    .map(|(id, part)| (*id, part.participants.clone()))
                    .collect(),
                dropped: run.dropped.iter().copied().collect(),
            }
        });
        surveyed.collect()
    }

    /// Whether the run under way knows that everything before it is settled.
    pub fn has_settled_earlier_runs(&self) -> bool {
        self.settled_before.is_some() && self.settled_before == self.order.last().copied()
    }

    /// The runs that came before one that knew them to be settled.
    fn before(&self, settled: &BTreeSet<u64>) -> impl Iterator<Item = u64> {
        let end = self.order.iter().rposition(|run| settled.contains(run));
        self.order[..end.unwrap_or_default()].iter().copied()
    }
}

/// Judges transactions. `surveys` has one element per shard, in the order of their numbers.
pub fn judge(surveys: &[Survey]) -> Judgement {
    let settled: BTreeSet<u64> = surveys.iter().filter_map(|s| s.settled_before).collect();
    let proven: BTreeSet<u64> = surveys.iter().flat_map(|s| s.before(&settled)).collect();
    let runs: BTreeSet<u64> = surveys
        .iter()
        .flat_map(|s| s.runs.keys().copied())
        .collect();
    let mut judgement = Judgement {
        epoch: surveys.iter().map(|s| s.epoch).max().unwrap_or_default(),
        ..Judgement::default()
    };
    for run in runs.into_iter().filter(|run| !proven.contains(run)) {
        let of_shards: Vec<Option<&Run>> = surveys.iter().map(|s| s.runs.get(&run)).collect();
        judgement.judge_run(run, &of_shards);
    }
    judgement
}

impl Judgement {
    fn judge_run(&mut self, number: u64, shards: &[Option<&Run>]) {
        let known = || shards.iter().flatten();
        let is_settled = |id: &TransactionId| known().any(|run| run.has_settled(id));
        let has = |shard: &ShardId, id: &TransactionId| {
            let run = shards.get(shard.index()).copied().flatten();
            run.is_some_and(|run| run.open.contains_key(id))
        };
        let dropped: BTreeSet<TransactionId> = known()
            .flat_map(|run| run.dropped.iter().copied())
            .collect();
        let mut torn = BTreeSet::new();
        for (id, part) in known().flat_map(|run| &run.open) {
            let lacks = part.participants.iter().any(|shard| !has(shard, id));
            if !lacks || is_settled(id) || dropped.contains(id) {
                continue;
            }
            if part.is_isolated {
                torn.insert(*id);
            } else {
                let above = part.epoch.saturating_sub(1);
                self.above = Some(self.above.map_or(above, |known| known.min(above)));
            }
        }
        torn.extend(dropped);
        if !torn.is_empty() {
            self.dropped.insert(number, torn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::rng::Rng;

    fn id(coordinator: u16, sequence: u64) -> TransactionId {
        TransactionId {
            coordinator: ShardId(coordinator),
            sequence,
        }
    }

    fn part(id: TransactionId, settled_below: u64, participants: &[u16]) -> TransactionPart {
        TransactionPart {
            id,
            settled_below,
            participants: participants.iter().map(|index| ShardId(*index)).collect(),
            epoch: 10 + id.sequence,
            is_isolated: true,
        }
    }

    fn survey(run: u64, parts: &[TransactionPart]) -> Survey {
        let mut survey = Survey::default();
        survey.begin_run(run);
        parts.iter().for_each(|part| survey.note_part(part));
        survey
    }

    fn incomplete(surveys: &[Survey]) -> BTreeMap<u64, BTreeSet<TransactionId>> {
        let judgement = judge(surveys);
        assert_eq!(judgement.above, None);
        judgement.dropped
    }

    #[test]
    fn a_transaction_counts_if_every_participant_has_its_part() {
        let whole = part(id(0, 1), 0, &[0, 1]);
        let half = part(id(1, 1), 0, &[0, 1, 2]);
        let surveys = [
            survey(5, &[whole.clone(), half.clone()]),
            survey(5, &[half.clone(), whole]),
            survey(5, &[]),
        ];
        assert_eq!(
            incomplete(&surveys),
            BTreeMap::from([(5, BTreeSet::from([half.id]))])
        );
    }

    #[test]
    fn what_is_settled_needs_no_proof() {
        // Shard 1 was cut after a snapshot: it has only the later part, which says that the earlier one is settled.
        let early = part(id(0, 1), 0, &[0, 1]);
        let late = part(id(0, 9), 2, &[1]);
        let surveys = [survey(5, &[early]), survey(5, &[late])];
        assert_eq!(incomplete(&surveys), BTreeMap::new());
    }

    #[test]
    fn what_was_dropped_once_stays_dropped() {
        let mut first = survey(5, &[part(id(0, 1), 0, &[0, 1])]);
        let second = first.clone();
        first.begin_run(6);
        let dropped = Entry::Dropped {
            run: 5,
            transactions: vec![id(0, 1)],
        };
        first.note(&dropped);
        let expected = BTreeMap::from([(5, BTreeSet::from([id(0, 1)]))]);
        assert_eq!(incomplete(&[first, second]), expected);
    }

    #[test]
    fn transactions_of_different_runs_are_not_mixed_up() {
        let again = part(id(0, 1), 0, &[0, 1]);
        let surveys = [survey(5, std::slice::from_ref(&again)), survey(6, &[again])];
        let torn = BTreeSet::from([id(0, 1)]);
        assert_eq!(
            incomplete(&surveys),
            BTreeMap::from([(5, torn.clone()), (6, torn)])
        );
    }

    #[test]
    fn runs_before_one_that_knows_them_to_be_settled_need_no_proof() {
        // Shard 1 forgot run 5 when it took a snapshot in run 6, which every shard had begun.
        let mut first = survey(5, &[part(id(0, 1), 0, &[0, 1])]);
        first.begin_run(6);
        let mut second = survey(6, &[]);
        second.note(&Entry::EarlierRunsSettled);
        assert_eq!(incomplete(&[first.clone(), second]), BTreeMap::new());
        let torn = BTreeMap::from([(5, BTreeSet::from([id(0, 1)]))]);
        assert_eq!(incomplete(&[first, survey(6, &[])]), torn);
    }

    #[test]
    fn what_a_snapshot_keeps_is_what_was_known() {
        let mut known = survey(5, &[part(id(0, 3), 2, &[0, 1]), part(id(1, 1), 0, &[1, 0])]);
        known.begin_run(6);
        let dropped = Entry::Dropped {
            run: 5,
            transactions: vec![id(1, 1)],
        };
        known.note(&dropped);
        let mut again = Survey::default();
        again.note(&Entry::SnapshotBegin(known.surveyed_runs()));
        assert_eq!(again.surveyed_runs(), known.surveyed_runs());
        assert_eq!(
            incomplete(&[again, known.clone()]),
            incomplete(&[known.clone(), known])
        );
    }

    fn loose(id: TransactionId, participants: &[u16]) -> TransactionPart {
        TransactionPart {
            is_isolated: false,
            ..part(id, 0, participants)
        }
    }

    #[test]
    fn everything_goes_that_may_depend_on_what_is_missing() {
        let (early, torn, late) = (id(0, 1), id(0, 2), id(0, 3));
        let surveys = [
            survey(5, &[loose(early, &[0, 1]), loose(torn, &[0, 1])]),
            survey(5, &[loose(early, &[0, 1]), loose(late, &[1])]),
        ];
        let judgement = judge(&surveys);
        assert_eq!(judgement.above, Some(11), "the epoch before the torn one");
        assert_eq!(judgement.epoch, 13, "of the latest");
        assert_eq!(judgement.dropped, BTreeMap::new());
    }

    #[test]
    fn what_was_skipped_once_is_missing_from_then_on() {
        let mut first = survey(5, &[loose(id(0, 1), &[0, 1]), loose(id(0, 2), &[0, 1])]);
        let second = first.clone();
        assert_eq!(judge(&[first.clone(), second.clone()]).above, None);
        first.begin_run(6);
        first.note(&Entry::Skipped { above: 11 });
        assert_eq!(judge(&[first, second]).above, Some(11));
    }

    /// Random transactions, logs cut anywhere behind what was synced: those that every participant kept count, no others;
    /// and little is kept.
    #[test]
    fn any_cut_is_judged_rightly() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let mut logs: [Vec<TransactionPart>; 3] = Default::default();
            let mut kept = [0; 3];
            for sequence in 0..50 {
                let participants: Vec<u16> = (0..3).filter(|_| rng.below(2) == 0).collect();
                // Settled is what every shard had synced a while ago.
                let settled_below = if rng.below(4) == 0 {
                    kept = [logs[0].len(), logs[1].len(), logs[2].len()];
                    sequence
                } else {
                    0
                };
                let part = part(id(0, sequence), settled_below, &participants);
                participants
                    .iter()
                    .for_each(|index| logs[usize::from(*index)].push(part.clone()));
            }
            for (log, kept) in logs.iter_mut().zip(kept) {
                log.truncate(kept + rng.below((log.len() - kept) as u64 + 1) as usize);
            }
            let surveys: Vec<Survey> = logs.iter().map(|log| survey(1, log)).collect();
            let torn: BTreeSet<TransactionId> = (0..50)
                .map(|sequence| id(0, sequence))
                .filter(|id| {
                    let found = |log: &Vec<TransactionPart>| log.iter().any(|part| part.id == *id);
                    let part = logs.iter().flatten().find(|part| part.id == *id);
                    part.is_some_and(|part| {
                        !part
                            .participants
                            .iter()
                            .all(|shard| found(&logs[shard.index()]))
                    })
                })
                .collect();
            let expected = if torn.is_empty() {
                BTreeMap::new()
            } else {
                BTreeMap::from([(1, torn)])
            };
            assert_eq!(incomplete(&surveys), expected, "seed {seed}");
        }
    }
}
