//! JSON exactly as `serde_json` writes it, in a third of the time: a Turn is mostly short names and texts, and checking
//! each of their bytes takes longer than the rest of the work. Names of members and variants are copied, texts are
//! checked sixteen bytes at a time, and rare values are left to `serde_json`.

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// Appends a value to the buffer.
pub(super) fn write(buffer: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    value.serialize(Writer(buffer))
}

/// Whether a byte must be escaped in a text.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// How many bytes from the start can be copied.
fn plain_length(bytes: &[u8]) -> usize {
    let (chunks, _) = bytes.as_chunks::<16>();
    // Without branches inside, so that a chunk takes few instructions.
    let is_plain = |chunk: &&[u8; 16]| !chunk.iter().fold(false, |found, byte| found | is_escaped(*byte));
    let plain = chunks.iter().take_while(is_plain).count() * 16;
    let rest = bytes[plain..].iter();
    plain + rest.take_while(|byte| !is_escaped(**byte)).count()
}

fn write_text(buffer: &mut Vec<u8>, text: &str) {
    buffer.reserve(text.len() + 2);
    buffer.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, from) = rest.split_at(plain_length(rest));
        buffer.extend_from_slice(plain);
        let Some((byte, after)) = from.split_first() else { break };
        match byte {
            b'"' => buffer.extend_from_slice(b"\\\""),
            b'\\' => buffer.extend_from_slice(b"\\\\"),
            b'\n' => buffer.extend_from_slice(b"\\n"),
            b'\r' => buffer.extend_from_slice(b"\\r"),
            b'\t' => buffer.extend_from_slice(b"\\t"),
            0x08 => buffer.extend_from_slice(b"\\b"),
            0x0c => buffer.extend_from_slice(b"\\f"),
            byte => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                buffer.extend_from_slice(b"\\u00");
                buffer.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
            }
        }
        rest = after;
    }
    buffer.push(b'"');
}

/// The name of a member or a variant, an identifier, with what stands before and after it.
fn write_name(buffer: &mut Vec<u8>, before: &'static [u8], name: &'static str) {
    debug_assert_eq!(plain_length(name.as_bytes()), name.len(), "a name needs no escapes");
    buffer.reserve(before.len() + name.len() + 2);
    buffer.extend_from_slice(before);
    buffer.extend_from_slice(name.as_bytes());
    buffer.extend_from_slice(b"\":");
}

struct Writer<'b>(&'b mut Vec<u8>);

impl<'b> Writer<'b> {
    /// Writes a rare kind of value by `serde_json`.
    fn by_serde_json(self, value: &impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.0, value)
    }

    fn members(self, begin: &[u8], end: &'static [u8]) -> Members<'b> {
        self.0.extend_from_slice(begin);
        Members { buffer: self.0, end, is_first: true }
    }

    fn variant(self, name: &'static str, begin: &[u8], end: &'static [u8]) -> Members<'b> {
        write_name(self.0, b"{\"", name);
        self.members(begin, end)
    }
}

