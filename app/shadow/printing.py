"""What `joulebook shadow` prints without --json."""

from __future__ import annotations

from typing import Any

from app import cli_print as out

_METRIC = {"energy_j": "J", "cost_usd": "USD", "carbon_g": "gCO2eq"}


def status(told: dict[str, Any]) -> None:
    logged = told["logged"]
    out.line(
        f"{logged['sampled']:,} of {logged['requests']:,} logged requests of {told['max_age_s'] / 86_400:g} d "
        f"are shadowed (share {told['sample_share']:g}); {told['left']:,} questions left; "
        f"{logged['labelled']:,} have a label, the others count as {told['category_of_unlabelled']}"
    )
    out.grid(
        ["policy", "asked", "agrees", "fell back", "handed back", "tier unknown", "last asked"],
        [
            [p["name"], p["decided"], _share(p["agree_share"]), p["fallback"], p["handed_back"], p["without_tier"],
             p["last_decided_at"]]
            for p in told["policies"]
        ],
    )  # fmt: skip
    if not told["recommendations"]:
        out.line("no recommendation is being shadowed")
        return
    out.grid(
        ["recommendation", "state", "title", "stage", "evidence", "n of planned", "verdict", "margins by"],
        [
            [r["id"], r["label"], r["title"], r["stage"], r["evidence_kind"],
             f"{r['n'] or 0:,} of {r['planned_n']:,}" if r["planned_n"] else r["n"], r["verdict"], r["margins_by"]]
            for r in told["recommendations"]
        ],
    )  # fmt: skip
    for rec in told["recommendations"]:
        if rec["why"]:
            out.line(f"  {rec['id']}: {rec['why']}")


def report(told: dict[str, Any]) -> None:
    agreed = told["agreement"]
    out.line(f"{told['id']}  {told['title']}")
    out.line(
        f"{agreed['n']:,} requests asked about, {agreed['agree']:,} agree ({_share(agreed['agree_share'])}), "
        f"{agreed['fallback']:,} fell back, {agreed['handed_back']:,} handed back"
    )
    out.grid(["served by", "would have chosen", "requests"], [list(c.values()) for c in agreed["matrix"]])
    for reason in told["fallbacks"][:3]:
        out.line(f"  {reason['n']:,} x {reason['fallback_reason']}")
    basis = f"at the mix of {told['mix_basis']}" if told["mix_basis"] else "as the requests came"
    out.line(f"worth by the reference workload, {basis}; an estimate, not a measurement:")
    out.grid(
        ["figure", "served", "chosen", "difference", "95 % over requests", "class", "requests", "note"],
        [
            [f"{_METRIC[name]}/success", w["incumbent"], w["expected"], _change(w["difference"]),
             _span(w), out.MARKS[w["evidence_class"]], f"{w['n']:,} of {w['of']:,}",
             w["note"] or w["interval_note"] or ""]
            for name, w in told["worth"].items()
        ],
    )  # fmt: skip
    out.grid(
        ["served by", "would have chosen", "category", "tier", "size", "requests", "J served", "J chosen"],
        [
            [d["incumbent"], d["chosen"], d["category"], d["tier"], d["size_band"], d["n"], d["incumbent_energy_j"],
             d["expected_energy_j"]]
            for d in told["differences"][:15]
        ],
    )  # fmt: skip
    _gate(told)


def _gate(told: dict[str, Any]) -> None:
    found, shadow = told["gate"], told["shadow"]
    if found is None:
        if shadow is not None:
            out.line(f"gate: not judged yet, {shadow['n'] or 0:,} of {shadow['planned_n']:,} pairs")
        return
    said = found["report"]
    out.line(
        f"gate of {found['stage']}: {found['verdict']} on {found['n']:,} of {found['planned_n']:,} requests "
        f"({found['evidence_kind']}), judged {found['judged_at']}"
    )
    out.grid(
        ["check", "verdict", "words", "method", "n"],
        [[c["name"], c["verdict"], c["words"], c["method"], c["n"]] for c in said["checks"]],
    )
    for warning in said["warnings"]:
        out.line(f"  warning: {warning['category']} stands out as worse (q {warning['q']:.3f})")
    evidence = said["evidence"]
    if evidence["run_noise"]:
        out.line(f"  {evidence['run_noise']['words']}")
    for text in evidence["warnings"]:
        out.line(f"  warning: {text}")
    for other in said["beside"]:
        out.line(f"  beside, not counted: {other['kind']}: {other['words']}")


def request(told: dict[str, Any]) -> None:
    asked = told["request"]
    out.line(
        f"{asked['request_id']}  {asked['requested_at']}  {asked['cell']}  {asked['context_tokens']:,} tokens needed, "
        f"served by {asked['incumbent']}" + ("" if asked["labelled"] else "  (not labelled: category and tier assumed)")
    )
    out.grid(
        ["policy", "would have chosen", "fell back", "why", "J/success", "USD/success", "g/success"],
        [
            [d["recommendation_id"] or d["policy_name"], d["chosen"], d["fallback"], d["fallback_reason"] or "",
             d["expected_energy_j"], d["expected_cost_usd"], d["expected_carbon_g"]]
            for d in told["decisions"]
        ],
    )  # fmt: skip
    if told["reproduced"] is False:
        out.line("the decision cannot be reproduced: a figure of that instant was restated since, or another code ran")
    ranking = told["ranking"]
    if ranking is None:
        out.line(told["note"])
        return
    out.line(
        f"ranking as of {told['as_of']} on the basis {ranking['basis']}, snapshot {ranking['snapshot_digest'][:12]}"
    )
    out.grid(
        ["eligible", "score", "J", "USD", "gCO2eq", "proficiency"],
        [
            [e["offer_id"], e["score"], e["energy_j"], e["cost_usd"], e["carbon_g"], e["proficiency"]]
            for e in ranking["eligible"]
        ],
    )
    out.grid(
        ["excluded", "why"],
        [[e["offer_id"], "; ".join(r["text"] for r in e["reasons"])] for e in ranking["excluded"][:40]],
    )


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.1%}"


def _span(told: dict[str, Any]) -> str:
    return "—" if told["low"] is None else f"{told['low']:+.1%} … {told['high']:+.1%}"


def _change(value: float | None) -> str:
    return "—" if value is None else f"{value:+.1%}"
