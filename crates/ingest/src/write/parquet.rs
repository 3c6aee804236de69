//! Parquet with zstd-compressed pages.

use std::io::{self, Write};

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;

use super::arrow::BatchBuilder;
use super::{LoggedRow, RowEncoder, WriteLayout};

/// The approximate size of a row group before compression.
const GROUP_BYTES: usize = 32 << 20;

struct Parquet {
    batch: BatchBuilder,
    /// Writes to memory, which is moved to the output after every batch.
    writer: ArrowWriter<Vec<u8>>,
}

pub fn start(layout: &WriteLayout, _to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let row_bytes = 4 * layout.dim + 8 * layout.n_actions + 20;
    let batch = BatchBuilder::new(layout.clone());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(io::Error::other)?))
        // Propensities hardly repeat, so a dictionary of them would only cost time.
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some((GROUP_BYTES / row_bytes).clamp(64, 1 << 20)))
        .build();
    let writer = ArrowWriter::try_new(Vec::new(), batch.schema.clone(), Some(properties));
    Ok(Box::new(Parquet { batch, writer: writer.map_err(io::Error::other)? }))
}

impl RowEncoder for Parquet {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        if let Some(batch) = self.batch.push(row).map_err(io::Error::other)? {
            self.writer.write(&batch).map_err(io::Error::other)?;
            to.write_all(&std::mem::take(self.writer.inner_mut()))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, to: &mut dyn Write) -> io::Result<()> {
        if let Some(batch) = self.batch.take().map_err(io::Error::other)? {
            self.writer.write(&batch).map_err(io::Error::other)?;
        }
        to.write_all(&self.writer.into_inner().map_err(io::Error::other)?)
    }
}
