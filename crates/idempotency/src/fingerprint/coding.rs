//! Undoes content codings: two gzips of one content differ in time stamp and level, and are the same request.
//!
//! The decoded size is limited while decoding, so a few kilobytes cannot become gigabytes. An unknown coding stays,
//! with its name.

use super::ContentFault;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::borrow::Cow;
use std::io::{self, ErrorKind, Read};

/// More nested codings than any real request has.
const CODINGS_MAX: usize = 4;

/// Content with its codings undone.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// The unknown codings, in the order in which they were applied, with commas; usually none.
    pub(super) codings_left: String,
}

pub(super) fn decode<'a>(
    content_encoding: Option<&str>,
    body: &'a [u8],
    bytes_max: u64,
) -> Result<Decoded<'a>, ContentFault> {
    if body.len() as u64 > bytes_max {
        return Err(ContentFault::TooLarge);
    }
    let mut codings: Vec<String> = content_encoding
        .unwrap_or("")
        .split(',')
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    if codings.len() > CODINGS_MAX {
        return Err(ContentFault::malformed(
            "there are more content codings on top of each other than are undone",
        ));
    }
    let mut bytes = Cow::Borrowed(body);
    while let Some(coding) = codings.last() {
        let undone = match coding.as_str() {
            "gzip" | "x-gzip" => gunzip(&bytes, bytes_max)?,
            "deflate" => inflate(&bytes, bytes_max)?,
            _ => break,
        };
        bytes = Cow::Owned(undone);
        codings.pop();
    }
    Ok(Decoded { bytes, codings_left: codings.join(",") })
}

fn gunzip(coded: &[u8], bytes_max: u64) -> Result<Vec<u8>, ContentFault> {
    if coded.is_empty() {
        return Ok(Vec::new());
    }
    read(MultiGzDecoder::new(coded), bytes_max)
        .map_err(|_| ContentFault::malformed("the content is not whole gzip"))?
        .ok_or(ContentFault::TooLarge)
}

/// The coding is called `deflate` and is the zlib format (RFC 9110, section 8.4.1.2).
fn inflate(coded: &[u8], bytes_max: u64) -> Result<Vec<u8>, ContentFault> {
    if coded.is_empty() {
        return Ok(Vec::new());
    }
    let malformed =
        |_: io::Error| ContentFault::malformed("the content is not whole zlib, which `deflate` stands for");
    let mut decoder = ZlibDecoder::new(coded);
    let bytes = read(&mut decoder, bytes_max).map_err(malformed)?.ok_or(ContentFault::TooLarge)?;
    if decoder.into_inner().is_empty() { Ok(bytes) } else { Err(malformed(ErrorKind::InvalidData.into())) }
}

/// All of it, or `None` if it is more than allowed.
fn read(decoder: impl Read, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    decoder.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(bytes).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn check(codings: &str, body: &[u8], bytes: &[u8], left: &str) {
        let decoded =
            decode(Some(codings), body, 1 << 20).unwrap_or_else(|fault| panic!("{codings}: {fault}"));
        assert_eq!((decoded.bytes.as_ref(), decoded.codings_left.as_str()), (bytes, left), "{codings}");
    }

    #[test]
    fn known_codings_are_undone_and_others_stay() {
        let twice = [gzip(b"hel", 9), gzip(b"lo", 0)].concat();
        check("", b"hello", b"hello", "");
        check("identity", b"hello", b"hello", "");
        check("Identity, ,", b"hello", b"hello", "");
        check("gzip", &gzip(b"hello", 6), b"hello", "");
        check("X-GZip", &gzip(b"hello", 1), b"hello", "");
        check("gzip", &twice, b"hello", "");
        check("deflate", &zlib(b"hello"), b"hello", "");
        check("deflate, gzip", &gzip(&zlib(b"hello"), 6), b"hello", "");
        check("br", b"hello", b"hello", "br");
        check("BR , zstd", b"hello", b"hello", "br,zstd");
        check("br, gzip", &gzip(b"hello", 6), b"hello", "br");
        check("gzip, br", b"hello", b"hello", "gzip,br");
        check("gzip", b"", b"", "");
        check("deflate", b"", b"", "");
    }

    #[test]
    fn what_is_not_whole_is_malformed() {
        let (good, flat) = (gzip(b"hello hello hello", 6), zlib(b"hello hello hello"));
        let mut checksum = good.clone();
        checksum[good.len() - 6] ^= 1;
        let table: &[(&str, &str, Vec<u8>)] = &[
            ("not gzip", "gzip", b"hello".to_vec()),
            ("cut", "gzip", good[..good.len() - 1].to_vec()),
            ("cut early", "gzip", good[..5].to_vec()),
            ("checksum", "gzip", checksum),
            ("something after", "gzip", [&good[..], b"x"].concat()),
            ("not zlib", "deflate", b"hello".to_vec()),
            ("zlib without its frame", "deflate", flat[2..flat.len() - 4].to_vec()),
            ("cut", "deflate", flat[..flat.len() - 1].to_vec()),
            ("something after", "deflate", [&flat[..], b"x"].concat()),
            ("too many", "br,br,br,br,br", b"hello".to_vec()),
        ];
        for (what, coding, body) in table {
            let fault = decode(Some(coding), body, 1 << 20).map(|decoded| decoded.bytes.into_owned());
            assert!(matches!(fault, Err(ContentFault::Malformed(_))), "{coding}, {what}: {fault:?}");
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_bound() {
        let zeros = vec![0; 4 << 20];
        for (coding, bomb) in [("gzip", gzip(&zeros, 9)), ("deflate", zlib(&zeros))] {
            assert!(bomb.len() < 8 << 10);
            assert_eq!(decode(Some(coding), &bomb, 1 << 20).err(), Some(ContentFault::TooLarge), "{coding}");
            assert!(decode(Some(coding), &bomb, 4 << 20).is_ok(), "{coding}");
            assert_eq!(
                decode(Some(coding), &bomb, (4 << 20) - 1).err(),
                Some(ContentFault::TooLarge),
                "{coding}"
            );
        }
        let nested = gzip(&gzip(&zeros, 9), 9);
        assert_eq!(decode(Some("gzip, gzip"), &nested, 1 << 20).err(), Some(ContentFault::TooLarge));
        assert_eq!(decode(None, b"hello", 4).err(), Some(ContentFault::TooLarge));
        assert!(decode(None, b"hello", 5).is_ok());
    }
}
