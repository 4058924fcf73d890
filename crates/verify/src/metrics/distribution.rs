//! Two logit vectors as distributions over the vocabulary.

const TOP: usize = 5;

/// What the two sides of one position say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Distribution {
    /// KL(source‖candidate) of the softmaxes in nats; `None` where a value is not finite.
    pub(super) kl: Option<f64>,
    /// Source's top-1 minus top-2 logit; infinite where there is one entry only.
    pub(super) margin: f64,
    /// Entries with the largest logit, `None` where all are NaN.
    pub(super) best: [Option<usize>; 2],
    /// Whether the two differ, or a value is not finite.
    pub(super) flipped: bool,
    /// How many of the source's `of` largest are among the candidate's.
    pub(super) overlap: usize,
    pub(super) of: usize,
    /// −ln p of the token that follows, of both sides.
    pub(super) surprise: Option<[f64; 2]>,
}

impl Distribution {
    pub(super) fn of(source: &[f32], candidate: &[f32], next: Option<usize>, finite: bool) -> Self {
        let (ours, theirs) = (top(source), top(candidate));
        let margin = match ours.as_slice() {
            [first, second, ..] => f64::from(source[*first]) - f64::from(source[*second]),
            _ => f64::INFINITY,
        };
        let sums = finite.then(|| Sums::of(source, candidate));
        let next = next.filter(|&token| token < source.len());
        Self {
            kl: sums.as_ref().map(|sums| (sums.difference / sums.source - sums.source.ln() + sums.candidate.ln()).max(0.0)),
            margin,
            best: [ours.first().copied(), theirs.first().copied()],
            flipped: !finite || ours.first() != theirs.first(),
            overlap: if finite { ours.iter().filter(|index| theirs.contains(index)).count() } else { 0 },
            of: source.len().min(TOP),
            surprise: sums.zip(next).map(|(sums, token)| {
                let surprise = |sum: f64, max: f64, logit: f32| sum.ln() - (f64::from(logit) - max);
                [surprise(sums.source, sums.source_max, source[token]), surprise(sums.candidate, sums.candidate_max, candidate[token])]
            }),
        }
    }
}

/// Of finite logits, relative to the largest of each side, in f64.
struct Sums {
    source_max: f64,
    candidate_max: f64,
    /// Σ eˢ and Σ eᶜ.
    source: f64,
    candidate: f64,
    /// Σ eˢ · (s − c).
    difference: f64,
}

impl Sums {
    fn of(source: &[f32], candidate: &[f32]) -> Self {
        let largest = |values: &[f32]| values.iter().fold(f64::NEG_INFINITY, |largest, &value| largest.max(f64::from(value)));
        let (source_max, candidate_max) = (largest(source), largest(candidate));
        let mut sums = Self { source_max, candidate_max, source: 0.0, candidate: 0.0, difference: 0.0 };
        for (&s, &c) in source.iter().zip(candidate) {
            let (s, c) = (f64::from(s) - source_max, f64::from(c) - candidate_max);
            let weight = s.exp();
            sums.source += weight;
            sums.candidate += c.exp();
            sums.difference += weight * (s - c);
        }
        sums
    }
}

/// Indices of the five largest values, largest first, the lower index first among equals. NaN is never among them.
fn top(values: &[f32]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(TOP + 1);
    for (index, value) in values.iter().enumerate() {
        if value.is_nan() || best.len() == TOP && *value <= values[best[TOP - 1]] {
            continue;
        }
        let at = best.iter().position(|&other| *value > values[other]).unwrap_or(best.len());
        best.insert(at, index);
        best.truncate(TOP);
    }
    best
}

/// The value a share `q` of the way through sorted values, linearly interpolated between neighbours.
pub(super) fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[(at.ceil() as usize).min(last)];
    Some(below + (above - below) * at.fract())
}
