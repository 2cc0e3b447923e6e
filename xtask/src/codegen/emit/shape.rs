//! What a struct looks like in Rust: the schema's facts, with every question about them answered.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use super::Style;
use crate::codegen::names;
use crate::codegen::ranges::{Range, When, when};
use crate::codegen::schema::{Field, Message};

/// Structs deeper than this would be a definition that contains itself.
const DEPTH_MAX: usize = 12;

/// A struct to be written.
pub(super) struct Shape {
    pub(super) name: String,
    /// The message itself, not a struct within it.
    pub(super) top: bool,
    pub(super) style: Style,
    /// The versions in which it can occur.
    pub(super) versions: Range,
    pub(super) flexible: Range,
    /// Whether it has a lifetime.
    pub(super) borrowed: bool,
    pub(super) slots: Vec<Slot>,
    /// The fewest bytes it takes, by version from the first of `versions` on.
    size_min: Vec<usize>,
}

/// A field to be written.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) of: Of,
    pub(super) array: bool,
    pub(super) versions: Range,
    pub(super) nullable: Range,
    pub(super) tag: Option<u32>,
    pub(super) default: Default,
    pub(super) ignorable: bool,
}

/// What a field, or an element of it, is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Bool,
    /// A number by its Rust type.
    Number(&'static str, usize),
    Uuid,
    Str,
    Bytes,
    Records,
    Struct(String),
}

/// What a field is if nothing is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Default {
    /// Zero, false, empty.
    Zero,
    Null,
    True,
    Number(i64),
}

impl Shape {
    /// Whether the form of a version is the flexible one: a condition or a constant.
    pub(super) fn flexible(&self) -> &'static str {
        match when(self.flexible, self.versions) {
            When::Always => "true",
            When::Never => "false",
            When::If(..) => "flexible",
        }
    }

    pub(super) fn tagged(&self) -> Vec<&Slot> {
        let mut tagged: Vec<&Slot> = self.slots.iter().filter(|slot| slot.tag.is_some()).collect();
        tagged.sort_by_key(|slot| slot.tag);
        tagged
    }

    pub(super) fn has_zero_default(&self) -> bool {
        self.slots.iter().all(Slot::has_zero_default)
    }
}

impl Slot {
    pub(super) fn is_nullable(&self) -> bool {
        !self.nullable.is_empty()
    }

    /// Whether Rust's own default is the right one.
    fn has_zero_default(&self) -> bool {
        match self.default {
            Default::Zero => !self.is_nullable(),
            Default::Null => true,
            Default::True | Default::Number(_) => false,
        }
    }
}

/// The names of the structs within a message.
pub(super) fn struct_names(message: &Message) -> Vec<&str> {
    fn collect<'m>(fields: &'m [Field], names: &mut Vec<&'m str>) {
        for field in fields.iter().filter(|field| field.is_struct()) {
            names.push(&field.of);
            collect(&field.fields, names);
        }
    }
    let mut names = Vec::new();
    collect(&message.fields, &mut names);
    for shared in &message.structs {
        names.push(&shared.name);
        collect(&shared.fields, &mut names);
    }
    names
}

/// The structs of a message, itself first. Those whose name is taken by the other half of the API get
/// the name of the message in front.
pub(super) fn shapes(style: Style, message: &Message, taken: &[&str]) -> Result<Vec<Shape>> {
    let rename = |name: &str| match taken.contains(&name) {
        true => format!("{}{name}", message.name),
        false => name.to_owned(),
    };
    let mut builder = Builder { style, message, rename: &rename, shapes: Vec::new() };
    builder.add(message.name.clone(), true, message.versions, &message.fields)?;
    for shared in &message.structs {
        builder.add(rename(&shared.name), false, shared.versions.and(message.versions), &shared.fields)?;
    }
    let mut shapes = builder.shapes;
    for at in 0..shapes.len() {
        let borrowed = style == Style::Wire && is_borrowed(&shapes[at], &shapes, 0)?;
        let versions = shapes[at].versions;
        let sizes = (versions.low..=versions.high).map(|version| size_min(&shapes[at], version, &shapes, 0));
        let sizes = sizes.collect::<Result<_>>()?;
        shapes[at].size_min = sizes;
        shapes[at].borrowed = borrowed;
    }
    Ok(shapes)
}

struct Builder<'m> {
    style: Style,
    message: &'m Message,
    rename: &'m dyn Fn(&str) -> String,
    shapes: Vec<Shape>,
}

