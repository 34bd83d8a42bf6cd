//! Which transactions count after a crash: those of which every participant's log has its part.
//!
//! Each shard looks through its log once before anything is carried out, and keeps the parts that may be missing
//! elsewhere. Parts name up to where their coordinator knew transactions to be durable everywhere; so what is kept is
//! bounded by what was in flight. [`judge`] compares what all shards found. Pure: who reads the logs is somebody else.
//!
//! An *isolated* part that lacks its counterpart is dropped, and nothing else: its keys were locked until it was durable
//! everywhere. Of any other part later entries may depend, so its log counts only up to there; what is cut off may hold
//! parts of other transactions, whose other participants are then judged anew, until nothing changes.

use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{Entry, SurveyedRun, TransactionPart};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What one shard's log tells about transactions over several shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    runs: BTreeMap<u64, Run>,
    /// The runs in the order in which they wrote; the last is the one whose entries are being read.
    order: Vec<u64>,
    /// The run that knew everything before it to be settled.
    settled_before: Option<u64>,
    /// Parts that are here and may be missing elsewhere, in the order of the log.
    open: VecDeque<OpenPart>,
}

/// Transactions of one run of the process, of each run its own numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    /// For each coordinator: before this number all are durable everywhere.
    settled_below: BTreeMap<ShardId, u64>,
    /// Transactions that an earlier recovery has found incomplete.
    dropped: BTreeSet<TransactionId>,
}

impl Run {
    fn has_settled(&self, id: &TransactionId) -> bool {
        let below = self.settled_below.get(&id.coordinator);
        below.is_some_and(|below| id.sequence < *below)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenPart {
    run: u64,
    id: TransactionId,
    /// Where in the log its frame begins; 0 if a snapshot holds it.
    position: u64,
    participants: Vec<ShardId>,
    is_isolated: bool,
}

/// What all surveys together say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Of each run the transactions that are not to be carried out.
    pub dropped: BTreeMap<u64, BTreeSet<TransactionId>>,
    /// For each shard from which position on its log does not count.
    pub cuts: Vec<Option<u64>>,
}

impl Survey {
    /// Entries from now on were written by `run`.
    pub fn begin_run(&mut self, run: u64) {
        if self.order.last() != Some(&run) {
            self.order.push(run);
        }
    }

    /// Looks at the next entry of the log, in the frame at `position`.
    pub fn note(&mut self, entry: &Entry<'_>, position: u64) {
        match entry {
            Entry::Effects(_) | Entry::SnapshotEnd { .. } => {}
            Entry::Part(part, _) => self.note_part(part, position),
            Entry::Dropped { run, transactions } => {
                let run = self.runs.entry(*run).or_default();
                run.dropped.extend(transactions);
            }
            Entry::Skipped { from } => self.open.retain(|part| part.position < *from),
            Entry::EarlierRunsSettled => self.settle_earlier_runs(),
            Entry::SnapshotBegin(runs) => self.adopt(runs),
        }
    }

    /// Looks at a part that the run under way writes.
    pub fn note_part(&mut self, part: &TransactionPart, position: u64) {
        let run = self.order.last().copied().unwrap_or_default();
        let known = self.runs.entry(run).or_default();
        let settled = known.settled_below.entry(part.id.coordinator).or_default();
        *settled = part.settled_below.max(*settled);
        self.open.push_back(OpenPart {
            run,
            id: part.id,
            position,
            participants: part.participants.clone(),
            is_isolated: part.is_isolated,
        });
        self.forget_settled();
    }

    /// Forgets parts that are settled, but none behind one that is not: a cut may come between them.
    fn forget_settled(&mut self) {
        while let Some(part) = self.open.front()
            && self
                .runs
                .get(&part.run)
                .is_some_and(|run| run.has_settled(&part.id))
        {
            self.open.pop_front();
        }
    }

    fn settle_earlier_runs(&mut self) {
        self.settled_before = self.order.last().copied();
        let last = self.settled_before.unwrap_or_default();
        self.order.retain(|run| *run == last);
        self.runs.retain(|run, _| *run == last);
        self.open.retain(|part| part.run == last);
    }

    /// What a snapshot said of the log before it.
    fn adopt(&mut self, runs: &[SurveyedRun]) {
        for surveyed in runs {
            self.begin_run(surveyed.run);
            let run = Run {
                settled_below: surveyed.settled_below.iter().copied().collect(),
                dropped: surveyed.dropped.iter().copied().collect(),
            };
            self.runs.insert(surveyed.run, run);
            let open = surveyed.open.iter().map(|(id, participants)| OpenPart {
                run: surveyed.run,
                id: *id,
                position: 0,
                participants: participants.clone(),
                is_isolated: false,
            });
            self.open.extend(open);
        }
    }

