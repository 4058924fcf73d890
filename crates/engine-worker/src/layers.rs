//! What a network is made of, for the manifest.

use std::collections::BTreeMap;

use plansmith_engine::{LayerRecord, LayerSummary};
use trtx_sys::nvinfer1::{IConstantLayer, ILayer, INetworkDefinition, ITensor};
use trtx_sys::{DataType, LayerType};

use crate::network::{dims, dtype, text};

/// Counts the network's layers and finds those with weights. Made after the build: what is allocated before it changes a plan's bytes.
pub(crate) fn summary(network: &INetworkDefinition) -> LayerSummary {
    let mut kinds = BTreeMap::new();
    // Bytes of the weights that a tensor holds or only rearranges.
    let mut constants: BTreeMap<*const ITensor, u64> = BTreeMap::new();
    let mut weighted = Vec::new();
    for index in 0..network.getNbLayers() {
        let pointer = network.getLayer(index);
        // SAFETY: the network gives null or a layer that lives as long as it.
        let Some(layer) = (unsafe { pointer.as_ref() }) else { continue };
        let kind = LayerType::from(layer.getType());
        *kinds.entry(name_of(kind)).or_default() += 1;
        let own = match kind {
            // SAFETY: a layer of this type is an IConstantLayer, whose only base is ILayer.
            LayerType::kCONSTANT => unsafe { constant_bytes(&*pointer.cast::<IConstantLayer>(), layer.getOutput(0)) },
            _ => 0,
        };
        let inputs: Vec<*const ITensor> = (0..layer.getNbInputs()).map(|input| layer.getInput(input).cast_const()).collect();
        let fed: u64 = own + inputs.iter().filter_map(|input| constants.get(input)).sum::<u64>();
        let output = layer.getOutput(0).cast_const();
        let rearranges = matches!(
            kind,
            LayerType::kCONSTANT
                | LayerType::kSHUFFLE
                | LayerType::kIDENTITY
                | LayerType::kCAST
                | LayerType::kDEQUANTIZE
                | LayerType::kSQUEEZE
                | LayerType::kUNSQUEEZE
        );
        if fed == 0 {
            continue;
        }
        if rearranges && inputs.iter().all(|input| constants.contains_key(input)) {
            constants.insert(output, fed);
        } else if let Some(record) = record(layer, kind, output, fed) {
            weighted.push(record);
        }
    }
    weighted.sort_by(|one, other| other.weight_bytes.cmp(&one.weight_bytes).then_with(|| one.name.cmp(&other.name)));
    LayerSummary { kinds, weighted }
}

fn record(layer: &ILayer, kind: LayerType, output: *const ITensor, weight_bytes: u64) -> Option<LayerRecord> {
    // SAFETY: the layer gives null or a tensor that lives as long as the network.
    let output = unsafe { output.as_ref() }?;
    let name = text(layer.getName());
    let dtype = dtype(output.getType().into(), &name).ok()?;
    Some(LayerRecord { name, kind: name_of(kind), weight_bytes, dtype, shape: dims(&output.getDimensions())? })
}

/// `MATRIX_MULTIPLY` of `kMATRIX_MULTIPLY`.
fn name_of(kind: LayerType) -> String {
    let name = format!("{kind:?}");
    name.strip_prefix('k').map_or(name.clone(), str::to_owned)
}

fn constant_bytes(layer: &IConstantLayer, output: *const ITensor) -> u64 {
    // SAFETY: the layer gives null or a tensor that lives as long as the network.
    let bits = unsafe { output.as_ref() }.map_or(0, |output| DataType::from(output.getType()).size_bits() as u64);
    u64::try_from(layer.getWeights().count).unwrap_or(0) * bits / 8
}
