//! Where inside a graph a candidate leaves the reference.

use std::collections::BTreeMap;

use plansmith_lowering::Source;
use plansmith_reference::Reference;
use plansmith_runtime::{OpenOptions, RuntimeKind, load};
use plansmith_tensor::{Cache, HostTensor, Logits, Session, SessionError, Tap};
use plansmith_verify::{
    BisectRun, BisectStep, CacheSeen, Difference, FirstDivergence, PlaceError, Precision, Prompts, Seen, Stats, bisect_runs, block_name,
    explain, first_divergence,
};

use crate::candidates::GraphCandidate;
use crate::places::Places;

/// The error of a token, over the length of the source's vector, up to which a value counts as the same.
///
/// Rounding alone gives the residual stream of two right implementations 1e-6 to 3e-5 in fp32, 1e-3 to 1e-2 in fp16 and ten times that in
/// bf16 (SmolLM2-135M, 30 layers).
fn limit(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 => 1e-4,
        Precision::Fp16 => 3e-2,
        Precision::Bf16 | Precision::Unknown => 2e-1,
    }
}

/// How often the limit is divided by ten where nothing exceeds it: a fault may be small at its origin.
const REFINEMENTS: i32 = 2;

/// Values of one step that are held at once, on each side.
const MOST_BYTES: usize = 2 << 30;

/// Runs `graph` and the reference side by side, in one way of running after another, and finds the first value that differs.
///
/// # Errors
/// The sentence that says why there is none: everything agrees, or the graph cannot be looked into.
pub(crate) fn bisect(
    graph: &GraphCandidate,
    runtime: RuntimeKind,
    open: &OpenOptions,
    source: &Source,
    prompts: &Prompts,
    precision: Precision,
) -> Result<FirstDivergence, String> {
    let reference = Reference::open(source.loaded.spec.clone(), &source.checkpoint).map_err(|error| error.to_string())?;
    let mut search = Search::new(graph, runtime, open, reference)?;
    let runs: Vec<BisectRun> = bisect_runs(prompts).into_iter().filter(|run| search.fits(run)).collect();
    for refinement in 0..=REFINEMENTS {
        let limit = limit(precision) / 10f64.powi(refinement);
        for run in &runs {
            if refinement > 0 && search.worst.get(&key(run)).is_none_or(|&worst| worst <= limit) {
                continue;
            }
            if let Some(found) = search.run(run, limit)? {
                return Ok(found);
            }
        }
    }
    Err("bisection: with its blocks looked into it agrees in every run, so a fusion of the runtime's optimiser or what only a check does \
         (a masked row, rows of a batch) is at fault"
        .to_owned())
}

fn key(run: &BisectRun) -> String {
    format!("{} of set `{}`", run.kind, run.set)
}

/// A candidate's value at a tap: where in the list of tapped values it is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// The session's logits.
    Logits,
    Value(usize),
}

