//! Valid bytes of any message, made from the schema alone: an encoder that shares nothing with the
//! generated one.

#![expect(clippy::disallowed_methods, reason = "it reads the schema")]
#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../../xtask/src/codegen/ranges.rs"]
mod ranges;
#[path = "../../../../xtask/src/codegen/schema.rs"]
mod schema;

use std::path::Path;

use schema::Field;
pub(crate) use schema::Message;

/// Every message of the schema.
pub(crate) fn schema() -> Vec<Message> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("readable"));
    texts.flat_map(|text| schema::parse(&text).expect("a schema")).collect()
}

/// The message of this name.
pub(crate) fn find<'s>(schema: &'s [Message], name: &str) -> &'s Message {
    schema.iter().find(|message| message.name == name).unwrap_or_else(|| panic!("no {name} in the schema"))
}

/// SplitMix64: the same numbers in every run.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// What to fill a message with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Whatever comes.
    Random,
    /// Nothing where there may be nothing: the shortest message there is.
    Least,
    /// Arrays of the message itself with this many of the shortest elements.
    Many(usize),
    /// Whatever comes, and tagged fields that nobody knows.
    UnknownTags,
}

/// Bytes of a message in a version, without a header.
pub(crate) fn bytes(message: &Message, version: i16, fill: Fill, random: &mut Random) -> Vec<u8> {
    let flexible = message.flexible.contains(version);
    let mut writer = Writer { message, version, flexible, fill, random, out: Vec::new() };
    writer.fields(&message.fields);
    writer.out
}

struct Writer<'m> {
    message: &'m Message,
    version: i16,
    flexible: bool,
    fill: Fill,
    random: &'m mut Random,
    out: Vec<u8>,
}

impl<'m> Writer<'m> {
    fn fields(&mut self, fields: &'m [Field]) {
        let present = |field: &&&Field| field.versions.contains(self.version);
        let present: Vec<&Field> = fields.iter().filter(|field| present(&field)).collect();
        for field in present.iter().filter(|field| field.tag.is_none()) {
            self.field(field);
        }
        if !self.flexible {
            return;
        }
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in present.iter().filter(|field| field.tag.is_some()) {
            if self.fill != Fill::Least && self.random.below(3) > 0 {
                let value = self.apart(|writer| writer.field(field));
                if value != self.default(field) {
                    tagged.push((field.tag.unwrap_or_default(), value));
                }
            }
        }
        if self.fill == Fill::UnknownTags && self.random.below(2) == 0 {
            let len = self.random.below(200);
            tagged.push((100 + self.random.below(1000) as u32, self.random.bytes(len)));
        }
        tagged.sort();
        self.uvarint(tagged.len() as u32);
        for (tag, value) in tagged {
            self.uvarint(tag);
            self.uvarint(value.len() as u32);
            self.out.extend(value);
        }
    }

    /// What a step writes, without writing it.
    fn apart(&mut self, step: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = std::mem::take(&mut self.out);
        step(self);
        std::mem::replace(&mut self.out, before)
    }

    fn field(&mut self, field: &'m Field) {
        let nullable = field.nullable.contains(self.version);
        let least = self.fill != Fill::Random && self.fill != Fill::UnknownTags;
        if nullable && (least || self.random.below(4) == 0) && !(field.array && self.grows()) {
            return self.null(field);
        }
        if !field.array {
            if nullable && field.is_struct() {
                self.out.push(1);
            }
            return self.value(field);
        }
        let count = match self.fill {
            Fill::Least => 0,
            Fill::Many(count) => count,
            Fill::Random | Fill::UnknownTags => self.random.below(4),
        };
        self.len(count);
        let fill = self.fill;
        if self.grows() {
            self.fill = Fill::Least;
        }
        for _ in 0..count {
            self.value(field);
        }
        self.fill = fill;
    }

    fn grows(&self) -> bool {
        matches!(self.fill, Fill::Many(_))
    }

    fn null(&mut self, field: &Field) {
        match () {
            () if field.is_struct() && !field.array => self.out.push(0xff),
            () if self.flexible => self.out.push(0),
            () if field.array || field.of != "string" => self.out.extend([0xff; 4]),
            () => self.out.extend([0xff; 2]),
        }
    }

    fn value(&mut self, field: &'m Field) {
        let random = self.random.next();
        let least = self.fill == Fill::Least || self.grows();
        match field.of.as_str() {
            "bool" => self.out.push((random & 1) as u8),
            "int8" => self.out.push(random as u8),
            "int16" | "uint16" => self.out.extend((random as u16).to_be_bytes()),
            "int32" => self.out.extend((random as u32).to_be_bytes()),
            "int64" => self.out.extend(random.to_be_bytes()),
            "float64" => self.out.extend((random as i64 as f64).to_be_bytes()),
            "uuid" => self.out.extend(self.random.bytes(16)),
            "string" => {
                let len = if least { 0 } else { self.random.below(12) };
                let text: String =
                    (0..len).map(|_| ['a', 'Z', '.', 'ř', '水'][self.random.below(5)]).collect();
                match self.flexible {
                    true => self.uvarint(text.len() as u32 + 1),
                    false => self.out.extend((text.len() as u16).to_be_bytes()),
                }
                self.out.extend(text.as_bytes());
            }
            "bytes" | "records" => {
                let len = if least { 0 } else { self.random.below(200) };
                self.len(len);
                self.out.extend(self.random.bytes(len));
            }
            _ => self.fields(self.fields_of(field)),
        }
    }

    fn fields_of(&self, field: &'m Field) -> &'m [Field] {
        fn within<'f>(fields: &'f [Field], name: &str) -> Option<&'f [Field]> {
            fields.iter().find_map(|field| match field.of == name && !field.fields.is_empty() {
                true => Some(&field.fields[..]),
                false => within(&field.fields, name),
            })
        }
        let shared = self.message.structs.iter().find(|shared| shared.name == field.of);
        let fields = shared.map(|shared| &shared.fields[..]);
        fields.or_else(|| within(&self.message.fields, &field.of)).expect("a struct is defined somewhere")
    }

    /// The bytes of a tagged field's default.
    fn default(&mut self, field: &'m Field) -> Vec<u8> {
        let default = field.default.as_deref();
        self.apart(|writer| {
            if default == Some("null") {
                return writer.null(field);
            }
            if field.array {
                return writer.len(0);
            }
            let number = default.map_or(0, |text| match text {
                "true" => 1,
                text => text.parse::<i64>().expect("a number"),
            });
            match field.of.as_str() {
                "bool" | "int8" => writer.out.push(number as u8),
                "int16" | "uint16" => writer.out.extend((number as i16).to_be_bytes()),
                "int32" => writer.out.extend((number as i32).to_be_bytes()),
                "int64" => writer.out.extend(number.to_be_bytes()),
                "uuid" => writer.out.extend([0; 16]),
                "string" | "bytes" => writer.len(0),
                _ => {
                    for field in writer.fields_of(field) {
                        let default = writer.default(field);
                        writer.out.extend(default);
                    }
                    writer.out.push(0);
                }
            }
        })
    }

    fn len(&mut self, len: usize) {
        match self.flexible {
            true => self.uvarint(len as u32 + 1),
            false => self.out.extend((len as u32).to_be_bytes()),
        }
    }

    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{pair:?} is not hex"))
        })
        .collect()
}
