"""`joulebook prices ...`: list prices beside a second source."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import ask

prices = typer.Typer(help="List prices: compare them with a second source.", no_args_is_help=True)


@prices.callback()
def _group() -> None:
    """List prices: compare them with a second source."""


@prices.command("check")
def check(
    provider: Annotated[str | None, typer.Option(help="Only this provider, such as openrouter.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many warnings.", min=1, max=10_000)] = 200,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Compare the list prices in force with those of the genai-prices package. What differs is a warning only."""
    told = ask("prices.crosscheck", {"provider": provider, "limit": limit})
    if json_:
        out.document(told)
        return
    out.line(
        f"{told['compared']} prices compared: {told['agree']} agree, {told['differ']} differ; "
        f"{told['not_comparable']} cannot be compared."
    )
    if told["warnings"]:
        out.grid(
            ["provider", "offer", "component", "from tokens", "here", "there", "unit", "compared with", "as of"],
            [_row(w) for w in told["warnings"]],
        )


@prices.command("reprice")
def reprice(
    provider: Annotated[str | None, typer.Option(help="Only this provider, such as neuralwatt.")] = None,
    days: Annotated[int, typer.Option(help="Requests of this many days.", min=1, max=366)] = 7,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Price the newest requests by the list, beside what was billed; say what has no price."""
    told = ask("prices.reprice", {"provider": provider, "days": days})
    if json_:
        out.document(told)
        return
    mark = out.MARKS
    out.grid(
        ["provider", "requests", "at list price, USD", "billed, USD", "billed requests", "newest", "note"],
        [
            [p["provider"], p["requests"], f"{p['list_usd'] or '—'} {mark[p['list_evidence_class']]}",
             f"{p['billed_usd'] or '—'} {mark[p['billed_evidence_class']]}", p["billed_requests"], p["newest_at"],
             p["note"]]
            for p in told["providers"]
        ],
    )  # fmt: skip


def _row(warning: dict[str, Any]) -> list[Any]:
    return [
        warning["provider"], warning["offer_id"], warning["component"], warning["min_prompt_tokens"],
        warning["our_price"], warning["other_price"], warning["unit"],
        f"{warning['other_source']}: {warning['other_model']}", warning["as_of"],
    ]  # fmt: skip