struct Search<'a> {
    graph: &'a GraphCandidate,
    runtime: RuntimeKind,
    open: &'a OpenOptions,
    reference: Reference,
    session: Box<dyn Session>,
    /// What the session gives at each step.
    values: Vec<String>,
    /// Which of `values` each tap is; `None` until that is known.
    known: Option<BTreeMap<Tap, usize>>,
    /// The largest error of a run that was within the limit.
    worst: BTreeMap<String, f64>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a GraphCandidate, runtime: RuntimeKind, open: &'a OpenOptions, reference: Reference) -> Result<Self, String> {
        let places = Places::of(&graph.model);
        let (values, known) = if places.named.is_empty() {
            (places.all, None)
        } else {
            let known = places.named.keys().enumerate().map(|(index, &tap)| (tap, index)).collect();
            (places.named.into_values().collect(), Some(known))
        };
        let session = tapped(graph, runtime, open, &values)?;
        Ok(Self { graph, runtime, open, reference, session, values, known, worst: BTreeMap::new() })
    }

    /// Whether a run's values can be held.
    fn fits(&self, run: &BisectRun) -> bool {
        let spec = self.reference.spec();
        let of_token = spec.hidden_size * (3 * spec.layers.len() as u64 + 2) + 2 * spec.vocab_size;
        let tokens = run.steps.iter().map(|step| step.tokens.len()).max().unwrap_or(0);
        4 * tokens * of_token as usize <= MOST_BYTES
    }

    /// The first difference beyond `limit` in one run.
    fn run(&mut self, run: &BisectRun, limit: f64) -> Result<Option<FirstDivergence>, String> {
        let text = |error: SessionError| format!("bisection: {}: {error}", key(run));
        match self.session.reset(run.rows) {
            // A graph of fixed rows: verify says so.
            Err(SessionError::Batch(_)) if run.rows > 1 => return Ok(None),
            other => other.map_err(text)?,
        }
        self.reference.reset(run.rows).map_err(text)?;
        for (index, step) in run.steps.iter().enumerate() {
            let (_, taps) = self.reference.step_tapped(&step.batch).map_err(text)?;
            let logits = host(self.session.step(&step.batch).map_err(text)?);
            let (seen, at) = self.look(&taps, &logits, step, limit);
            if let Some(first) = first_divergence(&seen, limit) {
                let place = if run.steps.len() > 1 { format!("{}, step {}", key(run), index + 1) } else { key(run) };
                let found = self.describe(run, step, place, (&taps[first], at[first], &seen[first]), &logits, limit);
                return Ok(Some(FirstDivergence { limit: Some(limit), trace: trace(&seen), ..found }));
            }
            let errors = seen.iter().filter_map(|each| each.difference).map(|difference| difference.error);
            let worst = self.worst.entry(key(run)).or_default();
            *worst = errors.filter(|&error| self.known.is_some() || error <= limit).fold(*worst, f64::max);
            if self.known.is_none() {
                self.narrow(&seen, &at, limit)?;
                break;
            }
        }
        Ok(None)
    }

    /// Every tap against the candidate's value there, or the nearest of those that come after the stream before it.
    fn look(&self, taps: &[(Tap, HostTensor)], logits: &HostTensor, step: &BisectStep, limit: f64) -> (Vec<Seen>, Vec<Option<At>>) {
        let given = self.session.tapped();
        let difference = |source: &HostTensor, index: usize| {
            given.get(index).and_then(Option::as_ref).and_then(|value| Difference::between(source, value, &step.tokens))
        };
        let (mut seen, mut at) = (Vec::new(), Vec::new());
        let mut behind = 0;
        for (tap, source) in taps {
            let (place, found, named) = match (&self.known, tap) {
                (_, Tap::Logits) => (Some(At::Logits), Difference::between(source, logits, &step.tokens), true),
                (Some(known), _) => {
                    let index = known.get(tap).copied();
                    (index.map(At::Value), index.and_then(|index| difference(source, index)), true)
                }
                (None, _) => {
                    let all = (behind..given.len()).filter_map(|index| Some((index, difference(source, index)?)));
                    let nearest = all.fold(None, |best: Option<(usize, Difference)>, (index, found)| match best {
                        Some((_, best_found)) if best_found.error <= found.error.max(limit) => best,
                        _ => Some((index, found)),
                    });
                    if let Some((index, found)) = nearest
                        && tap.is_stream()
                        && found.error <= limit
                    {
                        behind = index + 1;
                    }
                    (nearest.map(|(index, _)| At::Value(index)), nearest.map(|(_, found)| found), false)
                }
            };
            // The logits of a graph whose values are unnamed are known, but excuse what lies before them like any stream.
            let named = named && self.known.is_some();
            seen.push(Seen { tap: *tap, difference: found, named });
            at.push(place);
        }
        (seen, at)
    }

    /// From now on looks only at the values that agreed.
    fn narrow(&mut self, seen: &[Seen], at: &[Option<At>], limit: f64) -> Result<(), String> {
        let mut known = BTreeMap::new();
        let mut values = Vec::new();
        for (seen, at) in seen.iter().zip(at) {
            if let (Some(At::Value(index)), Some(difference)) = (at, seen.difference)
                && difference.error <= limit
            {
                known.insert(seen.tap, values.len());
                values.push(self.values[*index].clone());
            }
        }
        self.session = tapped(self.graph, self.runtime, self.open, &values)?;
        (self.values, self.known) = (values, Some(known));
        Ok(())
    }

    fn describe(
        &self,
        run: &BisectRun,
        step: &BisectStep,
        place: String,
        ((tap, source), at, seen): (&(Tap, HostTensor), Option<At>, &Seen),
        logits: &HostTensor,
        limit: f64,
    ) -> FirstDivergence {
        let candidate = at.and_then(|at| match at {
            At::Logits => Some((logits, "logits")),
            At::Value(index) => Some((self.session.tapped().get(index)?.as_ref()?, self.values[index].as_str())),
        });
        let cache = match tap {
            Tap::Attention(layer) => self.cache(*layer, step, limit),
            _ => None,
        };
        let causes = candidate.map(|(values, _)| explain(run.kind, source, values, &step.tokens, cache, limit)).unwrap_or_default();
        FirstDivergence {
            run: Some(place),
            value: candidate.map(|(_, name)| name.to_owned()),
            source: Some(Stats::of(source, &step.tokens)),
            candidate: candidate.map(|(values, _)| Stats::of(values, &step.tokens)),
            max_rel: seen.difference.map(|difference| difference.max_rel).filter(|max_rel| max_rel.is_finite()),
            cause_hints: causes.iter().map(ToString::to_string).collect(),
            ..FirstDivergence::at(tap.layer(), block_name(*tap))
        }
    }

    /// How the cache of `layer` compares after a step.
    fn cache(&self, layer: usize, step: &BisectStep, limit: f64) -> Option<CacheSeen> {
        let (source, given) = (self.reference.cache().ok()?, self.session.cache().ok()?);
        let mask = &step.batch.attention_mask;
        let total = step.batch.total();
        let columns = |row: usize| (0..total).filter(move |column| mask[row * total + column] != 0);
        let part = |of: fn(&Cache, usize) -> Option<&HostTensor>, first: bool| -> Option<bool> {
            let (source, given) = (of(&source, layer)?, of(&given, layer)?);
            let &[rows, heads, past, width] = source.shape.as_slice() else { return None };
            if given.shape != source.shape || past != total {
                return None;
            }
            let vectors = (0..rows).flat_map(|row| {
                let count = if first { 1 } else { total };
                (0..heads).flat_map(move |head| columns(row).take(count).map(move |column| ((row * heads + head) * past + column) * width))
            });
            Some(vectors.into_iter().all(|start| close(&source.data[start..start + width], &given.data[start..start + width], limit)))
        };
        let key: fn(&Cache, usize) -> Option<&HostTensor> = |cache, layer| cache.get(layer).map(|layer| &layer.key);
        let value: fn(&Cache, usize) -> Option<&HostTensor> = |cache, layer| cache.get(layer).map(|layer| &layer.value);
        Some(CacheSeen { keys: part(key, false)?, first_keys: part(key, true)?, values: part(value, false)? })
    }
}

