//! Names within a network.

use std::pin::Pin;

use plansmith_engine::protocol::Failure;
use trtx_sys::nvinfer1::INetworkDefinition;

use crate::parse::c_string;

/// Calls layers and what lies between them by numbers. A plan repeats their names wherever its compiler's text mentions them, which is a
/// fiftieth of a stripped plan; the network's inputs, outputs and weights keep theirs.
pub(crate) fn shorten(network: &INetworkDefinition) -> Result<(), Failure> {
    let outputs: Vec<_> = (0..network.getNbOutputs()).map(|index| network.getOutput(index).cast_const()).collect();
    let nothing = c_string("")?;
    for index in 0..network.getNbLayers() {
        // SAFETY: the network gives null or a layer that lives as long as it; nothing else refers to it meanwhile.
        let Some(mut layer) = (unsafe { network.getLayer(index).as_mut().map(|layer| Pin::new_unchecked(layer)) }) else { continue };
        let name = c_string(&index.to_string())?;
        // SAFETY: TensorRT copies what the C strings hold.
        unsafe {
            layer.as_mut().setName(name.as_ptr());
            layer.as_mut().setMetadata(nothing.as_ptr());
        }
        for output in 0..layer.getNbOutputs() {
            let tensor = layer.getOutput(output);
            if outputs.contains(&tensor.cast_const()) {
                continue;
            }
            let name = c_string(&format!("{index}.{output}"))?;
            // SAFETY: the layer gives null or a tensor that lives as long as the network; TensorRT copies what the C string holds.
            unsafe {
                if let Some(tensor) = tensor.as_mut() {
                    Pin::new_unchecked(tensor).setName(name.as_ptr());
                }
            }
        }
    }
    Ok(())
}
