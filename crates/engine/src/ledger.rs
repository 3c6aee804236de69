//! The ledger's rules: which looks at a dataset's rows are free, what the others cost, and when a family
//! has no look left (docs/math.md#looks; the argument in full is in docs/trust.md, "Looking many times").
//!
//! Nothing here does I/O. A store fetches the [`EarlierLook`]s that may matter, asks [`enter`] or
//! [`check_family`], and writes the result. All databases give the same answers, because the rules are only
//! here.

mod event;
#[cfg(test)]
mod tests;

use crate::certificate::{Certificate, FamilyPlace, LedgerPlace, SharedLook, SharedWhy};
use crate::error::Result;
use crate::spec::{Family, JobSpec};

pub use event::{anytime_event, asked, holds_at_every_n, prior_is_fixed};

/// How many of a dataset's rows were seen before a look at `rows` of them, given how many each earlier look
/// saw. Such a look certifies only the rows after those, unless it pools (`looks: anytime`).
///
/// Whoever looks again because of what an earlier look had found has chosen the number of rows by their
/// outcomes. A bound at one number of rows is then valid only on rows that no earlier look saw. A look at the
/// same rows does not count: no row was added because of it, and the union bound covers both.
///
/// `elsewhere` are the looks at other datasets that have some of the rows, without those at exactly the same rows:
/// how many of the dataset's first rows contain what they saw. It does not matter which looks came first, because a
/// dataset that has rows of another one may have been made because of what a look at that one had found. If the
/// result is `rows`, there is nothing left to certify.
pub fn seen_rows(
    earlier: impl IntoIterator<Item = u64>,
    elsewhere: impl IntoIterator<Item = u64>,
    rows: u64,
) -> u64 {
    let here = earlier.into_iter().filter(|&seen| seen < rows).max();
    let elsewhere = elsewhere.into_iter().max().map(|seen| seen.min(rows));
    here.max(elsewhere).unwrap_or(0)
}

/// How many rows and contexts a version of a dataset has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    /// Logged decisions.
    pub rows: u64,
    /// Distinct contexts among them.
    pub contexts: u64,
}

impl RowCounts {
    /// Whether no context was logged more than once.
    pub fn each_context_once(self) -> bool {
        self.rows == self.contexts
    }
}

/// The looks at the rows of a ledger so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LedgerSummary {
    /// How many there are.
    pub looks: u64,
    /// The sum of their costs.
    pub spent: f64,
}

/// A look that is already in the ledger.
///
/// A store passes at least those that share the digest, the event, the question or the family of the new
/// look. The lookup is only an index, not a rule: other looks do not change any answer, so passing more
/// looks, or all of them, gives the same result.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierLook {
    /// Its number.
    pub look: u64,
    /// Whether it saw the dataset of the new look. Otherwise it saw another dataset with the same rows, which
    /// shares the ledger.
    pub same_dataset: bool,
    /// The version of the dataset that it saw.
    pub dataset_version: u64,
    /// Whether a certificate was issued. If not, the job showed a bound and then failed or was canceled.
    pub certified: bool,
    /// What it cost.
    pub cost: f64,
    /// Its family.
    pub family: Option<Family>,
    /// The certificate's digest.
    pub digest: Option<String>,
    /// The name of its event ([`anytime_event`]).
    pub event: Option<String>,
    /// The name of its question ([`asked`]); absent for looks of early releases.
    pub asked: Option<String>,
    /// Whether its event holds at every number of rows.
    pub every_n: bool,
}

/// A look that is about to be entered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLook {
    /// The version of the dataset that it saw.
    pub dataset_version: u64,
    /// Its δ.
    pub delta: f64,
    /// Its family.
    pub family: Option<Family>,
    /// The certificate's digest; `None` if the job showed a bound and ended without a certificate.
    pub digest: Option<String>,
    /// The name of its event, if that holds at every number of rows ([`anytime_event`]). Only a certificate
    /// has one.
    pub event: Option<String>,
    /// The name of its question ([`asked`]).
    pub asked: String,
    /// Whether its event holds at every number of rows.
    pub every_n: bool,
    /// Whether the prior does not depend on the rows ([`prior_is_fixed`]).
    pub prior_is_fixed: bool,
}

impl NewLook {
    /// The look of a job that ended with a certificate.
    ///
    /// # Errors
    /// If a number of the certificate or of the spec is not finite.
    pub fn certified(spec: &JobSpec, dataset_version: u64, certificate: &Certificate) -> Result<Self> {
        let event = anytime_event(certificate)?;
        let every_n = event.is_some();
        let digest = Some(certificate.digest.clone());
        Ok(NewLook { digest, event, ..NewLook::of(spec, dataset_version, every_n)? })
    }

    /// The look of a job that showed a bound and ended without a certificate. `rows` is `None` if the
    /// dataset's version is gone.
    ///
    /// # Errors
    /// If a number of the spec is not finite.
    pub fn shown(spec: &JobSpec, dataset_version: u64, rows: Option<RowCounts>) -> Result<Self> {
        NewLook::of(spec, dataset_version, asks_at_every_n(spec, rows))
    }

    fn of(spec: &JobSpec, dataset_version: u64, every_n: bool) -> Result<Self> {
        Ok(NewLook {
            dataset_version,
            delta: spec.delta,
            family: spec.family,
            digest: None,
            event: None,
            asked: asked(spec)?,
            every_n,
            prior_is_fixed: prior_is_fixed(spec),
        })
    }

