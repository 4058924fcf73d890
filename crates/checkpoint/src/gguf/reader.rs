//! The bytes of a GGUF header, read in order and never past what the file holds.
//!
//! Source: the GGUF specification of ggml, `docs/gguf.md`. Numbers are little-endian; a text is a u64 length and UTF-8.

use std::io::Read;

use super::error::Problem;
use super::value::{Array, Value};

/// A key or a tensor name may have this many bytes (the specification's limit for keys).
const MAX_NAME_BYTES: u64 = 65_535;
/// A text value may have this many bytes; chat templates and licences have some tens of thousands.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// A source of bytes that knows how many are left.
pub(super) struct Reader<R> {
    source: R,
    position: u64,
    size: u64,
}

/// Reading failed, or what was read is wrong.
pub(super) enum Failure {
    Io(std::io::Error),
    Problem(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

type Result<T> = std::result::Result<T, Failure>;

impl<R: Read> Reader<R> {
    /// Reads from `source`, which has `size` bytes.
    pub(super) fn new(source: R, size: u64) -> Self {
        Self { source, position: 0, size }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Fails unless `count` items of at least `bytes` each can follow; so no count can ask for more memory than the file justifies.
    pub(super) fn expect(&self, count: u64, bytes: u64, what: impl FnOnce() -> String) -> Result<usize> {
        let available = self.size - self.position;
        let needed = count.saturating_mul(bytes);
        if needed > available {
            return Err(Problem::Truncated { what: what(), needed, available }.into());
        }
        usize::try_from(count).map_err(|_| Problem::Limit { what: what(), found: count, limit: usize::MAX as u64 }.into())
    }

    fn fill(&mut self, buffer: &mut [u8], what: impl FnOnce() -> String) -> Result<()> {
        self.expect(buffer.len() as u64, 1, what)?;
        self.source.read_exact(buffer).map_err(Failure::Io)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, || what.to_owned())?;
        Ok(bytes)
    }

    pub(super) fn bytes4(&mut self, what: &str) -> Result<[u8; 4]> {
        self.array(what)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn text(&mut self, limit: u64, what: &str) -> Result<String> {
        let length = self.u64(what)?;
        if length > limit {
            return Err(Problem::Limit { what: format!("the length of {what}"), found: length, limit }.into());
        }
        let mut bytes = vec![0; self.expect(length, 1, || what.to_owned())?];
        self.fill(&mut bytes, || what.to_owned())?;
        String::from_utf8(bytes).map_err(|_| Problem::Utf8 { what: what.to_owned() }.into())
    }

    /// The name of a key or tensor.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        self.text(MAX_NAME_BYTES, what)
    }

    /// A value with its type before it.
    pub(super) fn value(&mut self, key: &str) -> Result<Value> {
        let what = format!("the value of `{key}`");
        let id = self.u32(&what)?;
        Ok(match id {
            8 => Value::Text(self.text(MAX_TEXT_BYTES, &what)?),
            9 => Value::Array(self.items(key, &what)?),
            _ => self.scalar(id, key, &what)?,
        })
    }

    fn scalar(&mut self, id: u32, key: &str, what: &str) -> Result<Value> {
        Ok(match id {
            0 => Value::Unsigned(self.array::<1>(what)?[0].into()),
            1 => Value::Signed((self.array::<1>(what)?[0] as i8).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.array(what)?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.array(what)?).into()),
            4 => Value::Unsigned(self.u32(what)?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.array(what)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array(what)?).into()),
            7 => match self.array::<1>(what)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [byte] => return Err(Problem::Bool { key: key.to_owned(), byte }.into()),
            },
            10 => Value::Unsigned(self.u64(what)?),
            11 => Value::Signed(i64::from_le_bytes(self.array(what)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(what)?)),
            _ => return Err(Problem::ValueType { key: key.to_owned(), id }.into()),
        })
    }

    fn items(&mut self, key: &str, what: &str) -> Result<Array> {
        let id = self.u32(what)?;
        let count = self.u64(what)?;
        let smallest = match id {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => return Err(Problem::NestedArray(key.to_owned()).into()),
            _ => return Err(Problem::ValueType { key: key.to_owned(), id }.into()),
        };
        let count = self.expect(count, smallest, || what.to_owned())?;
        if id == 8 {
            let mut texts = Vec::with_capacity(count);
            for index in 0..count {
                texts.push(self.text(MAX_TEXT_BYTES, &format!("item {index} of `{key}`"))?);
            }
            return Ok(Array::Text(texts));
        }
        let mut array = match id {
            1 | 3 | 5 | 11 => Array::Signed(Vec::with_capacity(count)),
            6 | 12 => Array::Float(Vec::with_capacity(count)),
            7 => Array::Bool(Vec::with_capacity(count)),
            _ => Array::Unsigned(Vec::with_capacity(count)),
        };
        for _ in 0..count {
            match (&mut array, self.scalar(id, key, what)?) {
                (Array::Unsigned(items), Value::Unsigned(item)) => items.push(item),
                (Array::Signed(items), Value::Signed(item)) => items.push(item),
                (Array::Float(items), Value::Float(item)) => items.push(item),
                (Array::Bool(items), Value::Bool(item)) => items.push(item),
                _ => return Err(Problem::ValueType { key: key.to_owned(), id }.into()),
            }
        }
        Ok(array)
    }
}
