//! Kafka's records become a Pulsar batch payload.

use crate::kafka::{Fields, SMALLEST_RECORD, next_record};
use crate::memory::Coder;
use crate::sink::{Sink, Small, varint_len};
use crate::text::{MARK, MARKED_NULL, base64_len, is_text, needs_mark, put_base64};
use crate::{Bad, Why};

/// What the entry's metadata must say of a payload.
#[derive(Clone, Copy)]
pub struct Encoded {
    pub newest: i64,
    pub escaped: bool,
}

/// The records of one batch.
pub struct Encode<'a> {
    pub records: &'a [u8],
    pub count: i64,
    pub base_timestamp: i64,
}

impl Coder for Encode<'_> {
    type Said = Encoded;

    fn run(&self, out: &mut impl Sink) -> Result<Encoded, Bad> {
        if self.count < 1 || self.count > self.records.len() as i64 / SMALLEST_RECORD {
            return Err(Bad::whole("there are fewer or more records than the batch says"));
        }
        let mut encoded = Encoded { newest: i64::MIN, escaped: false };
        let mut rest = self.records;
        for at in 0..self.count {
            let timestamp = next_record(&mut rest)
                .and_then(|mut fields| encode_record(&mut fields, at, self.base_timestamp, out, &mut encoded.escaped))
                .map_err(|why| Bad { at, why })?;
            encoded.newest = encoded.newest.max(timestamp);
        }
        if !rest.is_empty() {
            return Err(Bad::whole("bytes follow the last record"));
        }
        Ok(encoded)
    }
}

#[inline(always)]
fn encode_record(
    fields: &mut Fields,
    expected: i64,
    base_timestamp: i64,
    out: &mut impl Sink,
    escaped: &mut bool,
) -> Result<i64, Why> {
    fields.skip()?; // attributes
    let timestamp = base_timestamp.wrapping_add(fields.varlong()?);
    if fields.varint()? != expected {
        return Err("its offset delta is not its place");
    }
    let key = fields.bytes()?;
    let value = fields.bytes()?;
    let headers = fields.header_count()?;
    let start = out.len();
    out.put(&[0; 4]);
    for _ in 0..headers {
        let (name, text) = fields.header()?;
        *escaped |= put_property(name, text, out);
    }
    if !fields.0.is_empty() {
        return Err("its fields end before it does");
    }
    let mut small = Small::new();
    let mut binary = false;
    if let Some(key) = key {
        binary = !is_text(key);
        small.byte(0x12);
        if binary {
            small.varint(base64_len(key.len()) as u64);
            out.put(small.bytes());
            put_base64(key, out);
        } else {
            small.varint(key.len() as u64);
            out.put(small.bytes());
            out.put(key);
        }
        small = Small::new();
    }
    small.byte(0x18);
    small.varint(value.map_or(0, <[u8]>::len) as u64);
    if timestamp != -1 {
        small.byte(0x28);
        small.varint(timestamp as u64);
    }
    if binary {
        small.byte(0x30);
        small.byte(1);
    }
    if value.is_none() {
        small.byte(0x48);
        small.byte(1);
    }
    out.put(small.bytes());
    let size = (out.len() - start - 4) as u32; // a record has less than 2^31 bytes, and base64 adds a third
    out.patch(start, &size.to_be_bytes());
    out.put(value.unwrap_or_default());
    Ok(timestamp)
}

/// Write a header as a property; whether it had to be marked.
fn put_property(name: &[u8], text: Option<&[u8]>, out: &mut impl Sink) -> bool {
    let mark_name = needs_mark(name);
    let mark_text = text.is_none_or(needs_mark);
    let name_len = marked_len(name, mark_name);
    let text_len = text.map_or(MARKED_NULL.len(), |text| marked_len(text, mark_text));
    let body = 2 + varint_len(name_len as u64) + name_len + varint_len(text_len as u64) + text_len;
    let mut small = Small::new();
    small.byte(0x0A);
    small.varint(body as u64);
    small.byte(0x0A);
    small.varint(name_len as u64);
    out.put(small.bytes());
    put_marked(name, mark_name, out);
    let mut small = Small::new();
    small.byte(0x12);
    small.varint(text_len as u64);
    out.put(small.bytes());
    match text {
        Some(text) => put_marked(text, mark_text, out),
        None => out.put(MARKED_NULL),
    }
    mark_name || mark_text
}

fn marked_len(data: &[u8], marked: bool) -> usize {
    if marked { MARK.len() + base64_len(data.len()) } else { data.len() }
}

fn put_marked(data: &[u8], marked: bool, out: &mut impl Sink) {
    if marked {
        out.put(MARK);
        put_base64(data, out);
    } else {
        out.put(data);
    }
}