    fn is_certified(&self) -> bool {
        self.digest.is_some()
    }

    /// Whether the two looks are known to share an event because they ask the same question, and why.
    ///
    /// This is for looks without a certificate, which have neither a digest nor an event by which they could
    /// be recognized. Two certificates are compared by those instead.
    fn asks_the_same(&self, earlier: &EarlierLook) -> Option<SharedWhy> {
        let same = earlier.same_dataset && earlier.asked.as_ref() == Some(&self.asked);
        if !same || (self.is_certified() && earlier.certified) {
            return None;
        }
        if self.every_n && earlier.every_n {
            return Some(SharedWhy::Anytime);
        }
        let same_rows = earlier.dataset_version == self.dataset_version;
        (same_rows && self.prior_is_fixed).then_some(SharedWhy::Asked)
    }
}

/// Whether the event that a spec asks about holds at every number of rows of this dataset.
fn asks_at_every_n(spec: &JobSpec, rows: Option<RowCounts>) -> bool {
    holds_at_every_n(spec) && rows.is_some_and(RowCounts::each_context_once)
}

/// The earliest look for which `why` returns a reason.
fn earliest(earlier: &[EarlierLook], why: impl Fn(&EarlierLook) -> Option<SharedWhy>) -> Option<SharedLook> {
    let shared = earlier.iter().filter_map(|e| Some(SharedLook { look: e.look, why: why(e)? }));
    shared.min_by_key(|shared| shared.look)
}

/// The earlier look whose event the new look shares, which makes the new look free: the same certificate,
/// or else the same event, or else the same question. The last two mean the same only on one dataset: rows
/// that were uploaded again may be in another order, and may have been joined by others.
pub fn shared_look(new: &NewLook, earlier: &[EarlierLook]) -> Option<SharedLook> {
    let equal = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
    earliest(earlier, |e| equal(&new.digest, &e.digest).then_some(SharedWhy::Repeat))
        .or_else(|| {
            earliest(earlier, |e| {
                (e.same_dataset && equal(&new.event, &e.event)).then_some(SharedWhy::Anytime)
            })
        })
        .or_else(|| earliest(earlier, |e| new.asks_the_same(e)))
}

/// How many looks of a family are taken. Free looks do not count.
fn taken(family: &Family, earlier: &[EarlierLook]) -> u64 {
    earlier.iter().filter(|e| e.family.as_ref() == Some(family) && e.cost > 0.0).count() as u64
}

/// The ledger entry of a new look, after the looks that `before` counts.
pub fn enter(new: &NewLook, before: LedgerSummary, earlier: &[EarlierLook]) -> LedgerPlace {
    let shares = shared_look(new, earlier);
    let family = new.family.map(|family| (family, taken(&family, earlier)));
    entry(before, new.delta, shares, family)
}

/// The arithmetic of an entry: a free look costs nothing and takes no look of its family, any other look
/// costs its δ and takes one. `family` comes with the number of looks taken before.
pub fn entry(
    before: LedgerSummary,
    delta: f64,
    shares: Option<SharedLook>,
    family: Option<(Family, u64)>,
) -> LedgerPlace {
    let cost = if shares.is_some() { 0.0 } else { delta };
    let spent = before.spent + cost;
    let family = family.map(|(Family { delta, looks }, taken)| FamilyPlace {
        delta,
        looks,
        taken: taken + u64::from(shares.is_none()),
    });
    let place = LedgerPlace {
        look: before.looks + 1,
        delta,
        cost,
        shares,
        spent_before: before.spent,
        spent,
        family_wise_confidence: family_wise_confidence(spent),
        family,
        statement: String::new(),
    };
    place.worded()
}

/// The probability, at least, that looks with a total cost of `spent` hold together, by the union bound.
pub fn family_wise_confidence(spent: f64) -> f64 {
    (1.0 - spent).clamp(0.0, 1.0)
}

/// A family has no look left for another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoLookLeft {
    /// How many looks the family has.
    pub looks: u64,
    /// How many are taken.
    pub taken: u64,
    /// How many are held by unfinished jobs.
    pub held: u64,
}

/// Checks that the family of a new job, if it has one, has a look left.
///
/// Every unfinished job of the family holds a look until it ends, so every job that ends has a look. A job
/// that is certain to be free needs no look. `asked` is the name of the job's question; `earlier` must
/// contain the looks of the family and those with the same question; `unfinished` are the families of the
/// queued and running jobs on all datasets of the ledger.
///
/// # Errors
/// [`NoLookLeft`] if all looks of the family are taken or held.
pub fn check_family(
    spec: &JobSpec,
    asked: &str,
    rows: Option<RowCounts>,
    earlier: &[EarlierLook],
    unfinished: impl IntoIterator<Item = Option<Family>>,
) -> std::result::Result<(), NoLookLeft> {
    let Some(family) = &spec.family else { return Ok(()) };
    if asks_at_every_n(spec, rows) && is_known(asked, earlier) {
        return Ok(());
    }
    let held = unfinished.into_iter().filter(|held| held.as_ref() == Some(family)).count() as u64;
    let taken = taken(family, earlier);
    if taken + held < family.looks {
        return Ok(());
    }
    Err(NoLookLeft { looks: family.looks, taken, held })
}

/// Whether an earlier look asked the same question and rests on an event that holds at every number of rows.
fn is_known(asked: &str, earlier: &[EarlierLook]) -> bool {
    earlier.iter().any(|e| e.same_dataset && e.every_n && e.asked.as_deref() == Some(asked))
}
