//! `plansmith engine --dry-run`.

use plansmith_engine::{BuildRequest, Forecast, ProfileForecast, TensorShapes};
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

/// Prints what would be built, and fails where the build would be refused.
pub(crate) fn show(requests: &[BuildRequest], forecasts: &[Forecast], as_json: bool, output: &Output) -> Result<Outcome, Failure> {
    if as_json {
        let plan = |(request, forecast): (&BuildRequest, &Forecast)| {
            let mut value = json!(forecast);
            value["plan"] = json!(request.output.to_string_lossy());
            value["architectures"] = json!(request.architectures);
            value["profiles_as"] = json!(request.profiles_as);
            value
        };
        output.json(&requests.iter().zip(forecasts).map(plan).collect::<Vec<_>>())?;
    } else {
        for (request, forecast) in requests.iter().zip(forecasts) {
            lines(request, forecast).iter().try_for_each(|line| output.result(line))?;
        }
    }
    forecasts.iter().try_for_each(Forecast::require_support)?;
    Ok(Outcome::Done)
}

fn lines(request: &BuildRequest, forecast: &Forecast) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: about {} for {} of weights; its worker needs about {}",
        request.output.display(),
        human_bytes(forecast.plan_bytes),
        human_bytes(forecast.weight_bytes),
        human_bytes(forecast.worker_bytes)
    )];
    for support in &forecast.support {
        match support.missing.as_slice() {
            [] => lines.push(format!("  {}: takes every element type of the graph", support.architecture)),
            missing => lines.extend(missing.iter().map(|reason| format!("  {reason}"))),
        }
    }
    forecast.profiles.iter().for_each(|profile| lines.extend(profile_lines(profile)));
    lines
}

fn profile_lines(forecast: &ProfileForecast) -> Vec<String> {
    let mut lines = vec![format!("  profile {}", forecast.record.profile), format!("    at most {}", forecast.memory)];
    if let Some(length) = forecast.switches_at {
        lines.push(format!("    rotations change beyond {length} tokens: a cache that was filled below is no use above"));
    }
    lines.extend(input_lines(&forecast.record.inputs));
    lines
}

/// One line an input; what has the same shapes as the one before, as layers have, is counted and not repeated.
fn input_lines(inputs: &[TensorShapes]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = inputs;
    while let Some((first, others)) = rest.split_first() {
        let corners = |shapes: &TensorShapes| (shapes.min.clone(), shapes.opt.clone(), shapes.max.clone());
        let cache = first.name.starts_with("past_key_values.");
        let same = if cache { others.iter().take_while(|other| corners(other) == corners(first)).count() } else { 0 };
        let more = if same > 0 { format!(" and {same} more") } else { String::new() };
        lines.push(format!("    {}{more}: {:?} .. {:?} .. {:?}", first.name, first.min, first.opt, first.max));
        rest = &others[same..];
    }
    lines
}
