//! The built-in reference beside transformers.

use super::execute::{REFERENCE, TRANSFORMERS};
use super::results::Execution;

/// The best of all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    prefill_tokens: usize,
    prefill_s: f64,
    prefill_cpu_s: f64,
    decode_tokens_per_s: f64,
}

/// How the reference's prefill compares with that of transformers, with the kind of attention that was faster: the fastest of each, since
/// nothing but the machine's other work makes one slower than another.
pub(crate) fn line(executions: &[Execution]) -> Option<String> {
    let best = |name: &str| {
        let of = |each: &&Execution| each.name == name;
        let runs = executions.iter().filter(of).map(|execution| &execution.speed);
        runs.fold(None, |best: Option<Best>, speed| {
            let so_far =
                best.map_or([f64::INFINITY, f64::INFINITY, 0.0], |best| [best.prefill_s, best.prefill_cpu_s, best.decode_tokens_per_s]);
            Some(Best {
                prefill_tokens: speed.prefill_tokens,
                prefill_s: speed.prefill_fastest_s.min(so_far[0]),
                prefill_cpu_s: speed.prefill_cpu_s.min(so_far[1]),
                decode_tokens_per_s: speed.decode_tokens_per_s.max(so_far[2]),
            })
        })
    };
    let ours = best(REFERENCE)?;
    let peers = executions.iter().map(|execution| execution.name.as_str()).filter(|name| name.starts_with(TRANSFORMERS));
    let (name, theirs) =
        peers.filter_map(|name| Some((name, best(name)?))).min_by(|left, right| left.1.prefill_s.total_cmp(&right.1.prefill_s))?;
    let compared = |ratio: f64| if ratio >= 1.0 { format!("{ratio:.2} times as fast as") } else { format!("SLOWER ({ratio:.2}) than") };
    Some(format!(
        "{REFERENCE}, {} tokens: {} {name} ({:.0} ms against {:.0}, of CPU time {:.0} ms against {:.0}); decoding {:.2} times as fast",
        ours.prefill_tokens,
        compared(theirs.prefill_s / ours.prefill_s),
        ours.prefill_s * 1e3,
        theirs.prefill_s * 1e3,
        ours.prefill_cpu_s * 1e3,
        theirs.prefill_cpu_s * 1e3,
        ours.decode_tokens_per_s / theirs.decode_tokens_per_s,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::results::Speed;
    use super::*;

    fn execution(name: &str, prefill: f64, cpu: f64, decode: f64) -> Execution {
        let text = format!(
            r#"{{"runtime":"","load_s":0,"prefill_tokens":256,"prefill_s":9,"prefill_fastest_s":{prefill},"prefill_cpu_s":{cpu},
                "decode_tokens":32,"decode_tokens_per_s":{decode},"peak_bytes":1}}"#
        );
        Execution { name: name.to_owned(), round: 1, speed: serde_json::from_str::<Speed>(&text).unwrap() }
    }

    #[test]
    fn the_best_of_the_faster_attention_counts() {
        let mut all = vec![
            execution(REFERENCE, 0.5, 0.8, 10.0),
            execution(REFERENCE, 0.4, 0.9, 12.0),
            execution("transformers sdpa", 0.6, 1.0, 24.0),
            execution("transformers eager", 0.5, 1.1, 8.0),
        ];
        assert_eq!(
            line(&all).unwrap(),
            "plansmith reference, 256 tokens: 1.25 times as fast as transformers eager (400 ms against 500, of CPU time 800 ms against \
             1100); decoding 1.50 times as fast"
        );
        all.truncate(2);
        assert_eq!(line(&all), None);
        all.push(execution("transformers sdpa", 0.2, 1.0, 12.0));
        assert!(line(&all).unwrap().contains("SLOWER (0.50) than transformers sdpa"));
    }
}
