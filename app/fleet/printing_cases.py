"""Cases, comparisons, sizes, caps and sensitivity as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app import cli_print as out
from app.fleet.printing_marks import low, marked, percent, spread

_MARKS = out.MARKS


def cases(told: Mapping[str, Any]) -> None:
    """Energy, success, latency, SLO, cost and grams of each case together, then pools."""
    mark, grams = _MARKS[told["evidence_class"]], _MARKS[told["carbon_evidence_class"]]
    allowed = all(g["comparison"]["allowed"] for g in told.get("groups", []))
    rows = []
    for c in told["cases"]:
        f = c["figures"]
        rows.append(
            [c["case_name"], spread(f["j_per_success"]), spread(f["tokens_per_j"]) if allowed else "refused",
             percent(f["success_rate"]["value"]), percent(f["slo_attainment"]["value"]), _at(f["p50_ttft_s"]),
             spread(f["p99_ttft_s"]), _at(f["p99_tpot_s"]), spread(f["p99_e2e_s"]), _at(f["mean_power_w"]),
             _at(f["cost_usd"]), _at(f["carbon_g"])]
        )  # fmt: skip
    out.grid(
        ["case", f"J/success {mark}", f"tok/J {mark}", "success", "within SLO", "TTFT P50 s", "TTFT P99 s",
         "TPOT P99 s", "E2E P99 s", f"W {mark}", "USD", f"gCO2eq {grams}"],
        rows,
    )  # fmt: skip
    out.line("")
    out.grid(
        ["case", "offered", "= completed", "+ rejected", "+ in flight", "rejections", "fallbacks", "active J",
         "idle J", "warm-up J", "wasted J", "ended"],
        [_counts(c) for c in told["cases"]],
    )  # fmt: skip
    out.line("")
    out.grid(
        ["case", "pool", "instances", "boards", "profile", "quality", f"J {mark}", f"W {mark}", "J/success", "served",
         "at once", "slots used", "TTFT P99 s"],
        [_pool(c["case_name"], p) for c in told["cases"] for p in c["pools"]],
    )  # fmt: skip


def _at(figure: Mapping[str, Any]) -> float | None:
    value: float | None = figure["value"]
    return value


def _counts(c: Mapping[str, Any]) -> list[Any]:
    f, n = c["figures"], len(c["seeds"])
    rejections = ", ".join(f"{code} {count / n:g}" for code, count in c["rejections"].items())
    fell = {name: f[f"fallback_{name}"]["value"] for name in ("telemetry", "carbon", "slo")}
    return [
        c["case_name"],
        *(f[name]["value"] for name in ("offered", "completed", "rejected", "in_flight")),
        rejections or "none",
        ", ".join(f"{name} {count:g}" for name, count in fell.items() if count) or "none",
        *(f[name]["value"] for name in ("active_j", "idle_j", "warming_j", "wasted_j")),
        ", ".join(c["ended"]),
    ]


def _pool(name: str, p: Mapping[str, Any]) -> list[Any]:
    f = p["figures"]
    return [
        name,
        p["pool"],
        p["instances"],
        p["boards"],
        f"{p['profile']} {_MARKS[p['evidence_class']]}",
        low(p["quality"]),
        *(f[n]["value"] for n in ("energy_j", "mean_power_w", "j_per_success", "completed", "concurrency")),
        percent(f["utilization"]["value"]),
        f["p99_ttft_s"]["value"],
    ]


def group(told: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    """Policies under one load and cap: pairs against the baseline, and the ranking in words."""
    out.line("")
    if len(report["groups"]) > 1:
        out.line(f"load x{told['load']:g}, {told['cap']:.0%} of full power given back:")
    heads = [
        "against the baseline",
        "baseline",
        "J/success",
        "success",
        "SLO attainment",
        "TTFT P99 s",
        "E2E P99 s",
        "USD",
    ]
    names = ("j_per_success", "success_rate", "slo_attainment", "p99_ttft_s", "p99_e2e_s", "cost_usd")
    out.grid(
        heads,
        [[p["policy"], p["baseline"], *(_paired(p["metrics"].get(n)) for n in names)] for p in told["pairs"]],
    )
    for sentence in told["words"]:
        out.line(sentence)


def _paired(told: Mapping[str, Any] | None) -> str | None:
    if told is None:
        return "refused"
    shown = spread(told["difference"], form="+.3g")
    if shown is None:
        return None
    relative = "" if told["relative"] is None else f" ({told['relative']:+.1%})"
    return f"{shown}{relative} {told['verdict']}"


def sizes(told: Mapping[str, Any]) -> None:
    mark = _MARKS[told["evidence_class"]]
    allowed = told["comparison"] is None or told["comparison"]["allowed"]
    rows = []
    for row in told["sizes"]:
        if row["instances"] is None:
            rows.append([row["name"], None, None, None, None, None, None, None, None, row["why"]])
            continue
        f, verified = row["fleet"], row["verified"]
        rows.append(
            [row["name"], row["instances"], row["boards"], percent(max(p["utilization"] for p in row["pools"])),
             f["ttft_worst_s"], f["power_w"] / 1e3, f["tokens_per_j"] if allowed else "refused", f["j_per_request"],
             f["usd_per_million_output_tokens"], "not asked" if verified is None else verified["words"]]
        )  # fmt: skip
    out.grid(
        ["size", "instances", "boards", "load", f"TTFT P{100 * told['quantile']:g} s", f"kW {mark}", f"tok/J {mark}",
         f"J/request {mark}", "USD/M tokens", "simulation"],
        rows,
    )  # fmt: skip
    if not allowed:
        out.line(f"△ {told['comparison']['why']}")
    peers = [(r["name"], r["peer"]) for r in told["sizes"] if r.get("peer")]
    if peers:
        out.line("")
        out.line("the peer's convention: its tok/W divides what an instance does by the power of ONE of its boards")
        out.grid(
            ["peer", "GPUs as it says", "paper_normalised_tokens_per_j", "W of one board", "kW of one board each",
             "P99 s", "USD/M as it says", "tok/J physical"],
            [_peer(name, p) for name, p in peers],
        )  # fmt: skip
    out.line("")


def _peer(name: str, told: Mapping[str, Any]) -> list[Any]:
    if told["fleet"] is None:
        return [name, told["why"], None, None, None, None, None, None]
    f, pools = told["fleet"], told["pools"]
    usd = pools[0]["paper_normalised_usd_per_million_output_tokens"] if len(pools) == 1 else None
    board = pools[0]["board_power_w"] if len(pools) == 1 else None
    return [name, f["instances"], f["paper_normalised_tokens_per_j"], board, f["paper_normalised_power_w"] / 1e3,
            f["ttft_worst_s"], usd, f["tokens_per_j"]]  # fmt: skip


def levels(told: Mapping[str, Any]) -> None:
    mark = _MARKS[told["evidence_class"]]
    rows = []
    for row in told["levels"]:
        analytic = (row["analytic"] or {}).get("result")
        simulated, slots = row["simulated"], row["slots"]
        f = {} if simulated is None else simulated["figures"]
        rows.append(
            [f"{row['reduction']:.0%}", None if slots is None else ", ".join(map(str, slots.values())) or "all",
             *(None if analytic is None else analytic[n] for n in ("power_w", "j_per_request", "ttft_s")),
             *(f[n]["value"] if n in f else None for n in ("mean_power_w", "j_per_success", "p99_ttft_s")),
             "; ".join(row["words"])]
        )  # fmt: skip
    out.grid(
        ["given back", "slots", f"W {mark}", f"J/request {mark}", "TTFT s", f"W sim {mark}", f"J/success sim {mark}",
         "TTFT P99 sim s", "what it means"],
        rows,
    )  # fmt: skip
    best = told["largest_within_slo"]
    out.line("no level keeps the SLO" if best is None else f"up to {best:.0%} the SLO is kept")
    peer = told["peer"]
    if peer:
        out.line("")
        out.line(f"the peer's convention: {peer['why'] or 'power of one full board at the cap, whatever the load'}")
        out.grid(
            ["given back", "slots", "W of one board", "kW of one board each", "P99 s", "SLO"],
            [[f"{r['reduction']:.0%}", r["concurrency_cap"], r["result"] and r["result"]["board_power_w"],
              r["result"] and r["result"]["paper_normalised_power_w"] / 1e3, r["result"] and r["result"]["ttft_s"],
              r["result"] and r["result"]["slo_met"]] for r in peer["levels"]],
        )  # fmt: skip
    out.line("")


def sensitivity(told: Mapping[str, Any]) -> None:
    mark = _MARKS[told["evidence_class"]]
    out.line("")
    out.line(
        f"{told['first']} less {told['second']}: {told['difference']:+.4g} J per success {mark}, standard deviation "
        f"{told['difference_sd']:.4g} under the errors below"
    )
    out.grid(
        ["input one sd off", "sd", "J, below", "J, above", "flips", "below, if known", "above, if known"],
        [
            [t["input"], percent(t["sd_relative"]), t["low"], t["high"], t["flips"],
             (t["decided_by_truth"] or {}).get("low"), (t["decided_by_truth"] or {}).get("high")]
            for t in told["tornado"]
        ],
    )  # fmt: skip
    out.grid(
        ["Sobol", "first order", "total", "exact"],
        [[i["input"], i["first_order"], i["total"], i["exact"]] for i in told["sobol"]["indices"]],
    )
    out.grid(
        ["break-even", "relative error", "in sd"],
        [[b["input"], percent(b["relative_error"]), b["in_sd"]] for b in told["break_even"]],
    )
    if told["break_even_common"] is not None:
        out.line(f"all inputs {told['break_even_common']:.2%} off in the worst direction make the two equal")
    flip = told["flip"]
    out.line(f"flip probability {flip['probability']:.4f} ± {flip['standard_error']:.4f} ({flip['draws']} draws)")
    out.line(f"least joules: {', '.join(f'{name} {p:.1%}' for name, p in told['best'].items())}")
    out.line(told["verdict"])


__all__ = ["cases", "group", "levels", "marked", "sensitivity", "sizes"]
