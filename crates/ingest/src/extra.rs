//! Columns of Parquet files and Arrow streams that no field of a row is named after. They are ignored, and a warning
//! names them. A column that can only be a misspelled field is an error: ignoring it would change what the log says.

use crate::row::{CANDIDATE_FULL_PREFIX, CANDIDATE_PREFIX, FIELD_NAMES, OUTCOME_PREFIX};
use crate::warning::{Warning, WarningCode};

/// The most columns that a warning names, and the most characters of a name.
const NAMED: usize = 20;
const MOST_CHARACTERS: usize = 60;

/// Whether a column has this name because a field has it.
pub fn is_known(name: &str) -> bool {
    FIELD_NAMES.contains(&name)
        || name.starts_with(CANDIDATE_PREFIX)
        || name.starts_with(CANDIDATE_FULL_PREFIX)
        || is_outcome(name)
}

/// Whether a column has outcomes with names.
fn is_outcome(name: &str) -> bool {
    name == "outcomes" || name.starts_with(OUTCOME_PREFIX)
}

/// Checks the names of a file's columns, and returns those that are ignored. Those of a file that has only candidates
/// are all needed.
///
/// # Errors
/// A column is missing, or is a misspelled field. The message names it.
pub fn extra_columns(names: &[&str], candidates_only: bool) -> Result<Vec<String>, String> {
    let extra: Vec<&str> = names.iter().copied().filter(|name| !is_known(name)).collect();
    let fields = FIELD_NAMES.join(", ");
    if candidates_only {
        return match extra.first() {
            Some(name) => Err(format!(
                "the column {name} is unknown; the columns are {fields}, candidate.NAME and candidate_propensities.NAME"
            )),
            None => Ok(Vec::new()),
        };
    }
    for name in &extra {
        if let Some(problem) = misspelled(name) {
            return Err(format!("the column {} {problem}", shown(name)));
        }
    }
    let named_outcomes = names.iter().any(|name| is_outcome(name));
    // What every log has. A logging policy can supply the propensities, so these are only looked for among the others.
    for (needed, required) in
        [(&["action"][..], true), (&["cost", "reward"], true), (&["propensity", "propensities"], false)]
    {
        if needed.iter().any(|field| names.contains(field)) || (named_outcomes && needed.contains(&"cost")) {
            continue;
        }
        let similar = extra.iter().find(|name| needed.iter().any(|field| is_close(name, field)));
        let needed = needed.join(" or ");
        match similar {
            Some(name) => {
                return Err(format!("the column {needed} is missing; rename the column {}?", shown(name)));
            }
            None if required => {
                return Err(format!(
                    "the column {needed} is missing; the columns are {fields}, outcome.NAME and candidate.NAME"
                ));
            }
            None => {}
        }
    }
    Ok(extra.into_iter().map(str::to_owned).collect())
}

/// Why a column can only be a misspelled field, if it can.
fn misspelled(name: &str) -> Option<String> {
    let plain = plain(name);
    if let Some(field) = FIELD_NAMES.iter().find(|field| self::plain(field) == plain) {
        return Some(format!("is unknown; the field is called {field}"));
    }
    let number = |letter: char| {
        let digits = name.strip_prefix(letter)?;
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(())
    };
    let list = [('x', "x"), ('p', "propensities")].into_iter().find(|(letter, _)| number(*letter).is_some());
    list.map(|(_, field)| format!("is unknown; in this format, {field} is one column of lists"))
}

/// The warning about ignored columns, if there are any.
pub fn warning_of(ignored: &[String]) -> Option<Warning> {
    if ignored.is_empty() {
        return None;
    }
    let one = |name: &String| match FIELD_NAMES.iter().find(|field| is_close(name, field)) {
        Some(field) => format!("{} (was {field} meant?)", shown(name)),
        None => shown(name),
    };
    let mut names: Vec<String> = ignored.iter().take(NAMED).map(one).collect();
    if ignored.len() > NAMED {
        names.push(format!("and {} more", ignored.len() - NAMED));
    }
    let (columns, they) = if ignored.len() == 1 { ("column", "it is") } else { ("columns", "they are") };
    let message = format!("{they} not part of a log: the {columns} {}", names.join(", "));
    Some(Warning { code: WarningCode::ColumnsIgnored, message })
}

