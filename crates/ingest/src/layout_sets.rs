//! Whether all rows of a log have action sets, and features of the same form.

use guarantor_engine::log::FeatureSpace;

use crate::action_set::{Form, MAX_SET_ACTIONS, RawSet};
use crate::batch::LogLayout;
use crate::row::{RawRow, RowFault};
use crate::rules::Rules;

/// How the features of a row's request are written, if the row has its own actions.
pub fn request_form(row: &RawRow) -> Form {
    match (&row.x, &row.named) {
        (Some(x), _) if x.len() > 0 => Form::List(x.len()),
        (_, Some(named)) => Form::Named(named.dims),
        _ => Form::None,
    }
}

/// Checks a row that has no actions of its own.
pub fn check_no_set(row: &RawRow, dim: usize, first: Option<&LogLayout>) -> Result<(), RowFault> {
    if first.is_some_and(|first| first.sets.is_some()) {
        return Err(RowFault::new("actions", "is missing, but earlier rows have it"));
    }
    if row.named.is_some() {
        let message = "has named features, which need actions: one entry per available action, for example \
                       [{\"id\": \"0\"}, {\"id\": \"1\"}]; without actions, x is a list of numbers";
        return Err(RowFault::new("x", message));
    }
    let Some(first) = first else { return Ok(()) };
    if first.dim != dim {
        return Err(RowFault::new("x", format!("has {dim} numbers, but earlier rows have {}", first.dim)));
    }
    Ok(())
}

/// Checks a row that has its own actions.
pub fn check_set(
    row: &RawRow,
    set: &RawSet,
    rules: &Rules,
    first: Option<&LogLayout>,
) -> Result<(), RowFault> {
    let (n, most) = (set.len(), rules.limits.actions.min(MAX_SET_ACTIONS));
    match n {
        0 | 1 => {
            let message =
                format!("has {n} actions; a row has 2 to {most}, so leave out rows without a choice");
            return Err(RowFault::new("actions", message));
        }
        _ if n > most => {
            let message = format!(
                "has {n} actions; a row has 2 to {most}, because jobs take memory for the largest set in every row; \
                 log the actions that a policy chooses from"
            );
            return Err(RowFault::new("actions", message));
        }
        _ => {}
    }
    let Some(first) = first else { return Ok(()) };
    let Some(spaces) = first.sets else {
        return Err(RowFault::new("actions", "is present, but earlier rows do not have it"));
    };
    let empty = row.named.as_ref().is_some_and(|named| named.pairs.is_empty());
    if !(empty && spaces.x == FeatureSpace::None) {
        check_request(request_form(row), spaces.x)?;
    }
    check_actions(set.form, spaces.actions)?;
    let (here, before) = (!set.ids.is_empty(), first.action_ids);
    if here != before {
        let message = match here {
            true => "is present, but the actions of earlier rows have no id",
            false => "is missing, but the actions of earlier rows have an id",
        };
        return Err(RowFault::new("actions[0].id", message));
    }
    Ok(())
}

fn check_request(here: Form, before: FeatureSpace) -> Result<(), RowFault> {
    let message = match (here.space(), before) {
        (here, before) if here == before => return Ok(()),
        (FeatureSpace::List { dim }, FeatureSpace::List { dim: earlier }) => {
            format!("has {dim} numbers, but earlier rows have {earlier}")
        }
        (_, FeatureSpace::None) => "is present, but earlier rows do not have it".into(),
        (FeatureSpace::None, _) => "is missing, but earlier rows have it".into(),
        (FeatureSpace::List { .. }, _) => {
            "is a list of numbers, but earlier rows have named features; write all rows alike".into()
        }
        (_, FeatureSpace::List { dim }) => {
            format!("has named features, but earlier rows have a list of {dim} numbers; write all rows alike")
        }
        (_, FeatureSpace::Named { dim }) => format!("has features in other than {dim} dimensions"),
    };
    Err(RowFault::new("x", message))
}

fn check_actions(here: Form, before: FeatureSpace) -> Result<(), RowFault> {
    let message = match (here.space(), before) {
        (here, before) if here == before => return Ok(()),
        // Actions without any features among others that have some.
        (FeatureSpace::None, FeatureSpace::Named { .. }) => return Ok(()),
        (FeatureSpace::List { dim }, FeatureSpace::List { dim: earlier }) => {
            format!("has {dim} numbers, but the actions of earlier rows have {earlier}")
        }
        (_, FeatureSpace::None) => {
            "has features, but the actions of earlier rows have none; describe the actions of all rows, or of none".into()
        }
        (FeatureSpace::None, _) => "has no features, but the actions of earlier rows have a list of them".into(),
        (FeatureSpace::List { .. }, _) => {
            "is a list of numbers, but the actions of earlier rows have named features; write all rows alike".into()
        }
        (_, FeatureSpace::List { dim }) => format!(
            "has named features, but the actions of earlier rows have lists of {dim} numbers; write all rows alike"
        ),
        (_, FeatureSpace::Named { dim }) => format!("has features in other than {dim} dimensions"),
    };
    Err(RowFault::new("actions[0]", message))
}
