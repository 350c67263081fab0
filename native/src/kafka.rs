//! Kafka's record batches and records, v2 (`bridge/codec/_records.py` holds the grammar).

use crate::sink::{Sink, Small, varint_len};
use crate::{Bad, Why};

pub const HEADER_SIZE: usize = 61;
pub const LENGTH_START: usize = 12;
pub const CRC_START: usize = 21;
pub const SMALLEST_RECORD: i64 = 7;

const CUT: Why = "it ends in the middle";

/// The fields of a record that are not yet read.
#[derive(Clone)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    #[inline(always)]
    pub fn skip(&mut self) -> Result<(), Why> {
        self.0 = self.0.get(1..).ok_or(CUT)?;
        Ok(())
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Result<i64, Why> {
        self.zigzag::<32>()
    }

    #[inline(always)]
    pub fn varlong(&mut self) -> Result<i64, Why> {
        self.zigzag::<64>()
    }

    #[inline(always)]
    fn zigzag<const BITS: u32>(&mut self) -> Result<i64, Why> {
        let raw = match *self.0 {
            [first, ref rest @ ..] if first < 0x80 => {
                self.0 = rest;
                u64::from(first)
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.0 = rest;
                u64::from(first & 0x7F) | u64::from(second) << 7
            }
            _ => self.long::<BITS>()?,
        };
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn long<const BITS: u32>(&mut self) -> Result<u64, Why> {
        let mut raw = 0u64;
        let mut shift = 0;
        while shift < BITS {
            let (&byte, rest) = self.0.split_first().ok_or(CUT)?;
            self.0 = rest;
            let group = u64::from(byte & 0x7F);
            if group << shift >> shift != group || (BITS < 64 && (group << shift) >> BITS != 0) {
                return Err("a varint has more bits than it may");
            }
            raw |= group << shift;
            if byte < 0x80 {
                return Ok(raw);
            }
            shift += 7;
        }
        Err("a varint is longer than its bits need")
    }

    #[inline(always)]
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Why> {
        let length = self.varint()?;
        if length < 0 {
            return if length == -1 { Ok(None) } else { Err("a length is negative") };
        }
        let (field, rest) = self.0.split_at_checked(length as usize).ok_or("a field goes beyond its record")?;
        self.0 = rest;
        Ok(Some(field))
    }

    /// How many headers follow; no more than the bytes can hold.
    #[inline(always)]
    pub fn header_count(&mut self) -> Result<usize, Why> {
        let count = self.varint()?;
        if count < 0 || 2 * count > self.0.len() as i64 {
            return Err("it says more headers than its bytes can hold");
        }
        Ok(count as usize)
    }

    pub fn header(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>), Why> {
        let name = self.bytes()?.ok_or("a header has no key")?;
        Ok((name, self.bytes()?))
    }
}

/// Take the next record off `records`: its fields after the length.
#[inline(always)]
pub fn next_record<'a>(records: &mut &'a [u8]) -> Result<Fields<'a>, Why> {
    let mut fields = Fields(records);
    let length = fields.varint()?;
    let length = usize::try_from(length).map_err(|_| "its length is negative")?;
    let (record, rest) = fields.0.split_at_checked(length).ok_or("it goes beyond the batch")?;
    *records = rest;
    Ok(Fields(record))
}

#[inline(always)]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline(always)]
fn field_len(length: Option<usize>) -> usize {
    length.map_or(1, |length| varint_len((length as u64) << 1) + length)
}

#[inline(always)]
fn length_of(length: Option<usize>) -> u64 {
    length.map_or(1, |length| (length as u64) << 1)
}

/// Bytes whose length is known before they are written.
pub trait Field: Copy {
    fn len(self) -> usize;
    fn put(self, out: &mut impl Sink);
}

impl Field for &[u8] {
    #[inline(always)]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn put(self, out: &mut impl Sink) {
        out.put(self);
    }
}

/// Write one record: `moved` and `delta` are what its timestamp and offset add to the batch's.
#[inline(always)]
pub fn put_record<F: Field>(
    out: &mut impl Sink,
    moved: i64,
    delta: u32,
    key: Option<F>,
    value: Option<&[u8]>,
    headers: &[(F, Option<F>)],
) {
    let (moved, delta) = (zigzag(moved), u64::from(delta) << 1);
    let key_len = key.map(F::len);
    let value_len = value.map(<[u8]>::len);
    let mut body = 1 + varint_len(moved) + varint_len(delta) + field_len(key_len) + field_len(value_len);
    body += varint_len((headers.len() as u64) << 1);
    for (name, text) in headers {
        body += field_len(Some(name.len())) + field_len(text.map(F::len));
    }
    let mut small = Small::new();
    small.varint((body as u64) << 1);
    small.byte(0);
    small.varint(moved);
    small.varint(delta);
    small.varint(length_of(key_len));
    out.put(small.bytes());
    if let Some(key) = key {
        key.put(out);
    }
    out.varint(length_of(value_len));
    out.put(value.unwrap_or_default());
    out.varint((headers.len() as u64) << 1);
    for (name, text) in headers {
        out.varint(length_of(Some(name.len())));
        name.put(out);
        out.varint(length_of(text.map(F::len)));
        if let Some(text) = text {
            text.put(out);
        }
    }
}

/// How stored messages become a batch: `bridge.codec.types.Rebuild`, checked.
#[derive(Clone, Copy)]
pub struct Rebuild {
    pub base_offset: i64,
    pub last_offset_delta: i32,
    pub publish_time: i64,
    pub own: bool,
    pub escaped: bool,
    pub producer: (i64, i16, i32),
    pub attributes: i16,
}

/// What the records of a batch say about it.
#[derive(Clone, Copy)]
pub struct Summary {
    pub base_timestamp: i64,
    pub newest: i64,
    pub count: i64,
}

impl Summary {
    /// It, if a batch of `len` bytes can be: its length is a signed number of 32 bits.
    pub fn fitting(self, len: usize) -> Result<Self, Bad> {
        match i32::try_from(len - LENGTH_START) {
            Ok(_) => Ok(self),
            Err(_) => Err(Bad::whole("it is too large for a Kafka batch")),
        }
    }
}

/// Write the header over the first bytes of a batch whose records are there; that it is `fitting` is known.
pub fn seal(batch: &mut [u8], rebuild: &Rebuild, summary: Summary) {
    let length = (batch.len() - LENGTH_START) as i32;
    let mut at = 0;
    let mut put = |data: &[u8]| {
        batch[at..at + data.len()].copy_from_slice(data);
        at += data.len();
    };
    put(&rebuild.base_offset.to_be_bytes());
    put(&length.to_be_bytes());
    put(&[0, 0, 0, 0, 2, 0, 0, 0, 0]); // leader epoch, magic, checksum
    put(&rebuild.attributes.to_be_bytes());
    put(&rebuild.last_offset_delta.to_be_bytes());
    put(&summary.base_timestamp.to_be_bytes());
    put(&summary.newest.to_be_bytes());
    put(&rebuild.producer.0.to_be_bytes());
    put(&rebuild.producer.1.to_be_bytes());
    put(&rebuild.producer.2.to_be_bytes());
    put(&(summary.count as i32).to_be_bytes());
    let crc = crc32c::crc32c(&batch[CRC_START..]);
    batch[CRC_START - 4..CRC_START].copy_from_slice(&crc.to_be_bytes());
}
