//! The catalogue of errors.
