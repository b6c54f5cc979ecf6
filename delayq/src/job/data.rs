//! What handlers are given to work with: one value a type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;

use foldhash::fast::RandomState;

/// The values given by [`Worker::data`](crate::Worker::data).
#[derive(Default)]
pub(crate) struct Data(HashMap<TypeId, Box<dyn Any + Send + Sync>, RandomState>);

impl Data {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    pub(crate) fn get<T: 'static>(&self) -> Result<&T, MissingData> {
        self.0
            .get(&TypeId::of::<T>())
            .and_then(|value| value.downcast_ref())
            .ok_or(MissingData { type_name: type_name::<T>() })
    }
}

/// The worker was not given a value of this type.
#[derive(Debug, Clone)]
pub struct MissingData {
    type_name: &'static str,
}

impl fmt::Display for MissingData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the worker has no data of type {}: give it one with Worker::data before run", self.type_name)
    }
}

impl std::error::Error for MissingData {}
