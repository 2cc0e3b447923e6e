//! A record as one JSON object on one line, under the names that kcat's `-J` has for its parts.
//!
//! ```text
//!   {"topic":"orders","partition":0,"offset":7,"tstype":"create","ts":1790000000000,
//!    "headers":["trace","4711"],"key":"customer 7","payload":"three apples"}
//! ```
//!
//! Nothing is lost on the way: null is `null`, the empty string is `""`, and bytes that are not UTF-8 are
//! `{"base64":"…"}`, wherever a string can stand.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// A record as JSON has it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope<'a> {
    /// The topic. Not read: whoever writes says where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Cow<'a, str>>,
    /// The partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<i32>,
    /// The offset. Not read: the broker gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<i64>,
    /// `create` or `logappend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tstype: Option<Cow<'a, str>>,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ts: Option<i64>,
    /// The broker that it was read from, from kcat. Not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broker: Option<i64>,
    /// Names and values in turn.
    #[serde(default, borrow, skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<Field<'a>>,
    /// What it is about.
    #[serde(default, borrow)]
    pub(crate) key: Field<'a>,
    /// What it says. It must be there: a name that is spelled wrong would delete a key.
    #[serde(borrow)]
    pub(crate) payload: Field<'a>,
}

/// Bytes or null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field<'a>(pub(crate) Option<Cow<'a, [u8]>>);

impl<'a> From<Option<&'a [u8]>> for Field<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Self(bytes.map(Cow::Borrowed))
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(bytes) = &self.0 else { return serializer.serialize_none() };
        match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("base64", &BASE64.encode(bytes))?;
                object.end()
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Bytes)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a string, null or {"base64": "…"}"#)
    }

    fn visit_unit<E>(self) -> Result<Field<'de>, E> {
        Ok(Field(None))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Field<'de>, E> {
        Ok(Field(Some(Cow::Borrowed(text.as_bytes()))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<'de>, E> {
        Ok(Field(Some(Cow::Owned(text.as_bytes().to_vec()))))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut object: M) -> Result<Field<'de>, M::Error> {
        let wanted = || M::Error::custom(r#"an object instead of a string must be {"base64": "…"}"#);
        let Some((name, text)) = object.next_entry::<Cow<'de, str>, Cow<'de, str>>()? else {
            return Err(wanted());
        };
        if name != "base64" || object.next_key::<Cow<'de, str>>()?.is_some() {
            return Err(wanted());
        }
        let bytes = BASE64.decode(text.as_bytes());
        bytes.map(|bytes| Field(Some(Cow::Owned(bytes)))).map_err(|_| M::Error::custom("that is no base64"))
    }
}

impl<'a> Envelope<'a> {
    /// Reads one line; the error says where in it.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(line).map_err(|error| {
            let said = error.to_string();
            let what = said.rsplit_once(" at line ").map_or(&*said, |(what, _)| what);
            format!("{what} (at byte {} of the line)", error.column())
        })?;
        let (pairs, rest) = read.headers.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[name, _]| name.0.is_none()) {
            return Err("headers must be names and values in turn, and no name null".to_owned());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: &[u8]) -> Field<'_> {
        Field::from(Some(bytes))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let envelope = Envelope {
            topic: Some("orders".into()),
            partition: Some(3),
            offset: Some(7),
            tstype: Some("create".into()),
            ts: Some(5),
            broker: None,
            headers: vec![field(b"a"), Field(None), field(b"\xff"), field(b"")],
            key: field(b"\0\xfe"),
            payload: field("ř\"\n".as_bytes()),
        };
        let line = serde_json::to_string(&envelope).expect("it is JSON");
        assert_eq!(
            line,
            r#"{"topic":"orders","partition":3,"offset":7,"tstype":"create","ts":5,"headers":["a",null,{"base64":"/w=="},""],"key":{"base64":"AP4="},"payload":"ř\"\n"}"#
        );
        assert_eq!(Envelope::parse(line.as_bytes()), Ok(envelope));
        let least = Envelope::parse(br#"{"payload":null}"#).expect("that is enough");
        assert_eq!((least.key, least.payload), (Field(None), Field(None)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (r#"{"key":"a"}"#, "missing field `payload`"),
            (r#"{"payload":"a","value":1}"#, "unknown field `value`"),
            (r#"{"payload":1}"#, r#"expected a string, null or {"base64": "…"}"#),
            (r#"{"payload":{"base64":"?"}}"#, "no base64"),
            (r#"{"payload":{"hex":"00"}}"#, r#"must be {"base64": "…"}"#),
            (r#"{"payload":"a","headers":["b"]}"#, "in turn"),
            (r#"{"payload":"a","headers":[null,"b"]}"#, "no name null"),
            ("plain", "at byte 1 of the line"),
            ("", "EOF"),
        ];
        for (line, what) in cases {
            let error = Envelope::parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(what) && !error.contains("line 1"), "{line}: {error}");
        }
        assert!(Envelope::parse(b"{\"payload\":\"\xff\"}").is_err(), "JSON is UTF-8");
    }
}
