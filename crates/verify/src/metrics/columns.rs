//! Figures by column: where in a sequence a candidate leaves the source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::spread::Difference;
use crate::noise::Cell;
use crate::number::short;

/// Of every column that was compared, over the rows and prompt sets: one entry a column in each array, those of distributions empty for cache
/// tensors. Columns count padding. Four significant digits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ByPosition {
    /// Which columns these are.
    pub column: Vec<usize>,
    /// Positions (rows, over all sets) that were compared.
    pub positions: Vec<usize>,
    /// Largest absolute difference.
    pub max_abs: Vec<f64>,
    /// Mean absolute difference.
    pub mean_abs: Vec<f64>,
    /// Largest difference in deviations of its set.
    pub max_rel: Vec<f64>,
    /// The largest difference that rounding alone makes, in deviations of its set; empty where that was not measured.
    pub floor_max_rel: Vec<f64>,
    /// Mean of KL(source‖candidate), nats. This and what follows is of positions that are finite on both sides.
    pub kl_mean: Vec<f64>,
    /// Maximum of the same.
    pub kl_max: Vec<f64>,
    /// Positions whose largest logit is at another entry.
    pub flips: Vec<usize>,
    /// Largest source margin of such a position, in deviations; 0 where there is none.
    pub flip_margin: Vec<f64>,
}

/// The same while it is gathered: within one set absolute, then over sets.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Columns(BTreeMap<usize, Column>);

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Column {
    positions: usize,
    values: usize,
    max_abs: f64,
    sum_abs: f64,
    max_rel: f64,
    floor: Option<f64>,
    distributions: usize,
    kl_sum: f64,
    kl_max: f64,
    flips: usize,
    flip_margin: f64,
}

impl Columns {
    pub(super) fn add(&mut self, column: usize, difference: Difference) {
        let column = self.0.entry(column).or_default();
        column.positions += 1;
        column.values += difference.count;
        column.max_abs = column.max_abs.max(difference.max_abs);
        column.sum_abs += difference.sum_abs;
    }

    pub(super) fn add_distribution(&mut self, column: usize, distribution: &Distribution) {
        let column = self.0.entry(column).or_default();
        let Some(kl) = distribution.kl else { return };
        column.distributions += 1;
        column.kl_sum += kl;
        column.kl_max = column.kl_max.max(kl);
        if distribution.flipped {
            column.flips += 1;
            column.flip_margin = column.flip_margin.max(distribution.margin);
        }
    }

    pub(super) fn add_noise(&mut self, column: usize, cell: Cell) {
        let column = self.0.entry(column).or_default();
        column.floor = Some(column.floor.unwrap_or(0.0).max(f64::from(cell.max_abs)));
    }

    /// What was absolute, in units of `scale`.
    pub(super) fn finish(&self, scale: f64) -> Self {
        let relative = |column: &Column| Column {
            max_rel: column.max_abs / scale,
            floor: column.floor.map(|floor| floor / scale),
            flip_margin: column.flip_margin / scale,
            ..*column
        };
        Self(self.0.iter().map(|(&index, column)| (index, relative(column))).collect())
    }

    /// Adds those of another set, or of another tensor.
    pub(super) fn merge(&mut self, other: &Self) {
        for (&index, other) in &other.0 {
            let column = self.0.entry(index).or_default();
            column.positions += other.positions;
            column.values += other.values;
            column.max_abs = column.max_abs.max(other.max_abs);
            column.sum_abs += other.sum_abs;
            column.max_rel = column.max_rel.max(other.max_rel);
            column.floor = column.floor.into_iter().chain(other.floor).reduce(f64::max);
            column.distributions += other.distributions;
            column.kl_sum += other.kl_sum;
            column.kl_max = column.kl_max.max(other.kl_max);
            column.flips += other.flips;
            column.flip_margin = column.flip_margin.max(other.flip_margin);
        }
    }

    /// As arrays.
    pub(crate) fn by_position(&self) -> ByPosition {
        let of = |figure: fn(&Column) -> f64| self.0.values().map(|column| short(figure(column))).collect::<Vec<_>>();
        let ratio = |sum: f64, count: usize| if count == 0 { 0.0 } else { sum / count as f64 };
        let mut table = ByPosition {
            column: self.0.keys().copied().collect(),
            positions: self.0.values().map(|column| column.positions).collect(),
            max_abs: of(|column| column.max_abs),
            mean_abs: self.0.values().map(|column| short(ratio(column.sum_abs, column.values))).collect(),
            max_rel: of(|column| column.max_rel),
            ..ByPosition::default()
        };
        if self.0.values().any(|column| column.floor.is_some()) {
            table.floor_max_rel = of(|column| column.floor.unwrap_or(0.0));
        }
        if self.0.values().any(|column| column.distributions > 0) {
            table.kl_mean = self.0.values().map(|column| short(ratio(column.kl_sum, column.distributions))).collect();
            table.kl_max = of(|column| column.kl_max);
            table.flips = self.0.values().map(|column| column.flips).collect();
            table.flip_margin = of(|column| column.flip_margin);
        }
        table
    }
}
