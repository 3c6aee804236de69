"""The generated models: drift, and what they keep and show."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers import ROOT

from guarantor.client import models

SCRIPT = ROOT / "python" / "scripts" / "generate_models.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("generate_models", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_models_are_those_of_the_openapi_document() -> None:
    pytest.importorskip("datamodel_code_generator")
    checked = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_changed_document_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("datamodel_code_generator")
    generator = script()
    document = json.loads(generator.DOCUMENT.read_text())
    document["components"]["schemas"]["Plan"]["properties"]["rows"]["type"] = ["string", "null"]
    generator.DOCUMENT = tmp_path / "openapi.json"
    generator.DOCUMENT.write_text(json.dumps(document))
    written = generator.generate()
    assert written["models.py"] != (generator.TARGET / "models.py").read_text()
    assert written["requests.py"] == (generator.TARGET / "requests.py").read_text()


TOKEN = {"id": "1", "name": "argo", "created_at": "2026-11-18T00:00:00Z", "created_by": "me",
         "token": "gt_secret", "url": "/v1/gate/gt_secret", "of_a_later_release": [1]}  # fmt: skip


def test_a_model_hides_secrets_and_keeps_what_it_does_not_know() -> None:
    token = models.NewGateToken.of(TOKEN)
    assert "secret" not in repr(token)
    assert "secret" not in str(token)
    assert token.token == "gt_secret"
    assert token.to_dict() == TOKEN
    assert token["of_a_later_release"] == [1]
    assert models.NewGateToken.of(json.loads(json.dumps(TOKEN))) == token


def test_an_unknown_code_is_read_and_an_unknown_decision_is_not() -> None:
    warning = models.Warning.of({"code": "of_a_later_release", "message": "m"})
    assert warning.code == "of_a_later_release"
    with pytest.raises(ValueError, match="decision"):
        models.Webhook.of({**dict.fromkeys(models.Webhook.model_fields), "decision": "maybe"})
