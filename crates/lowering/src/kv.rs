//! How keys and values are carried from step to step.

use plansmith_families::Positions;
use serde::{Deserialize, Serialize};

use crate::{Error, Float, Source};

/// The form of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kv {
    /// `present` is `past` with what is new behind it: both grow.
    #[default]
    Concat,
    /// `past` and `present` have `max_length` slots, and what is new is written into those from `cache_position` on: a runtime may give both
    /// one buffer. `max_length` is [`plansmith_families::Options::max_length`], else the model's number of positions.
    Static,
}

/// A cache that takes more for one row has to be asked for.
const ROW_LIMIT: u64 = 1 << 30;

/// Positions beyond which no config goes; the elements of a cache of so many are still a number of 63 bits.
const MOST_SLOTS: u64 = 1 << 32;

impl Kv {
    /// Slots of a static cache in `compute`; `None` for a growing one.
    ///
    /// # Errors
    /// [`Error::Slots`]: the length is 0, over 2³², or beyond a table of positions. [`Error::LargeCache`]: no length was given, and all positions of
    /// the model would take over 1 GiB a row.
    pub fn slots(self, source: &Source, compute: Float) -> Result<Option<u64>, Error> {
        if self == Self::Concat {
            return Ok(None);
        }
        let spec = &source.loaded.spec;
        let slots = source.loaded.max_length.unwrap_or(spec.max_positions);
        let refuse = |reason: String| Err(Error::Slots { slots, reason });
        if slots == 0 {
            return refuse("it has no slot".to_owned());
        }
        if slots > MOST_SLOTS {
            return refuse(format!("{MOST_SLOTS} slots are the most"));
        }
        if let Some(Positions::Learned { .. }) = &spec.embedding.positions
            && slots > spec.max_positions
        {
            return refuse(format!("the model's table of positions has {}", spec.max_positions));
        }
        let elements = spec.layers.iter().map(|layer| 2 * layer.attention.kv_heads * layer.attention.head_dim).sum::<u64>();
        let bytes = elements.saturating_mul(slots).saturating_mul(compute.dtype().bytes().unwrap_or(4) as u64);
        if source.loaded.max_length.is_none() && bytes > ROW_LIMIT {
            return Err(Error::LargeCache { slots, bytes });
        }
        Ok(Some(slots))
    }
}
