//! A Pulsar batch payload becomes a Kafka batch (`bridge/codec/_messages.py` holds the grammar).

use crate::kafka::{Field, HEADER_SIZE, Rebuild, Summary, put_record, seal};
use crate::memory::Coder;
use crate::sink::Sink;
use crate::text::{MARK, MARKED_NULL, decoded_len, put_decoded};
use crate::{Bad, Why};

const SMALLEST_MESSAGE: i64 = 6;

const CUT: Why = "it ends in the middle";
const BEYOND: Why = "its metadata or value goes beyond its end";

/// One entry's payload and what becomes of it.
pub struct Decode<'a> {
    pub payload: &'a [u8],
    pub count: i64,
    pub rebuild: Rebuild,
}

impl Coder for Decode<'_> {
    type Said = Summary;

    fn run(&self, out: &mut impl Sink) -> Result<Summary, Bad> {
        if self.count < 1 || self.count > self.payload.len() as i64 / SMALLEST_MESSAGE {
            return Err(Bad::whole("there are fewer or more messages than the entry says"));
        }
        out.put(&[0; HEADER_SIZE]);
        let publish_time = self.rebuild.publish_time;
        let mut summary = Summary { base_timestamp: publish_time, newest: publish_time, count: 0 };
        let mut properties = Vec::new();
        let mut headers = Vec::new();
        let mut rest = self.payload;
        for at in 0..self.count {
            decode_message(&mut rest, at, &self.rebuild, &mut summary, &mut properties, &mut headers, out)
                .map_err(|why| Bad { at, why })?;
        }
        if !rest.is_empty() {
            return Err(Bad::whole("bytes follow the last message"));
        }
        summary.fitting(out.len())
    }

    fn finish(&self, out: &mut [u8], summary: Summary) {
        seal(out, &self.rebuild, summary);
    }
}

#[inline(always)]
fn decode_message<'a>(
    rest: &mut &'a [u8],
    at: i64,
    rebuild: &Rebuild,
    summary: &mut Summary,
    properties: &mut Vec<Property<'a>>,
    headers: &mut Vec<Header<'a>>,
    out: &mut impl Sink,
) -> Result<(), Why> {
    let message = Message::read(rest, properties)?;
    if message.compacted_out {
        return Ok(());
    }
    let delta = u32::try_from(at).map_err(|_| "there are too many messages")?;
    let key = message.kafka_key()?;
    fill_headers(properties, rebuild.escaped, headers)?;
    let timestamp = message.timestamp(rebuild);
    if summary.count == 0 {
        (summary.base_timestamp, summary.newest) = (timestamp, timestamp);
    }
    summary.newest = summary.newest.max(timestamp);
    summary.count += 1;
    put_record(out, timestamp.wrapping_sub(summary.base_timestamp), delta, key, message.value, headers);
    Ok(())
}

/// Bytes as they are stored: plain, or (length, text) of base64.
#[derive(Clone, Copy)]
enum Stored<'a> {
    Plain(&'a [u8]),
    Base64(usize, &'a [u8]),
}

impl<'a> Stored<'a> {
    fn base64(text: &'a [u8]) -> Result<Self, Why> {
        Ok(Stored::Base64(decoded_len(text)?, text))
    }

    /// The bytes that a mark hid, None for null.
    fn unmark(text: &'a [u8]) -> Result<Option<Self>, Why> {
        match text.strip_prefix(MARK) {
            None => Ok(Some(Stored::Plain(text))),
            Some(_) if text == MARKED_NULL => Ok(None),
            Some(hidden) => Stored::base64(hidden).map(Some),
        }
    }
}

impl Field for Stored<'_> {
    #[inline(always)]
    fn len(self) -> usize {
        match self {
            Stored::Plain(data) => data.len(),
            Stored::Base64(len, _) => len,
        }
    }

    #[inline(always)]
    fn put(self, out: &mut impl Sink) {
        match self {
            Stored::Plain(data) => out.put(data),
            Stored::Base64(_, text) => put_decoded(text, out),
        }
    }
}

type Property<'a> = (&'a [u8], &'a [u8]);
type Header<'a> = (Stored<'a>, Option<Stored<'a>>);

#[inline(always)]
fn fill_headers<'a>(properties: &[Property<'a>], escaped: bool, headers: &mut Vec<Header<'a>>) -> Result<(), Why> {
    headers.clear();
    for &(name, text) in properties {
        headers.push(if escaped {
            (Stored::unmark(name)?.ok_or("a header has no key")?, Stored::unmark(text)?)
        } else {
            (Stored::Plain(name), Some(Stored::Plain(text)))
        });
    }
    Ok(())
}

