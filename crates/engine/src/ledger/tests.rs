//! Tables of cases, and properties on a model of a dataset that is looked at, appended to and looked at
//! again.

use proptest::prelude::*;

use super::*;
use crate::log::Logging;
use crate::spec::{Baseline, BaselineKind, BoundKind, Candidate, JobKind, Looks, Prior, PriorKind};
use SharedWhy::{Anytime, Asked, Repeat};

const ONCE: Option<RowCounts> = Some(RowCounts { rows: 100, contexts: 100 });
const REPEATED: Option<RowCounts> = Some(RowCounts { rows: 100, contexts: 60 });

fn spec(bound: BoundKind) -> JobSpec {
    JobSpec {
        kind: JobKind::Evaluate,
        bound,
        delta: 0.05,
        family: None,
        tau: 0.1,
        xi: None,
        policy_class: None,
        prior: None,
        baseline: Baseline { kind: BaselineKind::Certified, risk: None },
        candidates: vec![Candidate::Logged { name: "b".into() }],
        independent_of_log: Some(true),
        rows_per_day: None,
        min_improvement: 0.0,
        objective: None,
        guardrails: Vec::new(),
        logging: Some(Logging::Adaptive),
        looks: Some(Looks::Anytime),
        seen_rows: None,
        explore: None,
        accept: Vec::new(),
        accepted_by: None,
        optimizer: None,
        seed: 0,
    }
}

fn learning(bound: BoundKind, prior: PriorKind) -> JobSpec {
    let fraction = (prior == PriorKind::Split).then_some(0.5);
    let prior = Some(Prior { kind: prior, policy_id: None, fraction, scale: 1.0 });
    JobSpec { kind: JobKind::Learn, prior, candidates: Vec::new(), ..spec(bound) }
}

/// A certified look whose digest and event no other look has.
fn earlier(look: u64) -> EarlierLook {
    EarlierLook {
        look,
        same_dataset: true,
        dataset_version: 1,
        certified: true,
        cost: 0.05,
        family: None,
        digest: Some(format!("digest {look}")),
        event: None,
        asked: Some(format!("question {look}")),
        every_n: false,
    }
}

fn new_look() -> NewLook {
    NewLook {
        dataset_version: 2,
        delta: 0.05,
        family: None,
        digest: Some("digest".into()),
        event: None,
        asked: "question".into(),
        every_n: false,
        prior_is_fixed: false,
    }
}

/// The entry of a look as the store would keep it.
fn kept(new: &NewLook, place: &LedgerPlace) -> EarlierLook {
    EarlierLook {
        look: place.look,
        same_dataset: true,
        dataset_version: new.dataset_version,
        certified: new.digest.is_some(),
        cost: place.cost,
        family: new.family,
        digest: new.digest.clone(),
        event: new.event.clone(),
        asked: Some(new.asked.clone()),
        every_n: new.every_n,
    }
}

#[test]
fn the_first_look_costs_its_delta() {
    let place = enter(&new_look(), LedgerSummary::default(), &[]);
    assert_eq!((place.look, place.cost, place.spent_before, place.spent), (1, 0.05, 0.0, 0.05));
    assert_eq!((place.shares, place.family), (None, None));
    assert_eq!(place.family_wise_confidence, 0.95);
    assert!(place.statement.starts_with("Look 1"), "{}", place.statement);
}

#[test]
fn costs_add_up_and_confidence_does_not_fall_below_zero() {
    let before = LedgerSummary { looks: 7, spent: 0.97 };
    let place = enter(&new_look(), before, &[earlier(7)]);
    assert_eq!((place.look, place.spent_before, place.spent), (8, 0.97, 0.97 + 0.05));
    assert_eq!(place.family_wise_confidence, 0.0);
}

#[test]
fn rows_are_seen_by_looks_at_fewer_rows() {
    let cases: [(&[u64], u64, u64); 7] = [
        (&[], 100, 0),
        // The same rows again: nothing was added because of the first look.
        (&[100], 100, 0),
        (&[100], 150, 100),
        (&[100, 150], 150, 100),
        (&[150, 100, 120], 200, 150),
        (&[100, 300], 200, 100),
        (&[0], 10, 0),
    ];
    for (earlier, rows, seen) in cases {
        assert_eq!(seen_rows(earlier.iter().copied(), [], rows), seen, "{earlier:?} before {rows}");
    }
}

