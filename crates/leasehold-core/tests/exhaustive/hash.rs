//! Quick hashes: the search spends most of its time in them.

use std::hash::{BuildHasher, Hasher};

/// 128 bits of a world, as two independent hashes. Among a few million worlds two collide with a
/// probability below 10⁻²⁴, so a collision hides nothing.
pub(crate) fn fingerprint(words: &[u64]) -> u128 {
    let (mut low, mut high) = (0x9e37_79b9_7f4a_7c15_u64, 0xc2b2_ae3d_27d4_eb4f_u64);
    for word in words {
        low = mix(low ^ word);
        high = mix(high.rotate_left(23).wrapping_add(*word));
    }
    (u128::from(high) << 64) | u128::from(low)
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

/// For keys that are compared as a whole after the hash.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quick(u64);

impl BuildHasher for Quick {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// For fingerprints, which are mixed already.
#[derive(Clone, Copy, Default)]
pub(crate) struct Folded(u64);

impl BuildHasher for Folded {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}
