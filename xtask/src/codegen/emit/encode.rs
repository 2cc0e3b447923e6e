//! Writes the encoding of a struct.

use std::fmt::Write;

use super::Style;
use super::shape::{Of, Shape, Slot};
use super::types::is_set;
use super::uses;
use crate::codegen::ranges::{Range, When, when};
use crate::codegen::schema::Message;

pub(super) fn emit(text: &mut String, message: &Message, shape: &Shape) {
    let mut body = String::new();
    if shape.top {
        let _ = writeln!(
            body,
            "if !Self::VERSIONS.contains(&version) {{
                return Err(EncodeError::Version {{ message: \"{}\", version }});
            }}",
            message.name
        );
    }
    if let When::If(flexible, _) = when(shape.flexible, shape.versions) {
        let _ = writeln!(body, "let flexible = {flexible};");
    }
    for slot in shape.slots.iter().filter(|slot| slot.tag.is_none()) {
        plain(&mut body, slot, shape);
    }
    let tagged = shape.tagged();
    for slot in tagged.iter().filter(|slot| !slot.ignorable) {
        if let When::If(_, absent) = when(slot.versions, shape.versions) {
            let _ = writeln!(body, "if {absent} && {} {{ {} }}", is_set(slot), missing(slot, shape));
        }
    }
    let end = if tagged.is_empty() { "e.no_tags();".to_owned() } else { tags(&tagged, shape) };
    match when(shape.flexible, shape.versions) {
        When::Always => drop(writeln!(body, "{end}")),
        When::If(..) => drop(writeln!(body, "if flexible {{ {end} }}")),
        When::Never => {}
    }
    let version = if uses(&body, "version") { "version" } else { "_version" };
    let e = if uses(&body, "e") { "e" } else { "_e" };
    let _ = writeln!(
        text,
        "fn encode(&self, {e}: &mut Encoder, {version}: i16) -> Result<(), EncodeError> {{\n{body}Ok(())\n}}"
    );
}

fn plain(text: &mut String, slot: &Slot, shape: &Shape) {
    let write = write_value(slot, shape, slot.versions);
    let _ = match when(slot.versions, shape.versions) {
        When::Always => writeln!(text, "{write}"),
        When::If(present, _) if slot.ignorable => writeln!(text, "if {present} {{ {write} }}"),
        When::If(present, _) => {
            let (set, missing) = (is_set(slot), missing(slot, shape));
            writeln!(text, "if {present} {{ {write} }} else if {set} {{ {missing} }}")
        }
        When::Never => Ok(()),
    };
}

fn missing(slot: &Slot, shape: &Shape) -> String {
    format!("return Err(EncodeError::Field {{ field: \"{}.{}\", version }});", shape.name, slot.name)
}

/// The statements that write a field that is there.
fn write_value(slot: &Slot, shape: &Shape, context: Range) -> String {
    let field = format!("self.{}", slot.name);
    match when(slot.nullable, context) {
        When::Always => nullable(slot, shape),
        When::Never if slot.is_nullable() => format!("{{ {} }}", unwrapped(slot, shape)),
        When::Never => value(slot, shape, &field, false),
        When::If(may_be, _) => {
            format!("if {may_be} {{ {} }} else {{ {} }}", nullable(slot, shape), unwrapped(slot, shape))
        }
    }
}

/// Writes what may be null in other versions only.
fn unwrapped(slot: &Slot, shape: &Shape) -> String {
    let borrow = match (&slot.of, shape.style) {
        (Of::Struct(_), _) if !slot.array => ".as_ref()",
        (Of::Str | Of::Bytes | Of::Records, Style::Wire) if !slot.array => "",
        _ => ".as_deref()",
    };
    let (name, field) = (&slot.name, format!("{}.{}", shape.name, slot.name));
    let value = value(slot, shape, "x", true);
    format!(
        "let x = self.{name}{borrow}.ok_or(EncodeError::Null {{ field: \"{field}\", version }})?;\n{value}"
    )
}

/// The statement that writes a value; `borrowed` if the expression is a reference already.
fn value(slot: &Slot, shape: &Shape, field: &str, borrowed: bool) -> String {
    let flexible = shape.flexible();
    let owned = shape.style == Style::Record;
    let reference = if borrowed { "" } else { "&" };
    let text_reference = if owned { reference } else { "" };
    match &slot.of {
        of if slot.array => format!("e.array({reference}{field}, {flexible}, {})?;", element(of, shape)),
        Of::Bool => format!("e.bool({field});"),
        Of::Number(_, _) if is_error_code(slot, shape) => format!("e.error_code({field});"),
        Of::Number(name, _) => format!("e.{name}({field});"),
        Of::Uuid => format!("e.uuid({field});"),
        Of::Str if slot.name == "error_message" => format!("e.error_message(Some({field}), {flexible})?;"),
        Of::Str => format!("e.str({text_reference}{field}, {flexible})?;"),
        Of::Bytes => format!("e.bytes({text_reference}{field}, {flexible})?;"),
        Of::Records => format!("e.records({field}, {flexible})?;"),
        Of::Struct(_) => format!("{field}.encode(e, version)?;"),
    }
}

/// Whether a number is the outcome of a request: those are counted.
fn is_error_code(slot: &Slot, shape: &Shape) -> bool {
    shape.style == Style::Wire && slot.name == "error_code"
}

fn nullable(slot: &Slot, shape: &Shape) -> String {
    let flexible = shape.flexible();
    let field = format!("self.{}", slot.name);
    let text = if shape.style == Style::Record { ".as_deref()" } else { "" };
    match &slot.of {
        of if slot.array => {
            format!("e.nullable_array({field}.as_deref(), {flexible}, {})?;", element(of, shape))
        }
        Of::Str if slot.name == "error_message" => format!("e.error_message({field}{text}, {flexible})?;"),
        Of::Str => format!("e.nullable_str({field}{text}, {flexible})?;"),
        Of::Bytes => format!("e.nullable_bytes({field}{text}, {flexible})?;"),
        Of::Records => format!("e.nullable_records({field}, {flexible})?;"),
        Of::Struct(_) => {
            format!("e.present({field}.is_some());\nif let Some(x) = &{field} {{ x.encode(e, version)?; }}")
        }
        Of::Bool | Of::Number(..) | Of::Uuid => unreachable!("shapes() refuses them"),
    }
}

fn element(of: &Of, shape: &Shape) -> String {
    let flexible = shape.flexible();
    match of {
        Of::Bool => "|e, x| { e.bool(*x); Ok(()) }".to_owned(),
        Of::Number(name, _) => format!("|e, x| {{ e.{name}(*x); Ok(()) }}"),
        Of::Uuid => "|e, x| { e.uuid(*x); Ok(()) }".to_owned(),
        Of::Str => format!("|e, x| e.str(x, {flexible})"),
        Of::Bytes => format!("|e, x| e.bytes(x, {flexible})"),
        Of::Records => format!("|e, x| e.records(*x, {flexible})"),
        Of::Struct(_) => "|e, x| x.encode(e, version)".to_owned(),
    }
}

/// The writing of the tagged fields, in a version that has such.
fn tags(tagged: &[&Slot], shape: &Shape) -> String {
    let flexible = shape.flexible.and(shape.versions);
    let mut text = "let tags = e.tags();\n".to_owned();
    for slot in tagged {
        let tag = slot.tag.unwrap_or_default();
        let set = match when(slot.versions, flexible) {
            When::If(present, _) => format!("{present} && {}", is_set(slot)),
            When::Always | When::Never => is_set(slot),
        };
        let write = write_value(slot, shape, slot.versions);
        let _ = writeln!(text, "if {set} {{ let tag = e.tag(&tags, {tag}); {write} e.end_tag(tag)?; }}");
    }
    text
}
