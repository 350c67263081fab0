//! Python's memory: what is read without a copy, and results made in the bytes objects that are handed back.

use std::cell::Cell;
use std::mem::MaybeUninit;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::Bad;
use crate::sink::{Counter, Exact, Sink};

/// From this size on other threads may run meanwhile, where what is read cannot change.
const RELEASE_FROM: usize = 64 * 1024;
/// From these sizes on, of the result and of the average record in it, a result is counted first and written where it
/// stays. Measured at 1 MB: of 1 KB records a copy costs more than the counting, of 100 bytes the counting does.
const COUNT_FROM: usize = 128 * 1024;
const COUNT_RECORDS_FROM: usize = 512;
/// From this size on it is counted in any case, so that it is not in memory twice.
const COUNT_ALL_FROM: usize = 4 * 1024 * 1024;

/// How much memory a thread keeps for its next result.
const KEEP: usize = 2 * 1024 * 1024;

thread_local! {
    /// Where results grow: the allocator gives and takes so large a piece page by page, which costs as much as the work.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that Python lends.
pub enum Input<'a, 'py> {
    Bytes(&'a Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'a, 'py> Input<'a, 'py> {
    pub fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Input::Bytes(bytes));
        }
        let buffer = PyBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the bytes do not lie one after another"));
        }
        Ok(Input::Buffer(buffer))
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Input::Bytes(bytes) => bytes.as_bytes(),
            Input::Buffer(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the buffer is held, contiguous and of u8. Python code cannot change it while the GIL is held, and
            // `released` keeps it held unless the bytes cannot change, see `is_immutable`.
            Input::Buffer(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes())
            },
        }
    }

    /// Whether the bytes stay as they are without the GIL. Of a read-only view its maker promises that: a request's
    /// view is handed out when the request is whole, and nothing writes below it after that.
    pub fn is_immutable(&self) -> bool {
        match self {
            Input::Bytes(_) => true,
            Input::Buffer(buffer) => buffer.readonly(),
        }
    }
}

/// Run `work`, without the GIL where that is allowed and worth it.
pub fn released<T: Send>(py: Python<'_>, immutable: bool, size: usize, work: impl FnOnce() -> T + Send) -> T {
    if immutable && size >= RELEASE_FROM { py.detach(work) } else { work() }
}

/// Something that writes the same bytes however often it runs.
pub trait Coder: Sync {
    type Said: Copy + Send;

    fn run(&self, out: &mut impl Sink) -> Result<Self::Said, Bad>;

    /// Complete what was written.
    fn finish(&self, _out: &mut [u8], _said: Self::Said) {}
}

/// A result and what was said of it, unless the bytes are bad or Python failed.
type Made<'py, Said> = PyResult<Result<(Bound<'py, PyBytes>, Said), Bad>>;

/// The result of `coder` as a bytes object; `size` and `count`: about how long it will be, of how many records.
pub fn make<'py, C: Coder>(py: Python<'py>, immutable: bool, size: usize, count: i64, coder: &C) -> Made<'py, C::Said> {
    let record = size / usize::try_from(count).unwrap_or(1).max(1);
    if size >= COUNT_ALL_FROM || (size >= COUNT_FROM && record >= COUNT_RECORDS_FROM) {
        return make_large(py, immutable, size, coder);
    }
    let mut out = SCRATCH.take();
    out.clear();
    out.reserve(size);
    let said = released(py, immutable, size, || {
        let said = coder.run(&mut out)?;
        coder.finish(&mut out, said);
        Ok(said)
    });
    let made = said.map(|said| (PyBytes::new(py, &out), said));
    if out.capacity() <= KEEP {
        SCRATCH.set(out);
    }
    Ok(made)
}

fn make_large<'py, C: Coder>(py: Python<'py>, immutable: bool, size: usize, coder: &C) -> Made<'py, C::Said> {
    let counted = released(py, immutable, size, || {
        let mut counter = Counter::default();
        coder.run(&mut counter).map(|_| counter.len())
    });
    let len = match counted {
        Ok(len) => len,
        Err(bad) => return Ok(Err(bad)),
    };
    // SAFETY: a new bytes object of `len` bytes (or an exception) that no other code has seen; without a source its bytes
    // are not initialised, and they are only taken for MaybeUninit until all are.
    let (bytes, room) = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len as ffi::Py_ssize_t);
        let bytes = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>();
        (bytes, std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(object).cast::<MaybeUninit<u8>>(), len))
    };
    let written = released(py, immutable, size, || {
        let mut out = Exact::new(room);
        let said = coder.run(&mut out)?;
        Ok(out.filled().map(|filled| {
            coder.finish(filled, said);
            said
        }))
    });
    match written {
        Ok(Some(said)) => Ok(Ok((bytes, said))),
        Ok(None) => Err(PyBufferError::new_err("the bytes were changed while they were read")),
        Err(bad) => Ok(Err(bad)),
    }
}
