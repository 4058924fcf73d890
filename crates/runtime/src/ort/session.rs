//! A session over an ONNX Runtime session.

use half::{bf16, f16};
use ort::session::SessionInputValue;
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor, TensorElementType};
use plansmith_tensor::{Batch, Cache, DType, HostTensor, Logits, Session, SessionError, Signature};

use crate::interface::{CachePort, Fitted, Input, Interface, Role};

/// A decoder on ONNX Runtime.
pub(super) struct OrtSession {
    session: ort::session::Session,
    interface: Interface,
    /// In the order of `interface.cache`, each of its port's shape and the cache's dtype. Empty where the graph keeps none and no step was
    /// made.
    cache: Vec<DynValue>,
    rows: usize,
    past: usize,
    taps: Vec<String>,
    tapped: Vec<Option<HostTensor>>,
}

/// What one run gives.
struct Outputs {
    logits: Logits,
    cache: Vec<DynValue>,
    tapped: Vec<Option<HostTensor>>,
}

impl OrtSession {
    /// A session for one row.
    pub(super) fn new(session: ort::session::Session, interface: Interface, taps: &[String]) -> Result<Self, String> {
        let (taps, tapped) = (taps.to_vec(), Vec::new());
        let mut new = Self { session, interface, cache: Vec::new(), rows: 1, past: 0, taps, tapped };
        new.cache = new.empty(1)?;
        Ok(new)
    }

    fn empty(&self, rows: usize) -> Result<Vec<DynValue>, String> {
        let (rows, columns) = (self.interface.rows_held(rows), self.interface.columns(0));
        // Slots of a static cache that hold nothing yet are read and given no weight: they must be finite.
        let empty = |port: &CachePort| match self.interface.cache_dtype {
            DType::F32 => zeros::<f32>(port.shape(rows, columns)),
            DType::F16 => zeros::<f16>(port.shape(rows, columns)),
            DType::BF16 => zeros::<bf16>(port.shape(rows, columns)),
            other => Err(format!("a cache of {other} cannot be made")),
        };
        self.interface.cache.iter().map(empty).collect()
    }

    /// Runs the graph; the cache is moved into it and its successor comes back.
    fn run(&mut self, fitted: &Fitted, cache: Vec<DynValue>) -> Result<Outputs, String> {
        let mut cache: Vec<Option<DynValue>> = cache.into_iter().map(Some).collect();
        let mut feed: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(self.interface.inputs.len());
        for input in &self.interface.inputs {
            let value = match (input.role, fitted.integers(input.role)) {
                (_, Some((shape, elements))) => integers(input, shape, elements)?,
                (Role::Cache(port), None) => cache.get_mut(port).and_then(Option::take).ok_or("a cache tensor is used twice")?,
                (Role::UseCache, None) => Tensor::from_array(([1], vec![fitted.past > 0])).map_err(|error| error.to_string())?.into_dyn(),
                _ => return Err(format!("`{}` has no value", input.name)),
            };
            feed.push((&input.name, value.into()));
        }
        let mut outputs = self.session.run(feed).map_err(|error| error.to_string())?;
        let name = &self.interface.logits;
        let HostTensor { shape, data } = host(outputs.get(name).ok_or_else(|| format!("it returned no `{name}`"))?)?;
        let logits = fitted.logits(name, &shape, data)?;
        let tapped = self.taps.iter().map(|tap| outputs.get(tap).and_then(|value| host(value).ok())).collect();
        let next = self.interface.cache.iter().map(|port| {
            let present = &port.present;
            outputs.remove(present).ok_or_else(|| format!("it returned no `{present}`"))
        });
        let cache = next.collect::<Result<_, _>>()?;
        Ok(Outputs { logits, cache, tapped })
    }

    fn error(message: String) -> SessionError {
        SessionError::Runtime { runtime: "ort", message }
    }
}

fn zeros<T: PrimitiveTensorElementType + Clone + Default + std::fmt::Debug + 'static>(shape: Vec<usize>) -> Result<DynValue, String> {
    let elements = shape.iter().product();
    Tensor::from_array((shape, vec![T::default(); elements])).map(Tensor::into_dyn).map_err(|error| error.to_string())
}

fn integers(input: &Input, shape: Vec<usize>, elements: &[i64]) -> Result<DynValue, String> {
    let narrow = |&element: &i64| i32::try_from(element).map_err(|_| format!("`{}` holds {element}, which is beyond int32", input.name));
    let tensor = match input.dtype {
        DType::I32 => Tensor::from_array((shape, elements.iter().map(narrow).collect::<Result<Vec<_>, _>>()?)).map(Tensor::into_dyn),
        DType::Bool => Tensor::from_array((shape, elements.iter().map(|&element| element != 0).collect::<Vec<_>>())).map(Tensor::into_dyn),
        _ => Tensor::from_array((shape, elements.to_vec())).map(Tensor::into_dyn),
    };
    tensor.map_err(|error| error.to_string())
}

/// A copy of a float tensor, widened to fp32.
fn host(value: &DynValue) -> Result<HostTensor, String> {
    let dtype = value.dtype().tensor_type().ok_or("it returned something that is no tensor")?;
    let text = |error: ort::Error| error.to_string();
    let (shape, data) = match dtype {
        TensorElementType::Float32 => value.try_extract_tensor::<f32>().map(|(shape, data)| (shape, data.to_vec())).map_err(text)?,
        TensorElementType::Float16 => {
            let (shape, data) = value.try_extract_tensor::<f16>().map_err(text)?;
            (shape, data.iter().map(|half| half.to_f32()).collect())
        }
        TensorElementType::Bfloat16 => {
            let (shape, data) = value.try_extract_tensor::<bf16>().map_err(text)?;
            (shape, data.iter().map(|half| half.to_f32()).collect())
        }
        other => return Err(format!("it returned {other}, which is no float that we widen")),
    };
    let shape =
        shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>().map_err(|_| "a dimension is negative".to_owned())?;
    HostTensor::new(shape, data).ok_or_else(|| "a tensor's shape and size differ".to_owned())
}

impl Session for OrtSession {
    fn runtime(&self) -> &'static str {
        "ort"
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
        match self.run(&fitted, cache) {
            Ok(Outputs { logits, cache, tapped }) => {
                (self.cache, self.tapped) = (cache, tapped);
                self.past += batch.sequence;
                Ok(logits)
            }
            Err(message) => {
                self.reset(self.rows)?;
                // What GroupQueryAttention with its own rotation says of a row without tokens: it would begin at position -1.
                if message.contains("seqlens_k[") && message.contains("] = -1 is out of range") && batch.attention_mask.contains(&0) {
                    return Err(SessionError::Unsupported(format!("ort takes no such padding: {message}")));
                }
                // GroupQueryAttention's own limit on CPUs (1.32): a prompt may come in parts for one row, or at once for several.
                if message.contains("batch_size must be 1 when sequence_length > 1 and past context is given") {
                    return Err(SessionError::Unsupported(format!("ort takes no several tokens a row behind a cache: {message}")));
                }
                Err(Self::error(message))
            }
        }
    }

    fn cache(&self) -> Result<Cache, SessionError> {
        let tensors = self.cache.iter().map(host).collect::<Result<_, _>>().map_err(Self::error)?;
        self.interface.layers(tensors, self.rows, self.past)
    }

    fn tapped(&self) -> &[Option<HostTensor>] {
        &self.tapped
    }
}
