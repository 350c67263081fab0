//! The native twin of `bridge.codec`: the same names, results and exceptions as `bridge/codec/_python.py`, which
//! defines them. Here Python's objects are taken apart and made; the bytes are worked in the other files.

mod build;
mod decode;
mod encode;
mod kafka;
mod memory;
mod sink;
mod text;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::build::{Build, Held, View};
use crate::decode::Decode;
use crate::encode::Encode;
use crate::kafka::{CRC_START, HEADER_SIZE, LENGTH_START, Rebuild};
use crate::memory::Input;

pyo3::import_exception!(bridge.errors, CorruptBatch);
pyo3::import_exception!(bridge.errors, CorruptEntry);
pyo3::import_exception!(bridge.errors, InvalidRecord);

/// Why bytes are refused; no byte of a record is in it.
pub type Why = &'static str;

/// Which record or message is refused, −1 for the whole, and why.
pub struct Bad {
    at: i64,
    why: Why,
}

impl Bad {
    fn whole(why: Why) -> Self {
        Bad { at: -1, why }
    }

    fn message(&self, what: &str) -> String {
        if self.at < 0 { self.why.to_owned() } else { format!("{what} {}: {}", self.at, self.why) }
    }

    fn record(self) -> PyErr {
        InvalidRecord::new_err(self.message("record"))
    }

    fn entry(self) -> PyErr {
        CorruptEntry::new_err(self.message("message"))
    }
}

struct Types {
    new_tuple: Py<PyAny>,
    header: Py<PyType>,
    payload: Py<PyType>,
    checked: Py<PyType>,
    plain: Py<PyType>,
}

/// Attributes of what is compressed, has the broker's times, or is of a broker (KIP-98).
const NOT_PLAIN: i16 = 0x2F;
const TRANSACTIONAL: i16 = 0x10;

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

impl Types {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        TYPES.get_or_try_init(py, || {
            let types = py.import("bridge.codec.types")?;
            Ok(Types {
                new_tuple: py.get_type::<PyTuple>().getattr("__new__")?.unbind(),
                header: types.getattr("BatchHeader")?.cast_into()?.unbind(),
                payload: types.getattr("Payload")?.cast_into()?.unbind(),
                checked: types.getattr("Checked")?.cast_into()?.unbind(),
                plain: types.getattr("Plain")?.cast_into()?.unbind(),
            })
        })
    }

    /// A named tuple without the detour over its Python constructor.
    fn make<'py>(&self, class: &Py<PyType>, fields: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.new_tuple.bind(fields.py()).call1((class, &fields))
    }
}

/// Read and verify the header of one whole batch, checksum included; raises CorruptBatch.
#[pyfunction]
fn read_header<'py>(batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = batch.py();
    let input = Input::of(batch)?;
    let data = input.bytes();
    let Some(head) = data.first_chunk::<HEADER_SIZE>() else {
        return Err(CorruptBatch::new_err(format!("a batch of {} bytes is shorter than its header", data.len())));
    };
    let (length, magic, crc) = (i32_at(head, 8), head[16] as i8, i32_at(head, 17) as u32);
    if magic != 2 {
        return Err(CorruptBatch::new_err(format!("magic {magic} is not record batch v2")));
    }
    if i64::from(length) != (data.len() - LENGTH_START) as i64 {
        let rest = data.len() - LENGTH_START;
        return Err(CorruptBatch::new_err(format!("the batch says {length} bytes and has {rest}")));
    }
    if memory::released(py, input.is_immutable(), data.len(), || crc32c::crc32c(&data[CRC_START..])) != crc {
        return Err(CorruptBatch::new_err("the batch's checksum does not match"));
    }
    let fields = [
        i64_at(head, 0),
        length.into(),
        i32_at(head, 12).into(),
        magic.into(),
        crc.into(),
        i16_at(head, 21).into(),
        i32_at(head, 23).into(),
        i64_at(head, 27),
        i64_at(head, 35),
        i64_at(head, 43),
        i16_at(head, 51).into(),
        i32_at(head, 53).into(),
        i32_at(head, 57).into(),
    ];
    let types = Types::get(py)?;
    types.make(&types.header, PyTuple::new(py, fields)?)
}

