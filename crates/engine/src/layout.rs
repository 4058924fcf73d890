//! How profiles and architectures are spread over plans.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Architecture, Error, Profile, Span};

/// The GPU of the machine that builds, which is what the enterprise flavour builds for.
pub const NATIVE: &str = "native";

/// How several profiles become plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilesAs {
    /// A plan for each profile: kernels fit each, and each plan has all weights.
    PlanEach,
    /// One plan with all profiles: kernels fit each. An axis that is fixed in one and open in another is opened by one step: where profiles
    /// differ in which axes are fixed, TensorRT keeps the weights once for each (measured: 1.60 and 1.12 times the weights for two).
    OnePlan,
    /// One plan with one profile that covers all: weights once, kernels for one size.
    OneDynamic,
}

/// How several architectures become plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchitecturesAs {
    /// A plan for each architecture.
    PlanEach,
    /// One plan for all; measured, it is hardly larger.
    OnePlan,
}

/// What one plan of several holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanParts {
    /// What it is for.
    pub architectures: Vec<Architecture>,
    /// Its profiles, in order of preference.
    pub profiles: Vec<Profile>,
}

impl ProfilesAs {
    /// All, with the default first.
    pub const ALL: [Self; 3] = [Self::PlanEach, Self::OnePlan, Self::OneDynamic];

    /// As flags and pipeline files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanEach => "plan-each",
            Self::OnePlan => "one-plan",
            Self::OneDynamic => "one-dynamic",
        }
    }

    /// The profiles of each plan.
    fn groups(self, profiles: &[Profile]) -> Result<Vec<Vec<Profile>>, Error> {
        Ok(match self {
            Self::PlanEach => profiles.iter().map(|profile| vec![profile.clone()]).collect(),
            Self::OnePlan => vec![opened(profiles)?],
            Self::OneDynamic => vec![vec![covering(profiles)?]],
        })
    }
}

impl ArchitecturesAs {
    /// All, with the default first.
    pub const ALL: [Self; 2] = [Self::PlanEach, Self::OnePlan];

    /// As flags and pipeline files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanEach => "plan-each",
            Self::OnePlan => "one-plan",
        }
    }
}

/// What each plan holds: architectures vary slowest.
///
/// # Errors
/// [`Error::Profile`]: no profile, or names that are too long together; [`Error::SameProfileName`]. [`Error::Architectures`]: none, or one twice.
pub fn spread(
    architectures: &[Architecture],
    architectures_as: ArchitecturesAs,
    profiles: &[Profile],
    profiles_as: ProfilesAs,
) -> Result<Vec<PlanParts>, Error> {
    crate::check_profile_names(profiles)?;
    // No architecture in one plan: that of the GPU which builds it, for the enterprise flavour.
    if !(architectures.is_empty() && architectures_as == ArchitecturesAs::OnePlan) {
        crate::architecture::check_all_different(architectures)?;
    }
    let groups = profiles_as.groups(profiles)?;
    let targets: Vec<Vec<Architecture>> = match architectures_as {
        ArchitecturesAs::PlanEach => architectures.iter().map(|&architecture| vec![architecture]).collect(),
        ArchitecturesAs::OnePlan => vec![architectures.to_vec()],
    };
    let parts = |architectures: &Vec<Architecture>| {
        let architectures = architectures.clone();
        groups.iter().map(move |profiles| PlanParts { architectures: architectures.clone(), profiles: profiles.clone() })
    };
    let plans: Vec<PlanParts> = targets.iter().flat_map(parts).collect();
    match plans.iter().map(PlanParts::name).find(|name| name.len() > MOST_NAME) {
        Some(name) => {
            let reason = format!("the names make a file name of {} characters; it may have {MOST_NAME}", name.len());
            Err(Error::Profile { profile: name, reason })
        }
        None => Ok(plans),
    }
}

/// File systems take names of 255 bytes; `.plan` and `.json` go behind.
const MOST_NAME: usize = 240;

impl PlanParts {
    /// `sm86`, or `sm86+sm89`, or `native` where none is named: the name of its folder.
    pub fn target(&self) -> String {
        if self.architectures.is_empty() {
            return NATIVE.to_owned();
        }
        self.architectures.iter().map(|architecture| architecture.name()).collect::<Vec<_>>().join("+")
    }

    /// `decode`, or `prefill+decode`: the name of its file.
    pub fn name(&self) -> String {
        self.profiles.iter().map(Profile::name).collect::<Vec<_>>().join("+")
    }

    /// `sm86/decode.plan`.
    pub fn path(&self) -> String {
        format!("{}/{}.plan", self.target(), self.name())
    }
}

/// The same profiles with every axis open that is open in one of them.
fn opened(profiles: &[Profile]) -> Result<Vec<Profile>, Error> {
    let open = |profile: &Profile, axis: fn(&Profile) -> Span| {
        let span = axis(profile);
        let differs = |other: &Profile| axis(other).is_open() || axis(other) != span;
        let max = if span.is_open() || !profiles.iter().any(differs) { span.max() } else { span.max() + 1 };
        Span::new(span.min(), span.opt(), max).map_err(|reason| Error::Profile { profile: profile.to_string(), reason })
    };
    let each = |profile: &Profile| {
        Profile::new(profile.name(), open(profile, Profile::batch)?, open(profile, Profile::sequence)?, open(profile, Profile::past)?)
    };
    profiles.iter().map(each).collect()
}

