//! Functions that a model defines: what calling them comes to.

use std::collections::HashMap;

use crate::checker::domain;
use crate::order::with_inner;
use crate::proto::{FunctionProto, ModelProto, NodeProto};
use crate::quote::quoted;

/// Nodes that a model may have once its functions are written out: runtimes write them out.
const MOST_NODES: u64 = 4_000_000;

type Key<'a> = (&'a str, &'a str, &'a str);

/// Refuses functions that are defined twice, that call each other in a circle, and that come to more nodes than any model has.
pub(crate) fn check(model: &ModelProto) -> Result<(), String> {
    let mut functions = HashMap::new();
    for function in &model.functions {
        let key: Key<'_> = (domain(function.domain()), function.name(), function.overload());
        if functions.insert(key, function).is_some() {
            return Err(format!("the function {} is defined twice", quoted(function.name())));
        }
    }
    let mut sizes = HashMap::new();
    for function in &model.functions {
        size_of((domain(function.domain()), function.name(), function.overload()), &functions, &mut sizes)?;
    }
    let nodes = model.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    if written_out(&with_inner(nodes), &sizes) > MOST_NODES {
        return Err(format!("written out, the function calls of this model come to over {MOST_NODES} nodes"));
    }
    Ok(())
}

/// What `nodes` come to: one each, or what the function comes to that it calls.
fn written_out(nodes: &[&NodeProto], sizes: &HashMap<Key<'_>, Option<u64>>) -> u64 {
    let one = |node: &&NodeProto| sizes.get(&called(node)).copied().flatten().unwrap_or(1);
    nodes.iter().map(one).fold(1, u64::saturating_add)
}

fn called(node: &NodeProto) -> Key<'_> {
    (domain(node.domain()), node.op_type(), node.overload())
}

/// Nodes that a call of `key` comes to. `sizes` holds `None` for those that are being counted. Iterative, since foreign chains may be long.
fn size_of<'a>(
    key: Key<'a>,
    functions: &HashMap<Key<'a>, &'a FunctionProto>,
    sizes: &mut HashMap<Key<'a>, Option<u64>>,
) -> Result<(), String> {
    let mut stack = vec![key];
    while let Some(&key) = stack.last() {
        let Some(function) = functions.get(&key).filter(|_| !matches!(sizes.get(&key), Some(Some(_)))) else {
            stack.pop();
            continue;
        };
        let first_visit = sizes.insert(key, None).is_none();
        let body = with_inner(&function.node);
        let calls = body.iter().map(|node| called(node)).filter(|call| functions.contains_key(call));
        let open: Vec<Key<'a>> = calls.filter(|call| !matches!(sizes.get(call), Some(Some(_)))).collect();
        if let Some(again) = open.iter().find(|call| sizes.contains_key(*call)) {
            return Err(format!("functions call each other in a circle that {} is part of", quoted(again.1)));
        }
        if first_visit && !open.is_empty() {
            stack.extend(open);
            continue;
        }
        let size = written_out(&body, sizes);
        sizes.insert(key, Some(size));
        stack.pop();
    }
    Ok(())
}
