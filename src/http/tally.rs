//! Who holds how much of something that is limited: uploads, event streams, requests in progress.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// How much one holder may have.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// At most this many for each holder.
    Each(usize),
    /// This many for all. A holder gets another one only while more are free than it holds. So one holder
    /// gets at most half of all, the next one half of the rest, and so on: whatever some hold, others find
    /// some free.
    Shared(usize),
}

/// Counts what each holder has.
pub struct Tally<K> {
    rule: Rule,
    held: Mutex<Held<K>>,
}

struct Held<K> {
    by: HashMap<K, usize>,
    all: usize,
}

/// One unit, until it is dropped.
pub struct Taken<K: Eq + Hash> {
    tally: Arc<Tally<K>>,
    holder: K,
}

impl<K: Clone + Eq + Hash> Tally<K> {
    /// Nothing is held yet.
    pub fn new(rule: Rule) -> Arc<Tally<K>> {
        Arc::new(Tally { rule, held: Mutex::new(Held { by: HashMap::new(), all: 0 }) })
    }

    /// Takes one, or returns how many `holder` has if the rule allows no more.
    ///
    /// # Errors
    /// The number that `holder` has.
    pub fn take(self: &Arc<Self>, holder: &K) -> Result<Taken<K>, usize> {
        let mut held = self.held.lock();
        let Held { by, all } = &mut *held;
        let known = by.get_mut(holder);
        let own = known.as_deref().copied().unwrap_or(0);
        let allowed = match self.rule {
            Rule::Each(most) => own < most,
            Rule::Shared(total) => own < total.saturating_sub(*all),
        };
        if !allowed {
            return Err(own);
        }
        match known {
            Some(count) => *count += 1,
            None => drop(by.insert(holder.clone(), 1)),
        }
        *all += 1;
        drop(held);
        Ok(Taken { tally: self.clone(), holder: holder.clone() })
    }

    /// How many are held by all together.
    pub fn in_use(&self) -> usize {
        self.held.lock().all
    }
}

impl<K: Eq + Hash> Drop for Taken<K> {
    fn drop(&mut self) {
        let mut held = self.tally.held.lock();
        held.all -= 1;
        if let Some(own) = held.by.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                held.by.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(tally: &Arc<Tally<&'static str>>, holder: &'static str) -> Vec<Taken<&'static str>> {
        std::iter::from_fn(|| tally.take(&holder).ok()).collect()
    }

    #[test]
    fn a_shared_tally_always_leaves_some_for_the_next() {
        let tally = Tally::new(Rule::Shared(16));
        let held: Vec<_> = ["a", "b", "c", "d", "e"].map(|who| take_all(&tally, who)).into();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [8, 4, 2, 1, 1]);
        assert_eq!(tally.take(&"f").err(), Some(0), "nothing is free");
        assert_eq!(tally.in_use(), 16);
        drop(held);
        assert_eq!((tally.in_use(), take_all(&tally, "f").len()), (0, 8));
        // One is enough for one at a time.
        let single = Tally::new(Rule::Shared(1));
        let one = take_all(&single, "a");
        assert_eq!((one.len(), single.take(&"b").err()), (1, Some(0)));
    }

    #[test]
    fn a_limit_for_each_does_not_depend_on_others() {
        let tally = Tally::new(Rule::Each(3));
        let (a, b) = (take_all(&tally, "a"), take_all(&tally, "b"));
        assert_eq!((a.len(), b.len(), tally.take(&"a").err()), (3, 3, Some(3)));
        drop(a);
        assert!(
            tally.take(&"a").is_ok() && tally.held.lock().by.len() == 1,
            "holders of nothing are forgotten"
        );
    }
}
