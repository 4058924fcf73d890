//! Which element types a GPU architecture takes: measured, by building small graphs of each type for each architecture with
//! TensorRT-RTX 1.7.

use std::fmt;

use plansmith_tensor::DType;
use serde::Serialize;

use crate::{Architecture, Error, GraphTypes};

/// Types that a graph must not hold, not even as stored weights that it converts, with the first architecture that takes them.
const SINCE: [(DType, Architecture); 3] =
    [(DType::BF16, Architecture::Sm80), (DType::F8E4M3, Architecture::Sm89), (DType::F4, Architecture::Sm120)];

/// Why an architecture cannot run a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// The architecture.
    pub architecture: Architecture,
    /// The element type by its safetensors name.
    pub dtype: &'static str,
    /// First tensor or node that has it.
    pub place: String,
    /// The first architecture that takes it.
    pub since: Architecture,
    /// Whether it is the product of matrices that is missing, not the type.
    pub product: bool,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { architecture, dtype, place, since, product } = self;
        let what = if *product { "does not multiply matrices in" } else { "has no" };
        write!(f, "{architecture} {what} {dtype} (first at `{place}`); {since} is the first that does")
    }
}

/// Everything in a graph that `architecture` does not take.
pub fn unsupported(architecture: Architecture, types: &GraphTypes) -> Vec<Unsupported> {
    let missing = SINCE.into_iter().filter(|(_, since)| architecture < *since).filter_map(|(dtype, since)| {
        let place = types.present.get(&dtype)?.clone();
        Some(Unsupported { architecture, dtype: dtype.name(), place, since, product: false })
    });
    let product = types.products.get(&DType::F32).filter(|_| architecture < Architecture::Sm80);
    let product = product.map(|place| Unsupported {
        architecture,
        dtype: DType::F32.name(),
        place: place.clone(),
        since: Architecture::Sm80,
        product: true,
    });
    missing.chain(product).collect()
}

/// Refuses a graph that one of `architectures` does not take.
pub(crate) fn check(architectures: &[Architecture], types: &GraphTypes) -> Result<(), Error> {
    let reasons: Vec<_> = architectures.iter().flat_map(|&architecture| unsupported(architecture, types)).collect();
    if reasons.is_empty() { Ok(()) } else { Err(Error::Unsupported(reasons)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn graph(present: &[DType], products: &[DType]) -> GraphTypes {
        let map = |types: &[DType]| types.iter().map(|&dtype| (dtype, format!("{dtype} node"))).collect::<BTreeMap<_, _>>();
        GraphTypes { present: map(present), products: map(products) }
    }

    #[test]
    fn the_table_is_the_one_that_was_measured() {
        // Rows: what was built; columns: sm75, sm80, sm86, sm89, sm120, sm121.
        let measured = [
            (graph(&[DType::F16, DType::F32], &[DType::F16]), [true, true, true, true, true, true]),
            (graph(&[DType::F32], &[DType::F32]), [false, true, true, true, true, true]),
            (graph(&[DType::BF16], &[DType::BF16]), [false, true, true, true, true, true]),
            (graph(&[DType::BF16, DType::F16], &[DType::F16]), [false, true, true, true, true, true]),
            (graph(&[DType::I8, DType::F16], &[DType::F16]), [true, true, true, true, true, true]),
            (graph(&[DType::F8E4M3, DType::F16], &[DType::F16]), [false, false, false, true, true, true]),
            (graph(&[DType::F4, DType::F16], &[DType::F16]), [false, false, false, false, true, true]),
        ];
        for (types, builds) in measured {
            let said = Architecture::ALL.map(|architecture| unsupported(architecture, &types).is_empty());
            assert_eq!(said, builds, "{types:?}");
        }
    }

    #[test]
    fn refusals_say_who_takes_it() {
        let error = check(&[Architecture::Sm75, Architecture::Sm89], &graph(&[DType::F32, DType::BF16], &[DType::F32])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sm75 has no BF16 (first at `BF16 node`); sm80 is the first that does"), "{text}");
        assert!(text.contains("sm75 does not multiply matrices in F32 (first at `F32 node`)") && !text.contains("sm89"), "{text}");
        assert_eq!(error.hint().unwrap(), "export with `--dtype fp16`, or leave sm75 out");
    }
}
