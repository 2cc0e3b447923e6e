//! Writes a struct and its default.

use std::fmt::Write;

use super::Style;
use super::shape::{Default, Of, Shape, Slot, find};

pub(super) fn emit(text: &mut String, shape: &Shape, shapes: &[Shape]) {
    let zero = shape.has_zero_default();
    let default = if zero { ", Default" } else { "" };
    let generic = if shape.borrowed { "<'a>" } else { "" };
    let _ = writeln!(text, "#[derive(Clone, Debug, PartialEq{default})]");
    let _ = writeln!(text, "pub struct {}{generic} {{", shape.name);
    for slot in &shape.slots {
        let _ = writeln!(text, "pub {}: {},", slot.name, type_of(slot, shape.style, shapes));
    }
    text.push_str("}\n\n");
    if !zero {
        let generic = if shape.borrowed { "<'_>" } else { "" };
        let _ = writeln!(text, "impl Default for {}{generic} {{ fn default() -> Self {{ Self {{", shape.name);
        for slot in &shape.slots {
            let _ = writeln!(text, "{}: {},", slot.name, default_of(slot));
        }
        text.push_str("} } }\n\n");
    }
}

fn type_of(slot: &Slot, style: Style, shapes: &[Shape]) -> String {
    let of = match (&slot.of, style) {
        (Of::Bool, _) => "bool".to_owned(),
        (Of::Number(name, _), _) => (*name).to_owned(),
        (Of::Uuid, _) => "Uuid".to_owned(),
        (Of::Str, Style::Wire) => "&'a str".to_owned(),
        (Of::Str, Style::Record) => "String".to_owned(),
        (Of::Bytes, Style::Wire) => "&'a [u8]".to_owned(),
        (Of::Bytes, Style::Record) => "Vec<u8>".to_owned(),
        (Of::Records, _) => "Records<'a>".to_owned(),
        (Of::Struct(name), _) => {
            let generic = if find(name, shapes).borrowed { "<'a>" } else { "" };
            format!("{name}{generic}")
        }
    };
    let of = if slot.array { format!("Vec<{of}>") } else { of };
    if slot.is_nullable() { format!("Option<{of}>") } else { of }
}

/// The expression of a field's default.
pub(super) fn default_of(slot: &Slot) -> String {
    let zero = match &slot.of {
        _ if slot.array => "Vec::new()".to_owned(),
        Of::Bool => "false".to_owned(),
        Of::Number("f64", _) => "0.0".to_owned(),
        Of::Number(..) => "0".to_owned(),
        Of::Uuid => "Uuid::ZERO".to_owned(),
        Of::Str | Of::Bytes | Of::Records => "Default::default()".to_owned(),
        Of::Struct(name) => format!("{name}::default()"),
    };
    match &slot.default {
        Default::Null => "None".to_owned(),
        Default::True => "true".to_owned(),
        Default::Number(number) => number.to_string(),
        Default::Zero if slot.is_nullable() => format!("Some({zero})"),
        Default::Zero => zero,
    }
}

/// The condition that a field is not its default.
pub(super) fn is_set(slot: &Slot) -> String {
    let field = format!("self.{}", slot.name);
    match (&slot.default, &slot.of) {
        (Default::Null, _) => format!("{field}.is_some()"),
        (Default::True, _) => format!("!{field}"),
        (Default::Number(number), _) => format!("{field} != {number}"),
        (Default::Zero, _) if slot.is_nullable() => format!("{field}.as_ref().is_none_or(|x| !x.is_empty())"),
        (Default::Zero, _) if slot.array => format!("!{field}.is_empty()"),
        (Default::Zero, Of::Bool) => field,
        (Default::Zero, Of::Number("f64", _)) => format!("{field} != 0.0"),
        (Default::Zero, Of::Number(..)) => format!("{field} != 0"),
        (Default::Zero, Of::Uuid) => format!("!{field}.is_zero()"),
        (Default::Zero, Of::Str | Of::Bytes | Of::Records) => format!("!{field}.is_empty()"),
        (Default::Zero, Of::Struct(name)) => format!("{field} != {name}::default()"),
    }
}
