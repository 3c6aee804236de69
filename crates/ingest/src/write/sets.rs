//! Action sets of written logs: named features of the request and of each of its actions.

use std::borrow::Cow;

use super::numbers::double;

/// The features of a written log with action sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetLayout {
    /// Those of a request.
    pub request: Namespace,
    /// Those of an action.
    pub action: Namespace,
}

/// Features with a common name, such as `User`. They read as `User.age` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Their common name.
    pub name: &'static str,
    /// The name of each, and whether it is a text.
    pub features: &'static [(&'static str, bool)],
}

/// The value of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureValue {
    /// A text without quotation marks and backslashes. It reads as the feature `name=text` with value 1.
    Text(Cow<'static, str>),
    /// A number.
    Number(f64),
}

/// The action set of a row, with values in the order of the layout's features.
#[derive(Debug, Clone, Copy)]
pub struct LoggedSet<'a> {
    /// The values of the request's features.
    pub request: &'a [FeatureValue],
    /// The values of each action's features.
    pub actions: &'a [Vec<FeatureValue>],
}

/// Appends `{"User":{"segment":"s1","age":0.3}}`.
pub fn object(line: &mut Vec<u8>, namespace: &Namespace, values: &[FeatureValue]) {
    line.push(b'{');
    member(line, namespace, values);
    line.push(b'}');
}

/// Appends `"User":{"segment":"s1","age":0.3}`.
pub fn member(line: &mut Vec<u8>, namespace: &Namespace, values: &[FeatureValue]) {
    line.extend(format!("\"{}\":{{", namespace.name).bytes());
    for (i, ((name, _), value)) in namespace.features.iter().zip(values).enumerate() {
        if i > 0 {
            line.push(b',');
        }
        line.extend(format!("\"{name}\":").bytes());
        match value {
            FeatureValue::Text(text) => line.extend(format!("\"{text}\"").bytes()),
            FeatureValue::Number(number) => double(line, *number),
        }
    }
    line.push(b'}');
}

/// Appends the objects of all actions, separated by commas.
pub fn objects(line: &mut Vec<u8>, namespace: &Namespace, actions: &[Vec<FeatureValue>]) {
    for (i, values) in actions.iter().enumerate() {
        if i > 0 {
            line.push(b',');
        }
        object(line, namespace, values);
    }
}

/// The error of a format that cannot hold action sets.
pub fn refused(format: &str) -> String {
    format!("{format} has no action sets; use dsjson, ndjson, parquet or arrow_stream")
}
