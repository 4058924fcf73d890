//! What a plan of the enterprise flavour may be used with besides what it was built with.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Flavor};

/// A way in which a plan is to be more than that of one GPU and one version. Each costs speed; TensorRT's documentation says how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compatible {
    /// With every GPU from Ampere on.
    AmperePlus,
    /// With other GPUs of the same compute capability.
    SameComputeCapability,
    /// With later versions of TensorRT of the same major one, through its lean runtime.
    Version,
}

impl Compatible {
    /// All.
    pub const ALL: [Self; 3] = [Self::AmperePlus, Self::SameComputeCapability, Self::Version];

    /// `ampere-plus`, for example.
    pub fn name(self) -> &'static str {
        match self {
            Self::AmperePlus => "ampere-plus",
            Self::SameComputeCapability => "same-compute-capability",
            Self::Version => "version",
        }
    }

    /// Refuses what `flavor` does not have, and two that exclude each other.
    ///
    /// # Errors
    /// [`Error::Compatible`].
    pub fn check(all: &[Self], flavor: Flavor) -> Result<(), Error> {
        let refuse = |reason: &str| {
            let names: Vec<&str> = all.iter().map(|compatible| compatible.name()).collect();
            Err(Error::Compatible { names: names.join(","), reason: reason.to_owned() })
        };
        if flavor == Flavor::Rtx && !all.is_empty() {
            return refuse("plans of TensorRT-RTX name the architectures that they run on; only the enterprise flavour has this");
        }
        if all.contains(&Self::AmperePlus) && all.contains(&Self::SameComputeCapability) {
            return refuse("the hardware is either of the two");
        }
        Ok(())
    }
}

impl FromStr for Compatible {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|compatible| compatible.name() == text);
        let reason = || "it is `ampere-plus`, `same-compute-capability` or `version`".to_owned();
        found.ok_or_else(|| Error::Compatible { names: text.to_owned(), reason: reason() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_enterprise_flavour_has_them_and_only_one_of_hardware() {
        for compatible in Compatible::ALL {
            assert_eq!(compatible.name().parse::<Compatible>().unwrap(), compatible);
            assert_eq!(serde_json::to_string(&compatible).unwrap(), format!("\"{}\"", compatible.name()));
            assert!(Compatible::check(&[compatible], Flavor::Enterprise).is_ok());
            assert!(Compatible::check(&[compatible], Flavor::Rtx).unwrap_err().to_string().contains("only the enterprise flavour"));
        }
        assert!(Compatible::check(&[], Flavor::Rtx).is_ok());
        assert!(Compatible::check(&Compatible::ALL, Flavor::Enterprise).is_err());
        assert!("ada".parse::<Compatible>().unwrap_err().to_string().contains("`ada`"));
    }
}
