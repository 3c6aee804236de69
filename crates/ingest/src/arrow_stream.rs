//! Arrow IPC streams. The lengths in them cannot be trusted, so messages are framed and checked here before
//! memory is allocated for them; Arrow's decoder gets one complete message at a time.

use std::io::{self, Read};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Endianness, Message, MessageHeader, root_as_message};
use arrow_schema::ArrowError;

use crate::arrow::{check_schema, each_batch, guarded};
use crate::decompress::Decoded;
use crate::extra::warning_of;
use crate::row::{FormatError, Notes, ReadContext, Visit};

const CONTINUATION: [u8; 4] = [0xff; 4];
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The description of a batch with thousands of columns takes a few hundred kilobytes.
const MAX_METADATA: usize = 16 << 20;

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let mut decoder = StreamDecoder::new();
    let (mut first, mut number) = (true, 0);
    let mut seen = Seen::default();
    while let Some(bytes) = next_message(source, context, first, &mut seen)? {
        first = false;
        for batch in decode(&mut decoder, bytes)? {
            each_batch(&batch, context.sets, &mut number, visit)?;
        }
    }
    if first {
        return Err(unreadable("the log is empty; it has no schema and no rows"));
    }
    // The decoder looks at a message without a body only when something follows it.
    for batch in decode(&mut decoder, END.to_vec())? {
        each_batch(&batch, context.sets, &mut number, visit)?;
    }
    Ok(Notes { warnings: warning_of(&seen.ignored).into_iter().collect(), ..Notes::default() })
}

/// What the messages of a stream have said so far.
#[derive(Default)]
struct Seen {
    /// The bytes of all dictionaries.
    dictionaries: u64,
    /// The names of the columns that are ignored.
    ignored: Vec<String>,
}

fn decode(decoder: &mut StreamDecoder, bytes: Vec<u8>) -> Result<Vec<RecordBatch>, FormatError> {
    let (mut bytes, mut batches) = (Buffer::from(bytes), Vec::new());
    while !bytes.is_empty() {
        let batch = guarded(|| decoder.decode(&mut bytes))?;
        batches.extend(batch.map_err(|error| unreadable(damaged(&error)))?);
    }
    Ok(batches)
}

fn damaged(error: &ArrowError) -> String {
    format!("the Arrow stream is damaged: {error}")
}

fn unreadable(message: impl Into<String>) -> FormatError {
    FormatError::Unreadable(message.into())
}

/// A complete message, or `None` at the end marker.
fn next_message(
    source: &mut impl Read,
    context: &ReadContext,
    first: bool,
    seen: &mut Seen,
) -> Result<Option<Vec<u8>>, FormatError> {
    let mut word = [0; 4];
    fill(source, &mut word)?;
    if first && &word == b"ARRO" {
        let message = "this is an Arrow file (Feather), not an Arrow stream; write it with a stream writer";
        return Err(unreadable(message));
    }
    if word == CONTINUATION {
        fill(source, &mut word)?;
    }
    let size = u32::from_le_bytes(word) as usize;
    if size == 0 {
        return Ok(None);
    }
    if size > MAX_METADATA {
        return Err(unreadable(format!(
            "not an Arrow stream: the description of a message has {size} bytes; the maximum is {MAX_METADATA}"
        )));
    }
    let mut bytes = [CONTINUATION, word].concat();
    append(source, &mut bytes, size)?;
    let body = check_message(&bytes[8..], context, first, seen)?;
    append(source, &mut bytes, body)?;
    Ok(Some(bytes))
}

/// Checks a message, and returns the length of its body.
fn check_message(
    bytes: &[u8],
    context: &ReadContext,
    first: bool,
    seen: &mut Seen,
) -> Result<usize, FormatError> {
    let message =
        root_as_message(bytes).map_err(|error| unreadable(format!("not an Arrow stream: {error}")))?;
    let most = context.limits.message_bytes;
    let body = usize::try_from(message.bodyLength()).ok().filter(|&body| body <= most);
    let body = body.ok_or_else(|| {
        unreadable(format!(
            "a message of the stream has {} bytes; the maximum is {most}; write smaller batches (max_chunksize)",
            message.bodyLength()
        ))
    })?;
    match message.header_type() {
        MessageHeader::Schema => seen.ignored = check_columns(message, context.candidates_only)?,
        _ if first => return Err(unreadable("not an Arrow stream: it does not begin with a schema")),
        MessageHeader::DictionaryBatch => seen.dictionaries += body as u64,
        _ => {}
    }
    if seen.dictionaries > most as u64 {
        return Err(unreadable(format!("the stream's dictionaries exceed the maximum of {most} bytes")));
    }
    check_buffers(message, body)?;
    Ok(body)
}

fn check_columns(message: Message, candidates_only: bool) -> Result<Vec<String>, FormatError> {
    let schema = message.header_as_schema().ok_or_else(|| unreadable("the stream's schema is missing"))?;
    if schema.endianness() != Endianness::Little {
        return Err(unreadable("the stream is big-endian; write it little-endian"));
    }
    let schema = guarded(|| try_fb_to_schema(schema))?.map_err(|error| unreadable(damaged(&error)))?;
    guarded(|| check_schema(&schema, candidates_only))?.map_err(unreadable)
}

/// Checks that buffers are not compressed and lie inside the body.
fn check_buffers(message: Message, body: usize) -> Result<(), FormatError> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|d| d.data()),
        _ => None,
    };
    let Some(batch) = batch else { return Ok(()) };
    if batch.compression().is_some() {
        let advice = "the stream's buffers are compressed; write them uncompressed, and compress the whole stream with Content-Encoding";
        return Err(unreadable(advice));
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let inside = || {
            let (from, n) = (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
            from.checked_add(n).filter(|&to| to <= body)
        };
        if inside().is_none() {
            return Err(unreadable("the Arrow stream is damaged: a buffer lies outside its message"));
        }
    }
    Ok(())
}

fn fill(source: &mut impl Read, word: &mut [u8; 4]) -> Result<(), FormatError> {
    source.read_exact(word).map_err(|error| ended(&error))
}

/// Reads `n` more bytes. Memory grows with what arrives, not with what was announced.
fn append(source: &mut impl Read, bytes: &mut Vec<u8>, n: usize) -> Result<(), FormatError> {
    let read = source.take(n as u64).read_to_end(bytes).map_err(|error| ended(&error))?;
    if read == n { Ok(()) } else { Err(ended(&io::ErrorKind::UnexpectedEof.into())) }
}

fn ended(error: &io::Error) -> FormatError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            unreadable("the Arrow stream ends without its end marker; close its writer before sending it")
        }
        _ => unreadable(error.to_string()),
    }
}
