//! The body of `POST /v1/jobs`: the engine's `SpecRequest`, with the dataset and metadata.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{
    AdditionalProperties, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType,
};
use utoipa::openapi::{RefOr, Type};

use crate::http::codes::Code;
use crate::http::problem::Problem;
use guarantor_engine::certificate::StrictJson;
use guarantor_engine::spec::SpecRequest;

/// The most bytes of metadata. It is stored with the job and returned in every list, so it is meant for a
/// few labels, not for documents.
const MOST_METADATA: usize = 16 << 10;

/// A request for a job.
#[derive(Debug)]
pub struct JobRequest {
    /// The dataset to certify on.
    pub dataset_id: String,
    /// The caller's labels.
    pub metadata: Map<String, Value>,
    /// The rest, which is read as a `SpecRequest` later, so that errors name the full path of a field.
    pub spec: Value,
}

impl<'de> Deserialize<'de> for JobRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Strict, because it would be ambiguous which of two duplicate members applies.
        let mut fields = match StrictJson::deserialize(deserializer)?.0 {
            Value::Object(fields) => fields,
            _ => return Err(D::Error::custom("expected an object")),
        };
        let dataset_id = match fields.remove("dataset_id") {
            Some(Value::String(id)) => id,
            Some(_) => return Err(D::Error::custom("dataset_id: expected a string")),
            None => return Err(D::Error::missing_field("dataset_id")),
        };
        let metadata = match fields.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(D::Error::custom("metadata: expected an object")),
        };
        Ok(JobRequest { dataset_id, metadata, spec: Value::Object(fields) })
    }
}

/// Checks the size of a job's metadata.
///
/// # Errors
/// If it is too large.
pub fn check_metadata(metadata: &Map<String, Value>) -> Result<(), Problem> {
    let length = serde_json::to_vec(metadata).map_err(Problem::internal)?.len();
    if length > MOST_METADATA {
        let message = format!("has {length} bytes of JSON; the maximum is {MOST_METADATA}");
        return Err(Problem::field(Code::InvalidValue, "metadata", message));
    }
    Ok(())
}

impl utoipa::PartialSchema for JobRequest {
    /// The schema of `SpecRequest` with two more fields, because a closed object cannot be extended by
    /// reference.
    fn schema() -> RefOr<Schema> {
        let mut object = match <SpecRequest as utoipa::PartialSchema>::schema() {
            RefOr::T(Schema::Object(object)) => object,
            _ => Object::new(),
        };
        let id = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uuid".into())))
            .description(Some("The dataset to certify on"));
        let metadata = ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .description(Some("Any JSON object of at most 16384 bytes; returned with the job"));
        object.properties.insert("dataset_id".into(), id.into());
        object.properties.insert("metadata".into(), metadata.into());
        object.required.push("dataset_id".into());
        object.schema_type = SchemaType::Type(Type::Object);
        RefOr::T(Schema::Object(object))
    }
}

impl utoipa::ToSchema for JobRequest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <SpecRequest as utoipa::ToSchema>::schemas(schemas);
    }
}
