//! Bytes that stand as text: UTF-8 or not, marks, base64 (`bridge/codec/_messages.py`).

use crate::Why;
use crate::sink::Sink;

pub const MARK: &[u8] = b"base64:";
pub const MARKED_NULL: &[u8] = b"base64:!";

const NO_BASE64: Why = "a key or header is not base64";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NONE: u8 = 0xFF;
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < 64 {
        values[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    values
};

#[inline(always)]
pub fn is_text(data: &[u8]) -> bool {
    data.is_ascii() || std::str::from_utf8(data).is_ok()
}

/// Whether a header's name or text must be marked.
pub fn needs_mark(data: &[u8]) -> bool {
    !is_text(data) || data.starts_with(MARK)
}

pub fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

pub fn put_base64(data: &[u8], out: &mut impl Sink) {
    let letter = |bits: u32| ALPHABET[bits as usize & 63];
    let mut groups = data.chunks_exact(3);
    for group in &mut groups {
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        out.put(&[letter(bits >> 18), letter(bits >> 12), letter(bits >> 6), letter(bits)]);
    }
    match *groups.remainder() {
        [a] => out.put(&[letter(u32::from(a) >> 2), letter(u32::from(a) << 4), b'=', b'=']),
        [a, b] => {
            let bits = u32::from_be_bytes([0, 0, a, b]);
            out.put(&[letter(bits >> 10), letter(bits >> 4), letter(bits << 2), b'=']);
        }
        _ => {}
    }
}

/// Check a whole base64 text and tell how many bytes it stands for.
pub fn decoded_len(text: &[u8]) -> Result<usize, Why> {
    let data = unpadded(text);
    if text.len() % 4 != 0 || data.iter().any(|&byte| VALUES[byte as usize] == NONE) {
        return Err(NO_BASE64);
    }
    Ok(data.len() * 3 / 4)
}

/// Write the bytes of a text that `decoded_len` has checked.
pub fn put_decoded(text: &[u8], out: &mut impl Sink) {
    for group in unpadded(text).chunks(4) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 6 | u32::from(VALUES[byte as usize] & 63));
        let [_, a, b, c] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.put(&[a, b, c][..group.len() * 3 / 4]);
    }
}

fn unpadded(text: &[u8]) -> &[u8] {
    match text {
        [data @ .., b'=', b'='] | [data @ .., b'='] => data,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_there_and_back() {
        for size in 0..70 {
            let data: Vec<u8> = (0..size).map(|at| (at * 37) as u8).collect();
            let mut text = Vec::new();
            put_base64(&data, &mut text);
            assert_eq!(text.len(), base64_len(size));
            assert_eq!(decoded_len(&text), Ok(size));
            let mut again = Vec::new();
            put_decoded(&text, &mut again);
            assert_eq!(again, data);
        }
    }

    #[test]
    fn nothing_but_padded_groups() {
        for text in
            ["Y", "YQ", "YWI", "YQ=", "Y===", "====", "=", "YWJj=", "YWJj====", "YQ==YQ==", "YQ= ", "Y-_=", "Y=Q="]
        {
            assert!(decoded_len(text.as_bytes()).is_err(), "{text}");
        }
    }
}
