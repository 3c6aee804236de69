//! What learners reach with all labels: test accuracies, measured once with scikit-learn 1.9 by
//! `crates/lab/tools/reference_accuracies.py` (mean over 3 splits, 20 % held out and 5 % set aside, the best of
//! boosted trees, a random forest, a network and logistic regression). The comments say which one it was.

/// The accuracy of the best learner on a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// Its test accuracy.
    pub accuracy: f64,
    /// Whether the table was used to develop the engine's learner.
    pub development: bool,
}

const DEVELOPMENT: [(&str, f64); 8] = [
    ("balance-scale", 0.9653), // network
    ("ecoli", 0.8806),         // logistic
    ("kropt", 0.7018),         // random forest
    ("optdigits", 0.9893),     // network
    ("page-blocks", 0.9726),   // network
    ("satimage", 0.9176),      // random forest
    ("vehicle", 0.8185),       // network
    ("yeast", 0.5980),         // random forest
];

const OTHERS: [(&str, f64); 8] = [
    ("breast_cancer", 0.9735), // logistic
    ("contraceptive", 0.5635), // network
    ("digits", 0.9759),        // random forest
    ("letter", 0.9646),        // random forest
    ("penbased", 0.9945),      // network
    ("segment", 0.9827),       // boosted trees
    ("splice", 0.9624),        // random forest
    ("vowel", 0.9529),         // random forest
];

/// The reference of the table with this name.
pub fn of(name: &str) -> Option<Reference> {
    let found =
        |sets: &[(&str, f64)]| sets.iter().find(|(set, _)| *set == name).map(|(_, accuracy)| *accuracy);
    let development = found(&DEVELOPMENT).map(|accuracy| Reference { accuracy, development: true });
    development.or_else(|| found(&OTHERS).map(|accuracy| Reference { accuracy, development: false }))
}