#[test]
fn rows_are_seen_by_looks_at_other_datasets_with_them() {
    let cases: [(&[u64], &[u64], u64, u64); 5] = [
        (&[], &[100], 150, 100),
        // Nothing is fresh, whatever was seen in the dataset itself.
        (&[], &[100], 100, 100),
        (&[50, 100], &[100], 100, 100),
        (&[120], &[100], 150, 120),
        (&[100], &[30, 150], 150, 150),
    ];
    for (earlier, elsewhere, rows, seen) in cases {
        let found = seen_rows(earlier.iter().copied(), elsewhere.iter().copied(), rows);
        assert_eq!(found, seen, "{earlier:?} and {elsewhere:?} before {rows}");
    }
}

#[test]
fn another_dataset_with_the_same_rows_shares_repeats_only() {
    let elsewhere = |e: EarlierLook| EarlierLook { same_dataset: false, ..e };
    let event = || Some("event".to_string());
    let asked = || Some("question".to_string());
    let new = NewLook { event: event(), every_n: true, ..new_look() };
    let by_event = EarlierLook { event: event(), every_n: true, ..earlier(1) };
    assert!(shared_look(&new, std::slice::from_ref(&by_event)).is_some());
    assert_eq!(shared_look(&new, &[elsewhere(by_event)]), None);
    let shown = NewLook { digest: None, prior_is_fixed: true, ..new_look() };
    let by_question = EarlierLook { asked: asked(), dataset_version: 2, ..earlier(1) };
    assert!(shared_look(&shown, std::slice::from_ref(&by_question)).is_some());
    assert_eq!(shared_look(&shown, &[elsewhere(by_question)]), None);
    let repeated = EarlierLook { digest: Some("digest".into()), ..elsewhere(earlier(1)) };
    assert_eq!(shared_look(&new, &[repeated]), Some(SharedLook { look: 1, why: Repeat }));
    // Looks of a family count on all datasets of the ledger.
    let family = Family { delta: 0.05, looks: 1 };
    let of_family = JobSpec { family: Some(family), ..spec(BoundKind::Betting) };
    let taken = elsewhere(EarlierLook { family: Some(family), ..earlier(1) });
    assert!(check_family(&of_family, "another question", ONCE, &[taken], []).is_err());
}

#[test]
fn the_same_digest_is_a_repeat() {
    let same = |look| EarlierLook { digest: Some("digest".into()), ..earlier(look) };
    let found = shared_look(&new_look(), &[earlier(1), same(3), same(2)]);
    assert_eq!(found, Some(SharedLook { look: 2, why: Repeat }), "the earliest, in any order");
    // A repeat is recognized even if an earlier look shares the event.
    let event = || Some("event".to_string());
    let new = NewLook { event: event(), every_n: true, ..new_look() };
    let by_event = EarlierLook { event: event(), every_n: true, ..earlier(1) };
    assert_eq!(shared_look(&new, &[by_event, same(2)]), Some(SharedLook { look: 2, why: Repeat }));
}

#[test]
fn the_same_event_is_free_on_more_rows() {
    let event = |name: &str| Some(name.to_string());
    let new = NewLook { event: event("a"), every_n: true, ..new_look() };
    let with = |name: &str| EarlierLook { event: event(name), every_n: true, ..earlier(1) };
    assert_eq!(shared_look(&new, &[with("a")]), Some(SharedLook { look: 1, why: Anytime }));
    assert_eq!(shared_look(&new, &[with("b")]), None);
}

#[test]
fn looks_without_names_share_nothing() {
    let unnamed = EarlierLook { digest: None, event: None, asked: None, ..earlier(1) };
    let shown = NewLook { digest: None, ..new_look() };
    assert_eq!(shared_look(&new_look(), std::slice::from_ref(&unnamed)), None);
    assert_eq!(shared_look(&shown, &[unnamed]), None);
}

