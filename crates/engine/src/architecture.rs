//! GPU architectures that a TensorRT-RTX plan can be pinned to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A compute capability that TensorRT-RTX builds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// 7.5: Turing (RTX 20, T4).
    Sm75,
    /// 8.0: Ampere data centre (A100, A30).
    Sm80,
    /// 8.6: Ampere (RTX 30, A10, A40).
    Sm86,
    /// 8.9: Ada (RTX 40, L4, L40).
    Sm89,
    /// 12.0: Blackwell (RTX 50, RTX PRO).
    Sm120,
    /// 12.1: Blackwell (GB10).
    Sm121,
}

/// Names of GPUs of the architectures that the rtx flavour lacks.
const ENTERPRISE_ONLY: [(&str, &str); 8] = [
    ("sm90", "sm90"),
    ("sm100", "sm100"),
    ("sm103", "sm103"),
    ("h100", "sm90"),
    ("h200", "sm90"),
    ("gh200", "sm90"),
    ("b200", "sm100"),
    ("b300", "sm103"),
];

impl Architecture {
    /// All, oldest first.
    pub const ALL: [Self; 6] = [Self::Sm75, Self::Sm80, Self::Sm86, Self::Sm89, Self::Sm120, Self::Sm121];

    /// `sm86`, for example.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm75 => "sm75",
            Self::Sm80 => "sm80",
            Self::Sm86 => "sm86",
            Self::Sm89 => "sm89",
            Self::Sm120 => "sm120",
            Self::Sm121 => "sm121",
        }
    }

    /// Compute capability times ten, as in `sm86`: the number that TensorRT's `ComputeCapability` holds.
    pub fn number(self) -> u32 {
        match self {
            Self::Sm75 => 75,
            Self::Sm80 => 80,
            Self::Sm86 => 86,
            Self::Sm89 => 89,
            Self::Sm120 => 120,
            Self::Sm121 => 121,
        }
    }

    /// Its bit in a plan's header (observed in plans of TensorRT-RTX 1.7).
    pub fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// Refuses none, and one that is named twice.
pub(crate) fn check_all_different(architectures: &[Architecture]) -> Result<(), Error> {
    let mut sorted = architectures.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.is_empty() || sorted.len() != architectures.len() {
        let names: Vec<_> = architectures.iter().map(|architecture| architecture.name()).collect();
        return Err(Error::Architectures(names.join(",")));
    }
    Ok(())
}

/// The bits of a plan for `architectures`.
pub fn architecture_bits(architectures: &[Architecture]) -> u32 {
    architectures.iter().fold(0, |bits, architecture| bits | architecture.bit())
}

/// The architectures behind a header's bits, and the bits that none of them explains.
pub fn architectures_of_bits(bits: u32) -> (Vec<Architecture>, u32) {
    let known: Vec<_> = Architecture::ALL.into_iter().filter(|architecture| bits & architecture.bit() != 0).collect();
    let unknown = bits & !architecture_bits(&known);
    (known, unknown)
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Architecture {
    type Err = Error;

    /// Parses `sm86`.
    ///
    /// # Errors
    /// [`Error::ArchitectureOfEnterprise`] for data-centre GPUs from Hopper on; otherwise [`Error::UnknownArchitecture`] with the nearest name.
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(found) = Self::ALL.into_iter().find(|architecture| architecture.name() == text) {
            return Ok(found);
        }
        let lower = text.to_lowercase();
        if let Some((_, architecture)) = ENTERPRISE_ONLY.into_iter().find(|(name, _)| *name == lower) {
            return Err(Error::ArchitectureOfEnterprise { name: text.to_owned(), architecture });
        }
        let distance = |architecture: &Self| strsim::damerau_levenshtein(architecture.name(), &lower);
        let nearest = Self::ALL.into_iter().min_by_key(distance).filter(|architecture| distance(architecture) <= 2);
        Err(Error::UnknownArchitecture { name: text.to_owned(), nearest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_observed_in_plans() {
        let bits: Vec<_> = Architecture::ALL.into_iter().map(Architecture::bit).collect();
        assert_eq!(bits, [1, 2, 4, 8, 16, 32]);
        assert_eq!(architectures_of_bits(0b100_1100), (vec![Architecture::Sm86, Architecture::Sm89], 0b100_0000));
    }

    #[test]
    fn names_parse_and_others_are_refused_with_the_reason() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.name().parse::<Architecture>().unwrap(), architecture);
            assert_eq!(serde_json::to_string(&architecture).unwrap(), format!("\"{architecture}\""));
        }
        let error = "86".parse::<Architecture>().unwrap_err();
        assert_eq!(error.to_string(), "unknown architecture `86`");
        assert_eq!(error.hint().unwrap(), "did you mean `sm86`? TensorRT-RTX builds for sm75, sm80, sm86, sm89, sm120, sm121");
        for name in ["H100", "sm90"] {
            let error = name.parse::<Architecture>().unwrap_err();
            assert!(error.to_string().contains("TensorRT-RTX has no sm90"), "{error}");
            assert!(error.hint().unwrap().contains("only on the GPU that it targets"));
        }
        assert_eq!(
            "volta".parse::<Architecture>().unwrap_err().hint().unwrap(),
            "TensorRT-RTX builds for sm75, sm80, sm86, sm89, sm120, sm121"
        );
    }
}