fn i64_at(data: &[u8; HEADER_SIZE], at: usize) -> i64 {
    i64::from_be_bytes(std::array::from_fn(|byte| data[at + byte]))
}

fn i32_at(data: &[u8; HEADER_SIZE], at: usize) -> i32 {
    i32::from_be_bytes(std::array::from_fn(|byte| data[at + byte]))
}

fn i16_at(data: &[u8; HEADER_SIZE], at: usize) -> i16 {
    i16::from_be_bytes([data[at], data[at + 1]])
}

/// A count as the coders take it; what is beyond 64 bits cannot be in any bytes, whichever sign it has.
fn count_of(count: &Bound<'_, PyAny>) -> PyResult<i64> {
    match count.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(count.py()) => Ok(-1),
        other => Ok(other?),
    }
}

/// Turn the uncompressed records of a batch into a Pulsar batch payload; raises InvalidRecord.
///
/// The records must be exactly `count`, with offset deltas `first`, `first` + 1 … as Kafka demands of producers. Those
/// that would bring the payload above `limit` bytes are left out, but for the first one.
#[pyfunction]
#[pyo3(signature = (records, count, base_timestamp, first=0, limit=i64::MAX))]
fn encode_payload<'py>(
    records: &Bound<'py, PyAny>,
    count: &Bound<'py, PyAny>,
    base_timestamp: i64,
    first: i64,
    limit: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = records.py();
    let input = Input::of(records)?;
    let limit = usize::try_from(limit).unwrap_or(0);
    let coder = Encode { records: input.bytes(), count: count_of(count)?, base_timestamp, first, limit };
    let size = (coder.records.len() + coder.records.len() / 8 + 64).min(limit.saturating_add(64));
    let (data, encoded) = memory::make(py, input.is_immutable(), size, coder.count, &coder)?.map_err(Bad::record)?;
    let types = Types::get(py)?;
    let fields = (data, encoded.newest, encoded.oldest, encoded.escaped, encoded.count, encoded.read);
    types.make(&types.payload, fields.into_pyobject(py)?)
}

/// Turn one whole batch into a payload, if there is nothing to decide about it; else None.
///
/// So it is where the batch is sound, not compressed, of a client, of at most `max_records` records with timestamps from
/// `oldest` to `newest`, or none, and the payload has at most `limit` bytes.
#[pyfunction]
fn encode_plain<'py>(
    batch: &Bound<'py, PyAny>,
    limit: usize,
    oldest: i64,
    newest: i64,
    max_records: i32,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = batch.py();
    let input = Input::of(batch)?;
    let data = input.bytes();
    let Some(head) = data.first_chunk::<HEADER_SIZE>() else {
        return Ok(None);
    };
    let count = i32_at(head, 57);
    let (id, epoch, sequence) = (i64_at(head, 43), i16_at(head, 51), i32_at(head, 53));
    if head[16] != 2
        || i64::from(i32_at(head, 8)) != (data.len() - LENGTH_START) as i64
        || i16_at(head, 21) & NOT_PLAIN != 0
        || !(1..=max_records).contains(&count)
        || i32_at(head, 23) != count - 1
        || (id >= 0 && (epoch < 0 || sequence < 0))
    {
        return Ok(None);
    }
    let immutable = input.is_immutable();
    let crc = memory::released(py, immutable, data.len(), || crc32c::crc32c(&data[CRC_START..]));
    if crc != i32_at(head, 17) as u32 {
        return Ok(None);
    }
    let records = &data[HEADER_SIZE..];
    let coder = Encode { records, count: count.into(), base_timestamp: i64_at(head, 27), first: 0, limit };
    let size = (records.len() + records.len() / 8 + 64).min(limit.saturating_add(64));
    let Ok((payload, encoded)) = memory::make(py, immutable, size, coder.count, &coder)? else {
        return Ok(None);
    };
    let fits = encoded.count == coder.count && payload.as_bytes().len() <= limit;
    if !fits || encoded.oldest < oldest.max(0) || encoded.newest > newest {
        return Ok(None);
    }
    let producer = if id < 0 { (-1, -1, -1) } else { (id, epoch.into(), sequence.into()) };
    let types = Types::get(py)?;
    let transactional = i16_at(head, 21) & TRANSACTIONAL != 0;
    let fields = (payload, coder.count, producer, encoded.newest, encoded.escaped, transactional);
    Ok(Some(types.make(&types.plain, fields.into_pyobject(py)?)?))
}