/// The rule for looks that were shown without a certificate, case by case.
#[test]
fn the_same_question_is_free_if_one_look_has_no_certificate() {
    struct Case {
        new_certified: bool,
        earlier_certified: bool,
        /// Whether the events of the new and of the earlier look hold at every number of rows.
        every_n: (bool, bool),
        same_version: bool,
        prior_is_fixed: bool,
        free: Option<SharedWhy>,
    }
    let case = |certified: (bool, bool), every_n, same_version, prior_is_fixed, free| Case {
        new_certified: certified.0,
        earlier_certified: certified.1,
        every_n,
        same_version,
        prior_is_fixed,
        free,
    };
    let (shown, answered) = (false, true);
    let (all, one) = (true, false);
    let cases = [
        // Both without a certificate.
        case((shown, shown), (one, one), true, true, Some(Asked)),
        case((shown, shown), (one, one), true, false, None),
        case((shown, shown), (one, one), false, true, None),
        case((shown, shown), (all, all), false, true, Some(Anytime)),
        case((shown, shown), (all, all), true, true, Some(Anytime)),
        case((shown, shown), (all, one), false, true, None),
        case((shown, shown), (one, all), true, true, Some(Asked)),
        // A certificate after a bound that was shown, and the other way around.
        case((answered, shown), (one, one), true, true, Some(Asked)),
        case((answered, shown), (all, all), false, true, Some(Anytime)),
        case((answered, shown), (one, one), false, true, None),
        case((shown, answered), (one, one), true, true, Some(Asked)),
        case((shown, answered), (all, all), false, true, Some(Anytime)),
        case((shown, answered), (one, one), true, false, None),
        // Two certificates are compared by their digests and events.
        case((answered, answered), (one, one), true, true, None),
        case((answered, answered), (all, all), true, true, None),
    ];
    for (i, case) in cases.iter().enumerate() {
        let new = NewLook {
            digest: case.new_certified.then(|| "digest".into()),
            dataset_version: 1,
            every_n: case.every_n.0,
            prior_is_fixed: case.prior_is_fixed,
            ..new_look()
        };
        let before = EarlierLook {
            certified: case.earlier_certified,
            digest: case.earlier_certified.then(|| "another digest".into()),
            asked: Some("question".into()),
            dataset_version: if case.same_version { 1 } else { 2 },
            every_n: case.every_n.1,
            ..earlier(1)
        };
        let found = shared_look(&new, std::slice::from_ref(&before));
        assert_eq!(found, case.free.map(|why| SharedLook { look: 1, why }), "case {i}");
        let other = NewLook { asked: "another question".into(), ..new };
        assert_eq!(shared_look(&other, &[before]), None, "case {i} with another question");
    }
}

#[test]
fn what_is_asked_depends_on_neither_the_threshold_nor_the_family() {
    let base = learning(BoundKind::Betting, PriorKind::Zero);
    let same =
        JobSpec { min_improvement: 0.2, family: Some(Family { delta: 0.1, looks: 2 }), ..base.clone() };
    assert_eq!(asked(&base).unwrap(), asked(&same).unwrap());
    for other in [
        JobSpec { delta: 0.04, ..base.clone() },
        JobSpec { tau: 0.2, ..base.clone() },
        JobSpec { seed: 1, ..base.clone() },
        learning(BoundKind::Catoni, PriorKind::Zero),
    ] {
        assert_ne!(asked(&base).unwrap(), asked(&other).unwrap(), "{other:?}");
    }
}

#[test]
fn which_events_hold_at_every_number_of_rows() {
    let known = Baseline { kind: BaselineKind::Known, risk: Some(-0.3) };
    let cases = [
        (spec(BoundKind::Auto), true),
        (spec(BoundKind::Betting), true),
        (spec(BoundKind::Catoni), false),
        (spec(BoundKind::Cbb), false),
        (spec(BoundKind::LondonSandler), false),
        (spec(BoundKind::Ix), false),
        (JobSpec { baseline: known.clone(), ..spec(BoundKind::Ix) }, false),
        (spec(BoundKind::LogSmoothing), false),
        (JobSpec { baseline: known, ..spec(BoundKind::LogSmoothing) }, true),
        (learning(BoundKind::Betting, PriorKind::Zero), true),
        (learning(BoundKind::Betting, PriorKind::Split), false),
        (learning(BoundKind::Auto, PriorKind::Zero), false),
    ];
    for (spec, expected) in cases {
        assert_eq!(holds_at_every_n(&spec), expected, "{spec:?}");
        assert_eq!(NewLook::shown(&spec, 1, ONCE).unwrap().every_n, expected, "{spec:?}");
        assert!(!NewLook::shown(&spec, 1, REPEATED).unwrap().every_n, "{spec:?}");
        assert!(!NewLook::shown(&spec, 1, None).unwrap().every_n, "{spec:?}");
    }
    assert!(prior_is_fixed(&learning(BoundKind::Cbb, PriorKind::Zero)));
    assert!(!prior_is_fixed(&learning(BoundKind::Cbb, PriorKind::Split)));
}

