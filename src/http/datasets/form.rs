//! Uploads as `multipart/form-data`: a part `manifest`, then a part `data`, and no other part.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::HeaderMap;
use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use super::body::Chunks;
use crate::store::BodyError;

/// How much the form reader may buffer without finding a part.
const MOST_HELD: u64 = 1 << 20;

/// A form that is read part by part.
pub struct Form {
    parts: multer::Multipart<'static>,
    body: Arc<Mutex<Chunks>>,
    held: Arc<AtomicU64>,
}

/// A part that is read as it arrives.
pub struct FormPart {
    pub headers: HeaderMap,
    field: multer::Field<'static>,
}

impl Form {
    /// The form in `body`.
    ///
    /// # Errors
    /// If the content type has no boundary.
    pub fn new(body: Chunks, content_type: &str) -> Result<Form, BodyError> {
        let boundary = multer::parse_boundary(content_type).map_err(broken)?;
        let (body, held) = (Arc::new(Mutex::new(body)), Arc::new(AtomicU64::new(0)));
        let paced = Paced { body: body.clone(), held: held.clone(), gave: false };
        Ok(Form { parts: multer::Multipart::new(paced, boundary), body, held })
    }

    /// The next part, which must have this name.
    pub async fn part(&mut self, name: &str) -> Result<FormPart, BodyError> {
        let field = self.parts.next_field().await.map_err(broken)?;
        self.held.store(0, Ordering::Relaxed);
        let wanted = "it must have the part `manifest`, then the part `data`, and no other";
        match field {
            Some(field) if field.name() == Some(name) => {
                Ok(FormPart { headers: field.headers().clone(), field })
            }
            Some(field) => {
                let found = field.name().unwrap_or("");
                Err(BodyError::Form(format!("{wanted}; found `{found}` instead of `{name}`")))
            }
            None => Err(BodyError::Form(format!("{wanted}; `{name}` is missing"))),
        }
    }

    /// A whole part of at most `limit` bytes.
    pub async fn whole(&self, mut part: FormPart, limit: usize) -> Result<Vec<u8>, BodyError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = part.field.chunk().await.map_err(broken)? {
            self.held.store(0, Ordering::Relaxed);
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                return Err(BodyError::TooLarge { limit: limit as u64 });
            }
        }
        Ok(bytes)
    }

    /// The last part as it arrives. It ends when the form ends; a further part is an error.
    pub fn last(self, part: FormPart) -> Chunks {
        stream::unfold((self, Some(part)), |(mut form, part)| async move {
            if let Some(mut part) = part {
                match part.field.chunk().await {
                    Ok(Some(bytes)) => {
                        form.held.store(0, Ordering::Relaxed);
                        return Some((Ok(bytes), (form, Some(part))));
                    }
                    Ok(None) => {}
                    Err(error) => return Some((Err(broken(error)), (form, None))),
                }
            }
            form.end().await.err().map(|error| (Err(error), (form, None)))
        })
        .fuse()
        .boxed()
    }

    async fn end(&mut self) -> Result<(), BodyError> {
        if let Some(field) = self.parts.next_field().await.map_err(broken)? {
            let found = field.name().unwrap_or("");
            return Err(BodyError::Form(format!("found a part `{found}` after `data`")));
        }
        // What follows the last boundary has no meaning, but the digest of the body covers it.
        let mut rest = Rest(self.body.clone());
        while let Some(chunk) = rest.next().await {
            chunk?;
        }
        Ok(())
    }
}

fn broken(error: multer::Error) -> BodyError {
    match error {
        multer::Error::StreamReadFailed(error) => match error.downcast::<BodyError>() {
            Ok(error) => *error,
            Err(error) => BodyError::Broken(error.to_string()),
        },
        error => BodyError::Form(error.to_string()),
    }
}

/// The part of the body that the form reader has not read.
struct Rest(Arc<Mutex<Chunks>>);

impl Stream for Rest {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut body = self.0.lock();
        body.as_mut().poll_next(context)
    }
}

/// Hands out one chunk at a time. The form reader buffers everything that is ready, so a fast sender or
/// an endless header would fill the memory.
struct Paced {
    body: Arc<Mutex<Chunks>>,
    held: Arc<AtomicU64>,
    gave: bool,
}

impl Stream for Paced {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.gave) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut rest = Rest(self.body.clone());
        let polled = Pin::new(&mut rest).poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &polled {
            self.gave = true;
            let before = self.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if before > MOST_HELD {
                let message = "no part begins or ends within 1 MiB";
                return Poll::Ready(Some(Err(BodyError::Form(message.into()))));
            }
        }
        polled
    }
}
