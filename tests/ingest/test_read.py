"""Whatever is no data is refused with a message that says what came."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pytest

from ingest.base import Payload
from ingest.errors import PayloadError, PayloadTooLarge
from ingest.read import read_file, read_json
from tests.ingest.samples import NOW, payload


def test_fractions_keep_every_digit() -> None:
    # the longest price of the OpenRouter listing of 2026-05-15
    told = read_json(payload('{"p": 0.00000008333333333333334, "n": 3}'))
    assert told == {"p": Decimal("0.00000008333333333333334"), "n": 3}
    assert isinstance(told["p"], Decimal)


def test_a_byte_order_mark_is_ignored() -> None:
    assert read_json(payload(b'\xef\xbb\xbf{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
        (b"\n <html>", "a web page"),
        (b"<?xml version='1.0'?><a/>", "markup"),
        (b'{"data": [1, 2', "truncated"),
        (b'{"data": "un', "truncated"),
        (b"Bad Gateway", "not JSON"),
        (b'{"a": 1} trailing', "not JSON"),
        (b'{"a": "\xff\xfe"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
        (gzip.compress(b"{}", mtime=0), "gzip"),
        (b"[" * 200_000, "nests deeper"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "Infinity is not JSON"),
        (b"9" * 10_000, "cannot be read"),
        (b'{"a": 1e99999999999999999999}', "cannot be read"),
    ],
)
def test_what_is_no_data_is_named(body: bytes, said: str) -> None:
    with pytest.raises(PayloadError) as caught:
        read_json(payload(body))
    assert said in str(caught.value)
    assert caught.value.source_id == "src-test"
    assert str(caught.value).startswith("src-test: ")
    assert not caught.value.transient


def test_nan_can_be_left_to_the_fields() -> None:
    told = read_json(payload('{"a": NaN, "b": Infinity}'), allow_nan=True)
    assert told["a"].is_nan()
    assert told["b"].is_infinite()


def test_half_characters_cannot_break_the_store() -> None:
    told = read_json(payload(r'{"\ud800": ["a\udfffb", "\ud83d\ude00"]}'))
    assert told == {"\ufffd": ["a\ufffdb", "😀"]}


def test_the_message_quotes_only_the_beginning() -> None:
    with pytest.raises(PayloadError) as caught:
        read_json(payload("<html>" + "x" * 10_000))
    assert len(str(caught.value)) < 300


class TestFiles:
    def read(self, path: Path, max_bytes: int = 1000) -> Payload:
        return read_file(path, source_id="file:x", kind="openrouter", max_bytes=max_bytes, now=NOW)

    def test_a_plain_and_a_gzip_file_are_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(b'{"a": 1}')
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"a": 1}', mtime=0))
        plain, packed = self.read(tmp_path / "a.json"), self.read(tmp_path / "a.json.gz")
        assert plain.body == packed.body == b'{"a": 1}'
        assert plain.url == (tmp_path / "a.json").as_uri()
        assert plain.fetched_at == NOW
        assert plain.http_status is None

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(PayloadError, match=r"nothing\.json"):
            self.read(tmp_path / "nothing.json")

    @pytest.mark.parametrize(
        "body", [b"x" * 1001, gzip.compress(b"x" * 1001, mtime=0), gzip.compress(bytes(50_000_000), mtime=0)]
    )
    def test_more_than_the_kind_allows_is_refused(self, tmp_path: Path, body: bytes) -> None:
        (tmp_path / "big").write_bytes(body)
        with pytest.raises(PayloadTooLarge, match="1000 bytes"):
            self.read(tmp_path / "big")

    def test_exactly_as_much_as_the_kind_allows_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "fits").write_bytes(gzip.compress(b"x" * 1000, mtime=0))
        assert len(self.read(tmp_path / "fits").body) == 1000

    @pytest.mark.parametrize(
        "body", [gzip.compress(b"x" * 500, mtime=0)[:-12], gzip.compress(b"x", mtime=0)[:12] + b"garbage"]
    )
    def test_broken_gzip_is_refused(self, tmp_path: Path, body: bytes) -> None:
        (tmp_path / "bad.gz").write_bytes(body)
        with pytest.raises(PayloadError, match="gzip"):
            self.read(tmp_path / "bad.gz")