    /// For a snapshot: what is known so far, by runs in their order. Whether earlier runs are settled is said again behind
    /// it, by who takes the snapshot.
    pub fn surveyed_runs(&self) -> Vec<SurveyedRun> {
        let empty = Run::default();
        let surveyed = self.order.iter().map(|number| {
            let run = self.runs.get(number).unwrap_or(&empty);
            let open = self.open.iter().filter(|part| part.run == *number);
            SurveyedRun {
                run: *number,
                settled_below: run.settled_below.iter().map(|(c, b)| (*c, *b)).collect(),
                open: open
                    .map(|part| (part.id, part.participants.clone()))
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

    /// How many parts are kept, of all runs.
    pub fn open_parts(&self) -> usize {
        self.open.len()
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
    let mut judge = Judge {
        surveys,
        proven: surveys.iter().flat_map(|s| s.before(&settled)).collect(),
        places: surveys.iter().map(places).collect(),
        judgement: Judgement {
            dropped: BTreeMap::new(),
            cuts: vec![None; surveys.len()],
        },
    };
    for survey in surveys {
        for (number, run) in &survey.runs {
            if !run.dropped.is_empty() && !judge.proven.contains(number) {
                let dropped = judge.judgement.dropped.entry(*number).or_default();
                dropped.extend(&run.dropped);
            }
        }
    }
    while judge.has_changed() {}
    judge.judgement
}

fn places(survey: &Survey) -> BTreeMap<(u64, TransactionId), u64> {
    let open = survey.open.iter();
    open.map(|part| ((part.run, part.id), part.position))
        .collect()
}

struct Judge<'a> {
    surveys: &'a [Survey],
    /// Runs whose transactions need no proof.
    proven: BTreeSet<u64>,
    /// For each shard where its open parts are.
    places: Vec<BTreeMap<(u64, TransactionId), u64>>,
    judgement: Judgement,
}

impl Judge<'_> {
    /// Judges all parts once; whether that has changed anything.
    fn has_changed(&mut self) -> bool {
        let before = self.judgement.clone();
        for (index, survey) in self.surveys.iter().enumerate() {
            for part in &survey.open {
                if self.proven.contains(&part.run)
                    || self.is_dropped(part)
                    || !self.counts(index, part.position)
                    || self.is_complete(part)
                {
                    continue;
                }
                if part.is_isolated {
                    let dropped = self.judgement.dropped.entry(part.run).or_default();
                    dropped.insert(part.id);
                } else {
                    let cut = &mut self.judgement.cuts[index];
                    *cut = Some(cut.map_or(part.position, |cut| cut.min(part.position)));
                }
            }
        }
        before != self.judgement
    }

    fn is_dropped(&self, part: &OpenPart) -> bool {
        let of_run = self.judgement.dropped.get(&part.run);
        of_run.is_some_and(|dropped| dropped.contains(&part.id))
    }

    /// Whether the log of a shard counts at `position`.
    fn counts(&self, shard: usize, position: u64) -> bool {
        self.judgement.cuts[shard].is_none_or(|cut| position < cut)
    }

    fn is_complete(&self, part: &OpenPart) -> bool {
        part.participants.iter().all(|shard| {
            let places = self.places.get(shard.index());
            match places.and_then(|places| places.get(&(part.run, part.id))) {
                Some(position) => self.counts(shard.index(), *position),
                // It may have been forgotten there, but only once it was settled.
                None => self.is_settled(part),
            }
        })
    }

    fn is_settled(&self, part: &OpenPart) -> bool {
        let runs = self.surveys.iter().filter_map(|s| s.runs.get(&part.run));
        runs.into_iter().any(|run| run.has_settled(&part.id))
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
            is_isolated: true,
        }
    }

    /// A log with parts at 1, 2, 3, ...
    fn survey(run: u64, parts: &[TransactionPart]) -> Survey {
        let mut survey = Survey::default();
        survey.begin_run(run);
        for (position, part) in (1..).zip(parts) {
            survey.note_part(part, position);
        }
        survey
    }

    fn incomplete(surveys: &[Survey]) -> BTreeMap<u64, BTreeSet<TransactionId>> {
        let judgement = judge(surveys);
        assert!(judgement.cuts.iter().all(Option::is_none), "{judgement:?}");
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
        first.note(&dropped, 9);
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
        second.note(&Entry::EarlierRunsSettled, 1);
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
        known.note(&dropped, 9);
        let mut again = Survey::default();
        again.note(&Entry::SnapshotBegin(known.surveyed_runs()), 0);
        assert_eq!(again.surveyed_runs(), known.surveyed_runs());
        assert_eq!(
            incomplete(&[again, known.clone()]),
            incomplete(&[known.clone(), known])
        );
    }

    #[test]
    fn a_log_is_cut_where_others_may_depend_on_what_is_missing() {
        let loose = |sequence, participants: &[u16]| TransactionPart {
            is_isolated: false,
            ..part(id(0, sequence), 0, participants)
        };
        // Shard 1 lacks transaction 1; so shard 0 loses 2 as well, and shard 2 all from 2 on.
        let surveys = [
            survey(5, &[loose(1, &[0, 1]), loose(2, &[0, 2])]),
            survey(5, &[]),
            survey(5, &[loose(9, &[2]), loose(2, &[0, 2])]),
        ];
        let judgement = judge(&surveys);
        assert_eq!(judgement.cuts, [Some(1), None, Some(2)]);
        assert_eq!(judgement.dropped, BTreeMap::new());
    }

    #[test]
    fn what_was_skipped_once_is_missing_from_then_on() {
        let loose = TransactionPart {
            is_isolated: false,
            ..part(id(0, 1), 0, &[0, 1])
        };
        let mut first = survey(5, std::slice::from_ref(&loose));
        let second = survey(5, &[part(id(1, 7), 0, &[1]), loose]);
        first.begin_run(6);
        first.note(&Entry::Skipped { from: 1 }, 4);
        assert_eq!(judge(&[first, second]).cuts, [None, Some(2)]);
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
