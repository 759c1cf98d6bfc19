"""Exports of a recommendation: choose the software, apply or roll back, and take the documents with their manifest."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import command, in_words
from app.components.format import literal

WAYS = {"apply": "apply", "rollback": "roll back"}


def section(rec_id: str) -> None:
    """Shown when it is opened: working out what can be exported reads the whole routing table."""
    opened = st.expander("Export for what you run", key=f"exports-{rec_id}", type="compact", on_change="rerun")
    if not opened.open:
        return
    with opened, in_words():
        _choose(rec_id)


def _choose(rec_id: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        draft = st.toggle(
            "Draft",
            key=f"export-draft-{rec_id}",
            help="A document to look at before the approval: marked as a draft, its content is not frozen",
        )
        told = command("recommend.exports", {"id": rec_id, "draft": draft})
        formats = {f["format"]: f for f in told["formats"]}
        chosen = st.selectbox(
            "Format",
            list(formats),
            format_func=lambda name: f"{name}: {formats[name]['about']}",
            key=f"export-format-{rec_id}",
            width=460,
        )
        way = st.segmented_control(
            "Document",
            list(WAYS),
            default="apply",
            required=True,
            format_func=WAYS.__getitem__,
            key=f"export-way-{rec_id}",
        )
    found = formats[chosen or next(iter(formats))]
    item = found[way or "apply"]
    _download(rec_id, found["format"], way or "apply", item, draft=draft)


def _download(rec_id: str, name: str, way: str, item: Mapping[str, Any], *, draft: bool) -> None:
    if not item["allowed"]:
        st.button("Download", key=f"export-none-{rec_id}", disabled=True, help=literal(item["why_not"]))
        shapes.note(f"Not now: {item['why_not']} What to do: {item['fix'] or 'read it again'}")
        return
    told = command("recommend.export", {"id": rec_id, "format": name, "only": way, "draft": draft})
    manifest = told["manifest"]
    st.download_button(
        f"Download {len(told['files'])} files",
        data=archive(told),
        file_name=f"{rec_id}-{name}-{way}{'-draft' if draft else ''}.zip",
        mime="application/zip",
        key=f"export-get-{rec_id}-{name}-{way}",
        type="primary",
        on_click="ignore",
    )
    rows = [(f'<span class="jb-id">{f["name"]}</span>', f"{len(f['text'].encode()):,} B") for f in told["files"]]
    shapes.show(shapes.table_html(("file", "size"), rows, numeric=(1,)))
    share = f"{told['share']:.0%} of the traffic" if told.get("share") is not None else ""
    expires = manifest.get("expires_at")
    facts = (share, f"stage {told['stage']}", f"expires {expires}" if expires else "", "DRAFT" if told["draft"] else "")
    st.caption(literal(" · ".join(f for f in facts if f)))
    first = next((f for f in told["files"] if f["kind"] != "manifest"), told["files"][0])
    language = "json" if "json" in first["media_type"] else "yaml"
    st.code(first["text"], language=language, height=280)


def archive(told: Mapping[str, Any]) -> bytes:
    """The files as one ZIP, byte for byte the same for the same documents."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as out:
        for file in told["files"]:
            out.writestr(zipfile.ZipInfo(file["name"], (1980, 1, 1, 0, 0, 0)), file["text"])
    return held.getvalue()