#[test]
fn a_family_counts_only_looks_that_cost_delta() {
    let family = Family { delta: 0.06, looks: 3 };
    let of = |look, family, cost| EarlierLook { family: Some(family), cost, ..earlier(look) };
    let before = [
        of(1, family, 0.02),
        of(2, family, 0.0),
        of(3, Family { looks: 4, ..family }, 0.015),
        of(4, Family { delta: 0.09, ..family }, 0.03),
        earlier(5),
    ];
    let new = NewLook { family: Some(family), delta: 0.02, ..new_look() };
    let summary = LedgerSummary { looks: 5, spent: 0.1 };
    let place = enter(&new, summary, &before).family.unwrap();
    assert_eq!((place.delta, place.looks, place.taken), (0.06, 3, 2));
    let free = NewLook { digest: Some("digest 1".into()), ..new };
    assert_eq!(enter(&free, summary, &before).family.unwrap().taken, 1, "a free look does not count");
}

#[test]
fn unfinished_jobs_hold_looks_of_their_family() {
    let family = Family { delta: 0.06, looks: 3 };
    let job = JobSpec { delta: 0.02, family: Some(family), ..spec(BoundKind::Catoni) };
    let taken = EarlierLook { family: Some(family), cost: 0.02, ..earlier(1) };
    let other = Some(Family { looks: 2, ..family });
    let check = |unfinished: &[Option<Family>]| {
        check_family(&job, "question", ONCE, std::slice::from_ref(&taken), unfinished.iter().copied())
    };
    assert_eq!(check(&[None, other, Some(family)]), Ok(()));
    let full = check(&[Some(family), None, Some(family)]);
    assert_eq!(full, Err(NoLookLeft { looks: 3, taken: 1, held: 2 }));
    let without = JobSpec { family: None, ..job.clone() };
    assert_eq!(
        check_family(&without, "question", ONCE, &[taken], [Some(family); 9]),
        Ok(()),
        "no family, no limit"
    );
}

#[test]
fn a_job_that_will_be_free_needs_no_look() {
    let family = Family { delta: 0.05, looks: 1 };
    let job = JobSpec { family: Some(family), ..spec(BoundKind::Auto) };
    let before =
        EarlierLook { family: Some(family), asked: Some(asked(&job).unwrap()), every_n: true, ..earlier(1) };
    let check = |job: &JobSpec, rows, before: &EarlierLook| {
        check_family(job, &asked(job).unwrap(), rows, std::slice::from_ref(before), []).is_ok()
    };
    assert!(check(&job, ONCE, &before));
    assert!(!check(&job, REPEATED, &before), "not with repeated contexts");
    assert!(!check(&job, None, &before));
    assert!(!check(&JobSpec { tau: 0.2, ..job.clone() }, ONCE, &before), "another question");
    assert!(!check(&job, ONCE, &EarlierLook { every_n: false, ..before.clone() }));
    let catoni = JobSpec { bound: BoundKind::Catoni, ..job };
    let same = EarlierLook { asked: Some(asked(&catoni).unwrap()), ..before };
    assert!(!check(&catoni, ONCE, &same), "its bound holds at one number of rows");
}

/// One step of the model: a job is submitted, or the oldest unfinished one ends, or rows are appended.
#[derive(Debug, Clone)]
enum Step {
    /// The question, a threshold that is part of the digest only, and whether the job has a family.
    Submit {
        question: usize,
        threshold: u8,
        family: bool,
    },
    /// How the oldest unfinished job ends.
    End(Ending),
    Append,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Certificate,
    Shown,
    Unseen,
}

/// What a look's numbers really rest on, known to the model and not to the rules.
#[derive(Debug, Clone, PartialEq)]
enum Truth {
    EveryN(String),
    OneVersion(String, u64),
    OneCertificate(String),
    Unknown(u64),
}

const FAMILY: Family = Family { delta: 0.06, looks: 3 };

fn questions() -> [JobSpec; 4] {
    [
        spec(BoundKind::Auto),
        learning(BoundKind::Betting, PriorKind::Zero),
        learning(BoundKind::Catoni, PriorKind::Zero),
        learning(BoundKind::Auto, PriorKind::Split),
    ]
}

/// A dataset whose contexts were each logged once, its jobs and its ledger.
struct Model {
    version: u64,
    unfinished: Vec<(JobSpec, u64)>,
    looks: Vec<(EarlierLook, Truth)>,
    summary: LedgerSummary,
}

impl Model {
    fn earlier(&self) -> Vec<EarlierLook> {
        self.looks.iter().map(|(look, _)| look.clone()).collect()
    }

