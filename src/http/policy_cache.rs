//! The parameters of the policies that were asked last. They are JSON of up to many megabytes, and a policy that
//! decides is asked again and again. Stored policies never change, so a digest is enough to know that an entry is
//! the right one.

use std::sync::{Arc, Mutex, PoisonError};

use crate::store::{PolicyId, Store, StoreError, StoredPolicy};
use guarantor_engine::policy::PolicyParams;

/// The most bytes of JSON of all policies together. Their parameters take about as much memory.
const MOST_BYTES: u64 = 128 << 20;
/// The most policies.
const MOST_POLICIES: usize = 256;

/// The cache.
#[derive(Default)]
pub struct PolicyCache(Mutex<Vec<Entry>>);

/// A policy. The entry that was used last is at the end.
struct Entry {
    id: PolicyId,
    digest: String,
    bytes: u64,
    params: Arc<PolicyParams>,
}

impl PolicyCache {
    /// The parameters of a stored policy.
    ///
    /// # Errors
    /// If they are damaged, or the store is unavailable.
    pub async fn params(
        &self,
        store: &Store,
        policy: &StoredPolicy,
    ) -> Result<Arc<PolicyParams>, StoreError> {
        if let Some(params) = self.find(policy) {
            return Ok(params);
        }
        let params = Arc::new(store.policy_params(policy).await?);
        self.keep(policy, params.clone());
        Ok(params)
    }

    fn find(&self, policy: &StoredPolicy) -> Option<Arc<PolicyParams>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|entry| entry.id == policy.id && entry.digest == policy.digest)?;
        entries[at..].rotate_left(1);
        entries.last().map(|entry| entry.params.clone())
    }

    fn keep(&self, policy: &StoredPolicy, params: Arc<PolicyParams>) {
        let (id, digest, bytes) = (policy.id, policy.digest.clone(), policy.params.bytes);
        if bytes > MOST_BYTES {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.id != id);
        entries.push(Entry { id, digest, bytes, params });
        let mut all: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut old = 0;
        while all > MOST_BYTES || entries.len() - old > MOST_POLICIES {
            all -= entries[old].bytes;
            old += 1;
        }
        entries.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::{BlobRef, Timestamp, Workspace};
    use guarantor_engine::policy::PolicyKind;

    fn policy(bytes: u64) -> StoredPolicy {
        StoredPolicy {
            id: PolicyId::new(),
            workspace: Workspace::default(),
            created_at: Timestamp::now(),
            revision: 1,
            kind: PolicyKind::UniformOverSets,
            n_actions: 0,
            dim: 0,
            digest: "sha256:1".into(),
            source_job_id: None,
            origins: BTreeSet::new(),
            params: BlobRef::new("policies/1", bytes),
        }
    }

    #[test]
    fn the_policies_that_were_asked_last_are_kept() {
        let (cache, params) = (PolicyCache::default(), Arc::new(PolicyParams::UniformOverSets {}));
        let policies: Vec<StoredPolicy> = (0..3).map(|_| policy(MOST_BYTES / 2)).collect();
        cache.keep(&policies[0], params.clone());
        cache.keep(&policies[1], params.clone());
        assert!(cache.find(&policies[0]).is_some());
        cache.keep(&policies[2], params.clone());
        let kept: Vec<bool> = policies.iter().map(|policy| cache.find(policy).is_some()).collect();
        assert_eq!(kept, [true, false, true]);
        // Another digest is another policy, and one that is too large is not kept.
        assert!(cache.find(&StoredPolicy { digest: "sha256:2".into(), ..policies[0].clone() }).is_none());
        let large = policy(MOST_BYTES + 1);
        cache.keep(&large, params.clone());
        assert!(cache.find(&large).is_none() && cache.find(&policies[0]).is_some());
        // Many small ones are too many at some point.
        let small: Vec<StoredPolicy> = (0..=MOST_POLICIES).map(|_| policy(1)).collect();
        small.iter().for_each(|policy| cache.keep(policy, params.clone()));
        assert!(cache.find(&small[0]).is_none() && cache.find(&small[1]).is_some());
    }
}
