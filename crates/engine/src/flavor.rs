//! TensorRT comes in two flavours with separate libraries, plans and workers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

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

    /// Whether the machine that builds a plan has no part in its bytes: no GPU is asked.
    pub fn builds_anywhere(self) -> bool {
        self == Self::Rtx
    }

    /// Refuses a flavour whose worker does not exist.
    ///
    /// # Errors
    /// [`Error::FlavorUnavailable`] for `enterprise`.
    pub fn require_worker(self) -> Result<(), Error> {
        match self {
            Self::Rtx => Ok(()),
            Self::Enterprise => Err(Error::FlavorUnavailable(self)),
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
