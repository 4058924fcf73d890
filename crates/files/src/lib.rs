//! File access that names the path in every error, atomic writes, folder exchange and hashing.
