"""The notebooks run from the first cell to the last. With SAVE_NOTEBOOKS=1 their outputs are written back."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from servers import ROOT, Server

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))
NEEDS = {"2_my_own_candidate": ["sklearn"], "3_open_bandit": ["obp", "estimators"]}
SIZE = 300_000


def nbformat_of() -> Any:
    """The library, which has no type hints."""
    return importlib.import_module("nbformat")


def opened(path: Path) -> Any:
    """The notebook."""
    return nbformat_of().read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(path: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [name for name in NEEDS.get(path.stem, []) if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} cannot be imported; the notebook was NOT run")
    monkeypatch.setenv("GUARANTOR_URL", server.url)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = opened(path)
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
        record_timing=False,
    ).execute()
    if os.environ.get("SAVE_NOTEBOOKS"):
        text = nbformat_of().writes(notebook) + "\n"
        path.write_text(text.replace(server.url, "http://127.0.0.1:8080"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_committed_with_its_outputs_and_small(path: Path) -> None:
    notebook = opened(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert path.stat().st_size < SIZE
    assert all(cell.execution_count for cell in cells), "it was saved without being run"
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert "127.0.0.1" not in "".join(cell.source for cell in cells)