/// Read the uncompressed records of a batch as `encode_payload` does; raises InvalidRecord.
#[pyfunction]
fn check_records<'py>(
    records: &Bound<'py, PyAny>,
    count: &Bound<'py, PyAny>,
    base_timestamp: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = records.py();
    let input = Input::of(records)?;
    let (data, count) = (input.bytes(), count_of(count)?);
    let checked = memory::released(py, input.is_immutable(), data.len(), || encode::check(data, count, base_timestamp));
    let types = Types::get(py)?;
    types.make(&types.checked, checked.map_err(Bad::record)?.into_pyobject(py)?)
}

/// Turn a Pulsar batch payload of `count` messages into one uncompressed Kafka batch; raises CorruptEntry.
#[pyfunction]
fn decode_payload<'py>(
    payload: &Bound<'py, PyAny>,
    count: &Bound<'py, PyAny>,
    rebuild: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = payload.py();
    let input = Input::of(payload)?;
    let coder = Decode { payload: input.bytes(), count: count_of(count)?, rebuild: rebuild_of(rebuild)? };
    let size = coder.payload.len() + HEADER_SIZE + 64;
    Ok(memory::make(py, input.is_immutable(), size, coder.count, &coder)?.map_err(Bad::entry)?.0)
}

/// Write one uncompressed Kafka batch over the offsets that `rebuild` names; it may have fewer records (gaps).
///
/// Timestamps are taken as signed 64 bits, as those of a payload are; raises CorruptEntry as `decode_payload` does.
#[pyfunction]
fn build_batch<'py>(records: &Bound<'py, PyAny>, rebuild: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
    let rebuild = rebuild_of(rebuild)?;
    let held =
        records.try_iter()?.map(|record| Held::of(&record?, rebuild.base_offset)).collect::<PyResult<Vec<_>>>()?;
    let coder = Build { records: held.iter().map(Held::view).collect(), rebuild };
    let size = HEADER_SIZE + coder.records.iter().map(View::size).sum::<usize>();
    Ok(memory::make(records.py(), true, size, coder.records.len() as i64, &coder)?.map_err(Bad::entry)?.0)
}

/// CRC-32C (Castagnoli) of the data; `value` is that of what stands before it.
#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, value=0))]
fn checksum(data: &Bound<'_, PyAny>, value: u32) -> PyResult<u32> {
    let input = Input::of(data)?;
    let bytes = input.bytes();
    let work = || crc32c::crc32c_append(value, bytes);
    Ok(memory::released(data.py(), input.is_immutable(), bytes.len(), work))
}

/// What is in a `Rebuild`, refused where it has no place in a batch's header: an entry's own metadata may say anything.
fn rebuild_of(rebuild: &Bound<'_, PyTuple>) -> PyResult<Rebuild> {
    let read = || {
        let span: i64 = rebuild.get_item(1)?.extract()?;
        PyResult::Ok(Rebuild {
            base_offset: rebuild.get_item(0)?.extract()?,
            last_offset_delta: i32::try_from(i128::from(span) - 1)?,
            publish_time: rebuild.get_item(2)?.extract()?,
            own: rebuild.get_item(3)?.is_truthy()?,
            escaped: rebuild.get_item(4)?.is_truthy()?,
            producer: rebuild.get_item(5)?.extract()?,
            attributes: rebuild.get_item(6)?.extract()?,
        })
    };
    read().map_err(|_| CorruptEntry::new_err("an entry's metadata does not fit a Kafka batch"))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // listing records makes Python's objects of all, so there is nothing to win
    module.add("read_records", module.py().import("bridge.codec._listing")?.getattr("read_records")?)?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(read_header, module)?)?;
    module.add_function(wrap_pyfunction!(encode_payload, module)?)?;
    module.add_function(wrap_pyfunction!(encode_plain, module)?)?;
    module.add_function(wrap_pyfunction!(check_records, module)?)?;
    module.add_function(wrap_pyfunction!(decode_payload, module)?)?;
    module.add_function(wrap_pyfunction!(build_batch, module)?)
}
