"""What `joulebook replay` prints without `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app import cli_print as out
from app.replay.printing_blocks import block

_MARKS = out.MARKS


def datasets(told: Mapping[str, Any]) -> None:
    rows = told["datasets"]
    recorded = [d for d in rows if d["kind"] == "outcomes"]
    if recorded:
        out.grid(
            ["data set", "queries", "arms", "coverage", "benchmarks", "split", "joules", "with text", "age"],
            [
                [d["dataset"], d["queries"], len(d["arms"]), f"{d['coverage']:.1%}", ", ".join(d["benchmarks"]),
                 ", ".join(f"{n} {k}" for k, n in d["splits"].items()), _joules(d), d["queries_with_text"],
                 out.age(d["age_s"])]
                for d in recorded
            ],
        )  # fmt: skip
    else:
        out.line(
            "no outcomes are recorded: import a file of kind outcomes, zeroeval, llmrouter, routellm or routerbench"
        )
    out.line("")
    out.grid(
        ["published", "points", "queries", "hypervolume", "reference point", "origin"],
        [
            [d["dataset"], d["points"], d["n"], f"{d['hypervolume']:.4f}", reference(d["reference_point"]), d["origin"]]
            for d in rows
            if d["kind"] == "published"
        ],
    )


def _joules(dataset: Mapping[str, Any]) -> str:
    """Where the joules of a data set come from."""
    if dataset["evidence_classes"]:
        return f"{', '.join(dataset['evidence_classes'])} in {dataset['cells_with_energy']} cells"
    joined = len(dataset["joined_arms"])
    return f"by GPU and batch for {joined} arms" if joined > 1 else "none"


def runs(told: Mapping[str, Any]) -> None:
    if not told["runs"]:
        out.line("no run is stored: start one with `joulebook replay run --dataset published`")
        return
    out.grid(
        ["run", "data set", "finished", "conditions", "train", "test", "hypervolume", "by"],
        [
            [r["run_id"], r["dataset"], r["finished_at"], r["conditions"], r["n_train"], r["n_test"],
             ", ".join(f"{b['hypervolume']:.4f}" for b in r["blocks"] if b["hypervolume"] is not None), r["actor"]]
            for r in told["runs"]
        ],
    )  # fmt: skip


def report(told: Mapping[str, Any]) -> None:
    """The whole report as tables and sentences."""
    _head(told)
    if told["kind"] == "published":
        _published(told)
        return
    for each in told["blocks"]:
        block(each)
    _across(told)
    if "choices_file" in told:
        out.line(f"{told['choices_file']['rows']} choices written to {told['choices_file']['path']}")


def reference(point: Mapping[str, Any]) -> str:
    return f"accuracy {point['accuracy']:g} at {point['energy_j']:g} J ({point['version']})"


def _head(told: Mapping[str, Any]) -> None:
    name = f"run {told['id']}" if told["id"] else "not stored"
    out.line(f"{told['dataset']}: {name}, as of {told['as_of']}")


def _published(told: Mapping[str, Any]) -> None:
    out.line(f"hypervolume {told['hypervolume']:.4f} against {reference(told['reference_point'])}")
    _points(told)
    both = told["with_fixed_arms"]
    if both:
        out.line("")
        out.line(f"with {', '.join(both['added'])}: hypervolume {both['hypervolume']:.4f}")
        _points(both)
    out.line("")
    for sentence in told["statements"]:
        out.line(sentence)
    _adds_up(told)


def _points(told: Mapping[str, Any]) -> None:
    out.grid(
        ["policy", "front", "accuracy", "J/query", "J/correct", "s", "W of calls", "W energy/time", "dominated by"],
        [
            [p["policy"], "on" if p["on_front"] else "", f"{p['accuracy']:.3f}",
             f"{p['energy_j']:.1f} {_MARKS[p['evidence_class']]}", p["energy_j_per_correct"], p["latency_s"],
             p["power_w_mean_of_calls"], p["power_w_energy_over_time"], ", ".join(p["dominated_by"])]
            for p in told["points"]
        ],
    )  # fmt: skip


def _across(told: Mapping[str, Any]) -> None:
    """The same choices under every condition."""
    if len(told["blocks"]) < 2:
        return
    out.line("")
    out.line("the same choices under each condition, J/query:")
    out.grid(
        ["policy", "accuracy", *told["conditions"]],
        [
            [
                a["policy"],
                a["accuracy"],
                *(
                    "—" if joules is None else f"{joules:.4g} {_MARKS[cls]}{' front' if on else ''}"
                    for joules, cls, on in zip(a["energy_j_per_query"], a["evidence_class"], a["on_front"], strict=True)
                ),
            ]
            for a in told["across"]
        ],
    )


def _adds_up(told: Mapping[str, Any]) -> None:
    checks = told["adds_up"]
    if not checks:
        return
    out.line("")
    out.line("by benchmark, added up with the counts of the held-out questions:")
    out.grid(
        ["policy", "questions", "right", "accuracy", "as told", "J/query", "as told"],
        [
            [c["policy"], c["n"], c["correct"], f"{c['accuracy']:.4f}", c["accuracy_told"],
             None if c["energy_j"] is None else f"{c['energy_j']:.1f}", c["energy_j_told"]]
            for c in checks
        ],
    )  # fmt: skip


def trained(told: Mapping[str, Any]) -> None:
    """What a training came to."""
    spent = "" if told["training_energy_j"] is None else f", {told['training_energy_j']:.4g} J {_MARKS['modeled']}"
    out.line(
        f"trained:{told['id'][:12]}  {told['name']} on {told['n_train']} queries of {told['dataset']} in "
        f"{told['training_s']:.1f} s{spent}{'' if told['stored'] else '; the same controller was kept before'}"
    )
    if told["collapsed"]:
        out.line("△ collapsed: it all but stopped to choose")
    held, against = told["held_out"], told["against"]
    if held is not None and held["accuracy"] is not None:
        cls = told["evidence_class"]
        joules = held["energy_j_per_query"]
        energy = "joules unknown" if joules is None else f"{joules:.4g} J {_MARKS[cls]} per query"
        out.line(f"held out: accuracy {held['accuracy']:.3f}, {energy}, on {told['n_test']} queries")
        mix = ", ".join(f"{share:.1%} {arm}" for arm, share in held["mix"].items())
        out.line(f"selection: {mix}")
    if against is not None and against["paired"]["accuracy_difference"][0] is not None:
        diff, ratio = against["paired"]["accuracy_difference"], against["paired"]["energy_ratio"]
        parts = f"{100 * diff[0]:+.1f} points [{100 * diff[1]:.1f}, {100 * diff[2]:.1f}]"
        if ratio[0] is not None:
            parts += f", {ratio[0]:.3g} [{ratio[1]:.3g}, {ratio[2]:.3g}] times the joules"
        out.line(f"against always-{against['arm']}: {parts}")
        if against["break_even_queries"] is not None:
            out.line(f"training has paid for itself after {against['break_even_queries']:.4g} queries")


def controllers(told: Mapping[str, Any]) -> None:
    if not told["trained"]:
        out.line("no controller is trained: train one with `joulebook replay train --dataset NAME`")
        return
    out.grid(
        ["policy", "name", "data set", "train", "trained", "s", "J", "embedder", "by"],
        [
            [f"trained:{t['id'][:12]}", t["name"], t["dataset"], t["n_train"], t["trained_at"], t["training_s"],
             t["training_energy_j"], t["embedder"], t["actor"]]
            for t in told["trained"]
        ],
    )  # fmt: skip