impl<'b> Serializer for Writer<'b> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Members<'b>;
    type SerializeTuple = Members<'b>;
    type SerializeTupleStruct = Members<'b>;
    type SerializeTupleVariant = Members<'b>;
    type SerializeMap = Members<'b>;
    type SerializeStruct = Members<'b>;
    type SerializeStructVariant = Members<'b>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_text(self.0, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.by_serde_json(&value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        debug_assert_eq!(plain_length(variant.as_bytes()), variant.len(), "a name needs no escapes");
        self.0.reserve(variant.len() + 2);
        self.0.extend_from_slice(b"\"");
        self.0.extend_from_slice(variant.as_bytes());
        self.0.extend_from_slice(b"\"");
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let members = self.variant(variant, b"", b"}");
        value.serialize(Writer(&mut *members.buffer))?;
        members.end()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Members<'b>, Error> {
        Ok(self.members(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Members<'b>, Error> {
        Ok(self.members(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Members<'b>, Error> {
        Ok(self.members(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'b>, Error> {
        Ok(self.variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'b>, Error> {
        Ok(self.members(b"{", b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'b>, Error> {
        Ok(self.members(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'b>, Error> {
        Ok(self.variant(variant, b"{", b"}}"))
    }
}

/// A list or an object under construction.
struct Members<'b> {
    buffer: &'b mut Vec<u8>,
    end: &'static [u8],
    is_first: bool,
}

impl Members<'_> {
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.buffer.push(b',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.next();
        value.serialize(Writer(self.buffer))
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        let before: &[u8] = if std::mem::take(&mut self.is_first) { b"\"" } else { b",\"" };
        write_name(self.buffer, before, name);
        value.serialize(Writer(self.buffer))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as its callers have to")]
    fn end(self) -> Result<(), Error> {
        self.buffer.extend_from_slice(self.end);
        Ok(())
    }
}

impl SerializeSeq for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeTuple for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeTupleStruct for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeTupleVariant for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.element(value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        let start = self.buffer.len();
        key.serialize(Writer(self.buffer))?;
        // A number as a key is written as text.
        if self.buffer.get(start) != Some(&b'"') {
            self.buffer.insert(start, b'"');
            self.buffer.push(b'"');
        }
        self.buffer.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Writer(self.buffer))
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.member(name, value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

impl SerializeStructVariant for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.member(name, value)
    }

    fn end(self) -> Result<(), Error> {
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Newtype(u64);

    #[derive(Serialize)]
    struct Pair(bool, i8);

    #[derive(Serialize)]
    enum Kind {
        Unit,
        Newtype(Option<&'static str>),
        Pair(f64, char),
        Struct { a: Vec<u8>, b: () },
    }

    #[derive(Serialize)]
    struct Everything {
        texts: Vec<String>,
        kinds: Vec<Kind>,
        numbers: (u8, u16, u32, i16, i32, i64, f32, u128, i128),
        map: BTreeMap<String, BTreeMap<i32, Option<Newtype>>>,
        empty: (Vec<u8>, BTreeMap<u8, u8>),
        pair: Pair,
        unit: Unit,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<u8>,
    }

    fn is_as_ever(value: &impl Serialize) {
        let mut written = b"before".to_vec();
        write(&mut written, value).unwrap();
        let expected = format!("before{}", serde_json::to_string(value).unwrap());
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn every_shape_is_written_as_serde_json_writes_it() {
        let inner = BTreeMap::from([(-1, Some(Newtype(u64::MAX))), (7, None)]);
        is_as_ever(&Everything {
            texts: vec![String::new(), "plain".into(), "naïve \u{2028} \"quoted\"".into()],
            kinds: vec![
                Kind::Unit,
                Kind::Newtype(Some("x")),
                Kind::Newtype(None),
                Kind::Pair(0.1, '"'),
                Kind::Pair(f64::NAN, 'é'),
                Kind::Struct { a: vec![0, 255], b: () },
            ],
            numbers: (u8::MAX, u16::MAX, u32::MAX, i16::MIN, i32::MIN, i64::MIN, 1.5, u128::MAX, i128::MIN),
            map: BTreeMap::from([(String::new(), BTreeMap::new()), ("a\"b".into(), inner)]),
            empty: (Vec::new(), BTreeMap::new()),
            pair: Pair(true, -7),
            unit: Unit,
            absent: None,
        });
    }

    #[test]
    fn a_text_is_escaped_as_serde_json_escapes_it_wherever_it_has_to_be() {
        for byte in 0..=0x80 {
            for before in 0..=33 {
                let text = format!("{}{}{}", "a".repeat(before), char::from(byte), "z".repeat(before % 19));
                is_as_ever(&text);
                is_as_ever(&format!("{text}{text}"));
            }
        }
    }
}
