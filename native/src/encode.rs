//! Kafka's records become a Pulsar batch payload.

use crate::kafka::{Fields, SMALLEST_RECORD, next_record};
use crate::memory::Coder;
use crate::sink::{Counter, Sink, Small, varint_len};
use crate::text::{MARK, MARKED_NULL, base64_len, is_text, needs_mark, put_base64};
use crate::{Bad, Why};

/// What the entry's metadata must say of a payload; `count` and `read`: how many records it holds, of how many bytes.
#[derive(Clone, Copy)]
pub struct Encoded {
    pub newest: i64,
    pub oldest: i64,
    pub escaped: bool,
    pub count: i64,
    pub read: usize,
}

/// The records of one batch, those from the offset delta `first` on; as many of them as `limit` bytes hold.
pub struct Encode<'a> {
    pub records: &'a [u8],
    pub count: i64,
    pub base_timestamp: i64,
    pub first: i64,
    pub limit: usize,
}

/// A message is less than this times its record, and this more: so much below the limit nothing has to be counted.
const GROWS: usize = 32;

impl Coder for Encode<'_> {
    type Said = Encoded;

    fn run(&self, out: &mut impl Sink) -> Result<Encoded, Bad> {
        if self.count < 1 || self.count > self.records.len() as i64 / SMALLEST_RECORD {
            return Err(Bad::whole("there are fewer or more records than the batch says"));
        }
        let mut encoded = Encoded { newest: i64::MIN, oldest: i64::MAX, escaped: false, count: 0, read: 0 };
        let mut rest = self.records;
        while encoded.count < self.count {
            let full = self.next(&mut rest, out, &mut encoded).map_err(|why| Bad { at: encoded.count, why })?;
            if full {
                return Ok(encoded);
            }
        }
        if !rest.is_empty() {
            return Err(Bad::whole("bytes follow the last record"));
        }
        Ok(encoded)
    }
}

impl Encode<'_> {
    /// Encode one more record, or tell that it has no place: the first one has in any case.
    #[inline(always)]
    fn next(&self, rest: &mut &[u8], out: &mut impl Sink, encoded: &mut Encoded) -> Result<bool, Why> {
        let mut fields = next_record(rest)?;
        let expected = self.first + encoded.count;
        if encoded.count > 0 && out.len() + GROWS * (fields.0.len() + 1) > self.limit {
            let mut counter = Counter::default();
            encode_record(&mut fields.clone(), expected, self.base_timestamp, &mut counter, &mut false)?;
            if out.len() + counter.len() > self.limit {
                return Ok(true);
            }
        }
        let timestamp = encode_record(&mut fields, expected, self.base_timestamp, out, &mut encoded.escaped)?;
        encoded.newest = encoded.newest.max(timestamp);
        encoded.oldest = older(encoded.oldest, timestamp);
        encoded.count += 1;
        encoded.read = self.records.len() - rest.len();
        Ok(false)
    }
}

/// The older of two times; −1 is none.
#[inline(always)]
fn older(oldest: i64, timestamp: i64) -> i64 {
    if timestamp == -1 { oldest } else { oldest.min(timestamp) }
}

/// Read the records of a batch as encoding them does: the newest timestamp, the oldest, and whether all have keys.
pub fn check(records: &[u8], count: i64, base_timestamp: i64) -> Result<(i64, i64, bool), Bad> {
    if count < 1 || count > records.len() as i64 / SMALLEST_RECORD {
        return Err(Bad::whole("there are fewer or more records than the batch says"));
    }
    let (mut newest, mut oldest, mut keyed) = (i64::MIN, i64::MAX, true);
    let mut rest = records;
    for at in 0..count {
        let (timestamp, key) = next_record(&mut rest)
            .and_then(|mut fields| check_record(&mut fields, at, base_timestamp))
            .map_err(|why| Bad { at, why })?;
        newest = newest.max(timestamp);
        oldest = older(oldest, timestamp);
        keyed &= key;
    }
    if !rest.is_empty() {
        return Err(Bad::whole("bytes follow the last record"));
    }
    Ok((newest, oldest, keyed))
}

#[inline(always)]
fn check_record(fields: &mut Fields, expected: i64, base_timestamp: i64) -> Result<(i64, bool), Why> {
    fields.skip()?; // attributes
    let timestamp = base_timestamp.wrapping_add(fields.varlong()?);
    if fields.varint()? != expected {
        return Err("its offset delta is not its place");
    }
    let key = fields.bytes()?;
    fields.bytes()?;
    for _ in 0..fields.header_count()? {
        fields.header()?;
    }
    if !fields.0.is_empty() {
        return Err("its fields end before it does");
    }
    Ok((timestamp, key.is_some()))
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
