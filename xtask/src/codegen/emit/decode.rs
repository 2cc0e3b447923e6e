//! Writes the decoding of a struct.

use std::fmt::Write;

use super::Style;
use super::shape::{Of, Shape, Slot};
use super::types::default_of;
use super::uses;
use crate::codegen::ranges::{Range, When, when};

pub(super) fn emit(text: &mut String, shape: &Shape) {
    let mut body = String::new();
    if shape.top {
        body.push_str(
            "if !Self::VERSIONS.contains(&version) { return Err(DecodeError::Version { version }); }\n",
        );
    }
    if let When::If(flexible, _) = when(shape.flexible, shape.versions) {
        let _ = writeln!(body, "let flexible = {flexible};");
    }
    let tagged = shape.tagged();
    let rigid_only = when(shape.flexible, shape.versions) == When::Never;
    let mutable = if tagged.is_empty() { "" } else { "mut " };
    let open = if rigid_only { "Ok(Self {".to_owned() } else { format!("let {mutable}it = Self {{") };
    let _ = writeln!(body, "{open}");
    for slot in &shape.slots {
        let _ = writeln!(body, "{}: {},", slot.name, value(slot, shape));
    }
    body.push_str(if rigid_only { "})\n" } else { "};\n" });
    if !rigid_only {
        let end = if tagged.is_empty() { "d.no_tags()?;".to_owned() } else { tags(&tagged, shape) };
        match when(shape.flexible, shape.versions) {
            When::If(..) => drop(writeln!(body, "if flexible {{ {end} }}")),
            _ => drop(writeln!(body, "{end}")),
        }
        body.push_str("Ok(it)\n");
    }
    let version = if uses(&body, "version") { "version" } else { "_version" };
    let d = if uses(&body, "d") { "d" } else { "_d" };
    let _ = writeln!(
        text,
        "fn decode({d}: &mut Decoder<'a>, {version}: i16) -> Result<Self, DecodeError> {{\n{body}}}\n"
    );
}

/// The expression of a field's value, if it is there or not.
fn value(slot: &Slot, shape: &Shape) -> String {
    if slot.tag.is_some() {
        return default_of(slot);
    }
    let read = read(slot, shape, slot.versions);
    match when(slot.versions, shape.versions) {
        When::Always => read,
        When::Never => default_of(slot),
        When::If(present, _) => format!("if {present} {{ {read} }} else {{ {} }}", default_of(slot)),
    }
}

/// The expression that reads a field that is there.
fn read(slot: &Slot, shape: &Shape, context: Range) -> String {
    match when(slot.nullable, context) {
        When::Always => read_nullable(slot, shape),
        When::Never if slot.is_nullable() => format!("Some({})", read_plain(slot, shape)),
        When::Never => read_plain(slot, shape),
        When::If(nullable, _) => {
            let (null, plain) = (read_nullable(slot, shape), read_plain(slot, shape));
            format!("if {nullable} {{ {null} }} else {{ Some({plain}) }}")
        }
    }
}

fn read_plain(slot: &Slot, shape: &Shape) -> String {
    let flexible = shape.flexible();
    let owned = shape.style == Style::Record;
    match &slot.of {
        of if slot.array => format!("d.array({flexible}, {})?", element(of, shape)),
        Of::Bool => "d.bool()?".to_owned(),
        Of::Number(name, _) => format!("d.{name}()?"),
        Of::Uuid => "d.uuid()?".to_owned(),
        Of::Str if owned => format!("d.str({flexible})?.to_owned()"),
        Of::Str => format!("d.str({flexible})?"),
        Of::Bytes if owned => format!("d.bytes({flexible})?.to_vec()"),
        Of::Bytes => format!("d.bytes({flexible})?"),
        Of::Records => format!("d.records({flexible})?"),
        Of::Struct(name) => format!("{name}::decode(d, version)?"),
    }
}

fn read_nullable(slot: &Slot, shape: &Shape) -> String {
    let flexible = shape.flexible();
    let owned = shape.style == Style::Record;
    match &slot.of {
        of if slot.array => format!("d.nullable_array({flexible}, {})?", element(of, shape)),
        Of::Str if owned => format!("d.nullable_str({flexible})?.map(str::to_owned)"),
        Of::Str => format!("d.nullable_str({flexible})?"),
        Of::Bytes if owned => format!("d.nullable_bytes({flexible})?.map(<[u8]>::to_vec)"),
        Of::Bytes => format!("d.nullable_bytes({flexible})?"),
        Of::Records => format!("d.nullable_records({flexible})?"),
        Of::Struct(name) => {
            format!("if d.present()? {{ Some({name}::decode(d, version)?) }} else {{ None }}")
        }
        Of::Bool | Of::Number(..) | Of::Uuid => unreachable!("shapes() refuses them"),
    }
}

/// The least size of an element and how to read it.
fn element(of: &Of, shape: &Shape) -> String {
    let flexible = shape.flexible();
    let length_size = |rigid: usize| match flexible {
        "true" => "1".to_owned(),
        "false" => rigid.to_string(),
        _ => format!("if flexible {{ 1 }} else {{ {rigid} }}"),
    };
    let owned = shape.style == Style::Record;
    match of {
        Of::Bool => "1, Decoder::bool".to_owned(),
        Of::Number(name, size) => format!("{size}, Decoder::{name}"),
        Of::Uuid => "16, Decoder::uuid".to_owned(),
        Of::Str if owned => format!("{}, |d| Ok(d.str({flexible})?.to_owned())", length_size(2)),
        Of::Str => format!("{}, |d| d.str({flexible})", length_size(2)),
        Of::Bytes if owned => format!("{}, |d| Ok(d.bytes({flexible})?.to_vec())", length_size(4)),
        Of::Bytes => format!("{}, |d| d.bytes({flexible})", length_size(4)),
        Of::Records => format!("{}, |d| d.records({flexible})", length_size(4)),
        Of::Struct(name) => format!("{name}::size_min(version), |d| {name}::decode(d, version)"),
    }
}

/// The reading of the tagged fields, in a version that has such.
fn tags(tagged: &[&Slot], shape: &Shape) -> String {
    let flexible = shape.flexible.and(shape.versions);
    let mut text = "d.tags(|tag, d| { match tag {".to_owned();
    for slot in tagged {
        let tag = slot.tag.unwrap_or_default();
        let present = match when(slot.versions, flexible) {
            When::If(present, _) => format!(" if {present}"),
            When::Always | When::Never => String::new(),
        };
        let _ = writeln!(text, "{tag}{present} => it.{} = {},", slot.name, read(slot, shape, slot.versions));
    }
    text.push_str("_ => return Ok(false), } Ok(true) })?;");
    text
}
