"""What commands print: one JSON document with `--json`, else short tables and sentences."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.settings import Settings

# A pipe has no width: nothing is cut for it.
_out = Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 240)
_err = Console(stderr=True, highlight=False)

MARKS = {"measured": "●", "allocated": "◐", "calibrated": "◇", "modeled": "○", None: "—"}
_STATE_WORDS = {"fresh": "✓ fresh", "stale": "△ stale", "expired": "⬡ expired", "never": "– never"}


def document(told: Any) -> None:
    """The one JSON document of `--json`."""
    sys.stdout.write(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")


def error(message: str, fix: str) -> None:
    _err.print(f"[bold]error[/bold] {escape(message)}")
    if fix:
        _err.print(f"  fix {escape(fix)}")


def _grid(columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str = "") -> None:
    table = Table(*columns, title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(escape(_text(v)) for v in row))
    _out.print(table)


def grid(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A short table of plain values."""
    _grid(columns, rows)


def line(text: str) -> None:
    """One sentence."""
    _out.print(escape(text))


def _text(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _number(exact: str | None) -> float | None:
    """Money travels as exact text; a table shows it short."""
    return None if exact is None else float(exact)


def _marked(value: float | None, evidence_class: str | None) -> str:
    """A figure with the mark of its own evidence class."""
    return _text(value) if value is None else f"{_text(value)} {MARKS[evidence_class]}"


def _classes(candidate: dict[str, Any]) -> str:
    """The classes behind the marks in words; grams are named only where they differ from the joules."""
    joules, grams = candidate["evidence_class"], candidate["carbon_evidence_class"]
    if joules is None:
        return "none"
    return joules if grams in (None, joules) else f"J {joules}, g {grams}"


def age(seconds: float | None) -> str:
    """An age in the largest fitting unit: `2 min`, `3 h`, `2 d`."""
    if seconds is None:
        return "—"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def starting(settings: Settings, *, as_json: bool) -> None:
    url = f"http://{settings.server.address}:{settings.server.port}"
    if as_json:
        document({"url": url, "home": str(settings.home), "warehouse": str(settings.warehouse_path)})
        sys.stdout.flush()
    else:
        _out.print(f"joulebook starts on [bold]{url}[/bold]  (warehouse {escape(str(settings.warehouse_path))})")


def doctor(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    marks = {"ok": "✓ ok", "warning": "△ warning", "bad": "⬡ bad"}
    _grid(
        ["check", "state", "what", "fix"],
        [(c["check"], marks[c["state"]], c["what"], c["fix"] or "") for c in told["checks"]],
    )


def run(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    if told["state"] == "FAILED":
        return error(told["error"], told["fix"] or "")
    if told["not_modified"]:
        _out.print(f"{told['source_id']}: nothing changed")
        return None
    _out.print(
        f"{told['source_id']}: {told['state']}, {told['rows_in']} rows in, {told['rows_loaded']} loaded, "
        f"{told['rows_unchanged']} unchanged, {told['rows_quarantined']} quarantined"
    )
    for note in told["notes"]:
        _out.print(f"  {escape(note)}")
    return None


def sources(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    _grid(
        ["source", "kind", "freshness", "age", "last run", "next run", "why"],
        [
            (
                s["source_id"],
                s["kind"],
                _STATE_WORDS[s["status"]],
                age(s["age_s"]),
                s["last_state"],
                s["next_run_at"],
                s["why"],
            )
            for s in told["sources"]
        ],
    )
    return None


def ranking(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    if told.get("fallback"):
        _out.print(f"△ fallback to the energy-oblivious policy: {escape(str(told['fallback_reason']))}")
    _grid(
        ["#", "model", "score", "USD/run", "J/run", "gCO2e/run", "n", "evidence", "age"],
        [
            (
                i,
                c["offer_id"],
                c["score"],
                _number(c["cost_usd"]),
                _marked(c["energy_j"], c["evidence_class"]),
                _marked(c["carbon_g"], c["carbon_evidence_class"]),
                c["n"],
                _classes(c),
                age(c["age_s"]),
            )
            for i, c in enumerate(told["eligible"], 1)
        ],
        title=f"eligible, best first (as of {told['as_of']})",
    )
    for c in told["eligible"]:
        for warning in c["warnings"]:
            _out.print(f"△ {escape(c['offer_id'])}: {escape(warning)}")
    if not told["eligible"]:
        _out.print("nothing fits: hand the request back; it is never truncated")
    if told["excluded"]:
        _out.print()
        _grid(
            ["model", "excluded because"],
            [(c["offer_id"], "; ".join(r["text"] for r in c["reasons"])) for c in told["excluded"]],
            title="excluded",
        )
    return None


def recommendations(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    rows = told["recommendations"]
    if not rows:
        _out.print("no recommendations")
        return None
    _grid(
        ["id", "state", "rev", "title", "expires"],
        [(r["id"], r["state"], r["revision"], r["title"], r["expires_at"]) for r in rows],
    )
    return None


def refreshed(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    for word in ("proposed", "revised", "superseded", "expired", "lapsed"):
        if told[word]:
            _out.print(f"{word}: {', '.join(told[word])}")
    for held in told["held"]:
        _out.print(f"held back: {escape(held['title'])}: {escape(held['reason'])}")
    if not any(told[w] for w in ("proposed", "revised", "superseded", "expired", "lapsed")):
        _out.print("nothing new to propose")
    return None


def judged(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    for rec_id, verdict in told["judged"].items():
        _out.print(f"{rec_id}: {verdict}")
    if not told["judged"]:
        _out.print("nothing new to judge")
    return None


def measured(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    for row in told["measured"]:
        _out.print(f"{row['id']}: {row['verdict']}{' (written)' if row['written'] else ''}: {escape(row['why'])}")
    if not told["measured"]:
        _out.print("nothing is being observed")
    return None


def savings(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)

    def shown(metric: dict[str, Any]) -> str:
        if metric["saved_per_success"] is None:
            return f"— ({metric['why']})"
        return f"{metric['saved_per_success']:.4g} {metric['unit']} ({metric['relative']:+.1%})"

    _grid(
        [
            "recommendation",
            "change",
            "joules saved",
            "dollars saved",
            "grams saved",
            "success",
            "incumbent",
            "requests",
        ],
        [
            (
                row["id"],
                row["title"],
                *(shown(row["metrics"][m]) for m in ("energy_j", "billed_cost_usd", "carbon_g")),
                "—" if row["success"]["rate"] is None else f"{row['success']['rate']:.1%}",
                "—" if row["success"]["baseline_rate"] is None else f"{row['success']['baseline_rate']:.1%}",
                row["requests"],
            )
            for row in told["changes"]
        ],
        title="per success, measured against the incumbent's own traffic",
    )
    return None


def recommendation(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    content = told["content"]
    pending = f", {told['pending']} pending" if told.get("pending") else ""
    label = told["label"].partition(", rolling back")[0]
    _out.print(f"[bold]{told['id']}[/bold]  {escape(content['title'])}   {label} rev {told['revision']}{pending}")
    if told.get("progress"):
        _out.print(escape(told["progress"]))
    if told.get("frozen"):
        _out.print(escape(told["frozen"]))
    if content.get("is_sample"):
        _out.print("SAMPLE: made from sample data")
    for line in content.get("summary", []):
        _out.print(f"  {escape(line)}")
    _grid(
        ["target", "sent", "acknowledged", "actuated", "rolled back"],
        [
            (t["target"], t["sent_at"], t["acknowledged_at"], t["actuated_at"], t["rolled_back_at"])
            for t in told["targets"]
        ],
        title="targets",
    )
    _grid(["at", "event", "by"], [(e["at"], e["kind"], e["actor"]) for e in told["timeline"]], title="timeline")
    return None


def table(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    _grid([c["name"] for c in told["columns"]], told["rows"])
    more = f", cut at {told['row_cap']}" if told["truncated"] else ""
    _err.print(f"{len(told['rows'])} rows{more} in {told['elapsed_s']:.2f} s, data as of {told['as_of']}")
    return None


def verification(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    if told["ok"]:
        _out.print(f"✓ the ledger holds: {told['events']} events, head {told['head'][:16]}…")
    for problem in told["problems"]:
        _out.print(f"⬡ {escape(problem)}")
    return None


def rebuilt(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    _out.print(f"{told['payloads']} payloads loaded into {escape(told['into'])}")
    for word in ("failed", "skipped"):
        for line in told[word]:
            _out.print(f"  {word}: {escape(line)}")
    return None


def sample(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    if "loaded" in told:
        _out.print("sample data was loaded already" if told["already_loaded"] else "sample data loaded")
    elif told["was_loaded"]:
        total = sum(told["removed"].values())
        _out.print(f"sample data removed: {total} rows; withdrawn: {', '.join(told['withdrawn']) or 'nothing'}")
    else:
        _out.print("no sample data is loaded")
    return None


def token(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    bound = f", for {', '.join(told['targets'])} only" if told["targets"] else ""
    _out.print(f"{told['id']}  {escape(told['name'])}  scopes {', '.join(told['scopes'])}{bound}")
    _out.print(told["token"])
    _err.print("this text is shown once; only its hash is kept")
    return None


def tokens(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    _grid(
        ["id", "name", "scopes", "targets", "created", "revoked"],
        [
            (t["id"], t["name"], ", ".join(t["scopes"]), t["targets_in_words"], t["created_at"], t["revoked_at"])
            for t in told["tokens"]
        ],
    )
    return None


def idle(told: dict[str, Any]) -> None:
    """Idle power per board, or why it has none."""
    rows = [
        (
            d["name"],
            d["device_uuid"],
            d["device_state"],
            _marked(d["idle_w"], d["evidence_class"]),
            d["quality"],
            "; ".join(d["notes"]),
        )
        for d in told["devices"]
    ]
    _grid(["GPU", "UUID", "state", "idle W", "quality", "notes"], rows)


def attribution(told: dict[str, Any]) -> None:
    """How much of a meter's energy went to requests."""
    _out.print(
        f"{told['windows']} windows of {escape(told['meter'])} ({told['windows_without_energy']} without energy): "
        f"{_marked(told['shared_j'], 'allocated')} J to {told['requests']} requests by {told['method']}, "
        f"{_marked(told['remainder_j'], 'allocated')} J to none"
    )


def downstream(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    _out.print(f"{told['applied']} applied, {told['rolled_back']} rolled back, {told['refused']} refused")
    return None


def bench(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return document(told)
    for name, figures in told["benchmarks"].items():
        _grid(["figure", "value"], list(figures.items()), title=name)
    return None
