//! Which of the places that differ comes first.

use plansmith_tensor::Tap;

use super::Difference;

/// What was found at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The place.
    pub tap: Tap,
    /// Of the candidate's value that is nearest; `None` where the candidate has no value of this shape.
    pub difference: Option<Difference>,
    /// Whether the candidate's value was known by its name. Otherwise it is the nearest of many, and a place without a match may be one
    /// that the graph does not have: exporters fold factors and biases into what follows.
    pub named: bool,
}

impl Seen {
    /// Whether it is a block's value beyond doubt, and off: the nearest of values that are others is not this near.
    fn is_near(&self, limit: f64) -> bool {
        !self.tap.is_stream() && self.difference.is_some_and(|difference| difference.error > limit && difference.error <= NEAR)
    }

    fn within(&self, limit: f64) -> bool {
        self.difference.is_some_and(|difference| difference.error <= limit)
    }
}

/// The error up to which an unnamed value is taken for the block's.
const NEAR: f64 = 1e-2;

/// The index of the first place where the candidate leaves the source by more than `limit`; `seen` is in the order of computation.
///
/// What is known by name counts as it stands. Among the others the residual stream decides: what lies before a stream that agrees is
/// either right or not there, unless it is nearly right.
pub fn first_divergence(seen: &[Seen], limit: f64) -> Option<usize> {
    let agreeing = seen.iter().rposition(|each| !each.named && each.tap.is_stream() && each.within(limit));
    let after = agreeing.map_or(0, |index| index + 1);
    let named = seen.iter().position(|each| each.named && each.difference.is_some() && !each.within(limit));
    let unnamed = seen.iter().enumerate().skip(after).find(|(_, each)| !each.named && !each.within(limit)).map(|(index, _)| index);
    // A block that is nowhere says nothing while the stream behind it agrees; a stream behind the last one that agrees does not.
    let unnamed = unnamed.filter(|&index| seen[index..].iter().any(|each| each.tap.is_stream() && !each.within(limit)));
    let near = seen.iter().position(|each| !each.named && each.is_near(limit));
    let first = named.into_iter().chain(unnamed).chain(near).min()?;
    // A graph of ours without a final norm has none by mistake where the source has one.
    let normless = |index: &usize| seen[*index].named && seen[*index].tap == Tap::FinalNorm && seen[*index].difference.is_none();
    Some(first.checked_sub(1).filter(normless).unwrap_or(first))
}

/// What `verdict.json` calls the block of a place.
pub fn block_name(tap: Tap) -> &'static str {
    match tap {
        Tap::Embedding => "embedding",
        Tap::Attention(_) => "self_attn",
        Tap::Mlp(_) => "mlp",
        Tap::Layer(_) => "residual",
        Tap::FinalNorm => "final_norm",
        Tap::Logits => "head",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAPS: [Tap; 9] = [
        Tap::Embedding,
        Tap::Attention(0),
        Tap::Mlp(0),
        Tap::Layer(0),
        Tap::Attention(1),
        Tap::Mlp(1),
        Tap::Layer(1),
        Tap::FinalNorm,
        Tap::Logits,
    ];

    fn found(named: bool, errors: [f64; 9]) -> Option<Tap> {
        let seen = TAPS.iter().zip(errors).map(|(&tap, error)| {
            let difference = (error < 100.0).then_some(Difference { error, max_rel: error });
            Seen { tap, difference, named }
        });
        first_divergence(&seen.collect::<Vec<_>>(), 1e-4).map(|index| TAPS[index])
    }

    #[test]
    fn a_named_place_counts_even_where_the_stream_drowns_it() {
        assert_eq!(found(true, [0.0; 9]), None);
        assert_eq!(found(true, [0.0, 0.0, 0.3, 1e-5, 0.0, 0.0, 0.0, 0.1, 0.1]), Some(Tap::Mlp(0)));
        assert_eq!(found(true, [0.0, 0.0, 0.0, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4]), Some(Tap::Layer(0)));
        // A value that the graph no longer has says nothing.
        assert_eq!(found(true, [0.0, 1e9, 0.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.4]), Some(Tap::Mlp(1)));
        assert_eq!(found(true, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 0.4]), Some(Tap::FinalNorm));
    }

    #[test]
    fn an_unnamed_place_is_excused_by_the_stream_behind_it() {
        assert_eq!(found(false, [0.0, 1e9, 0.9, 0.0, 0.9, 1e9, 0.0, 0.0, 0.0]), None);
        assert_eq!(found(false, [0.0, 1e9, 0.9, 0.0, 0.0, 0.9, 0.9, 0.9, 0.9]), Some(Tap::Mlp(1)));
        assert_eq!(found(false, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9]), Some(Tap::Layer(1)));
        // A small fault that the stream drowns at first.
        assert_eq!(found(false, [0.0, 0.0, 1e-3, 0.0, 0.0, 1e-3, 2e-4, 2e-4, 2e-4]), Some(Tap::Mlp(0)));
        // The last layer's stream may exist only within an operator that norms it.
        assert_eq!(found(false, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 0.0, 0.9]), Some(Tap::Logits));
        assert_eq!(found(false, [0.5; 9]), Some(Tap::Embedding));
    }
}
