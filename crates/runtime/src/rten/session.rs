//! A session over an rten model.

use std::sync::Arc;

use plansmith_tensor::{Batch, Cache, HostTensor, Logits, Session, SessionError, Signature};
use rten::{NodeId, RunOptions, ThreadPool, Value, ValueOrView};

use super::guarded;
use super::mapped::MappedModel;
use crate::OpenOptions;
use crate::interface::{CachePort, Fitted, Interface, Role};

/// A decoder on rten. Integers are int32 and floats fp32, whatever the graph declares.
pub(super) struct RtenSession {
    model: MappedModel,
    interface: Interface,
    /// In the order of `interface.inputs`.
    inputs: Vec<NodeId>,
    /// Logits, then in the order of `interface.cache`, then what is tapped.
    outputs: Vec<NodeId>,
    threads: Option<Arc<ThreadPool>>,
    /// In the order of `interface.cache`, each of its port's shape.
    cache: Vec<Value>,
    rows: usize,
    past: usize,
    tapped: Vec<Option<HostTensor>>,
}

/// What one run gives.
struct Outputs {
    logits: Logits,
    cache: Vec<Value>,
    tapped: Vec<Option<HostTensor>>,
}

impl RtenSession {
    /// A session for one row.
    pub(super) fn new(model: MappedModel, interface: Interface, options: &OpenOptions) -> Result<Self, String> {
        let node = |name: &str| model.model().node_id(name).map_err(|error| error.to_string());
        let inputs = interface.inputs.iter().map(|input| node(&input.name)).collect::<Result<_, _>>()?;
        let presents = interface.cache.iter().map(|port| port.present.as_str());
        let taps = options.taps.iter().map(String::as_str);
        let outputs = std::iter::once(interface.logits.as_str()).chain(presents).chain(taps).map(node).collect::<Result<_, _>>()?;
        let threads = options.threads.map(|threads| Arc::new(ThreadPool::with_num_threads(threads)));
        let mut session = Self { model, interface, inputs, outputs, threads, cache: Vec::new(), rows: 1, past: 0, tapped: Vec::new() };
        session.cache = session.empty(1)?;
        Ok(session)
    }

    fn empty(&self, rows: usize) -> Result<Vec<Value>, String> {
        let rows = self.interface.rows_held(rows);
        let empty = |port: &CachePort| Value::from_shape(port.shape(rows, 0), Vec::<f32>::new()).map_err(|error| error.to_string());
        self.interface.cache.iter().map(empty).collect()
    }

    /// Runs the graph; the cache is moved into it and its successor comes back.
    fn run(&self, fitted: &Fitted, cache: Vec<Value>) -> Result<Outputs, String> {
        let mut cache: Vec<Option<Value>> = cache.into_iter().map(Some).collect();
        let mut feed: Vec<(NodeId, ValueOrView<'_>)> = Vec::with_capacity(self.inputs.len());
        for (input, &node) in self.interface.inputs.iter().zip(&self.inputs) {
            let value = match (input.role, fitted.integers(input.role)) {
                (_, Some((shape, elements))) => int32(&input.name, shape, elements)?,
                (Role::Cache(port), None) => cache.get_mut(port).and_then(Option::take).ok_or("a cache tensor is used twice")?,
                (Role::UseCache, None) => Value::from_shape([1], vec![i32::from(fitted.past > 0)]).map_err(|error| error.to_string())?,
                _ => return Err(format!("`{}` has no value", input.name)),
            };
            feed.push((node, value.into()));
        }
        let options = RunOptions::default().with_thread_pool(self.threads.clone());
        let outputs = self.model.model().run(feed, &self.outputs, Some(options)).map_err(|error| error.to_string())?;
        let mut outputs = outputs.into_iter();
        let logits = outputs.next().ok_or("it returned nothing")?;
        let name = &self.interface.logits;
        let HostTensor { shape, data } = float(logits).ok_or_else(|| format!("`{name}` is no fp32 tensor"))?;
        let logits = fitted.logits(name, &shape, data)?;
        let cache = outputs.by_ref().take(self.interface.cache.len()).collect();
        Ok(Outputs { logits, cache, tapped: outputs.map(float).collect() })
    }

    fn error(message: String) -> SessionError {
        SessionError::Runtime { runtime: "rten", message }
    }
}

/// A float tensor of the ranks that are met; `None` for anything else.
fn float(value: Value) -> Option<HostTensor> {
    fn of_rank<const N: usize>(value: &Value) -> Option<HostTensor> {
        let (shape, data) = value.clone().into_shape_vec::<f32, N>().ok()?;
        HostTensor::new(shape.to_vec(), data)
    }
    of_rank::<3>(&value).or_else(|| of_rank::<4>(&value)).or_else(|| of_rank::<2>(&value)).or_else(|| of_rank::<5>(&value))
}

fn int32(name: &str, shape: Vec<usize>, elements: &[i64]) -> Result<Value, String> {
    let narrow = |&element: &i64| i32::try_from(element).map_err(|_| format!("`{name}` holds {element}, which is beyond int32"));
    let elements = elements.iter().map(narrow).collect::<Result<Vec<_>, _>>()?;
    Value::from_shape(shape, elements).map_err(|error| error.to_string())
}

impl Session for RtenSession {
    fn runtime(&self) -> &'static str {
        "rten"
    }

    fn signature(&self) -> &Signature {
        &self.interface.signature
    }

    fn past(&self) -> usize {
        self.past
    }

    fn reset(&mut self, batch: usize) -> Result<(), SessionError> {
        self.interface.check_rows(batch)?;
        self.cache = self.empty(batch).map_err(Self::error)?;
        (self.rows, self.past) = (batch, 0);
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Logits, SessionError> {
        let fitted = self.interface.fit(batch, self.rows, self.past)?;
        let cache = std::mem::take(&mut self.cache);
        match guarded(|| self.run(&fitted, cache)) {
            Ok(Outputs { logits, cache, tapped }) => {
                (self.cache, self.tapped) = (cache, tapped);
                self.past += batch.sequence;
                Ok(logits)
            }
            Err(message) => {
                self.reset(self.rows)?;
                // What rten says of GroupQueryAttention's rows with padding.
                if message.contains("seqlens_k entry is ") && batch.attention_mask.contains(&0) {
                    return Err(SessionError::Unsupported(format!("rten takes no such padding: {message}")));
                }
                Err(Self::error(message))
            }
        }
    }

    fn cache(&self) -> Result<Cache, SessionError> {
        let host = |value: &Value| float(value.clone()).ok_or_else(|| Self::error("the cache is no fp32 tensor".to_owned()));
        self.interface.layers(self.cache.iter().map(host).collect::<Result<_, _>>()?, self.rows, self.past)
    }

    fn tapped(&self) -> &[Option<HostTensor>] {
        &self.tapped
    }
}
