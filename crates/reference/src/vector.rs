//! Loops over elements, compiled for the widest vectors of the processor that runs them.

/// Runs `work` as compiled for this processor's vectors; what it calls has to be `#[inline(always)]` to take part.
///
/// Nothing is contracted or reordered: results are the same on every processor.
#[inline(always)]
pub(crate) fn vectorised<T>(work: impl FnOnce() -> T) -> T {
    struct Inlined<F>(F);
    impl<T, F: FnOnce() -> T> pulp::NullaryFnOnce for Inlined<F> {
        type Output = T;

        #[inline(always)]
        fn call(self) -> T {
            (self.0)()
        }
    }
    pulp::Arch::new().dispatch(Inlined(work))
}

/// `of` of every value, summed in fp64: in sixteen partial sums, since one would wait for every addition.
#[inline(always)]
pub(crate) fn sum(values: &[f32], of: impl Fn(f64) -> f64) -> f64 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += of(f64::from(value));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&value| of(f64::from(value))).sum::<f64>()
}
