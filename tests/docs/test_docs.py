"""What an operator reads is true: nothing is missing, links lead somewhere, examples parse, nothing leaks."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs import build
from ingest.kinds import KINDS
from tests.support import ROOT
from warehouse.evidence import EvidenceClass
from warehouse.tables import tables

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BY_HAND = [page for page in PAGES if page.name != "reference.md"]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.S | re.M)


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def reference() -> str:
    return text("docs/reference.md")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language, without the indentation of a list."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        "\n".join(line.removeprefix(indent) for line in body.splitlines())
        for indent, named, body in found
        if named == language
    ]


# complete -------------------------------------------------------------------------------------


def test_the_reference_page_is_what_the_code_says() -> None:
    assert build.build() == reference(), "docs/reference.md lags behind the code. Fix: make docs"


@pytest.mark.parametrize("name", [name for name, *_ in build.settings()])
def test_every_setting_is_documented_with_its_meaning(name: str) -> None:
    row = next((line for line in reference().splitlines() if line.startswith(f"| `{name}` |")), "")
    assert row, f"{name} is not in docs/reference.md. Fix: make docs"
    meaning = row.split("|")[3].strip()
    assert len(meaning) > 5, f"{name} has no docstring in app/sections.py"


@pytest.mark.parametrize("command", list(build.commands()))
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"\| `{re.escape(command)}[ `]", reference())


@pytest.mark.parametrize("table", list(tables()))
def test_every_table_is_documented(table: str) -> None:
    assert f"### {table}\n" in reference()


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_has_a_section_of_its_own(kind: str) -> None:
    pages = [ROOT / "docs" / "sources.md", *sorted((ROOT / "docs" / "sources").glob("*.md"))]
    headings = [line for page in pages for line in page.read_text("utf-8").splitlines() if line.startswith("#")]
    assert any(re.search(rf"(?<![\w-]){re.escape(kind)}(?![\w-])", h) for h in headings), f"no heading names {kind}"
    assert f"| `{kind}` |" in reference()


@pytest.mark.parametrize("call", [f"{method} {path}" for method, path, _ in build.routes()])
def test_every_call_of_the_api_has_an_example(call: str) -> None:
    method, path = call.split()
    assert f"`{call}`" in text("docs/api.md")
    some_id = r"/(?:R-\d{4}|[0-9a-f]{12})"
    address = re.escape(path.split("{")[0].rstrip("/")) + (some_id + re.escape(path.partition("}")[2]))
    wanted = address if "{" in path else re.escape(path)
    if path == "/api/metrics":
        return  # its answer is the table of metrics
    calls = [
        line
        for block in blocks(ROOT / "docs" / "api.md", "console")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("$ curl") and re.search(rf"\$B{wanted}[\s\"?]|\$B{wanted}$", line)
    ]
    verbs = [re.search(r"-X (\w+)", line) for line in calls]
    assert method in [found[1] if found else "GET" for found in verbs], f"docs/api.md has no curl example of {call}"


@pytest.mark.parametrize("metric", [name for name, *_ in build.metrics()])
def test_every_metric_is_documented(metric: str) -> None:
    assert f"`{metric}`" in text("docs/api.md")
    assert f"`{metric}`" in reference()


def test_the_metrics_that_are_documented_are_those_that_are_served() -> None:
    from app.api.metrics import metrics_text
    from app.desk import Desk, open_desk
    from app.settings import load_settings

    desk: Desk = open_desk(load_settings())
    try:
        served = set(re.findall(r"^# TYPE (\w+)", metrics_text(lambda: desk).decode(), re.M))
    finally:
        desk.close()
    documented = {name for name, *_ in build.metrics()}
    assert served <= documented
    assert all("sampler" in name for name in documented - served), "only the sampler's depend on a driver"


def test_every_page_of_the_console_has_its_figures_explained() -> None:
    from app.main import PAGES as CONSOLE

    told = text("docs/measured-or-modelled.md")
    headings = " ".join(re.findall(r"^## (.*)$", told, re.M))
    assert [title for _, title, _ in CONSOLE if title not in headings] == []


def test_every_evidence_class_and_its_mark_are_explained() -> None:
    from app.components.marks import MARKS

    for cls in EvidenceClass:
        assert f"| {MARKS[cls].glyph} | `{cls.value}` |" in text("docs/concepts.md")


def test_every_state_filter_and_guardrail_is_explained() -> None:
    from app.sections import Guardrails
    from policies.recommend.state import State
    from policies.router.filters import ORDER

    assert [s for s in State if s.value not in text("docs/concepts.md")] == []
    listed = re.findall(r"^\| `(\w+)` \|", text("docs/policies.md"), re.M)
    assert [code for code in listed if code in ORDER] == list(ORDER), "the filters, in their order"
    assert [g for g in Guardrails.model_fields if f"`guardrails.{g}`" not in text("docs/policies.md")] == []


def test_every_dotted_setting_that_a_page_names_exists() -> None:
    known = {name for name, *_ in build.settings()}
    sections = {name.partition(".")[0] for name in known if "." in name}
    for page in BY_HAND:
        for name in re.findall(r"`(\w+(?:\.\w+)+)`", page.read_text(encoding="utf-8")):
            if name.partition(".")[0] in sections:
                assert name in known, f"{page.name} names the setting {name}, which is not there"


# true -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for label, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: [{label}] leads to {target}, which is not there"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: [{label}] leads to #{anchor}, which {found.name} has not"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as git hosts make them."""
    heads = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.M))
    for page in PAGES:
        for name in re.findall(r"`(?:[A-Z_]+=\S+ )?make (?:[A-Z_]+=\S+ )?([a-z]+)`", page.read_text(encoding="utf-8")):
            assert name in targets, f"{page.name} names `make {name}`"
    assert {"up", "test", "install", "lint", "bench", "docs"} <= targets


