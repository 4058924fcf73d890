//! What a file under a `.safetensors` name really is, told by its first bytes.

use std::fmt;

/// A format that is found under a `.safetensors` name and is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// A zip archive, which is how `torch.save` writes.
    Zip,
    /// A bare Python pickle, which is how old `torch.save` wrote.
    Pickle,
    /// The few lines of text that Git LFS leaves where a file was not downloaded.
    LfsPointer,
    /// A web page or XML error document.
    Markup,
    /// A GGUF file.
    Gguf,
    /// An HDF5 file (Keras, TensorFlow).
    Hdf5,
    /// A gzip stream.
    Gzip,
    /// JSON text.
    Json,
}

/// As many bytes as [`Foreign::sniff`] looks at.
pub(crate) const SNIFF_BYTES: usize = 64;

impl Foreign {
    /// Names the format that starts with `start`; `None` for those that we do not know.
    ///
    /// The eight bytes of a real header length can look like a signature (`PK\x03\x04` followed by zeros is 64 MiB): ask only
    /// once the file has failed as safetensors.
    pub fn sniff(start: &[u8]) -> Option<Self> {
        let start = &start[..start.len().min(SNIFF_BYTES)];
        let text = start.trim_ascii_start().to_ascii_lowercase();
        let markup = ["<!doctype", "<html", "<?xml", "<head", "<error"];
        match start {
            [b'P', b'K', 3, 4, ..] => Some(Self::Zip),
            [0x80, 2..=5, b'c' | b'}' | b'.' | 0x8a | 0x95 | b'(' | b']', ..] => Some(Self::Pickle),
            [b'G', b'G', b'U', b'F', ..] => Some(Self::Gguf),
            [0x89, b'H', b'D', b'F', ..] => Some(Self::Hdf5),
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            _ if start.starts_with(b"version https://git-lfs") => Some(Self::LfsPointer),
            _ if markup.iter().any(|tag| text.starts_with(tag.as_bytes())) => Some(Self::Markup),
            _ if matches!(text.first(), Some(b'{')) && !start.contains(&0) => Some(Self::Json),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Zip | Self::Pickle => {
                "load it in Python with `torch.load(FILE, weights_only=True)` and save it with `safetensors.torch.save_file`"
            }
            Self::LfsPointer => "the weights were not downloaded: run `git lfs pull`, or download the file again",
            Self::Markup => "the download saved an error page: download the file again",
            Self::Gguf => "`plansmith import FILE -o DIR` reads GGUF",
            Self::Hdf5 => "convert the TensorFlow weights with transformers: `from_pretrained(DIR, from_tf=True)`, then `save_pretrained`",
            Self::Gzip => "unpack it first",
            Self::Json => "an index belongs in `model.safetensors.index.json`; download the weights again",
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zip => "a zip archive (PyTorch's own format)",
            Self::Pickle => "a Python pickle (PyTorch's old format)",
            Self::LfsPointer => "a Git LFS pointer, not the file it points to",
            Self::Markup => "a web page or XML document",
            Self::Gguf => "a GGUF file",
            Self::Hdf5 => "an HDF5 file",
            Self::Gzip => "a gzip stream",
            Self::Json => "JSON text",
        })
    }
}
