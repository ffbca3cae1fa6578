//! A form with files, without its boundary, which is random for each attempt.
//!
//! The hash covers the list of parts in order: name, file name, type and content of each. The parser is strict (RFC
//! 2046, RFC 7578): wherever two readers could find different parts in the same bytes the content is malformed, because
//! the handler behind us reads it with another parser. Preamble, epilogue and other headers of a part are not part of
//! the form and are ignored.

use super::ContentFault;
use memchr::memmem::Finder;
use perdura_canonical::{MediaType, Parts};
use sha2::{Digest, Sha256};

/// The longest boundary of RFC 2046.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The hash of the form's parts.
pub(super) fn digest(media: &MediaType, body: &[u8]) -> Result<[u8; 32], ContentFault> {
    let boundary = media.boundary.as_deref().filter(|boundary| is_boundary(boundary.as_bytes()));
    let boundary = boundary.ok_or_else(|| fault("its Content-Type does not have one valid boundary"))?;
    let delimiter = format!("\r\n--{boundary}");
    let finder = Finder::new(delimiter.as_bytes());
    let mut left = if body.starts_with(&delimiter.as_bytes()[2..]) {
        &body[delimiter.len() - 2..]
    } else {
        let at = finder.find(body).ok_or_else(|| fault("the first boundary is missing"))?;
        &body[at + delimiter.len()..]
    };
    let mut parts = Parts::new(b"multipart");
    while let Some(part) = after_boundary(left)? {
        let end = finder.find(part).ok_or_else(|| fault("the last boundary is missing or cut off"))?;
        add(&mut parts, &part[..end])?;
        left = &part[end + delimiter.len()..];
    }
    parts.count(0);
    Ok(parts.finish())
}

fn fault(what: &str) -> ContentFault {
    ContentFault::malformed(format!("multipart/form-data: {what}"))
}

/// One to seventy characters of a small set, the last one not a space.
fn is_boundary(boundary: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && boundary.iter().all(is_allowed)
        && boundary.last() != Some(&b' ')
}

/// The text after a boundary: the next part, or `None` after the last.
fn after_boundary(left: &[u8]) -> Result<Option<&[u8]>, ContentFault> {
    let (is_last, left) = match left {
        [b'-', b'-', left @ ..] => (true, left),
        left => (false, left),
    };
    let padding = left.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match (is_last, &left[padding..]) {
        (true, [] | [b'\r', b'\n', ..]) => Ok(None),
        (false, [b'\r', b'\n', part @ ..]) => Ok(Some(part)),
        (true | false, _) => {
            Err(fault("the line of a boundary holds something else, or does not end with CR LF"))
        }
    }
}

fn add(parts: &mut Parts, part: &[u8]) -> Result<(), ContentFault> {
    let blank = memchr::memmem::find(part, b"\r\n\r\n");
    let blank = blank.ok_or_else(|| fault("a part has no empty line after its headers"))?;
    let headers = Headers::read(&part[..blank])?;
    let disposition = headers.disposition.ok_or_else(|| fault("a part has no Content-Disposition"))?;
    let disposition = Disposition::read(disposition)?;
    let media = headers.media.map(|value| MediaType::parse(&String::from_utf8_lossy(value)));
    parts.count(1);
    parts.add(disposition.name);
    parts.add_option(disposition.filename);
    parts.add_option(disposition.filename_extended);
    parts.add_option(media.as_ref().map(|media| media.essence.as_bytes()));
    parts.add_option(media.as_ref().and_then(|media| media.charset.as_deref()).map(str::as_bytes));
    parts.add_option(headers.transfer_encoding.map(<[u8]>::to_ascii_lowercase).as_deref());
    parts.add(&Sha256::digest(&part[blank + 4..]));
    Ok(())
}

/// The headers of a part with a meaning in a form.
#[derive(Default)]
struct Headers<'a> {
    disposition: Option<&'a [u8]>,
    media: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
}

impl<'a> Headers<'a> {
    fn read(mut block: &'a [u8]) -> Result<Self, ContentFault> {
        let mut headers = Self::default();
        loop {
            let (line, rest) = match memchr::memmem::find(block, b"\r\n") {
                Some(end) => (&block[..end], Some(&block[end + 2..])),
                None => (block, None),
            };
            headers.add(line)?;
            match rest {
                Some(rest) => block = rest,
                None => return Ok(headers),
            }
        }
    }

    fn add(&mut self, line: &'a [u8]) -> Result<(), ContentFault> {
        if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
            return Err(fault("a header of a part holds a control character"));
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or_else(|| fault("a header of a part has no colon"))?);
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(fault("a header of a part has no valid name"));
        }
        let known = match name.to_ascii_lowercase().as_slice() {
            b"content-disposition" => &mut self.disposition,
            b"content-type" => &mut self.media,
            b"content-transfer-encoding" => &mut self.transfer_encoding,
            _ => return Ok(()),
        };
        if known.replace(value[1..].trim_ascii()).is_some() {
            return Err(fault("a part has a header twice"));
        }
        Ok(())
    }
}

/// The name of a part and of its file. Escapes within quotes stay as they are: senders do not agree on them, and two
/// spellings count as two names.
struct Disposition<'a> {
    name: &'a [u8],
    filename: Option<&'a [u8]>,
    filename_extended: Option<&'a [u8]>,
}

impl<'a> Disposition<'a> {
    fn read(value: &'a [u8]) -> Result<Self, ContentFault> {
        let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
        if !value[..end].trim_ascii().eq_ignore_ascii_case(b"form-data") {
            return Err(fault("the Content-Disposition of a part is not form-data"));
        }
        let (mut name, mut filename, mut filename_extended) = (None, None, None);
        let mut left = &value[end..];
        while let Some((parameter, value, rest)) = parameter(left)? {
            left = rest;
            let known = match parameter.to_ascii_lowercase().as_slice() {
                b"name" => &mut name,
                b"filename" => &mut filename,
                b"filename*" => &mut filename_extended,
                _ => continue,
            };
            if known.replace(value).is_some() {
                return Err(fault("the Content-Disposition of a part has a parameter twice"));
            }
        }
        let name = name.ok_or_else(|| fault("a part has no name"))?;
        Ok(Self { name, filename, filename_extended })
    }
}

/// Name, value, and the rest.
type Parameter<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The next `; name=value`, or `None` at the end.
fn parameter(left: &[u8]) -> Result<Option<Parameter<'_>>, ContentFault> {
    let unreadable = || fault("the Content-Disposition of a part cannot be read");
    let left = left.trim_ascii_start();
    let Some((first, left)) = left.split_first() else { return Ok(None) };
    if *first != b';' {
        return Err(unreadable());
    }
    let left = left.trim_ascii_start();
    let equals = left.iter().position(|byte| matches!(byte, b'=' | b';' | b'"')).ok_or_else(unreadable)?;
    let (name, left) = (left[..equals].trim_ascii(), &left[equals..]);
    match left {
        [b'=', b'"', quoted @ ..] => {
            let mut end = 0;
            while let Some(byte) = quoted.get(end) {
                match byte {
                    b'"' => return Ok(Some((name, &quoted[..end], &quoted[end + 1..]))),
                    b'\\' => end += 2,
                    _ => end += 1,
                }
            }
            Err(unreadable())
        }
        [b'=', bare @ ..] => {
            let end =
                bare.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t' | b'"')).unwrap_or(bare.len());
            if end == 0 { Err(unreadable()) } else { Ok(Some((name, &bare[..end], &bare[end..]))) }
        }
        _ => Err(unreadable()),
    }
}

#[cfg(test)]
mod tests;
