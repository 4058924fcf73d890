//! Dimensions as tensors: computed from the shapes of the inputs, once each.

use crate::error::{Error, Result, Rule};
use crate::{Dim, Graph, Value};

impl Graph {
    /// From here on dimensions that `input` has are read off it, not off the first input that has them.
    pub fn read_sizes_off(&mut self, input: Value) {
        self.size_source = Some(input);
    }

    /// From here on no Reshape leaves a dimension to the runtime: every size is computed, once for the whole graph.
    ///
    /// TensorRT derives what 0 and -1 stand for anew in every such node, and keeps the arithmetic and its checks as text in a plan.
    pub fn spell_sizes_out(&mut self) {
        self.sizes_spelt_out = true;
    }

    /// The int64 scalar that is `dim` at run time; a constant where it is known.
    ///
    /// # Errors
    /// No input has the dimension.
    pub fn size_scalar(&mut self, dim: &Dim) -> Result<Value> {
        let dim = &self.expand_dim(dim);
        if let Some(number) = dim.constant() {
            return self.scalar(plansmith_tensor::DType::I64, number as f64);
        }
        let key = (0, vec![dim.clone()]);
        if let Some(&value) = self.sizes.get(&key) {
            return Ok(value);
        }
        let vector = self.size(dim)?;
        let value = self.among_sizes(|g| g.squeeze(vector, &[0]))?;
        self.sizes.insert(key, value);
        Ok(value)
    }

    /// The int64 vector that holds `dims` at run time; a constant where all are known.
    ///
    /// # Errors
    /// No input has one of the dimensions.
    pub fn shape_tensor(&mut self, dims: &[Dim]) -> Result<Value> {
        let dims = self.expand_all(dims);
        if let Some(numbers) = dims.iter().map(Dim::constant).collect::<Option<Vec<i64>>>() {
            return self.ints(&numbers);
        }
        if let [dim] = &dims[..] {
            return self.size(dim);
        }
        let key = (1, dims.clone());
        if let Some(&value) = self.sizes.get(&key) {
            return Ok(value);
        }
        let mut parts = Vec::new();
        let mut known: Vec<i64> = Vec::new();
        for dim in &dims {
            if let Some(number) = dim.constant() {
                known.push(number);
                continue;
            }
            if !known.is_empty() {
                parts.push(self.ints(&std::mem::take(&mut known))?);
            }
            parts.push(self.size(dim)?);
        }
        if !known.is_empty() {
            parts.push(self.ints(&known)?);
        }
        let value = self.among_sizes(|g| g.concat(&parts, 0))?;
        self.sizes.insert(key, value);
        Ok(value)
    }

    /// `dim` as an int64 vector of one element: read off an input that has it, or computed from its parts.
    fn size(&mut self, dim: &Dim) -> Result<Value> {
        let key = (1, vec![dim.clone()]);
        if let Some(&value) = self.sizes.get(&key) {
            return Ok(value);
        }
        let value = match self.axis_with(dim) {
            Some((input, axis)) => self.among_sizes(|g| g.shape_of(input, axis..axis + 1))?,
            None if dim.constant().is_some() => return self.ints(&dim.constant().into_iter().collect::<Vec<_>>()),
            None => self.computed_size(dim)?,
        };
        self.sizes.insert(key, value);
        Ok(value)
    }

    fn axis_with(&self, dim: &Dim) -> Option<(Value, usize)> {
        self.size_source
            .iter()
            .chain(&self.inputs)
            .find_map(|&input| self.info(input).r#type.dims.iter().position(|candidate| candidate == dim).map(|axis| (input, axis)))
    }

    /// A sum of products, term by term.
    fn computed_size(&mut self, dim: &Dim) -> Result<Value> {
        if dim.name().is_some() {
            return Err(Error::NoSource(self.dim_text(dim)));
        }
        let mut sum: Option<Value> = None;
        for term in dim.terms() {
            let mut product: Option<Value> = None;
            for symbol in &term.symbols {
                let factor = self.size(&Dim::symbol(symbol))?;
                product = Some(match product {
                    Some(product) => self.among_sizes(|g| g.mul(product, factor))?,
                    None => factor,
                });
            }
            let value = match product {
                Some(product) if term.coefficient == 1 => product,
                Some(product) => {
                    let factor = self.ints(&[term.coefficient])?;
                    self.among_sizes(|g| g.mul(product, factor))?
                }
                None => self.ints(&[term.coefficient])?,
            };
            sum = Some(match sum {
                Some(sum) => self.among_sizes(|g| g.add(sum, value))?,
                None => value,
            });
        }
        sum.ok_or_else(|| Error::NoSource(self.dim_text(dim)))
    }

    /// Sizes are shared by the whole graph, so their nodes are not named after the scope that happened to need them first.
    fn among_sizes<T>(&mut self, build: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.names.switch("/sizes".to_owned());
        let result = build(self);
        self.names.switch(scope);
        result
    }

    /// The shape operand of a Reshape of a tensor of `from` to `to`: numbers where they are known, 0 where the dimension stays in
    /// its place, one -1, and computed sizes for what is left, or for all after [`Graph::spell_sizes_out`].
    pub(crate) fn reshape_operand(&mut self, from: &[Dim], to: &[Dim]) -> Rule<Value> {
        let kept = |axis: usize, dim: &Dim| from.get(axis) == Some(dim);
        if to.iter().any(|dim| dim.constant() == Some(0)) {
            return Err("a dimension of 0 cannot be written in a Reshape".to_owned());
        }
        if self.sizes_spelt_out {
            return self.shape_tensor(to).map_err(|error| error.to_string());
        }
        let inferred = to.iter().enumerate().rposition(|(axis, dim)| dim.constant().is_none() && !kept(axis, dim));
        let operand: Vec<Dim> = to
            .iter()
            .enumerate()
            .map(|(axis, dim)| match dim.constant() {
                Some(_) => dim.clone(),
                None if Some(axis) == inferred => Dim::from_constant(-1),
                None if kept(axis, dim) => Dim::from_constant(0),
                None => dim.clone(),
            })
            .collect();
        self.shape_tensor(&operand).map_err(|error| error.to_string())
    }
}
