"""`joulebook tariffs check` and `joulebook charges totals`: what was billed, and whether the rules explain it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app import cli_print as out
from app.client import ask

tariffs = typer.Typer(help="Tariffs: check them against the bill.", no_args_is_help=True)
charges = typer.Typer(help="Charges: add up the bills in force.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@tariffs.callback()
def _tariffs() -> None:
    """Tariffs: check them against the bill."""


@tariffs.command("check")
def check(
    provider: Annotated[str | None, typer.Option(help="Only this provider.")] = None,
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Check the sample data.")] = False,
    json_: Json = False,
) -> None:
    """Check every tariff, declared or reconstructed, against the bill. Exit code 1 where one does not hold."""
    told = ask("tariffs.check", {"provider": provider, "account": account, "sample": sample})
    if json_:
        out.document(told)
    else:
        _print_checks(told, "/".join(name for name in (provider, account) if name))
    if told["holds"] is False:
        raise typer.Exit(1)


def _print_checks(told: dict[str, Any], only: str) -> None:
    if not told["tariffs"]:
        of = f" of {only}" if only else ""
        out.line(f"no tariff{of} yet: import a usage export, completions or a file of kind tariffs")
    else:
        out.grid(
            ["account", "basis", "from", "until", "USD/kWh", "flex x", "ceiling x", "rows", "explained", "at ceiling",
             "unexplained", "billed USD", "expected USD", "largest residual", "holds"],
            [_row(t) for t in told["tariffs"]],
        )  # fmt: skip
    for tariff in told["tariffs"]:
        for row in tariff["worst"][:3]:
            out.line(
                f"  {row['offer_id']} at {row['start_at']}: billed {row['billed_usd']}, expected "
                f"{float(row['expected_usd']):.6g} ({row['residual_relative'] * 100:+.2f} %)"
            )
    for account in told["without_tariff"]:
        out.line(f"{account['provider']} {account['account']}: no tariff is in force for {account['rows']} billed rows")


def _row(tariff: dict[str, Any]) -> list[Any]:
    residual = tariff["largest_residual_relative"]
    return [
        f"{tariff['provider']} {tariff['account']}",
        f"{tariff['basis']} {out.MARKS[tariff['evidence_class']]}",
        tariff["valid_from"],
        tariff["valid_to"],
        tariff["usd_per_kwh"],
        tariff["flex_multiplier"],
        tariff["list_price_ceiling_multiple"],
        tariff["rows"],
        tariff["explained"] + tariff["below_ceiling"],
        tariff["at_ceiling"],
        tariff["unexplained"],
        f"{float(tariff['billed_usd']):.6g}",
        f"{float(tariff['expected_usd']):.6g}",
        None if residual is None else f"{residual * 100:.3g} %",
        tariff["holds"],
    ]


@charges.callback()
def _charges() -> None:
    """Charges: add up the bills in force."""


@charges.command("totals")
def totals(
    into: Annotated[str | None, typer.Option(help="Also add up in this currency, by dated rates.")] = None,
    on: Annotated[str | None, typer.Option(help="Use no rate after this day, YYYY-MM-DD (default: today).")] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider.")] = None,
    period: Annotated[str | None, typer.Option(help="Only the billing period that holds this day.")] = None,
    as_of: Annotated[str | None, typer.Option(help="The bill as known then, ISO 8601 with zone.")] = None,
    json_: Json = False,
) -> None:
    """Add up the charges in force: per currency, and in one currency only with dated rates."""
    asked = {"into": into, "on": on, "provider": provider, "period": period, "as_of": as_of}
    told = ask("charges.totals", asked)
    if json_:
        out.document(told)
        return
    if not told["subtotals"]:
        out.line("no charges: import a file of kind focus or aws-cur2")
        return
    out.grid(
        ["provider", "account", "billing period", "category", "class", "lines", "billed", "currency", "tokens"],
        [
            [s["provider"], s["account"], s["billing_period_start_at"][:10], s["charge_category"], s["charge_class"],
             s["lines"], s["billed_cost"], s["currency"], s["tokens"]]
            for s in told["subtotals"]
        ],
    )  # fmt: skip
    total = told["total"]
    if total is not None:
        if total["total"] is not None:
            out.line(f"together {float(total['total']):.6f} {total['into']}")
        if total["note"]:
            out.line(f"  {total['note']}")


@charges.command("accounts")
def accounts(json_: Json = False) -> None:
    """List the accounts with their balance and whether they pay for one more request."""
    told = ask("accounts.list")
    if json_:
        out.document(told)
        return
    if not told["accounts"]:
        out.line("no account: import a file of kind neuralwatt-quota")
        return
    out.grid(
        ["provider", "account", "usable", "why", "age"],
        [[a["provider"], a["account"], a["usable"], a["why"], out.age(a["age_s"])] for a in told["accounts"]],
    )
