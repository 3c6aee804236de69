//! Features with names into a fixed number of dimensions.

/// Into how many dimensions named features go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashing {
    /// 0: the rows get no hashed features.
    pub dims: usize,
}

impl Hashing {
    /// The dimensions that `obd` adds for where on the page an item stood.
    pub const POSITIONS: usize = 3;
}

impl Default for Hashing {
    fn default() -> Self {
        Hashing { dims: 256 }
    }
}
