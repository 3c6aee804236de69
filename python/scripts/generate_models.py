"""Generates the models of the client from the committed OpenAPI document.

    python scripts/generate_models.py            # writes models.py and requests.py
    python scripts/generate_models.py --check    # fails if they differ from what would be written

`models.py` has a pydantic model for each response, `requests.py` a TypedDict for each request. The formatter
is the generator's own, so the output depends on nothing but the document and the version of the generator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "openapi" / "openapi.json"
TARGET = ROOT / "python" / "guarantor" / "client"
VERSION = "0.89.0"

# A newer server may know more of these, and an older client must still be able to read its responses.
# Decisions and statuses stay closed: an answer that is neither deploy nor keep is an error.
OPEN_ENUMS = {
    "Allowance", "BoundKind", "BoundedQuantity", "CheckCode", "CheckName", "CheckScope", "Code", "EventKind",
    "FailureCode", "FormatName", "ImportCode", "PolicyClass", "PolicyKind", "Preset", "PriorKind", "ReasonCode",
    "SharedWhy", "TerminationReason", "WarningCode",
}  # fmt: skip

BASES = {
    "Certificate": "guarantor.client._base.CertificateBase",
    "Dataset": "guarantor.client._base.ReportBase",
    "Import": "guarantor.client._base.ImportBase",
    "Job": "guarantor.client._base.JobBase",
    "Plan": "guarantor.client._base.PlanBase",
    "Verification": "guarantor.client._base.VerificationBase",
}

# Requests whose arguments are written by hand.
NOT_GENERATED = {
    "IssuedCertificate", "JobRequest", "UploadForm", "ReferenceRequest", "Contexts", "ActionsRequest",
}  # fmt: skip

COMMON = [
    "--input-file-type", "openapi", "--target-python-version", "3.11", "--formatters", "builtin",
    "--disable-timestamp", "--use-schema-description", "--use-field-description",
    "--enum-field-as-literal", "all", "--type-mappings", "string+uuid=string", "--use-type-alias",
    "--use-tag-as-union-variant-name", "--omit-redundant-constraints",
]  # fmt: skip
HEADER = """\
# Generated from openapi/openapi.json by scripts/generate_models.py. Do not edit.
# ruff: noqa
# fmt: off
"""

Schema = dict[str, Any]


def references(node: object) -> set[str]:
    """Return the names of the schemas that a part of the document refers to."""
    if isinstance(node, dict):
        found = {node["$ref"].rsplit("/", 1)[1]} if isinstance(node.get("$ref"), str) else set[str]()
        return found.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set[str]().union(*(references(value) for value in node))
    return set()


def reachable(schemas: dict[str, Schema], roots: set[str]) -> dict[str, Schema]:
    """Return the schemas that the roots need, in the order of the document."""
    found: set[str] = set()
    waiting = set(roots)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= references(schemas[name]) - found
    return {name: schema for name, schema in schemas.items() if name in found}


def named_items(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the schemas, with the items of lists as references. The document repeats them in every list."""
    result = dict(schemas)
    for name, schema in schemas.items():
        if name.startswith("List_"):
            item = name.removeprefix("List_")
            items = schema["properties"]["data"]["items"]
            result.setdefault(item, items)
            data = {**schema["properties"]["data"], "items": {"$ref": f"#/components/schemas/{item}"}}
            result[name] = {**schema, "properties": {**schema["properties"], "data": data}}
    return result


def without_bans(node: Any) -> Any:
    """Return a part of the document that allows unknown members, which a newer server may send."""
    if isinstance(node, dict):
        return {k: without_bans(v) for k, v in node.items() if (k, v) != ("additionalProperties", False)}
    return [without_bans(value) for value in node] if isinstance(node, list) else node


def opened(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the schemas of responses: open enums are strings, and unknown members are allowed."""
    result: dict[str, Schema] = {name: without_bans(schema) for name, schema in schemas.items()}
    for name in sorted(OPEN_ENUMS):
        values = ", ".join(f"`{value}`" for value in schemas[name]["enum"])
        about = schemas[name].get("description", "A code.")
        result[name] = {"type": "string", "description": f"{about}\n\nKnown values: {values}"}
    return result


def prepared(document: dict[str, Any]) -> dict[str, Schema]:
    """Return the schemas as they are generated."""
    schemas = named_items(document["components"]["schemas"])
    request = schemas.pop("JobRequest")
    fields = {name: field for name, field in request["properties"].items() if name != "dataset_id"}
    own = {name: fields.pop(name) for name in ("candidates", "kind")}
    about = "A job's spec as the caller sends it, without the dataset"
    schemas["Goals"] = {
        "type": "object",
        "description": f"{about}, its kind and its candidates.",
        "properties": fields,
    }
    added = {"type": "object", "properties": own}
    schemas["Spec"] = {"description": f"{about}.", "allOf": [{"$ref": "#/components/schemas/Goals"}, added]}
    plan = schemas["PlanRequest"]
    expected = {name: field for name, field in plan["properties"].items() if name != "improvement"}
    schemas["PlanRequest"] = {**plan, "properties": expected}  # the improvement is an argument of its own
    return schemas


def roots(document: dict[str, Any], part: str) -> set[str]:
    """Return the schemas that requests or responses name."""
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    return references([operation.get(part) for operation in operations])


def run(schemas: dict[str, Schema], document: dict[str, Any], options: list[str]) -> str:
    """Run the generator."""
    trimmed = {"openapi": document["openapi"], "info": document["info"], "paths": {},
               "components": {"schemas": schemas}}  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "openapi.json"), Path(directory, "models.py")
        source.write_text(json.dumps(trimmed))
        tool = [sys.executable, "-m", "datamodel_code_generator"]
        files = ["--input", str(source), "--output", str(target)]
        # Its own directory, so that no pyproject.toml changes what is written.
        subprocess.run([*tool, *files, *COMMON, *options], check=True, cwd=directory)
        body = target.read_text()
    return HEADER + body.split("\n", 2)[2] if body.startswith("# generated") else HEADER + body


def generate() -> dict[str, str]:
    """Return the text of each generated file."""
    document = json.loads(DOCUMENT.read_text())
    schemas = prepared(document)
    lists = {name for name in schemas if name.startswith("List_")}
    items = {name.removeprefix("List_") for name in lists}
    responses = reachable(opened(schemas), (roots(document, "responses") | items) - lists)
    asked = {"Spec", "UploadOptions", "GateRequirements", *roots(document, "requestBody")}
    requests = reachable(schemas, asked - NOT_GENERATED)
    models = ["--output-model-type", "pydantic_v2.BaseModel", "--use-annotated", "--base-class",
              "guarantor.client._base.Model", "--base-class-map", json.dumps(BASES)]  # fmt: skip
    typed = ["--output-model-type", "typing.TypedDict", "--no-use-closed-typed-dict"]
    return {
        "models.py": run(responses, document, models),
        "requests.py": run(requests, document, typed),
    }


def main() -> int:
    """Write or compare the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = (
        [name for name, text in generate().items() if (TARGET / name).read_text() != text] if check else []
    )
    for name in stale:
        print(
            f"{name} is not what openapi/openapi.json gives: run python/scripts/generate_models.py",
            file=sys.stderr,
        )
    if not check:
        for name, text in generate().items():
            (TARGET / name).write_text(text)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
