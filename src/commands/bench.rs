//! `plansmith bench`.

use std::time::{Duration, Instant};

use plansmith_lowering::Source;
use plansmith_reference::Reference;
use plansmith_runtime::LoadBreakdown;
use plansmith_tensor::{Batch, Session};
use serde::Serialize;

use crate::args::Bench;
use crate::exit::{Failure, Outcome};
use crate::model::Model;
use crate::output::Output;

/// Medians, in seconds and tokens a second; peak memory of the process in bytes.
///
/// On a machine that does other things too, the fastest prefill and the one of the least CPU time say more than the median.
#[derive(Debug, Serialize)]
struct Report {
    runtime: String,
    load_s: f64,
    load_header_s: f64,
    load_map_s: f64,
    load_deserialise_s: f64,
    load_context_s: f64,
    load_session_s: f64,
    /// From the start of opening to the logits after the first prefill.
    first_token_s: f64,
    prefill_tokens: usize,
    prefill_s: f64,
    prefill_fastest_s: f64,
    prefill_cpu_s: f64,
    decode_tokens: usize,
    decode_tokens_per_s: f64,
    peak_bytes: u64,
}

/// Tokens of a prefill that are more than any model takes and fewer than fill the memory.
const MOST: usize = 1 << 24;

pub(crate) fn run(args: &Bench, output: &Output) -> Result<Outcome, Failure> {
    if args.prefill > MOST {
        return Err(Failure::new(format!("--prefill {} is more than {MOST} tokens", args.prefill)).hint("give a smaller --prefill"));
    }
    let (mut session, breakdown, runtime): (Box<dyn Session>, _, _) = if args.runtime.as_deref() == Some("reference") {
        let start = Instant::now();
        let source = Source::open(&args.path, &plansmith_families::Options::default())?;
        let reference = Reference::open(source.loaded.spec, &source.checkpoint)?;
        let breakdown = LoadBreakdown { header: start.elapsed(), ..LoadBreakdown::default() };
        (Box::new(reference), breakdown, "reference".to_owned())
    } else {
        let runtime = args.runtime.as_deref().map(str::parse).transpose()?;
        let model = Model::find(&args.path)?;
        let lengths = model.lengths()?;
        let loaded = model.load(runtime, &args.tools)?;
        // A static cache says itself what does not fit.
        let is_static = loaded.session.signature().inputs.iter().any(|input| input.name == "cache_position");
        let tokens = args.prefill.saturating_add(args.decode);
        if let Some(positions) = lengths.positions.filter(|&positions| !is_static && positions < tokens) {
            return Err(Failure::new(format!("{tokens} tokens do not fit the {positions} that the graph was made for"))
                .hint("give a smaller --prefill or --decode"));
        }
        let name = format!("{} {}", loaded.facts.kind, loaded.facts.version);
        (loaded.session, loaded.breakdown, name)
    };
    let (mut prefills, mut processor, mut decodes) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = Duration::ZERO;
    for repetition in 0..=args.repeat {
        let took = measure(&mut *session, args.prefill, args.decode)?;
        if repetition == 0 {
            first = took.prefill;
        } else {
            prefills.push(took.prefill);
            processor.push(took.prefill_cpu);
            decodes.push(took.decode);
        }
    }
    let least = |times: &[Duration]| times.iter().min().copied().unwrap_or_default().as_secs_f64();
    let (prefill, decode) = (median(&mut prefills), median(&mut decodes));
    let report = Report {
        runtime,
        load_s: breakdown.total().as_secs_f64(),
        load_header_s: breakdown.header.as_secs_f64(),
        load_map_s: breakdown.map.as_secs_f64(),
        load_deserialise_s: breakdown.deserialise.as_secs_f64(),
        load_context_s: breakdown.context.as_secs_f64(),
        load_session_s: breakdown.session.as_secs_f64(),
        first_token_s: (breakdown.total() + first).as_secs_f64(),
        prefill_tokens: args.prefill,
        prefill_s: prefill.as_secs_f64(),
        prefill_fastest_s: least(&prefills),
        prefill_cpu_s: least(&processor),
        decode_tokens: args.decode,
        decode_tokens_per_s: if decode.is_zero() { 0.0 } else { args.decode as f64 / decode.as_secs_f64() },
        peak_bytes: peak_bytes()?,
    };
    if args.json {
        output.json(&report)?;
    } else {
        let (header, map, session) = (report.load_header_s, report.load_map_s, report.load_session_s);
        output.result(format!("runtime  {}", report.runtime))?;
        let on_device = match breakdown.deserialise + breakdown.context {
            Duration::ZERO => String::new(),
            _ => format!(", deserialise {:.3}, context {:.3}", report.load_deserialise_s, report.load_context_s),
        };
        output.result(format!("load     {:.3} s (header {header:.3}, map {map:.3}{on_device}, session {session:.3})", report.load_s))?;
        output.result(format!("first    token after {:.3} s, load included", report.first_token_s))?;
        output.result(format!("prefill  {} tokens in {:.3} s", report.prefill_tokens, report.prefill_s))?;
        output.result(format!("decode   {:.1} tokens/s", report.decode_tokens_per_s))?;
        output.result(format!("peak     {} MB", report.peak_bytes / 1_000_000))?;
    }
    Ok(Outcome::Done)
}

/// One prefill and the tokens after it.
struct Took {
    prefill: Duration,
    prefill_cpu: Duration,
    decode: Duration,
}

/// Ids below 128 exist in every vocabulary; which they are does not change the time.
fn measure(session: &mut dyn Session, prefill: usize, decode: usize) -> Result<Took, Failure> {
    session.reset(1)?;
    let ids = (0..prefill).map(|index| ((index * 7 + 3) % 128) as i64).collect();
    let (start, before) = (Instant::now(), cpu_time()?);
    session.step(&Batch::unpadded(1, ids, 0)?)?;
    let (prefill, prefill_cpu) = (start.elapsed(), cpu_time()?.saturating_sub(before));
    let start = Instant::now();
    for index in 0..decode {
        let batch = Batch::unpadded(1, vec![((index * 31 + 11) % 128) as i64], session.past())?;
        session.step(&batch)?;
    }
    Ok(Took { prefill, prefill_cpu, decode: start.elapsed() })
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// User and system time of all threads of this process so far, in steps of 10 ms.
fn cpu_time() -> Result<Duration, Failure> {
    let stat = plansmith_files::read_to_string("/proc/self/stat".as_ref())?;
    // The name, in parentheses, may hold spaces; utime and stime are the 12th and 13th field after it, in hundredths of a second.
    let ticks = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>));
    let sum: Option<u64> = ticks.and_then(|ticks| ticks.sum::<Result<u64, _>>().ok());
    sum.map(|ticks| Duration::from_millis(10 * ticks)).ok_or_else(|| Failure::new("/proc/self/stat holds no CPU times"))
}

/// Largest resident size of this process so far.
fn peak_bytes() -> Result<u64, Failure> {
    let status = plansmith_files::read_to_string("/proc/self/status".as_ref())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|count| count * 1024).ok_or_else(|| Failure::new("/proc/self/status has no VmHWM"))
}
