//! Lists among the fields of a workload: an experiment at each of their values.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::yaml::Fields;

/// A field that has several values, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name; behind a slash, that of a setting within.
    pub field: String,
    /// Its values.
    pub values: Vec<Value>,
}

/// A combination: the value of each axis, and all fields with them.
type Combination = (Vec<(String, Value)>, Fields);

/// All combinations of the values of all lists, the first list the slowest.
pub(super) fn expand(fields: &Fields, points_max: usize) -> Result<(Vec<Axis>, Vec<Combination>)> {
    let mut axes = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Array(values) => axes.push(Axis { field: name.clone(), values: values.clone() }),
            Value::Object(within) => axes.extend(within.iter().filter_map(|(setting, value)| {
                let values = value.as_array()?.clone();
                Some(Axis { field: format!("{name}/{setting}"), values })
            })),
            _ => {}
        }
    }
    let mut count = 1_usize;
    for Axis { field, values } in &axes {
        ensure!(!values.is_empty(), "{field}: the list is empty");
        ensure!(!values.iter().any(Value::is_array), "{field}: a list of lists");
        count = count.saturating_mul(values.len());
    }
    ensure!(
        count <= points_max,
        "its lists make {count} points: {points_max} are enough for anybody's patience"
    );
    let mut combinations: Vec<Combination> = vec![(Vec::new(), fields.clone())];
    for axis in &axes {
        let with_each = |(at, fields): Combination| {
            axis.values.iter().map(move |value| with(&at, &fields, &axis.field, value)).collect::<Vec<_>>()
        };
        combinations = combinations.into_iter().flat_map(with_each).collect();
    }
    Ok((axes, combinations))
}

fn with(at: &[(String, Value)], fields: &Fields, field: &str, value: &Value) -> Combination {
    let (mut at, mut fields) = (at.to_vec(), fields.clone());
    at.push((field.to_owned(), value.clone()));
    match field.split_once('/') {
        Some((outer, setting)) => {
            if let Some(Value::Object(within)) = fields.get_mut(outer) {
                within.insert(setting.to_owned(), value.clone());
            }
        }
        None => drop(fields.insert(field.to_owned(), value.clone())),
    }
    (at, fields)
}
