//! List: to be written.

use super::Collection;
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// List.
#[derive(Clone, Debug, Default)]
pub struct List {
    elements: Vec<Box<[u8]>>,
}

impl Collection for List {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::List(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::List(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::List(Box::new(self))
    }

    fn is_vacant(&self) -> bool {
        self.elements.is_empty()
    }

    fn encoding(&self) -> Encoding {
        Encoding::Listpack
    }

    fn heap_bytes(&self) -> usize {
        self.elements.len()
    }

    fn emit_rebuild(&self, _key: &[u8], _effects: &mut Effects) {}
}
