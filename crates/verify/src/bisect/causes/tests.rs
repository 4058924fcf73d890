//! A fault put into made-up values has its own cause named, and no other.

use super::*;

const ROWS: usize = 2;
const COLUMNS: usize = 8;
const WIDTH: usize = 8;

/// Row 1 is padded on the left by two.
fn tokens() -> Vec<Token> {
    let token = |index: usize| {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let pads = 2 * row;
        let position = column.saturating_sub(pads) as i64;
        Token { row, column, position, attended: column >= pads, padded_row: row == 1 }
    };
    (0..ROWS * COLUMNS).map(token).collect()
}

/// Values without an order: fractions of multiples of the golden ratio.
fn source() -> HostTensor {
    let value = |index: usize| ((index as f64 * 0.618_033_988_75).fract() * 2.0 - 1.0) as f32;
    HostTensor::new(vec![ROWS * COLUMNS, WIDTH], (0..ROWS * COLUMNS * WIDTH).map(|index| value(index * index + 7)).collect()).unwrap()
}

fn causes(kind: RunKind, change: impl Fn(&Token, usize, &[f32]) -> f32, cache: Option<CacheSeen>) -> Vec<Cause> {
    let (source, tokens) = (source(), tokens());
    let mut given = source.clone();
    for (token, vector) in given.data.chunks_exact_mut(WIDTH).enumerate() {
        let before = vector.to_vec();
        for (channel, value) in vector.iter_mut().enumerate() {
            *value = change(&tokens[token], channel, &before);
        }
    }
    explain(kind, &source, &given, &tokens, cache, 1e-4)
}

fn prefill(change: impl Fn(&Token, usize, &[f32]) -> f32) -> Vec<Cause> {
    causes(RunKind::Prefill, change, None)
}

#[test]
fn what_was_done_to_the_values_is_named() {
    assert_eq!(prefill(|_, _, _| 0.0), [Cause::Zeros]);
    assert_eq!(prefill(|_, channel, x| x[(channel + 4) % 8]), [Cause::Permuted(2)]);
    assert_eq!(prefill(|_, channel, x| x[(channel + 2) % 8]), [Cause::Permuted(4)]);
    assert_eq!(prefill(|_, channel, x| x[channel % 2 * 4 + channel / 2]), [Cause::Interleaved]);
    assert_eq!(prefill(|_, channel, x| x[channel] + 0.3 * channel as f32), [Cause::OffsetByChannel]);
    assert_eq!(prefill(|_, channel, x| x[channel] * (1.5 + channel as f32)), [Cause::FactorByChannel]);
    assert_eq!(prefill(|token, channel, x| x[channel] * (1.5 + token.column as f32)), [Cause::FactorByToken]);
    let factor = prefill(|_, channel, x| -2.5 * x[channel]);
    assert!(matches!(factor[..], [Cause::Factor(factor)] if (factor + 2.5).abs() < 1e-6), "{factor:?}");
    let nan = prefill(|token, channel, x| if token.column == 3 { f32::NAN } else { x[channel] });
    assert_eq!(nan, [Cause::NonFinite { row: 0, column: 3 }]);
    assert_eq!(prefill(|_, channel, x| x[channel].sin() * x[7 - channel]), [], "no cause is made up");
}

#[test]
fn where_it_was_done_is_named() {
    let off = |x: f32| x * x + 0.5;
    let padded = prefill(|token, channel, x| if token.row == 1 { off(x[channel]) } else { x[channel] });
    assert_eq!(padded, [Cause::OnlyPaddedRows]);
    assert_eq!(prefill(|token, channel, x| if token.row == 0 { off(x[channel]) } else { x[channel] }), [Cause::OneRow(0)]);
    assert_eq!(prefill(|token, channel, x| if token.column > 4 { off(x[channel]) } else { x[channel] }), [Cause::FromColumn(5)]);
    let growing = prefill(|token, channel, x| x[channel] + token.position as f32 * 0.1 * (x[channel] * 9.0).sin());
    assert_eq!(growing, [Cause::GrowsWithPosition]);
}

#[test]
fn tokens_that_hold_their_neighbours_values_are_recognised() {
    let (source, tokens) = (source(), tokens());
    let mut given = source.clone();
    given.data.rotate_left(WIDTH);
    let one_row = |tensor: &HostTensor| HostTensor { shape: vec![COLUMNS, WIDTH], data: tensor.data[..COLUMNS * WIDTH].to_vec() };
    let found = explain(RunKind::Prefill, &one_row(&source), &one_row(&given), &tokens[..COLUMNS], None, 1e-4);
    assert_eq!(found, [Cause::Shifted(1)]);
}

#[test]
fn the_run_and_the_cache_add_what_they_know() {
    let seen = |keys, first_keys, values| Some(CacheSeen { keys, first_keys, values });
    let off = |_: &Token, channel: usize, x: &[f32]| x[channel].sin() * x[7 - channel];
    assert_eq!(causes(RunKind::Decode, off, None), [Cause::OnlyOverCache(RunKind::Decode)]);
    assert_eq!(causes(RunKind::Prefill, off, seen(false, true, true)), [Cause::Keys { at_start: false }]);
    assert_eq!(causes(RunKind::Prefill, off, seen(false, false, true)), [Cause::Keys { at_start: true }]);
    assert_eq!(causes(RunKind::Prefill, off, seen(true, true, false)), [Cause::Values]);
    assert_eq!(causes(RunKind::Prefill, off, seen(true, true, true)), [Cause::Attends]);
    assert_eq!(causes(RunKind::Prefill, off, seen(false, false, false)), []);
}