def shell_lines() -> Iterator[tuple[str, str]]:
    """(page, command line) of every `$ joulebook ...` in a console block."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"\$ (?:\.venv/bin/)?joulebook (.*)$", line)
                if found:
                    yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), list(shell_lines()))
def test_the_commands_that_pages_show_exist_and_parse(page: str, line: str) -> None:
    words = shlex.split(line)
    command: Any = None
    known = build.commands()
    for length in (2, 1):
        command = known.get(" ".join(["joulebook", *words[:length]]))
        if command is not None:
            words = words[length:]
            break
    assert command is not None, f"{page} shows `joulebook {line}`, which is no command"
    context = command.make_context("joulebook", words, resilient_parsing=False)
    assert context.params is not None


@pytest.mark.parametrize("page", BY_HAND, ids=lambda p: p.name)
def test_configuration_examples_are_accepted(page: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.settings import load_settings

    for example in blocks(page, "toml"):
        told = tomllib.loads(example)
        if "client_id" in told.get("auth", {}) or "joulebook" in told:
            continue  # .streamlit/secrets.toml
        (own_home / "joulebook.toml").write_text(example)
        load_settings()


def test_defaults_that_pages_repeat_are_those_of_the_code() -> None:
    defaults = {name: default.strip("`").strip('"') for name, default, _ in build.settings()}
    for page in BY_HAND:
        for name, told in re.findall(r"^\| `(\w+\.\w+)` \| `?([^|`]+?)`? \|", page.read_text(encoding="utf-8"), re.M):
            if name in defaults:
                assert told.strip() == defaults[name], f"{page.name} says {told} for {name}, the code {defaults[name]}"


# fit to be read by anybody ----------------------------------------------------------------------


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


# In parts, so that this file does not find itself.
_INDEX_HOSTS = ["pypi" + ".org", "python" + "hosted.org", "index" + "-url", "trusted" + "-host"]
_MAKERS = [
    "anthro" + "pic",
    "clau" + "de",
    "chat" + "gpt",
    "open" + "ai codex",
    "co-auth" + "ored",
    "generated " + "by ai",
]
_MAKERS += ["/work/" + "shared", "language " + "model assistant"]


def test_no_file_names_a_package_index_or_how_it_was_made() -> None:
    found = []
    for path in tracked():
        if path.suffix in {".png", ".ico"}:
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").lower().splitlines()
        found += [
            f"{path.relative_to(ROOT)}:{i}: {word}"
            for i, line in enumerate(lines, 1)
            for word in (*_INDEX_HOSTS, *_MAKERS)
            if word in line
        ]
    assert found == []


def test_pages_are_written_for_three_in_the_morning() -> None:
    """No exclamation marks, no marketing, lines that a terminal shows (tables and answers excepted)."""
    banned = re.compile(
        r"\b(insight\w*|leverage\w*|seamless\w*|powerful|robust|simply|easily|cutting-edge|delve)\b", re.I
    )
    for page in BY_HAND:
        prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
        for i, line in enumerate(prose.splitlines(), 1):
            if line.startswith("|"):
                continue
            assert not banned.search(line), f"{page.name}: {line}"
            assert "!" not in line.replace("![", ""), f"{page.name}: {line}"
            assert len(line) <= 120 or "](" in line, f"{page.name}, line {i} of its prose is {len(line)} long"


def test_pictures_are_small() -> None:
    for picture in (ROOT / "docs" / "img").glob("*"):
        assert picture.stat().st_size < 200_000, picture.name