impl Builder<'_> {
    fn add(&mut self, name: String, top: bool, versions: Range, fields: &[Field]) -> Result<()> {
        ensure!(self.shapes.iter().all(|shape| shape.name != name), "{name} is there twice");
        let slots = fields.iter().filter(|field| !field.versions.and(versions).is_empty());
        let slots: Result<Vec<Slot>> = slots.map(|field| self.slot(field, versions)).collect();
        self.shapes.push(Shape {
            name: name.clone(),
            top,
            style: self.style,
            versions,
            flexible: self.message.flexible,
            borrowed: false,
            slots: slots.with_context(|| name)?,
            size_min: Vec::new(),
        });
        for field in fields.iter().filter(|field| !field.fields.is_empty()) {
            let inner = field.versions.and(versions);
            if !inner.is_empty() {
                self.add((self.rename)(&field.of), false, inner, &field.fields)?;
            }
        }
        Ok(())
    }

    fn slot(&self, field: &Field, context: Range) -> Result<Slot> {
        let of = match field.of.as_str() {
            "bool" => Of::Bool,
            "int8" => Of::Number("i8", 1),
            "int16" => Of::Number("i16", 2),
            "uint16" => Of::Number("u16", 2),
            "int32" => Of::Number("i32", 4),
            "int64" => Of::Number("i64", 8),
            "float64" => Of::Number("f64", 8),
            "uuid" => Of::Uuid,
            "string" => Of::Str,
            "bytes" => Of::Bytes,
            "records" => Of::Records,
            name if field.is_struct() => Of::Struct((self.rename)(name)),
            other => bail!("{} is of type {other:?}", field.name),
        };
        let versions = field.versions.and(context);
        let nullable = field.nullable.and(versions);
        let default = match field.default.as_deref() {
            Some("null") => Default::Null,
            Some("true") => Default::True,
            Some(text) => Default::Number(number(text)?),
            // Kafka's generator gives records no other default.
            None if of == Of::Records && !nullable.is_empty() => Default::Null,
            None => Default::Zero,
        };
        ensure!(default != Default::Null || !nullable.is_empty(), "{} is null by default", field.name);
        let fits = match &of {
            Of::Struct(_) => field.array || nullable.is_empty() || default == Default::Null,
            Of::Records => field.tag.is_none(),
            Of::Bool | Of::Number(..) | Of::Uuid => field.array || nullable.is_empty(),
            Of::Str | Of::Bytes => true,
        };
        ensure!(fits, "the form of {} is unknown", field.name);
        if field.tag.is_some() {
            ensure!(versions.and(self.message.flexible) == versions, "{} is tagged too early", field.name);
        }
        let (name, ignorable) = (names::field(&field.name), field.ignorable);
        Ok(Slot { name, of, array: field.array, versions, nullable, tag: field.tag, default, ignorable })
    }
}

fn number(text: &str) -> Result<i64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("a default of {text:?}"))
}

/// The struct of this name.
pub(super) fn find<'s>(name: &str, shapes: &'s [Shape]) -> &'s Shape {
    shapes.iter().find(|shape| shape.name == name).expect("shapes() found every struct")
}

fn known<'s>(name: &str, shapes: &'s [Shape]) -> Result<&'s Shape> {
    shapes.iter().find(|shape| shape.name == name).with_context(|| format!("what is {name}?"))
}

fn is_borrowed(shape: &Shape, shapes: &[Shape], depth: usize) -> Result<bool> {
    ensure!(depth < DEPTH_MAX, "{} contains itself", shape.name);
    for slot in &shape.slots {
        let borrowed = match &slot.of {
            Of::Str | Of::Bytes | Of::Records => true,
            Of::Struct(name) => is_borrowed(known(name, shapes)?, shapes, depth + 1)?,
            Of::Bool | Of::Number(..) | Of::Uuid => false,
        };
        if borrowed {
            return Ok(true);
        }
    }
    Ok(false)
}

fn size_min(shape: &Shape, version: i16, shapes: &[Shape], depth: usize) -> Result<usize> {
    ensure!(depth < DEPTH_MAX, "{} contains itself", shape.name);
    let flexible = shape.flexible.contains(version);
    let mut size = usize::from(flexible);
    for slot in shape.slots.iter().filter(|slot| slot.tag.is_none() && slot.versions.contains(version)) {
        let long = if flexible { 1 } else { 4 };
        size += match &slot.of {
            _ if slot.array => long,
            Of::Bool => 1,
            Of::Number(_, size) => *size,
            Of::Uuid => 16,
            Of::Str => long.min(2),
            Of::Bytes | Of::Records => long,
            Of::Struct(_) if slot.nullable.contains(version) => 1,
            Of::Struct(name) => size_min(known(name, shapes)?, version, shapes, depth + 1)?,
        };
    }
    Ok(size)
}

/// Writes `size_min`, versions of the same size together.
pub(super) fn emit_size_min(text: &mut String, shape: &Shape) {
    let mut steps: Vec<(Range, usize)> = Vec::new();
    for (version, size) in (shape.versions.low..).zip(&shape.size_min) {
        match steps.last_mut() {
            Some((range, known)) if known == size => range.high = version,
            _ => steps.push((Range { low: version, high: version }, *size)),
        }
    }
    let (_, highest) = steps.pop().unwrap_or((shape.versions, 0));
    if steps.is_empty() {
        let _ = writeln!(text, "fn size_min(_version: i16) -> usize {{ {highest} }}\n");
        return;
    }
    let _ = writeln!(text, "fn size_min(version: i16) -> usize {{ match version {{");
    for (Range { low, high }, size) in steps {
        let _ = match (low == shape.versions.low, low == high) {
            (true, _) => writeln!(text, "..={high} => {size},"),
            (false, true) => writeln!(text, "{low} => {size},"),
            (false, false) => writeln!(text, "{low}..={high} => {size},"),
        };
    }
    let _ = writeln!(text, "_ => {highest},\n}} }}\n");
}
