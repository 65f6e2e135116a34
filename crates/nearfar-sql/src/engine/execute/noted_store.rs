//! Files that `COPY … TO` writes: the first write that fails is remembered, since DataFusion replaces its
//! error by one of its own when it closes the file behind it.

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use futures::FutureExt;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::{EngineError, is_disk_full};

/// What was wrong with the first write that failed for want of room.
#[derive(Debug, Clone, Default)]
pub(super) struct FullNote(Arc<OnceLock<String>>);

impl FullNote {
    /// `runtime` with files whose writes are noted here.
    pub fn watch(&self, runtime: &RuntimeEnv) -> std::result::Result<Arc<RuntimeEnv>, EngineError> {
        let registry = DefaultObjectStoreRegistry::new();
        let files = ObjectStoreUrl::local_filesystem();
        let inner = registry.get_store(files.as_ref())?;
        let note = self.clone();
        registry.register_store(files.as_ref(), Arc::new(NotedStore { inner, note }));
        let mut runtime = runtime.clone();
        runtime.object_store_registry = Arc::new(registry);
        Ok(Arc::new(runtime))
    }

    /// `error`, or what has led to it.
    pub fn told(&self, error: EngineError) -> EngineError {
        match self.0.get() {
            Some(cause) if !is_disk_full(&error) => {
                let text = format!("cannot write the file: {cause}; make room there");
                let full = std::io::Error::new(std::io::ErrorKind::StorageFull, text);
                DataFusionError::IoError(full).into()
            }
            _ => error,
        }
    }

    fn note<T>(&self, written: Result<T>) -> Result<T> {
        written.inspect_err(|error: &Error| {
            if is_disk_full(error) {
                self.0.get_or_init(|| error.to_string());
            }
        })
    }
}

/// A store of files whose writes are noted.
#[derive(Debug)]
struct NotedStore {
    inner: Arc<dyn ObjectStore>,
    note: FullNote,
}

impl fmt::Display for NotedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for NotedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = self.inner.put_opts(location, payload, options).await;
        self.note.note(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(location, options).await;
        let inner = self.note.note(begun)?;
        let note = self.note.clone();
        Ok(Box::new(NotedUpload { inner, note }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A file that is written in parts.
#[derive(Debug)]
struct NotedUpload {
    inner: Box<dyn MultipartUpload>,
    note: FullNote,
}

#[async_trait]
impl MultipartUpload for NotedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, note) = (self.inner.put_part(data), self.note.clone());
        part.map(move |put| note.note(put)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.inner.complete().await;
        self.note.note(completed)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
