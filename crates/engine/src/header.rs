//! The first 64 bytes of a plan.
//!
//! The layout was observed, it is not documented: what does not look as expected is refused, and our own manifest is the truth.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Architecture, Error, Flavor, architectures_of_bits};

/// Version of the library that a plan was built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PlanVersion {
    /// Major, minor, patch, build.
    pub parts: [u8; 4],
}

impl fmt::Display for PlanVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch, build] = self.parts;
        write!(f, "{major}.{minor}.{patch}.{build}")
    }
}

impl From<PlanVersion> for String {
    fn from(version: PlanVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for PlanVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || format!("`{text}` is not four numbers of 0 to 255 with dots");
        let parts = text.split('.').map(|part| part.parse().map_err(|_| refuse())).collect::<Result<Vec<u8>, _>>()?;
        Ok(Self { parts: parts.try_into().map_err(|_| refuse())? })
    }
}

/// What a plan's header says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanHeader {
    /// From the magic: `vtrt` or `ftrt`.
    pub flavor: Flavor,
    /// Version of the library.
    pub version: PlanVersion,
    /// Size of the whole plan, header included; unknown for the enterprise flavour.
    pub plan_bytes: Option<u64>,
    /// One bit an architecture, see [`Architecture::bit`]; unknown for the enterprise flavour.
    pub architecture_bits: Option<u32>,
}

impl PlanHeader {
    /// Bytes of a header.
    pub const BYTES: usize = 64;

    /// Reads a header from the first bytes of a plan of `total` bytes.
    ///
    /// # Errors
    /// Says what is off: too short, another magic, a size that is not that of the file, an architecture bit that is none.
    pub fn parse(bytes: &[u8], total: u64) -> Result<Self, String> {
        let Some(bytes) = bytes.get(..Self::BYTES) else {
            return Err(format!("{} bytes are less than a plan's header of {}", bytes.len(), Self::BYTES));
        };
        let part = |from: usize| -> [u8; 4] { [bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]] };
        let flavor = match &part(0) {
            b"vtrt" => Flavor::Rtx,
            b"ftrt" => Flavor::Enterprise,
            other => {
                return Err(format!("starts with {:?}, not with `vtrt` (rtx) or `ftrt` (enterprise)", other.escape_ascii().to_string()));
            }
        };
        let version = PlanVersion { parts: part(24) };
        if flavor == Flavor::Enterprise {
            return Ok(Self { flavor, version, plan_bytes: None, architecture_bits: None });
        }
        let size = u64::from(u32::from_le_bytes(part(16))) | u64::from(u32::from_le_bytes(part(20))) << 32;
        if size != total {
            return Err(format!("the header says the plan has {size} bytes; the file has {total}"));
        }
        let bits = u32::from_le_bytes(part(32));
        match architectures_of_bits(bits) {
            (known, 0) if !known.is_empty() => {}
            (_, unknown) => return Err(format!("architecture bits {bits:#x}: {unknown:#x} are none that we know")),
        }
        Ok(Self { flavor, version, plan_bytes: Some(size), architecture_bits: Some(bits) })
    }

    /// Reads the header of a plan file, in O(1).
    ///
    /// # Errors
    /// [`Error::Plan`] as [`PlanHeader::parse`]; [`Error::File`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = plansmith_files::open_regular(path)?;
        let total = plansmith_files::metadata(path)?.len();
        let mut bytes = vec![0; Self::BYTES.min(usize::try_from(total).unwrap_or(Self::BYTES))];
        plansmith_files::read_at(&file, path, &mut bytes, 0)?;
        Self::parse(&bytes, total).map_err(|reason| Error::Plan { path: path.to_owned(), reason })
    }

    /// The architectures of its bits; empty for the enterprise flavour.
    pub fn architectures(&self) -> Vec<Architecture> {
        architectures_of_bits(self.architecture_bits.unwrap_or(0)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Laid out by hand from the notes of what TensorRT-RTX 1.7.1.116 writes.
    fn header() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(b"vtrt");
        bytes[16..24].copy_from_slice(&1064_u64.to_le_bytes());
        bytes[24..28].copy_from_slice(&[1, 7, 1, 0x74]);
        bytes[32..36].copy_from_slice(&0b1100_u32.to_le_bytes());
        bytes
    }

    #[test]
    fn a_header_says_version_size_and_architectures() {
        let parsed = PlanHeader::parse(&header(), 1064).unwrap();
        assert_eq!(parsed.version.to_string(), "1.7.1.116");
        assert_eq!(parsed.architectures(), [Architecture::Sm86, Architecture::Sm89]);
        let json = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<PlanHeader>(&json).unwrap(), parsed);
    }

    #[test]
    fn anything_odd_is_refused() {
        assert!(PlanHeader::parse(&header()[..63], 1064).unwrap_err().contains("63 bytes"));
        assert!(PlanHeader::parse(&header(), 1063).unwrap_err().contains("says the plan has 1064 bytes; the file has 1063"));
        let with = |at: usize, value: u8| {
            let mut bytes = header();
            bytes[at] = value;
            PlanHeader::parse(&bytes, 1064)
        };
        assert!(with(0, b'x').unwrap_err().contains("xtrt"));
        assert!(with(32, 0).unwrap_err().contains("architecture bits 0x0"));
        assert!(with(33, 1).unwrap_err().contains("0x100"));
        assert_eq!(with(0, b'f').unwrap().flavor, Flavor::Enterprise);
        for length in 0..64 {
            assert!(PlanHeader::parse(&vec![0xff; length], length as u64).is_err());
        }
    }
}
