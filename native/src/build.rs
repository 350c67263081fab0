//! Python's records become a Kafka batch.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::kafka::{HEADER_SIZE, Rebuild, Summary, put_record, seal};
use crate::memory::Coder;
use crate::sink::Sink;
use crate::{Bad, CorruptEntry};

type Bytes<'py> = Bound<'py, PyBytes>;

/// One record, its bytes held.
pub struct Held<'py> {
    timestamp: i64,
    delta: u32,
    key: Option<Bytes<'py>>,
    value: Option<Bytes<'py>>,
    headers: Vec<(Bytes<'py>, Option<Bytes<'py>>)>,
}

impl<'py> Held<'py> {
    pub fn of(record: &Bound<'py, PyAny>, base_offset: i64) -> PyResult<Self> {
        let record = record.cast::<PyTuple>()?;
        Ok(Held {
            timestamp: timestamp_of(&record.get_item(1)?)?,
            delta: delta_of(&record.get_item(0)?, base_offset)?,
            key: record.get_item(2)?.extract()?,
            value: record.get_item(3)?.extract()?,
            headers: record.get_item(4)?.try_iter()?.map(|header| header?.extract()).collect::<PyResult<_>>()?,
        })
    }

    pub fn view(&self) -> View<'_> {
        View {
            timestamp: self.timestamp,
            delta: self.delta,
            key: self.key.as_ref().map(|key| key.as_bytes()),
            value: self.value.as_ref().map(|value| value.as_bytes()),
            headers: self
                .headers
                .iter()
                .map(|(name, text)| (name.as_bytes(), text.as_ref().map(|t| t.as_bytes())))
                .collect(),
        }
    }
}

/// A timestamp taken as signed 64 bits, whatever it is.
fn timestamp_of(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    match number.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
            Ok(number.bitand(u64::MAX)?.extract::<u64>()? as i64)
        }
        other => Ok(other?),
    }
}

fn delta_of(offset: &Bound<'_, PyAny>, base_offset: i64) -> PyResult<u32> {
    let delta: PyResult<i64> = match offset.extract::<i64>() {
        Ok(offset) => offset.checked_sub(base_offset).ok_or_else(|| PyOverflowError::new_err(())),
        Err(error) if error.is_instance_of::<PyOverflowError>(offset.py()) => offset.sub(base_offset)?.extract(),
        Err(error) => Err(error),
    };
    match delta {
        Ok(delta @ 0..=0x7FFF_FFFF) => Ok(delta as u32),
        Err(error) if !error.is_instance_of::<PyOverflowError>(offset.py()) => Err(error),
        _ => Err(CorruptEntry::new_err("a record's offset does not fit its batch")),
    }
}

/// One record as the coder sees it.
pub struct View<'a> {
    timestamp: i64,
    delta: u32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl View<'_> {
    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let bytes = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let headers: usize = self.headers.iter().map(|(name, text)| name.len() + bytes(*text) + 4).sum();
        bytes(self.key) + bytes(self.value) + headers + 24
    }
}

pub struct Build<'a> {
    pub records: Vec<View<'a>>,
    pub rebuild: Rebuild,
}

impl Coder for Build<'_> {
    type Said = Summary;

    fn run(&self, out: &mut impl Sink) -> Result<Summary, Bad> {
        out.put(&[0; HEADER_SIZE]);
        let base_timestamp = self.records.first().map_or(self.rebuild.publish_time, |record| record.timestamp);
        let newest = self.records.iter().map(|record| record.timestamp).max().unwrap_or(base_timestamp);
        for record in &self.records {
            let moved = record.timestamp.wrapping_sub(base_timestamp);
            put_record(out, moved, record.delta, record.key, record.value, &record.headers);
        }
        Summary { base_timestamp, newest, count: self.records.len() as i64 }.fitting(out.len())
    }

    fn finish(&self, out: &mut [u8], summary: Summary) {
        seal(out, &self.rebuild, summary);
    }
}