/// What a SingleMessageMetadata says, and the value after it.
#[derive(Default)]
struct Message<'a> {
    key: Option<&'a [u8]>,
    key_b64: bool,
    ordering_key: Option<&'a [u8]>,
    event_time: Option<u64>,
    payload_size: Option<u32>,
    null_value: bool,
    compacted_out: bool,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    #[inline(always)]
    fn read(rest: &mut &'a [u8], properties: &mut Vec<Property<'a>>) -> Result<Self, Why> {
        let (size, after) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        let (metadata, after) = after.split_at_checked(u32::from_be_bytes(*size) as usize).ok_or(BEYOND)?;
        let mut message = Message::default();
        properties.clear();
        let mut fields = Fields(metadata);
        while !fields.0.is_empty() {
            message.read_field(&mut fields, properties)?;
        }
        let size = message.payload_size.ok_or("it has no payload size")?;
        if size > i32::MAX as u32 {
            return Err("its payload size is negative");
        }
        let (value, after) = after.split_at_checked(size as usize).ok_or(BEYOND)?;
        *rest = after;
        message.value = (!message.null_value).then_some(value);
        Ok(message)
    }

    #[inline(always)]
    fn read_field(&mut self, fields: &mut Fields<'a>, properties: &mut Vec<Property<'a>>) -> Result<(), Why> {
        match fields.tag()? {
            0x0A => properties.push(read_property(fields.field()?)?),
            0x12 => self.key = Some(fields.field()?),
            0x18 => self.payload_size = Some(fields.varint()? as u32), // protobuf's int32: the low 32 bits
            0x20 => self.compacted_out = fields.varint()? != 0,
            0x28 => self.event_time = Some(fields.varint()?),
            0x30 => self.key_b64 = fields.varint()? != 0,
            0x3A => self.ordering_key = Some(fields.field()?),
            0x48 => self.null_value = fields.varint()? != 0,
            other => fields.skip(other)?,
        }
        Ok(())
    }

    #[inline(always)]
    fn kafka_key(&self) -> Result<Option<Stored<'a>>, Why> {
        match self.key {
            Some(key) if self.key_b64 => Stored::base64(key).map(Some),
            Some(key) => Ok(Some(Stored::Plain(key))),
            None => Ok(self.ordering_key.map(Stored::Plain)),
        }
    }

    /// A record's timestamp; outside our own entries event time 0 is Pulsar's "unset", and none is negative.
    #[inline(always)]
    fn timestamp(&self, rebuild: &Rebuild) -> i64 {
        match self.event_time {
            None if rebuild.own => -1,
            Some(time) if rebuild.own || time as i64 > 0 => time as i64,
            _ => rebuild.publish_time,
        }
    }
}

fn read_property(data: &[u8]) -> Result<Property<'_>, Why> {
    let (mut name, mut text) = (None, None);
    let mut fields = Fields(data);
    while !fields.0.is_empty() {
        match fields.tag()? {
            0x0A => name = Some(fields.field()?),
            0x12 => text = Some(fields.field()?),
            other => fields.skip(other)?,
        }
    }
    name.zip(text).ok_or("a property is not a name and a text")
}

/// The protobuf fields of a message that are not yet read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    #[inline(always)]
    fn tag(&mut self) -> Result<u32, Why> {
        match u32::try_from(self.varint()?) {
            Ok(tag) if tag >= 8 => Ok(tag),
            _ => Err("a field's tag cannot be"),
        }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Why> {
        match *self.0 {
            [first, ref rest @ ..] if first < 0x80 => {
                self.0 = rest;
                Ok(u64::from(first))
            }
            _ => self.long(),
        }
    }

    #[inline(always)]
    fn long(&mut self) -> Result<u64, Why> {
        let mut raw = 0;
        for (at, &byte) in self.0.iter().take(10).enumerate() {
            raw |= u64::from(byte & 0x7F) << (7 * at); // what lies above the 64th bit falls off
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(raw);
            }
        }
        Err(if self.0.len() < 10 { CUT } else { "a varint is longer than 64 bits need" })
    }

    #[inline(always)]
    fn field(&mut self) -> Result<&'a [u8], Why> {
        let length = usize::try_from(self.varint()?).map_err(|_| BEYOND)?;
        let (field, rest) = self.0.split_at_checked(length).ok_or("a field goes beyond its message")?;
        self.0 = rest;
        Ok(field)
    }

    fn skip(&mut self, tag: u32) -> Result<(), Why> {
        let fixed = match tag & 7 {
            0 => return self.varint().map(drop),
            1 => 8,
            2 => return self.field().map(drop),
            5 => 4,
            _ => return Err("a field's wire type is not read"),
        };
        self.0 = self.0.get(fixed..).ok_or(CUT)?;
        Ok(())
    }
}
