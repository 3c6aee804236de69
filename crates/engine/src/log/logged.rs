//! Rows of which only the probabilities of the logged actions are known, as columns.

use super::Columns;

/// Rows with π0(a|x) and the π(a|x) of one candidate, for the logged action alone. Numbers are in their ranges and not
/// rounded, so they are what was written and what bounds use at once. There is at least one row.
#[derive(Clone, Copy)]
pub struct LoggedRows<'a> {
    /// The logged actions.
    pub actions: &'a [u32],
    /// The costs, in [-1, 0].
    pub costs: &'a [f64],
    /// π0(a|x) of the logged actions.
    pub propensities: &'a [f64],
    /// π(a|x) of the logged actions.
    pub played: &'a [f64],
}

impl<'a> LoggedRows<'a> {
    /// The rows of checked columns, if they are of this kind.
    pub fn of(columns: &'a Columns) -> Option<Self> {
        let [(_, played)] = columns.candidates.as_slice() else { return None };
        let coarse = columns.precision.is_coarse()
            || columns.candidate_precision.iter().any(|precision| precision.is_coarse());
        let more = columns.full.is_some()
            || columns.candidate_full.iter().any(Option::is_some)
            || columns.contexts.is_some()
            || columns.sets.is_some()
            || columns.uniform;
        (!coarse && !more).then_some(LoggedRows {
            actions: &columns.actions,
            costs: &columns.costs,
            propensities: &columns.propensities,
            played,
        })
    }

    /// The same rows in blocks of at most so many.
    pub fn blocks(self, size: usize) -> impl Iterator<Item = LoggedRows<'a>> {
        let actions = self.actions.chunks(size).zip(self.costs.chunks(size));
        let numbers = self.propensities.chunks(size).zip(self.played.chunks(size));
        actions.zip(numbers).map(|((actions, costs), (propensities, played))| LoggedRows {
            actions,
            costs,
            propensities,
            played,
        })
    }
}
