"""Drawings for notebooks: HTML with inline SVG, no script and no style sheet.

Colors are those of the surrounding page, with a few accents that can be read on light and dark backgrounds, because a
notebook's theme cannot be known. The functions take plain dictionaries, as the HTTP API returns them, and never fail
because a member is missing: what is not there is not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

GOOD = "#2e86c1"
BAD = "#c2703d"
FAINT = "rgba(128,128,128,0.28)"
FRAME = "rgba(128,128,128,0.45)"

_Fields = Mapping[str, Any]


def certificate_html(certificate: _Fields) -> str:
    """Draw a certificate: verdict, interval, waterfall, reasons, checks."""
    deploy = certificate.get("decision") == "deploy"
    parts = [
        _verdict("Deploy" if deploy else "Keep", certificate.get("statement", ""), deploy),
        _tiles(_numbers(certificate)),
        _row(_interval(certificate), _waterfall(certificate)),
        _candidates(certificate.get("candidates") or []),
        _guardrails(certificate.get("guardrails") or []),
        _reasons(certificate.get("reasons") or []),
        _plan(certificate.get("plan")),
        _checks(certificate.get("checks") or []),
        _foot([("digest", certificate.get("digest")), ("engine", certificate.get("engine_version"))]),
    ]
    return _card(parts)


def health_html(dataset: _Fields) -> str:
    """Draw the health report of a log: of a dataset, or the report alone."""
    health: _Fields = dataset.get("health") or dataset
    warnings = health.get("warnings") or []
    n = len(warnings)
    title = "Nothing to fix" if n == 0 else "One thing to look at" if n == 1 else f"{n} things to look at"
    lines = "".join(f"<li>{_text(w.get('message'))}</li>" for w in warnings)
    parts = [
        _verdict(title, "", n == 0) + (f"<ul style='margin:.3em 0'>{lines}</ul>" if lines else ""),
        _tiles(
            [
                ("rows", _amount(dataset.get("rows")), ""),
                ("actions", _amount(dataset.get("n_actions")), ""),
                ("features", _amount(dataset.get("dim")), ""),
                ("effective rows", _amount(health.get("effective_sample_size")), "of a uniform log"),
                ("smallest propensity", _number(health.get("min_propensity")), ""),
                ("largest weight", _number(health.get("max_weight")), ""),
            ]
        ),
        _row(_actions(health.get("action_counts") or []), _weights(health.get("weights") or [])),
        _checks(health.get("checks") or []),
        _foot([("digest", dataset.get("digest"))]),
    ]
    return _card(parts)


def job_html(job: _Fields) -> str:
    """Draw a job: its progress, why it failed, or its result."""
    status = str(job.get("status", ""))
    result, error = job.get("result"), job.get("error")
    if result:
        deploy = result.get("decision") == "deploy"
        parts = [
            _verdict("Deploy" if deploy else "Keep", "", deploy),
            _tiles(_numbers({**result, "min_improvement": job.get("spec", {}).get("min_improvement")})),
            _reasons(result.get("reasons") or []),
        ]
    elif error:
        parts = [_verdict("Failed", error.get("message", ""), False)]
    else:
        progress = job.get("progress") or {}
        phase = progress.get("phase") or status
        parts = [_verdict(status.capitalize(), "", None), _bar(float(progress.get("fraction") or 0), phase)]
    return _card([*parts, _foot([("job", job.get("id"))])])


def import_html(source: _Fields) -> str:
    """Draw an import: how much it has read, or why it failed."""
    status, error = str(source.get("status", "")), source.get("error")
    if error:
        rows = [(False, f"row {row.get('row')}", row.get("message")) for row in error.get("errors") or []]
        parts = [_verdict("Failed", error.get("message", ""), False), _table(rows)]
    else:
        progress = source.get("progress") or {}
        size, read = progress.get("bytes") or 0, progress.get("bytes_read") or 0
        label = f"{_amount(read)} of {_amount(size)} bytes read"
        parts = [_verdict(status.capitalize(), "", None), _bar(read / size if size else 0.0, label)]
    return _card([*parts, _foot([("import", source.get("id")), ("object", (error or {}).get("uri"))])])


def plan_html(plan: _Fields) -> str:
    """Draw a plan."""
    possible = bool(plan.get("possible"))
    title = f"{_amount(plan.get('rows'))} rows" if possible else "No number of rows can be promised"
    return _card([_verdict(title, plan.get("message", ""), possible)])


def verification_html(verification: _Fields) -> str:
    """Draw a verification: every check."""
    valid = verification.get("valid") is True
    rows = [
        (check.get("ok"), check.get("name"), check.get("detail")) for check in verification.get("checks", [])
    ]
    return _card([_verdict("Valid" if valid else "Not valid", "", valid), _table(rows)])


def _card(parts: Sequence[str]) -> str:
    style = (
        f"border:1px solid {FRAME};border-radius:8px;padding:14px 18px;max-width:860px;"
        "font-family:system-ui,sans-serif;font-size:14px;line-height:1.45;color:inherit;background:transparent"
    )
    return f"<div style='{style}'>{''.join(part for part in parts if part)}</div>"


def _verdict(title: str, statement: object, good: bool | None) -> str:
    color, mark = (GOOD, "✓") if good else (BAD, "■") if good is False else (GOOD, "…")
    sentence = f"<div style='margin-top:.35em'>{_text(statement)}</div>" if statement else ""
    return (
        f"<div style='border-left:4px solid {color};padding:2px 0 2px 12px;margin-bottom:12px'>"
        f"<span style='font-size:19px;font-weight:700'><span style='color:{color}'>{mark}</span> {_text(title)}</span>"
        f"{sentence}</div>"
    )


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    def tile(label: str, value: str, note: str) -> str:
        small = "font-size:12px;opacity:.75"
        return (
            f"<div style='min-width:110px;flex:1'><div style='{small}'>{_text(label)}</div>"
            f"<div style='font-size:18px;font-weight:600'>{_text(value)}</div>"
            f"<div style='{small}'>{_text(note)}</div></div>"
        )

    shown = "".join(tile(*entry) for entry in tiles if entry[1])
    return (
        f"<div style='display:flex;flex-wrap:wrap;gap:10px 18px;margin:10px 0'>{shown}</div>" if shown else ""
    )


def _row(*parts: str) -> str:
    shown = "".join(f"<div style='flex:1;min-width:320px'>{part}</div>" for part in parts if part)
    return f"<div style='display:flex;flex-wrap:wrap;gap:12px 24px'>{shown}</div>" if shown else ""


def _numbers(fields: _Fields) -> list[tuple[str, str, str]]:
    units: _Fields = fields.get("user_units") or {}
    kind = (units.get("outcome") or {}).get("kind", "outcome")
    required = units.get("min_improvement", fields.get("min_improvement"))
    baseline = units.get("baseline_outcome")
    confidence = fields.get("confidence")
    return [
        ("guaranteed improvement", _signed(units.get("guaranteed_improvement")), "a lower bound"),
        ("required", f"> {_number(required)}" if required is not None else "", "for deploy"),
        (
            "confidence",
            f"{100 * confidence:.6g}%" if confidence is not None else "",
            "that all of it is true",
        ),
        (
            f"guaranteed {kind}",
            _number(units.get("guaranteed_outcome")),
            f"now {_number(baseline)} in the log" if baseline is not None else "",
        ),
    ]


class _Axis:
    """A horizontal axis that shows all of these values, and 0."""

    def __init__(self, values: Sequence[float], left: float, right: float) -> None:
        low, high = min(0.0, *values), max(0.0, *values)
        pad = 0.06 * (high - low) or 1.0
        self.low, self.high = low - (pad if low < 0 else 0), high + pad
        self.left, self.right = left, right

    def __call__(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * (self.right - self.left)


def _scale(certificate: _Fields) -> float | None:
    """Return the factor from the units of the breakdown to those of the outcome."""
    outcome = (certificate.get("user_units") or {}).get("outcome")
    return None if not outcome else float(outcome["max"]) - float(outcome["min"])


def _interval(certificate: _Fields) -> str:
    """Draw the guarantee and the estimate against what is required."""
    breakdown, scale = certificate.get("breakdown"), _scale(certificate)
    if not breakdown or not scale:
        return ""
    lower, estimate = scale * breakdown["guaranteed"], scale * breakdown["estimate"]
    required = scale * float(certificate.get("min_improvement") or 0.0)
    end = max(estimate + (estimate - lower) * 0.4, lower)
    axis = _Axis([lower, estimate, required, end], 90, 360)
    good = certificate.get("decision") == "deploy"
    color = GOOD if good else BAD
    body = [
        _svg_text(84, 44, "deployed", "end"),
        f"<circle cx='{axis(0):.1f}' cy='40' r='4' fill='currentColor'/>",
        _svg_text(84, 74, "this policy", "end"),
        f"<rect x='{axis(lower):.1f}' y='64' width='{max(axis(end) - axis(lower), 1):.1f}' height='12' "
        f"fill='{color}' opacity='.35'/>",
        f"<rect x='{axis(lower) - 1.5:.1f}' y='60' width='3' height='20' fill='{color}'/>",
        f"<circle cx='{axis(estimate):.1f}' cy='70' r='4.5' fill='{color}'/>",
        _line(axis(required), 22, 90),
        _svg_text(axis(required) + 4, 18, f"required {_signed(required)}", "start", True),
        _svg_text(axis(lower), 100, _signed(lower), "middle"),
    ]
    caption = f"improvement of the expected {escape(str((certificate['user_units']['outcome']).get('kind', 'outcome')))}"
    note = "The thick line is the guarantee: the policy is right of it. The dot is the estimate."
    return _figure("Is it enough?", 380, 122, [*body, _svg_text(225, 118, caption, "middle")], note)


def _waterfall(certificate: _Fields) -> str:
    """Draw how the estimate became the guarantee."""
    breakdown, scale = certificate.get("breakdown"), _scale(certificate)
    if not breakdown or not scale:
        return ""
    at = scale * breakdown["estimate"]
    bars = [("estimate", 0.0, at, GOOD, _signed(at))]
    for step in breakdown["steps"]:
        change = scale * step["change"]
        bars.append((str(step["name"]).replace("_", " "), at, at + change, BAD, _signed(change)))
        at += change
    guaranteed = scale * breakdown["guaranteed"]
    ends = GOOD if guaranteed > 0 else BAD
    bars.append(("guaranteed", 0.0, guaranteed, ends, _signed(guaranteed)))
    axis = _Axis([value for _, start, end, _, _ in bars for value in (start, end)], 110, 310)
    body = []
    for i, (name, start, end, color, label) in enumerate(bars):
        y = 12 + 24 * i
        left, right = sorted((axis(start), axis(end)))
        width = max(right - left, 1.5)
        body.append(_svg_text(104, y + 12, name, "end"))
        body.append(f"<rect x='{left:.1f}' y='{y}' width='{width:.1f}' height='15' rx='1' fill='{color}'/>")
        body.append(_svg_text(right + 5, y + 12, label, "start"))
    height = 12 + 24 * len(bars) + 6
    body.append(
        f"<line x1='{axis(0):.1f}' y1='6' x2='{axis(0):.1f}' y2='{height - 6}' stroke='currentColor'/>"
    )
    return _figure("What the guarantee costs", 380, height, body, "")


def _actions(counts: Sequence[int]) -> str:
    """Draw how often each action was taken; the most frequent ones if there are many."""
    if not counts:
        return ""
    order = list(range(len(counts)))
    if len(counts) > 12:
        order = sorted(order, key=lambda action: -counts[action])[:12]
    most = max(max(counts), 1)
    body = []
    for i, action in enumerate(order):
        y = 6 + 20 * i
        body.append(_svg_text(44, y + 12, str(action), "end"))
        width = max(230 * counts[action] / most, 1 if counts[action] else 0)
        body.append(f"<rect x='50' y='{y}' width='{width:.1f}' height='13' fill='{GOOD}'/>")
        body.append(_svg_text(56 + width, y + 11, _amount(counts[action]), "start"))
    note = f"The {len(order)} most frequent of {len(counts)} actions." if len(order) < len(counts) else ""
    return _figure("How often each action was taken", 380, 12 + 20 * len(order), body, note)


def _weights(classes: Sequence[_Fields]) -> str:
    """Draw the histogram of the weights."""
    if not classes:
        return ""
    most = max(max(int(entry["rows"]) for entry in classes), 1)
    width = 340 / len(classes)
    body = [f"<line x1='20' y1='110' x2='362' y2='110' stroke='{FRAME}'/>"]
    for i, entry in enumerate(classes):
        height = 96 * int(entry["rows"]) / most
        x = 20 + width * i
        body.append(
            f"<rect x='{x + 1:.1f}' y='{110 - height:.1f}' width='{max(width - 2, 1):.1f}' height='{height:.1f}' "
            f"fill='{GOOD}'><title>{_number(entry['from'])} or more: {_amount(entry['rows'])} rows</title></rect>"
        )
        if len(classes) <= 8 or i % (len(classes) // 6 + 1) == 0:
            body.append(_svg_text(x, 126, _number(entry["from"]), "start"))
    return _figure("Weights 1/propensity of the logged actions", 380, 132, body, "")


def _candidates(candidates: Sequence[_Fields]) -> str:
    if len(candidates) < 2:
        return ""
    rows = []
    for entry in candidates:
        units = entry.get("user_units") or {}
        improvement = units.get("guaranteed_improvement", entry.get("guaranteed_improvement"))
        detail = f"{entry.get('decision')}: improvement at least {_signed(improvement)}"
        rows.append((entry.get("decision") == "deploy", entry.get("candidate"), detail))
    return _heading("Candidates") + _table(rows)


def _guardrails(guardrails: Sequence[_Fields]) -> str:
    rows = []
    for entry in guardrails:
        units = entry.get("user_units") or {}
        detail = (
            f"loses at most {_number(units.get('guaranteed_loss'))}; allowed {_number(units.get('max_loss'))}"
        )
        rows.append((entry.get("ok"), entry.get("outcome"), detail))
    return _heading("Guardrails") + _table(rows) if rows else ""


def _reasons(reasons: Sequence[_Fields]) -> str:
    lines = "".join(f"<li>{_text(reason.get('message'))}</li>" for reason in reasons)
    return f"{_heading('Reasons')}<ul style='margin:.2em 0 .6em'>{lines}</ul>" if lines else ""


def _plan(plan: _Fields | None) -> str:
    return f"{_heading('What would certify it')}<div>{_text(plan.get('message'))}</div>" if plan else ""


def _checks(checks: Sequence[_Fields]) -> str:
    if not checks:
        return ""
    failed = sum(check.get("ok") is False for check in checks)
    summary = f"{len(checks)} checks, {failed} failed" if failed else f"{len(checks)} checks, none failed"
    rows = []
    for check in checks:
        subject = f" ({check['subject']})" if check.get("subject") else ""
        rows.append((check.get("ok"), f"{check.get('name')}{subject}", check.get("message")))
    opened = " open" if failed else ""
    summary_style = "cursor:pointer;font-weight:600;margin:.4em 0"
    return f"<details{opened}><summary style='{summary_style}'>{summary}</summary>{_table(rows)}</details>"


def _table(rows: Sequence[tuple[Any, object, object]]) -> str:
    def line(ok: Any, name: object, detail: object) -> str:
        color, mark = (GOOD, "✓") if ok else (BAD, "✗") if ok is False else ("inherit", "–")
        cell = f"border-top:1px solid {FAINT};padding:3px 10px 3px 0;text-align:left;vertical-align:top"
        return (
            f"<tr style='background:transparent'><td style='{cell};color:{color};font-weight:700'>{mark}</td>"
            f"<td style='{cell};white-space:nowrap'>{_text(name)}</td><td style='{cell}'>{_text(detail)}</td></tr>"
        )

    body = "".join(line(*row) for row in rows)
    style = "border-collapse:collapse;font-size:13px;margin:.2em 0;color:inherit"
    return f"<table style='{style}'><tbody>{body}</tbody></table>" if body else ""


def _bar(fraction: float, label: str) -> str:
    share = 100 * min(max(fraction, 0.0), 1.0)
    return (
        f"<div style='background:{FAINT};border-radius:4px;height:10px'>"
        f"<div style='background:{GOOD};width:{share:.1f}%;height:10px;border-radius:4px'></div></div>"
        f"<div style='font-size:12px;opacity:.75'>{_text(label)}, {share:.0f}%</div>"
    )


def _foot(entries: Sequence[tuple[str, object]]) -> str:
    shown = [
        f"{name} <code style='background:transparent;color:inherit'>{_text(v)}</code>"
        for name, v in entries
        if v
    ]
    style = "font-size:12px;opacity:.75;margin-top:8px;overflow-wrap:anywhere"
    return f"<div style='{style}'>{' · '.join(shown)}</div>" if shown else ""


def _heading(text: str) -> str:
    return f"<div style='font-weight:600;margin-top:.6em'>{_text(text)}</div>"


def _figure(title: str, width: int, height: int, body: Sequence[str], note: str) -> str:
    small = f"<div style='font-size:12px;opacity:.75'>{_text(note)}</div>" if note else ""
    return (
        f"{_heading(title)}<svg role='img' aria-label='{_text(title)}' viewBox='0 0 {width} {height}' "
        f"style='width:100%;max-width:{width}px;height:auto;overflow:visible' "
        f"font-family='system-ui,sans-serif' font-size='12' fill='currentColor'>{''.join(body)}</svg>{small}"
    )


def _svg_text(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    weight = " font-weight='600'" if bold else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{weight}>{_text(text)}</text>"


def _line(x: float, y1: float, y2: float) -> str:
    return (
        f"<line x1='{x:.1f}' y1='{y1}' x2='{x:.1f}' y2='{y2}' stroke='currentColor' stroke-dasharray='4 3'/>"
    )


def _text(value: object) -> str:
    return "" if value is None else escape(str(value))


def _number(value: Any) -> str:
    return "" if value is None else f"{float(value):.4g}".replace("-", "−")


def _signed(value: Any) -> str:
    return "" if value is None else f"{float(value):+.4g}".replace("-", "−") if value else "0"


def _amount(value: Any) -> str:
    return "" if value is None else f"{float(value):,.0f}".replace(",", " ")
