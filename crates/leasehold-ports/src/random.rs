/// Randomness for names, identifiers and jitter.
pub trait Random: Send + Sync {
    /// Fills `bytes` with unpredictable bytes (in the simulation, predictable ones).
    fn fill(&self, bytes: &mut [u8]);

    /// A number below `bound`, which must not be 0; a slight bias does not matter to its users.
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound.max(1)
    }
}