/// One profile that takes every step that any of `profiles` takes; made for the size of the one with the shortest step, which runs most often.
fn covering(profiles: &[Profile]) -> Result<Profile, Error> {
    let refuse = |reason: String| Error::Profile { profile: String::new(), reason };
    let shortest = profiles.iter().min_by_key(|profile| profile.sequence().opt());
    let shortest = shortest.ok_or_else(|| refuse("a plan needs at least one profile".to_owned()))?;
    let cover = |axis: fn(&Profile) -> Span| {
        let (min, max) = profiles.iter().map(axis).fold((u64::MAX, 0), |(min, max), span| (min.min(span.min()), max.max(span.max())));
        Span::new(min, axis(shortest).opt(), max).map_err(refuse)
    };
    let name = profiles.iter().map(Profile::name).collect::<Vec<_>>().join("-or-");
    Profile::new(&name, cover(Profile::batch)?, cover(Profile::sequence)?, cover(Profile::past)?)
}

/// The one of `all` that is spelt so.
fn named<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let names: Vec<_> = all.iter().map(|&value| name(value)).collect();
    all.iter().copied().find(|&value| name(value) == text).ok_or_else(|| format!("`{text}` is none of {}", names.join(", ")))
}

impl FromStr for ProfilesAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &Self::ALL, Self::name)
    }
}

impl FromStr for ArchitecturesAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &Self::ALL, Self::name)
    }
}

impl fmt::Display for ProfilesAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ArchitecturesAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles() -> Vec<Profile> {
        let texts = ["prefill:batch=1..1..2,sequence=1..128..1024,past=0", "decode:batch=1,sequence=1,past=0..512..2048"];
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn paths(architectures_as: ArchitecturesAs, profiles_as: ProfilesAs) -> Vec<String> {
        let architectures = [Architecture::Sm86, Architecture::Sm89];
        spread(&architectures, architectures_as, &profiles(), profiles_as).unwrap().iter().map(PlanParts::path).collect()
    }

    #[test]
    fn each_choice_names_its_plans() {
        let each = ["sm86/prefill.plan", "sm86/decode.plan", "sm89/prefill.plan", "sm89/decode.plan"];
        assert_eq!(paths(ArchitecturesAs::PlanEach, ProfilesAs::PlanEach), each);
        assert_eq!(paths(ArchitecturesAs::OnePlan, ProfilesAs::OnePlan), ["sm86+sm89/prefill+decode.plan"]);
        assert_eq!(paths(ArchitecturesAs::OnePlan, ProfilesAs::OneDynamic), ["sm86+sm89/prefill-or-decode.plan"]);
        for choice in ProfilesAs::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
            assert_eq!(serde_json::to_string(&choice).unwrap(), format!("\"{choice}\""));
        }
        assert_eq!("all".parse::<ArchitecturesAs>().unwrap_err(), "`all` is none of plan-each, one-plan");
    }

    #[test]
    fn names_that_are_too_long_for_a_file_are_refused() {
        let long = |letter: &str| format!("{}:batch=1,sequence=1,past=0", letter.repeat(60)).parse::<Profile>().unwrap();
        let profiles = ["a", "b", "c", "d"].map(long);
        let error = spread(&[Architecture::Sm86], ArchitecturesAs::PlanEach, &profiles, ProfilesAs::OnePlan).unwrap_err().to_string();
        assert!(error.contains("a file name of 243 characters"), "{error}");
        assert!(spread(&[Architecture::Sm86], ArchitecturesAs::PlanEach, &profiles[..3], ProfilesAs::OnePlan).is_ok());
    }

    #[test]
    fn profiles_of_one_plan_are_open_in_the_same_axes() {
        let opened: Vec<_> = opened(&profiles()).unwrap().iter().map(ToString::to_string).collect();
        let expected =
            ["prefill:batch=1..1..2,sequence=1..128..1024,past=0..0..1", "decode:batch=1..1..2,sequence=1..1..2,past=0..512..2048"];
        assert_eq!(opened, expected);
        let alike: Vec<Profile> =
            ["a:batch=1,sequence=1..2..3,past=0", "b:batch=1,sequence=1..2..9,past=0"].map(|text| text.parse().unwrap()).into();
        assert_eq!(super::opened(&alike).unwrap(), alike);
    }

    #[test]
    fn the_covering_profile_takes_every_step_and_is_made_for_decoding() {
        let covering = covering(&profiles()).unwrap();
        assert_eq!(covering.to_string(), "prefill-or-decode:batch=1..1..2,sequence=1..1..1024,past=0..512..2048");
        assert!(covering.fits(2, 1024, 0) && covering.fits(1, 1, 2048));
    }
}
