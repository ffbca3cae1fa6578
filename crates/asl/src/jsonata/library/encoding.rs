//! Base64 and URLs.

use super::{Arguments, Builtin};
use crate::codec::{base64_digit, base64_four};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::text;
use crate::jsonata::value::{Text, Val};
use std::fmt::Write;

/// The characters that neither encoding changes, besides letters and digits.
const UNRESERVED: &[u8] = b"-_.!~*'()";
/// The further characters that the encoding of a whole URL keeps.
const RESERVED: &[u8] = b";/?:@&=+$,#";

impl Evaluator<'_> {
    /// Text as UTF-8, in base 64.
    pub(super) fn base64_encode(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let mut out = Text::new(&self.meter)?;
        for chunk in text.as_bytes().chunks(3) {
            out.push(&base64_four(chunk).iter().collect::<String>())?;
        }
        Ok(out.finish())
    }

    /// The text of base 64. Bytes that are not UTF-8 are taken for one character each.
    pub(super) fn base64_decode(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.work(4 * text.len() as u64)?;
        let malformed = || Error::plain("The argument of the base64decode function is not base64 encoded");
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
        let (mut bits, mut count) = (0_u32, 0);
        let mut is_padding = false;
        for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            let value = match byte {
                b'=' => {
                    is_padding = true;
                    continue;
                }
                _ if is_padding => return Err(malformed()),
                _ => base64_digit(byte).ok_or_else(malformed)?,
            };
            bits = bits << 6 | value;
            count += 1;
            if count % 4 == 0 {
                bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
                bits = 0;
            }
        }
        match count % 4 {
            1 => return Err(malformed()),
            2 => bytes.push((bits >> 4) as u8),
            3 => bytes.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
            _ => {}
        }
        match String::from_utf8(bytes) {
            Ok(text) => Val::built(&self.meter, &text),
            Err(error) => {
                let text: String = error.into_bytes().into_iter().map(char::from).collect();
                Val::built(&self.meter, &text)
            }
        }
    }

    pub(super) fn encode_url(&self, builtin: Builtin, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let is_whole = builtin == Builtin::EncodeUrl;
        self.meter.work(text.len() as u64)?;
        let mut out = Text::new(&self.meter)?;
        let mut buffer = String::new();
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric()
                || UNRESERVED.contains(&byte)
                || (is_whole && RESERVED.contains(&byte))
            {
                buffer.push(char::from(byte));
            } else {
                write!(buffer, "%{byte:02X}").expect("writing to a String cannot fail");
            }
            if buffer.len() > 1024 {
                out.push(&std::mem::take(&mut buffer))?;
            }
        }
        out.push(&buffer)?;
        Ok(out.finish())
    }

    pub(super) fn decode_url(&self, builtin: Builtin, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let is_whole = builtin == Builtin::DecodeUrl;
        self.meter.work(text.len() as u64)?;
        let malformed = || {
            let name = if is_whole { "decodeUrl" } else { "decodeUrlComponent" };
            Error::new("D3140").text(name).value(text::render(args.get(0)))
        };
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let byte = after.get(..2).and_then(hex).ok_or_else(malformed)?;
            rest = &after[2..];
            if is_whole && RESERVED.contains(&byte) {
                bytes.extend_from_slice(&[b'%', after[0], after[1]]);
            } else {
                bytes.push(byte);
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| malformed())?;
        Val::built(&self.meter, &text)
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)? as u8))
}
