"""What `joulebook fleet` prints without `--json`. Every figure of energy carries the mark of its evidence class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app import cli_print as out
from app.fleet.printing_cases import cases, group, sensitivity, sizes
from app.fleet.printing_cases import levels as flex_levels
from app.fleet.printing_marks import low, marked, percent

_MARKS = out.MARKS


def profiles(told: Mapping[str, Any]) -> None:
    out.grid(
        ["profile", "model", "boards", "form", "W at 1", "W at most", "evidence", "label", "computed", "usable"],
        [
            [p["ask_for"], p["logical_model"], f"{p['hardware_count']} x {p['hardware_model']}", p["form"],
             p["curve"][0]["power_w"], max(c["power_w"] for c in p["curve"]),
             f"{_MARKS[p['evidence_class']]} {p['evidence_class']}", low(p["quality"]), low(p["quality_computed"]),
             "yes" if not p["missing"] else f"needs {', '.join(p['missing'])}"]
            for p in told["profiles"]
        ],
    )  # fmt: skip
    out.line("W are of an instance, all its boards. LOW: for simulation only, no fact about production.")


def workloads(told: Mapping[str, Any]) -> None:
    if told["traces"]:
        out.grid(
            ["trace", "requests", "seconds", "prompt", "output", "age"],
            [[t["trace"], t["requests"], t.get("duration_s"), t.get("prompt_tokens_mean"), t.get("output_tokens_mean"),
              out.age(t["age_s"])] for t in told["traces"]],
        )  # fmt: skip
    else:
        out.line("no trace is there: import one with `joulebook import request-trace FILE`")
    if told["cdfs"]:
        out.grid(["distribution", "knots", "citation"],
                 [[c["cdf"], c.get("knots"), c.get("citation")] for c in told["cdfs"]])  # fmt: skip
    out.line(f"policies: {', '.join(told['policies'])}")


def backends(told: Mapping[str, Any]) -> None:
    if not told["backends"]:
        out.line("no backend is known: import backends or serving telemetry, or meter replicas (power.replicas)")
        return
    out.grid(
        ["backend", "boards", "zone", "W", "age", "running", "waiting", "KV", "J/success", "model", "residual rms"],
        [_backend(b) for b in told["backends"]],
    )
    out.line("W and J are of all boards, as metered. Residual: measured less modelled, relative to measured.")


def _backend(b: Mapping[str, Any]) -> list[Any]:
    power, telemetry, profile = b["power"], b["telemetry"], b["profile"]
    joules = [str(marked(j["value"], j["evidence_class"])) for j in b["j_per_success"] if j["value"] is not None]
    seen = [a["age_s"] for a in (power, telemetry) if a is not None]
    boards = None if b["hardware_model"] is None else f"{b['hardware_count'] or '?'} x {b['hardware_model']}"
    return [
        b["backend_id"],
        boards,
        b["zone"],
        None if power is None else marked(power["power_w"], power["evidence_class"]),
        out.age(max(seen) if seen else None),
        None if telemetry is None else telemetry["running_requests"],
        None if telemetry is None else telemetry["waiting_requests"],
        percent(None if telemetry is None else telemetry["kv_cache_utilization"]),
        ", ".join(joules) or None,
        b["profile_why"] if profile is None else f"{profile['name']} {_MARKS[profile['evidence_class']]}",
        percent(b["residual_relative_rms"]),
    ]


def calibrated(told: Mapping[str, Any]) -> None:
    calibrations(told, whole=False)
    out.line(f"{told['windows']} windows, {told['stored']} new calibrations stored")
    if told["unbound_windows"]:
        out.line(f"△ {told['unbound_windows']} windows do not say what they were measured on and are left out")
    for left in told["left_out"]:
        out.line(f"△ no {left['quantity']} of {left['binding']}: {left['why']}")


def calibrations(told: Mapping[str, Any], *, whole: bool) -> None:
    if not told["calibrations"]:
        out.line("no calibration is there: fit one with `joulebook fleet calibrate`")
        return
    out.grid(
        ["calibration", "of", "form", "binding", "windows", "at once", "residual", "hold-out", "coverage", "quality"],
        [
            [c["calibration_id"][:12], f"{c['quantity']} {_MARKS[c['evidence_class']]}", c["form"], c["binding_words"],
             c["n"], f"{c['concurrency_min']:g}–{c['concurrency_max']:g}", percent(c["residual_relative"]),
             percent(c["holdout_error_relative"]), percent(c["coverage"]), low(c["quality"])]
            for c in told["calibrations"]
        ],
    )  # fmt: skip
    if not whole:
        return
    found = told["calibrations"][0]
    for why in found["why"]:
        out.line(f"△ {why}")
    out.grid(
        ["requests at once", f"fitted, {found['unit']}", "low", "high"],
        [[b["concurrency"], b["value"], b["low"], b["high"]] for b in found["band"][::5]],
    )
    out.grid(
        ["requests at once", "measured", "fitted", "residual"],
        [[p["concurrency"], marked(p["observed"], p["evidence_class"]), p["fitted"], percent(p["residual_relative"])]
         for p in found["points"]],
    )  # fmt: skip


def runs(told: Mapping[str, Any]) -> None:
    if not told["runs"]:
        out.line("no experiment is stored: run one with `joulebook fleet simulate --pool H100-80GB:4 …`")
        return
    out.grid(
        ["run", "experiment", "title", "finished", "joules", "quality", "seeds", "scenario", "by"],
        [
            [r["id"], r["experiment"], r["title"], r["finished_at"],
             f"{_MARKS[r['evidence_class']]} {r['evidence_class']}", low(r["quality"]), len(r["seeds"]),
             r["scenario_sha256"][:12], r["actor"]]
            for r in told["runs"]
        ],
    )  # fmt: skip


def report(told: Mapping[str, Any]) -> None:
    """The whole report as tables and sentences."""
    name = f"run {told['id']}" if told["id"] else "not stored"
    out.line(f"{told['title']}: {name}, as of {told['as_of']}")
    work = told["workload"]
    out.line(
        f"{work['requests']} requests ({work['title']}), {work['prompt_tokens_mean']:.0f} prompt and "
        f"{work['output_tokens_mean']:.0f} output tokens on average; {len(told['seeds'])} seeds"
    )
    for words in told["words"]:
        out.line(f"{_MARKS[told['evidence_class']]} {words}")
    for note in [*told["notes"], *(told["intensity"]["reasons"] if told["scenario"].get("intensity") else [])]:
        out.line(f"△ {note}")
    out.line("")
    if told["experiment"] == "size":
        sizes(told)
    elif told["experiment"] == "flex":
        flex_levels(told)
    if told["cases"]:
        cases(told)
    for each in told.get("groups", []):
        group(each, told)
    if told["experiment"] == "sensitivity":
        sensitivity(told)
    out.line(f"scenario {told['scenario_sha256'][:16]}…, report {told['report_sha256'][:16]}…, seeds {told['seeds']}")
