//! Parquet, compressed within.

use std::io::{self, Write};

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;

use super::arrow::Batch;
use super::{Decision, Layout};

/// Bytes of a row group before compression, about.
const GROUP_BYTES: usize = 32 << 20;

pub struct Parquet<W> {
    batch: Batch,
    /// Writes to memory, which is emptied into `to` after every batch.
    writer: ArrowWriter<Vec<u8>>,
    to: W,
}

impl<W: Write> Parquet<W> {
    pub fn new(layout: Layout, to: W) -> io::Result<Self> {
        let row_bytes = 4 * layout.dim + 8 * layout.n_actions + 20;
        let batch = Batch::new(layout);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(io::Error::other)?))
            // Propensities hardly repeat; a dictionary of them is time spent for nothing.
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some((GROUP_BYTES / row_bytes).clamp(64, 1 << 20)))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), batch.schema.clone(), Some(properties));
        Ok(Parquet { batch, writer: writer.map_err(io::Error::other)?, to })
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        if let Some(batch) = self.batch.push(row).map_err(io::Error::other)? {
            self.writer.write(&batch).map_err(io::Error::other)?;
            self.to.write_all(&std::mem::take(self.writer.inner_mut()))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<W> {
        if let Some(batch) = self.batch.take().map_err(io::Error::other)? {
            self.writer.write(&batch).map_err(io::Error::other)?;
        }
        self.to.write_all(&self.writer.into_inner().map_err(io::Error::other)?)?;
        Ok(self.to)
    }
}
