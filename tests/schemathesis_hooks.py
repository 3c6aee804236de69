"""Hooks for schemathesis: how to send a log, and which ids exist."""

import json
import os

import schemathesis

# Path prefix -> id of a resource that the test created.
IDS = json.loads(os.environ.get("GUARANTOR_TEST_IDS", "{}"))


@schemathesis.serializer(
    "application/x-ndjson", "text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
)
def as_it_is(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def map_path_parameters(ctx, path_parameters):
    """Uses a real id in three of four requests, so that handlers get past 404; deletions use generated ids."""
    operation = ctx.operation
    if not path_parameters or operation is None or operation.method.upper() == "DELETE":
        return path_parameters
    known = [real for prefix, real in IDS.items() if operation.path.startswith(prefix)]
    for name in ("id", "name", "token"):
        generated = str(path_parameters.get(name, ""))
        if known and name in path_parameters and sum(generated.encode()) % 4:
            path_parameters[name] = known[0]
    if "delivery_id" in path_parameters and sum(str(path_parameters["delivery_id"]).encode()) % 4:
        path_parameters["delivery_id"] = IDS["delivery_id"]
    return path_parameters