/// The places that the candidate has a value for, and how far each is.
fn trace(seen: &[Seen]) -> Vec<PlaceError> {
    let place = |seen: &Seen| {
        let error = seen.difference?.error;
        Some(PlaceError { layer: seen.tap.layer(), block: block_name(seen.tap).to_owned(), error: error.is_finite().then_some(error) })
    };
    seen.iter().filter_map(place).collect()
}

/// Whether two vectors differ by at most ten times `limit` of the source's length: one head is a small sum.
fn close(source: &[f32], given: &[f32], limit: f64) -> bool {
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| f64::from(value).powi(2)).sum::<f64>();
    let off = square(&mut source.iter().zip(given).map(|(s, g)| s - g));
    off.sqrt() <= 10.0 * limit * square(&mut source.iter().copied()).sqrt()
}

fn host(logits: Logits) -> HostTensor {
    HostTensor { shape: vec![logits.batch, logits.sequence, logits.vocab], data: logits.data }
}

fn tapped(graph: &GraphCandidate, runtime: RuntimeKind, open: &OpenOptions, values: &[String]) -> Result<Box<dyn Session>, String> {
    let options = OpenOptions { taps: values.to_vec(), ..open.clone() };
    let loaded = load(runtime, graph.source(), &options).map_err(|error| format!("bisection: the graph cannot be looked into: {error}"))?;
    Ok(loaded.session)
}
