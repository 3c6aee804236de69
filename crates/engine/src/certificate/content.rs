//! What the digest of a certificate covers: the log, the spec, the policies and the numbers, but not the ids that a
//! service happened to give them. The signature covers the ids.

use super::{Certificate, PartialsRecord};
use crate::digest::digest_of;
use crate::error::Result;
use crate::spec::{Candidate, JobSpec};

/// The first method whose digest does not cover ids. Certificates of earlier methods keep the digest that they have.
const WITHOUT_IDS: u32 = 3;

/// What a stored policy's label starts with; its id follows.
const POLICY: &str = "policy:";

impl Certificate {
    /// The digest of what was certified: everything but the digest itself, with each stored policy named by its own
    /// digest instead of its id, and without the number of the dataset's version and the list of partials. The same log,
    /// spec and seed have the same digest everywhere, however often a policy was stored, in however many parts the log
    /// arrived, and into however many partitions it was divided.
    ///
    /// # Errors
    /// If a number of the certificate is not finite.
    pub fn content_digest(&self) -> Result<String> {
        let mut content = Certificate { digest: String::new(), ..self.clone() };
        if self.method >= WITHOUT_IDS {
            Names::of(self).replace(&mut content);
            content.dataset.version = 0;
            content.merged.iter_mut().for_each(|merged| merged.partials = PartialsRecord::default());
        }
        digest_of(&content)
    }
}

/// The labels of the stored policies of a certificate, each with the label that names the policy by its digest.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(certificate: &Certificate) -> Names {
        let results = certificate.candidates.iter();
        let named = results.filter(|result| result.candidate.starts_with(POLICY));
        let pair = |label: &String, digest: &String| (label.clone(), format!("{POLICY}{digest}"));
        let mut names: Vec<_> = named
            .filter_map(|result| Some(pair(&result.candidate, result.policy_digest.as_ref()?)))
            .collect();
        // A label can be the beginning of a longer one, which is replaced first.
        names.sort_by_key(|(label, _)| std::cmp::Reverse(label.len()));
        Names(names)
    }

    /// Replaces the labels wherever a certificate has them.
    fn replace(&self, certificate: &mut Certificate) {
        let c = certificate;
        let rename = |text: &mut String| self.rename(text);
        rename(&mut c.statement);
        c.reasons.iter_mut().for_each(|reason| rename(&mut reason.message));
        c.candidate.iter_mut().for_each(rename);
        for result in &mut c.candidates {
            rename(&mut result.candidate);
            result.reasons.iter_mut().for_each(|reason| rename(&mut reason.message));
        }
        for record in &mut c.bounds {
            rename(&mut record.event);
            rename(&mut record.subject);
        }
        for share in &mut c.delta_accounting {
            rename(&mut share.event);
            rename(&mut share.what);
        }
        for check in &mut c.checks {
            check.subject.iter_mut().for_each(rename);
            rename(&mut check.message);
        }
        self.replace_in_spec(&mut c.spec);
    }

    fn replace_in_spec(&self, spec: &mut JobSpec) {
        for candidate in &mut spec.candidates {
            let label = candidate.label();
            if let Candidate::Policy { policy_id } = candidate {
                let name = self.0.iter().find(|(own, _)| *own == label).map(|(_, name)| name);
                *policy_id = name.unwrap_or(&label).trim_start_matches(POLICY).to_owned();
            }
        }
        // `prior_digest` stands for the policy.
        spec.prior.iter_mut().for_each(|prior| prior.policy_id = None);
    }

    fn rename(&self, text: &mut String) {
        for (label, name) in &self.0 {
            if text.contains(label.as_str()) {
                *text = text.replace(label.as_str(), name);
            }
        }
    }
}