    fn submit(&mut self, spec: JobSpec) {
        let held = self.unfinished.iter().map(|(spec, _)| spec.family);
        if check_family(&spec, &asked(&spec).unwrap(), ONCE, &self.earlier(), held).is_ok() {
            self.unfinished.push((spec, self.version));
        }
    }

    /// The look of a job, as the engine would name it.
    fn look(&self, spec: &JobSpec, version: u64, ending: Ending) -> Option<(NewLook, Truth)> {
        let shown = NewLook::shown(spec, version, ONCE).unwrap();
        let new = match ending {
            Ending::Unseen => return None,
            Ending::Shown => shown,
            Ending::Certificate => NewLook {
                digest: Some(format!("{} {version} {}", shown.asked, spec.min_improvement)),
                event: shown.every_n.then(|| format!("event of {}", shown.asked)),
                ..shown
            },
        };
        let truth = match &new {
            NewLook { every_n: true, .. } => Truth::EveryN(new.asked.clone()),
            NewLook { prior_is_fixed: true, .. } => Truth::OneVersion(new.asked.clone(), version),
            NewLook { digest: Some(digest), .. } => Truth::OneCertificate(digest.clone()),
            _ => Truth::Unknown(self.summary.looks + 1),
        };
        Some((new, truth))
    }

    fn end(&mut self, ending: Ending) {
        if self.unfinished.is_empty() {
            return;
        }
        let (spec, version) = self.unfinished.remove(0);
        let Some((new, truth)) = self.look(&spec, version, ending) else { return };
        let earlier = self.earlier();
        let place = enter(&new, self.summary, &earlier);
        assert_eq!(place.look, self.summary.looks + 1, "looks are numbered without gaps");
        assert!(place.cost == 0.0 || place.cost == spec.delta, "{place:?}");
        assert_eq!(place.cost == 0.0, place.shares.is_some());
        assert_eq!((place.spent_before, place.spent), (self.summary.spent, self.summary.spent + place.cost));
        assert!(place.spent >= self.summary.spent, "the total spent never decreases");
        if let Some(shared) = place.shares {
            let (_, other) = &self.looks[shared.look as usize - 1];
            assert_eq!(other, &truth, "a free look names an earlier look that rests on the same event");
        }
        if let Some(family) = place.family {
            assert!(family.taken <= family.looks, "{family:?}");
        }
        self.assert_only_related_looks_matter(&new, &earlier, &place);
        self.summary = LedgerSummary { looks: place.look, spent: place.spent };
        self.looks.push((kept(&new, &place), truth));
    }

    /// The store's lookup: looks that share no name with the new one may be left out.
    fn assert_only_related_looks_matter(&self, new: &NewLook, all: &[EarlierLook], place: &LedgerPlace) {
        let related = all.iter().filter(|e| {
            (e.digest.is_some() && e.digest == new.digest)
                || (e.event.is_some() && e.event == new.event)
                || e.asked.as_ref() == Some(&new.asked)
                || (e.family.is_some() && e.family == new.family)
        });
        let related: Vec<EarlierLook> = related.cloned().collect();
        assert_eq!(&enter(new, self.summary, &related), place);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![Just(Ending::Certificate), Just(Ending::Shown), Just(Ending::Unseen)];
    prop_oneof![
        4 => (0..4usize, 0..2u8, any::<bool>())
            .prop_map(|(question, threshold, family)| Step::Submit { question, threshold, family }),
        4 => ending.prop_map(Step::End),
        1 => Just(Step::Append),
    ]
}

proptest! {
    #[test]
    fn the_rules_hold_in_every_history(steps in prop::collection::vec(step(), 0..60)) {
        let mut model =
            Model { version: 1, unfinished: Vec::new(), looks: Vec::new(), summary: LedgerSummary::default() };
        for step in steps {
            match step {
                Step::Submit { question, threshold, family } => {
                    let spec = questions()[question].clone();
                    let (family, delta) = if family { (Some(FAMILY), 0.02) } else { (None, spec.delta) };
                    let min_improvement = f64::from(threshold) / 10.0;
                    model.submit(JobSpec { family, delta, min_improvement, ..spec });
                }
                Step::End(ending) => model.end(ending),
                Step::Append => model.version += 1,
            }
        }
        let costs = model.looks.iter().map(|(look, _)| look.cost).sum::<f64>();
        prop_assert_eq!(costs, model.summary.spent);
        let taken = model.looks.iter().filter(|(look, _)| look.family == Some(FAMILY) && look.cost > 0.0);
        prop_assert!(taken.count() as u64 <= FAMILY.looks);
    }
}
