//! Casts give what torch and numpy give, bit for bit: `tools/make_casts.py` printed the digests.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use plansmith_checkpoint::{Conversion, Error, Overflow, convert};
use plansmith_files::Digest;
use plansmith_tensor::DType;

/// The sequence of `tools/make_casts.py`.
fn xorshift() -> impl Iterator<Item = u64> {
    let mut state = 88_172_645_463_325_252u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
    .take(100_000)
}

fn source(dtype: DType) -> Vec<u8> {
    let patterns = 0..=u16::MAX;
    match dtype {
        DType::F32 => {
            let singles = xorshift().map(|bits| f32::from_bits((bits >> 32) as u32)).filter(|value| value.is_finite());
            singles.flat_map(f32::to_le_bytes).collect()
        }
        DType::F16 => patterns.filter(|bits| bits & 0x7c00 != 0x7c00).flat_map(u16::to_le_bytes).collect(),
        DType::BF16 => patterns.filter(|bits| bits & 0x7f80 != 0x7f80).flat_map(u16::to_le_bytes).collect(),
        _ => {
            let doubles = (0..).zip(xorshift()).map(|(index, bits)| {
                let exponent = (bits >> 52 & 63) + 1023 - 30;
                let mantissa = bits & ((1 << 52) - 1);
                let near_tie = mantissa & (0xFFF << 40) | mantissa & 1;
                (bits & 1 << 63) | exponent << 52 | if index % 2 == 0 { mantissa } else { near_tie }
            });
            doubles.flat_map(u64::to_le_bytes).collect()
        }
    }
}

fn cast(from: DType, to: DType, bytes: &[u8]) -> (Vec<u8>, Conversion) {
    let mut out = Vec::new();
    let seen = convert(from, to, bytes, &mut out).unwrap();
    (out, seen)
}

const DIGESTS: [(DType, DType, &str); 12] = [
    (DType::F32, DType::F32, "6cf300e53a61a11ae3c24a5d8b7f307b405bb06ed3b336471beae659d73f55a2"),
    (DType::F32, DType::F16, "3088d6834682438eee08fca9cd21bf266d5bff14a88977d155d7f89b0b5baf73"),
    (DType::F32, DType::BF16, "527d614f3e9177fd4b036b31c8b1fe83c0f2a00bf377a6a45414a1a2746ba8a4"),
    (DType::F16, DType::F32, "cb34a8c3b8855f6ca5a3c91b264f3bf21176b2e1d85203a881efb0cabe2d5c80"),
    (DType::F16, DType::F16, "2da4a859a17780f673138e72e4e2e6959131ff59f8f5c34d4f68598e722885fe"),
    (DType::F16, DType::BF16, "5383e21f937f13ac48261e5e4e48544159c06beb7f756cbc8fed614e2cabf3a7"),
    (DType::BF16, DType::F32, "bf7148a7bfda758982a6218f7c74077a198605183d5a21d61fe14cdea1b07378"),
    (DType::BF16, DType::F16, "ad3efe365eeb2db7b5bc32a24be48b90c1f772a5f7a629572b2e4d014856f83b"),
    (DType::BF16, DType::BF16, "81100c8586b90228fcdfc535d5f2dc1222be8d798bad124b03afd8df05858fc2"),
    (DType::F64, DType::F32, "d30891b55b1f455eaedb7e92719e89ee05567227e4c9abeb4fcecc32c63bd502"),
    (DType::F64, DType::F16, "fe83e379378724ad1b755db3fa9fa739d1cff17cab9eed440e86df90e0f9f375"),
    (DType::F64, DType::BF16, "fecbb11d4bb44f1ad1f5e1fab0721c682385b1f85920dd1a1a65b4967dc65b9c"),
];

#[test]
fn the_sources_are_those_of_the_oracle() {
    assert_eq!(Digest::of(&source(DType::F64)).to_string(), "85482d7f31093a787184dd60149edb5d15406af94c6d029e8fd01eb074244808");
}

#[test]
fn every_cast_is_bit_identical_to_torch_and_numpy() {
    for (from, to, expected) in DIGESTS {
        let (out, seen) = cast(from, to, &source(from));
        assert_eq!(Digest::of(&out).to_string(), expected, "{from} to {to}");
        assert!(seen.source.is_finite());
    }
}

#[test]
fn a_double_is_rounded_once() {
    // 1 + 2^-11 is the tie between the halves 1 and 1 + 2^-10; the last bit of the double decides it, which fp32 would lose.
    let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-50);
    assert_eq!(cast(DType::F64, DType::F16, &above_tie.to_le_bytes()).0, 0x3c01u16.to_le_bytes());
    assert_eq!(cast(DType::F64, DType::F16, &(1.0 + 2f64.powi(-11)).to_le_bytes()).0, 0x3c00u16.to_le_bytes());
}

#[test]
fn what_leaves_the_range_is_counted() {
    let mut values = vec![1.0f32; 5000];
    // 65519.996 is the largest fp32 that rounds to 65504, the largest half.
    (values[10], values[3000], values[4999]) = (65519.996, -65520.0, 1e9);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let (out, seen) = cast(DType::F32, DType::F16, &bytes);
    assert_eq!(seen.overflow, Some(Overflow { index: 3000, value: -65520.0, count: 2 }));
    assert!(seen.source.is_finite() && !seen.is_finite());
    assert_eq!(out[20..22], 0x7bffu16.to_le_bytes());
    assert_eq!(out[6000..6002], 0xfc00u16.to_le_bytes());
    assert_eq!(cast(DType::F32, DType::BF16, &bytes).1.overflow, None);

    let wide: Vec<u8> = [0.5, 1e300].iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
    assert_eq!(cast(DType::F64, DType::F32, &wide).1.overflow, Some(Overflow { index: 1, value: 1e300, count: 1 }));
}

#[test]
fn nan_and_infinity_stay_what_they_are_and_are_reported() {
    for from in [DType::F64, DType::F32] {
        let values = [1.0, f64::NAN, f64::NEG_INFINITY];
        let bytes: Vec<u8> = match from {
            DType::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        };
        for (to, infinity) in [(DType::F16, 0xfc00u16), (DType::BF16, 0xff80)] {
            let (out, seen) = cast(from, to, &bytes);
            assert_eq!((seen.source.nan, seen.source.infinite, seen.overflow), (Some(1), Some(2), None));
            assert_eq!(out[4..6], infinity.to_le_bytes());
            let nan = u16::from_le_bytes([out[2], out[3]]) & 0x7fff;
            assert!(nan > infinity & 0x7fff, "{from} to {to}: {nan:x}");
        }
    }
}

#[test]
fn other_casts_are_refused() {
    let mut out = Vec::new();
    assert!(matches!(convert(DType::I8, DType::F32, &[0], &mut out), Err(Error::Conversion { .. })));
    assert!(matches!(convert(DType::F8E4M3, DType::F16, &[0], &mut out), Err(Error::Conversion { .. })));
    assert!(matches!(convert(DType::F32, DType::F16, &[0; 6], &mut out), Err(Error::PartialElement { bytes: 6, .. })));
    assert!(out.is_empty());
    assert!(convert(DType::I8, DType::I8, &[3], &mut out).is_ok_and(|seen| seen.is_finite()));
    assert_eq!(out, [3]);
}
