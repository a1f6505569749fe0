//! Temporary stand-ins until the byte tree, the hash table and the value slabs arrive (minutes).
#![allow(missing_docs, unused, reason = "temporary")]
use super::btree::InsertError;
use super::region::RegionError;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
#[derive(Debug, Default)]
pub struct HashTable(BTreeMap<u64, u32>);
impl HashTable {
    pub fn new(_: usize) -> Result<Self, RegionError> {
        Ok(Self::default())
    }
    pub fn get(&self, key: u64) -> Option<u32> {
        self.0.get(&key).copied()
    }
    pub fn insert(&mut self, key: u64, v: u32) -> Result<(), InsertError> {
        self.0.insert(key, v);
        Ok(())
    }
    pub fn remove(&mut self, key: u64) -> Option<u32> {
        self.0.remove(&key)
    }
    pub fn candidates(&self, h: u64) -> impl Iterator<Item = u32> {
        self.get(h).into_iter()
    }
    pub fn insert_pair(&mut self, key: u64, v: u32) -> Result<(), InsertError> {
        self.insert(key, v)
    }
    pub fn remove_pair(&mut self, key: u64, _: u32) -> bool {
        self.remove(key).is_some()
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn committed_bytes(&self) -> usize {
        0
    }
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
pub fn hash_bytes(b: &[u8]) -> u64 {
    b.iter().fold(1469598103934665603u64, |h, &c| (h ^ c as u64).wrapping_mul(1099511628211))
}
pub const VALUE_BYTES_MAX: usize = 1 << 20;
pub const HANDLE_BYTES: usize = 8;
#[derive(Clone, Copy, Debug)]
pub struct Handle(u64);
impl Handle {
    pub fn from_bits(b: u64) -> Self {
        Self(b)
    }
    pub fn to_bits(self) -> u64 {
        self.0
    }
    pub fn read(b: &[u8], o: usize) -> Self {
        let mut a = [0; 8];
        a.copy_from_slice(&b[o..o + 8]);
        Self(u64::from_le_bytes(a))
    }
}
#[derive(Debug, Default)]
pub struct SizeClasses(BTreeMap<u64, Vec<u8>>, u64);
impl SizeClasses {
    pub fn new(_: usize) -> Self {
        Self::default()
    }
    pub fn put(&mut self, v: &[u8]) -> Result<Handle, RegionError> {
        if v.is_empty() {
            return Ok(Handle(0));
        }
        self.1 += 1;
        self.0.insert(self.1, v.to_vec());
        Ok(Handle(self.1))
    }
    pub fn get(&self, h: Handle) -> &[u8] {
        self.0.get(&h.0).map_or(&[], |v| v)
    }
    pub fn free(&mut self, h: Handle) {
        self.0.remove(&h.0);
    }
    pub fn committed_bytes(&self) -> usize {
        0
    }
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
