"""What can go wrong in process. Every exception of this package is a `GuarantorError`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


class GuarantorError(Exception):
    """Any error of this package, in process or of the client."""


@dataclass(frozen=True)
class RowError:
    """A row that was rejected.

    Attributes:
        row: Its number, counted from 1; 0 is the log as a whole.
        field: The field of the row that is wrong.
        reason: What is wrong with it.
    """

    row: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}, {self.field}: {self.reason}"


class LogError(GuarantorError, ValueError):
    """The log cannot be used.

    Attributes:
        rows: The first rejected rows, at most 20; empty if the log as a whole is at fault.
        total: How many rows were rejected.
        file: The file at fault, if the log has several.
    """

    def __init__(self, message: str, rows: list[RowError], total: int, file: str | None = None) -> None:
        super().__init__(message)
        self.rows = rows
        self.total = total
        self.file = file

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        if not self.rows:
            return where + super().__str__()
        listed = "".join(f"\n  {row}" for row in self.rows[:5])
        more = f"\n  and {self.total - 5} more" if self.total > 5 else ""
        return f"{where}{self.total} rows are not valid:{listed}{more}"


class SpecError(GuarantorError, ValueError):
    """An argument or the spec of a job cannot be used, alone or with this log.

    Attributes:
        code: The stable code to branch on, as the service has it.
        field: The argument or the field of the spec.
        reason: What is wrong and what would work instead.
    """

    def __init__(self, code: str, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.code = code
        self.field = field
        self.reason = reason


class EngineError(GuarantorError):
    """The engine failed: a number is not finite, or it has a bug. There is no certificate."""


def build(payload: str) -> GuarantorError:
    """Make the exception that the native module describes as JSON."""
    failure: dict[str, Any] = json.loads(payload)
    match failure["kind"]:
        case "log":
            rows = [RowError(**row) for row in failure["rows"]]
            error = LogError(failure["message"], rows, failure["total"])
            # The caller replaces the position by the name of the file.
            error.file = None if failure["file"] is None else str(failure["file"])
            return error
        case "spec":
            return SpecError(failure["code"], failure["field"], failure["message"])
        case _:
            return EngineError(failure["message"])
