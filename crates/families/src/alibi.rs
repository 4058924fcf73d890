//! Slopes of ALiBi, in fp32 as transformers computes them.

/// BLOOM's: `2^(−8k / p)` for the `p` heads of the largest power of two, then those of `2p` at odd `k`.
pub(crate) fn bloom(heads: u64) -> Vec<f32> {
    let power = 1 << heads.ilog2();
    let base = |of: u64| (-8.0 / of as f64).exp2() as f32;
    let slope = |base: f32, exponent: u64| f64::from(base).powi(exponent as i32) as f32;
    let first = (1..=power).map(|exponent| slope(base(power), exponent));
    let rest = (0..heads - power).map(|index| slope(base(2 * power), 2 * index + 1));
    first.chain(rest).collect()
}

/// MPT's: those of the next power of two, at even `k` first; cut to the number of heads.
pub(crate) fn mpt(heads: u64) -> Vec<f32> {
    let power = heads.next_power_of_two();
    let step = (8.0 / power as f64) as f32;
    let slope = |index: u64| 1.0 / (f64::from((index + 1) as f32 * step).exp2() as f32);
    if power == heads {
        return (0..heads).map(slope).collect();
    }
    (0..power / 2).map(|index| 2 * index + 1).chain((0..power / 2).map(|index| 2 * index)).map(slope).take(heads as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values that `_get_alibi_slopes` of `models/bloom` and `build_mpt_alibi_tensor` of `models/mpt` return.
    #[test]
    fn slopes_are_those_of_transformers() {
        assert_eq!(bloom(6), [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]);
        assert_eq!(mpt(6), [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]);
        assert_eq!(mpt(3), [0.0625, 0.003_906_25, 0.25]);
        assert_eq!(bloom(3), [0.0625, 0.003_906_25, 0.25]);
        let odd = [0.707_106_77, 0.353_553_38, 0.176_776_69, 0.088_388_346];
        for slopes in [bloom(12), mpt(12)] {
            assert_eq!(slopes[..3], [0.5, 0.25, 0.125]);
            assert!(slopes[8..].iter().zip(odd).all(|(slope, wanted): (_, f32)| (slope - wanted).abs() < 1e-7), "{slopes:?}");
        }
    }
}
