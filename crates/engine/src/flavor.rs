//! TensorRT comes in two flavours with separate libraries, plans and workers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Architecture, Error, NATIVE};

/// Which TensorRT a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// TensorRT for RTX: builds without a GPU, for consumer and workstation GPUs.
    Rtx,
    /// TensorRT (enterprise): builds only on the GPU that it targets.
    Enterprise,
}

impl Flavor {
    /// `rtx` or `enterprise`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rtx => "rtx",
            Self::Enterprise => "enterprise",
        }
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::Rtx, Self::Enterprise];

    /// Whether the machine that builds a plan has no part in its bytes: no GPU is asked.
    pub fn builds_anywhere(self) -> bool {
        self == Self::Rtx
    }

    /// What the names of targets stand for; none for [`NATIVE`], the GPU of the machine that builds.
    ///
    /// # Errors
    /// [`Error::ArchitecturesOfEnterprise`], [`Error::NativeOfRtx`]; as parsing an [`Architecture`].
    pub fn targets(self, names: &[String]) -> Result<Vec<Architecture>, Error> {
        match (self, names) {
            (Self::Enterprise, [name]) if name == NATIVE => Ok(Vec::new()),
            (Self::Enterprise, _) => Err(Error::ArchitecturesOfEnterprise),
            (Self::Rtx, names) if names.iter().any(|name| name == NATIVE) => Err(Error::NativeOfRtx),
            (Self::Rtx, names) => names.iter().map(|name| name.parse()).collect(),
        }
    }

    /// Refuses what it cannot build for; no architecture stands for [`NATIVE`].
    ///
    /// # Errors
    /// [`Error::ArchitecturesOfEnterprise`], [`Error::NativeOfRtx`].
    pub fn check_targets(self, architectures: &[Architecture]) -> Result<(), Error> {
        match (self, architectures.is_empty()) {
            (Self::Enterprise, false) => Err(Error::ArchitecturesOfEnterprise),
            (Self::Rtx, true) => Err(Error::NativeOfRtx),
            (Self::Enterprise, true) | (Self::Rtx, false) => Ok(()),
        }
    }

    /// No GPU that it builds for has more memory, in bytes: a GB10 has 128 GiB, and a B300 288 GB.
    pub fn most_memory(self) -> u64 {
        match self {
            Self::Rtx => 128 << 30,
            Self::Enterprise => 288 << 30,
        }
    }

    /// As NVIDIA calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rtx => "TensorRT-RTX",
            Self::Enterprise => "TensorRT",
        }
    }

    /// File names of its libraries: core and parser.
    pub fn libraries(self) -> [&'static str; 2] {
        match self {
            Self::Rtx => ["libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1"],
            Self::Enterprise => ["libnvinfer.so.11", "libnvonnxparser.so.11"],
        }
    }

    /// File name of its worker.
    pub fn worker_name(self) -> &'static str {
        match self {
            Self::Rtx => "plansmith-worker-rtx",
            Self::Enterprise => "plansmith-worker-enterprise",
        }
    }

    /// Environment variables that name its worker and the folder of its libraries.
    pub(crate) fn variables(self) -> [&'static str; 2] {
        match self {
            Self::Rtx => ["PLANSMITH_WORKER_RTX", "PLANSMITH_TENSORRT_RTX_DIR"],
            Self::Enterprise => ["PLANSMITH_WORKER_ENTERPRISE", "PLANSMITH_TENSORRT_DIR"],
        }
    }

    /// The package on PyPI that brings its libraries, the Python package that they are in, and what their folder in the cache begins with.
    pub(crate) fn packages(self) -> [&'static str; 3] {
        match self {
            Self::Rtx => ["tensorrt-rtx-cu12-libs", "tensorrt_rtx_libs", "tensorrt-rtx-"],
            Self::Enterprise => ["tensorrt-cu13-libs", "tensorrt_libs", "tensorrt-enterprise-"],
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "rtx" => Ok(Self::Rtx),
            "enterprise" => Ok(Self::Enterprise),
            _ => Err(Error::UnknownFlavor(text.to_owned())),
        }
    }
}
