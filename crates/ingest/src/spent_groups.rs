//! Row groups of a temporary file that are decoded. Their space is given back at once, so that the stored log can grow into
//! it: an upload takes the disk and the page cache once and not twice.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;

use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use rustix::fs::{FallocateFlags, fallocate};

/// The groups of a temporary file that nothing else reads.
pub struct SpentGroups {
    file: File,
    /// How many rows there are up to the end of each group, and where its bytes are.
    groups: VecDeque<(u64, Range<u64>)>,
}

impl SpentGroups {
    /// Those of this file. If their bytes are not in the order of the rows, or a group does not have the rows that it claims,
    /// nothing is given back.
    pub fn new(file: File, index: &ParquetMetaData) -> Self {
        SpentGroups { groups: groups(&file, index).unwrap_or_default(), file }
    }

    /// Gives back what is not needed anymore when so many rows are decoded.
    pub fn decoded(&mut self, rows: u64) {
        while self.groups.front().is_some_and(|(end, _)| *end <= rows) {
            let Some((_, bytes)) = self.groups.pop_front() else { return };
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Not every file system can. Then the file goes as a whole, at the end.
            if fallocate(&self.file, flags, bytes.start, bytes.end - bytes.start).is_err() {
                self.groups.clear();
            }
        }
    }
}

fn groups(file: &File, index: &ParquetMetaData) -> Option<VecDeque<(u64, Range<u64>)>> {
    let length = file.metadata().ok()?.len();
    let (mut rows, mut last) = (0u64, 0);
    let mut groups = VecDeque::new();
    for group in index.row_groups() {
        rows = rows.checked_add(rows_of(group)?)?;
        let bytes = bytes_of(group)?;
        if bytes.start < last || bytes.end > length {
            return None;
        }
        last = bytes.end;
        // An empty range is an error to the file system.
        if !bytes.is_empty() {
            groups.push_back((rows, bytes));
        }
    }
    Some(groups)
}

/// How many rows a group has. Readers do not need this number, so it may be any: it must be that of the numbers in each column
/// that is no list, which was compared with the pages.
fn rows_of(group: &RowGroupMetaData) -> Option<u64> {
    let mut flat =
        group.columns().iter().filter(|column| column.column_descr().max_rep_level() == 0).peekable();
    flat.peek()?;
    flat.all(|column| column.num_values() == group.num_rows()).then_some(())?;
    u64::try_from(group.num_rows()).ok()
}

/// Where the columns of a group are. The index may claim anything.
fn bytes_of(group: &RowGroupMetaData) -> Option<Range<u64>> {
    let mut all: Option<Range<u64>> = None;
    for column in group.columns() {
        let dictionary = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = u64::try_from(dictionary.min(column.data_page_offset())).ok()?;
        let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        all = Some(all.map_or(start..end, |all| all.start.min(start)..all.end.max(end)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
    use ::parquet::file::properties::WriterProperties;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;

    fn numbers() -> impl Iterator<Item = i64> {
        (0..400_000).map(|i| i * 7919 % 1_000_003)
    }

    #[test]
    fn the_space_of_decoded_groups_is_given_back_and_later_ones_are_read() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers()));
        let batch = RecordBatch::try_from_iter([("action", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(100_000))
            .build();
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let index = ArrowReaderMetadata::load(&file, Default::default()).unwrap();
        let mut spent = SpentGroups::new(file.try_clone().unwrap(), index.metadata());
        assert_eq!(spent.groups.len(), 4);
        // Where the file system can give space back at all.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let able = fallocate(tempfile::tempfile().unwrap(), flags, 0, 4096).is_ok();
        let before = file.metadata().unwrap();
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone().unwrap(), index);
        let (mut rows, mut read) = (0, Vec::new());
        for found in reader.with_batch_size(60_000).build().unwrap() {
            let found = found.unwrap();
            rows += found.num_rows() as u64;
            read.extend_from_slice(found.column(0).as_primitive::<Int64Type>().values());
            spent.decoded(rows);
            assert!(!able || spent.groups.len() as u64 == 4 - rows / 100_000);
        }
        assert!(read.into_iter().eq(numbers()));
        let after = file.metadata().unwrap();
        assert_eq!(after.len(), before.len());
        assert!(!able || after.blocks() * 4 < before.blocks(), "{} of {}", after.blocks(), before.blocks());
    }

    #[test]
    fn groups_that_share_bytes_or_claim_other_rows_are_kept() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("action", column)]).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let index = ArrowReaderMetadata::load(&file, Default::default()).unwrap();
        let group = index.metadata().row_group(0).clone();
        let twice =
            ParquetMetaData::new(index.metadata().file_metadata().clone(), vec![group.clone(), group]);
        assert!(groups(&file, &twice).is_none());
        for claimed in [1, 999, 1001, -1] {
            let group = index.metadata().row_group(0).clone().into_builder().set_num_rows(claimed);
            let groups_of = vec![group.build().unwrap()];
            let other = ParquetMetaData::new(index.metadata().file_metadata().clone(), groups_of);
            assert!(groups(&file, &other).is_none(), "{claimed}");
        }
        assert_eq!(groups(&file, index.metadata()).unwrap().len(), 1);
    }
}
