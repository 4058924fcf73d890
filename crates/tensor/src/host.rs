//! A dense fp32 tensor in host memory.

/// A dense row-major fp32 tensor, as results are compared in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostTensor {
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Elements, row-major; as many as the product of `shape`.
    pub data: Vec<f32>,
}

impl HostTensor {
    /// A tensor of `shape` over `data`, or `None` where the sizes differ.
    pub fn new(shape: Vec<usize>, data: Vec<f32>) -> Option<Self> {
        (shape.iter().product::<usize>() == data.len()).then_some(Self { shape, data })
    }
}
