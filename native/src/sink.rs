//! Where results are written: counted first, straight into the memory of the result, or into a vector.

use std::mem::MaybeUninit;

/// What the coders write to. Nothing they write can fail: the owner of the memory looks at `len` afterwards.
pub trait Sink {
    fn len(&self) -> usize;
    fn put(&mut self, data: &[u8]);
    /// Write again over bytes already written.
    fn patch(&mut self, at: usize, data: &[u8]);

    /// Protobuf's varint, which is Kafka's unsigned one as well.
    #[inline(always)]
    fn varint(&mut self, value: u64) {
        let mut small = Small::new();
        small.varint(value);
        self.put(small.bytes());
    }
}

impl Sink for Vec<u8> {
    #[inline(always)]
    fn len(&self) -> usize {
        Vec::len(self)
    }

    #[inline(always)]
    fn put(&mut self, data: &[u8]) {
        self.extend_from_slice(data);
    }

    #[inline(always)]
    fn patch(&mut self, at: usize, data: &[u8]) {
        self[at..at + data.len()].copy_from_slice(data);
    }
}

/// Counts what would be written.
#[derive(Default)]
pub struct Counter(usize);

impl Sink for Counter {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn put(&mut self, data: &[u8]) {
        self.0 += data.len();
    }

    #[inline(always)]
    fn patch(&mut self, _at: usize, _data: &[u8]) {}
}

/// Writes into memory of a counted size. What goes beyond it is dropped but counted, so that `len` tells.
pub struct Exact<'a> {
    room: &'a mut [MaybeUninit<u8>],
    len: usize,
}

impl<'a> Exact<'a> {
    pub fn new(room: &'a mut [MaybeUninit<u8>]) -> Self {
        Exact { room, len: 0 }
    }

    /// All of the memory, if all of it and nothing beyond it was written.
    pub fn filled(self) -> Option<&'a mut [u8]> {
        if self.len != self.room.len() {
            return None;
        }
        // SAFETY: `put` writes one after another and without gaps, `len` bytes in all; u8 has MaybeUninit<u8>'s layout.
        Some(unsafe { &mut *(self.room as *mut [MaybeUninit<u8>] as *mut [u8]) })
    }
}

impl Sink for Exact<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn put(&mut self, data: &[u8]) {
        let end = self.len + data.len();
        if let Some(room) = self.room.get_mut(self.len..end) {
            room.copy_from_slice(as_maybe(data));
        }
        self.len = end;
    }

    #[inline(always)]
    fn patch(&mut self, at: usize, data: &[u8]) {
        if let Some(room) = self.room.get_mut(at..at + data.len()) {
            room.copy_from_slice(as_maybe(data));
        }
    }
}

fn as_maybe(data: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: u8 has MaybeUninit<u8>'s layout, and what is initialised may be taken for what need not be.
    unsafe { &*(data as *const [u8] as *const [MaybeUninit<u8>]) }
}

/// A few tags and numbers, gathered so that they are written at once.
pub struct Small {
    data: [u8; 48],
    len: usize,
}

impl Small {
    #[inline(always)]
    pub fn new() -> Self {
        Small { data: [0; 48], len: 0 }
    }

    #[inline(always)]
    pub fn byte(&mut self, byte: u8) {
        self.data[self.len] = byte;
        self.len += 1;
    }

    #[inline(always)]
    pub fn varint(&mut self, mut value: u64) {
        while value > 0x7F {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.data[..self.len]
    }
}

/// How many bytes the varint of `value` has.
#[inline(always)]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_varints() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                out.varint(value);
                assert_eq!(varint_len(value), out.len(), "{value}");
            }
        }
    }
}