fn shown(name: &str) -> String {
    let shown: String = name.chars().take(MOST_CHARACTERS).collect();
    format!("{shown:?}")
}

/// A name without what people vary: case, and what stands between words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a name could be a slip of the pen for a field's: one letter too many, missing, wrong or swapped, or two in
/// a long name. Short words differ by one letter from too many others.
fn is_close(name: &str, field: &str) -> bool {
    let (name, field): (Vec<char>, Vec<char>) =
        (plain(name).chars().collect(), plain(field).chars().collect());
    let most = match field.len() {
        ..=4 => 0,
        5..=8 => 1,
        _ => 2,
    };
    let plural = name.strip_suffix(&['s']) == Some(&field);
    plural || (name.len().abs_diff(field.len()) <= most && distance(&name, &field) <= most)
}

/// The number of letters to add, remove, replace or swap with their neighbor.
fn distance(one: &[char], other: &[char]) -> usize {
    let width = other.len() + 1;
    let mut table = vec![0; (one.len() + 1) * width];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            let at = |i: usize, j: usize| table[i * width + j];
            table[i * width + j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let replaced = at(i - 1, j - 1) + usize::from(one[i - 1] != other[j - 1]);
                    let least = replaced.min(at(i - 1, j) + 1).min(at(i, j - 1) + 1);
                    let swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
                    if swapped { least.min(at(i - 2, j - 2) + 1) } else { least }
                }
            };
        }
    }
    table[one.len() * width + other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: [&str; 3] = ["action", "cost", "propensity"];

    fn with(extra: &str) -> Result<Vec<String>, String> {
        extra_columns(&[&LOG[..], &[extra]].concat(), false)
    }

    #[test]
    fn columns_that_are_no_fields_are_ignored() {
        for name in ["ip", "host", "content_id", "auction", "user.country", "p", "xs1", "ts", ""] {
            assert_eq!(with(name), Ok(vec![name.to_owned()]), "{name}");
            assert!(extra_columns(&[name], true).is_err());
        }
        assert_eq!(with("candidate.new"), Ok(Vec::new()));
    }

    #[test]
    fn a_misspelled_field_is_an_error() {
        for (name, field) in [
            ("Timestamp", "timestamp"),
            ("eventId", "event_id"),
            ("context-id", "context_id"),
            ("X", "x"),
            ("x0", "x is one column of lists"),
            ("p12", "propensities is one column of lists"),
        ] {
            let error = with(name).unwrap_err();
            assert!(error.contains(name) && error.contains(field), "{error}");
        }
    }

    #[test]
    fn a_missing_field_is_looked_for_among_the_others() {
        for (names, expected) in [
            (["acton", "cost", "propensity"], "the column action is missing; rename the column \"acton\"?"),
            (["action", "rewrad", "propensity"], "the column cost or reward is missing; rename"),
            (["action", "cost", "propensites"], "the column propensity or propensities is missing; rename"),
            (["action", "click", "propensity"], "the column cost or reward is missing; the columns are"),
        ] {
            let error = extra_columns(&names, false).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        // A stored logging policy can have them.
        assert_eq!(extra_columns(&["action", "cost", "score"], false), Ok(vec!["score".into()]));
    }

    #[test]
    fn the_warning_names_columns_and_asks_about_similar_ones() {
        let ignored = |names: &[&str]| -> String {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            warning_of(&names).unwrap().message
        };
        assert_eq!(warning_of(&[]), None);
        assert_eq!(ignored(&["ip"]), "it is not part of a log: the column \"ip\"");
        let both = ignored(&["timestmap", "ip"]);
        assert!(both.ends_with("the columns \"timestmap\" (was timestamp meant?), \"ip\""), "{both}");
        let many: Vec<String> = (0..25).map(|i| format!("c{i}")).collect();
        assert!(warning_of(&many).unwrap().message.ends_with("\"c19\", and 5 more"));
    }

    #[test]
    fn distances_count_slips() {
        let between =
            |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("", "ab", 2),
            ("abcd", "xbyd", 2),
        ] {
            assert_eq!((between(a, b), between(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
