"""Configuration: file, environment, secrets; every mistake in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import ConfigError
from app.logs import redact
from app.secret_store import secret, sign_in_configured
from app.settings import load_settings, unknown_environment


def write(home: Path, text: str) -> None:
    (home / "joulebook.toml").write_text(text)


def test_without_a_file_the_keyless_public_sources_are_on(own_home: Path) -> None:
    settings = load_settings()
    on = {name for name, source in settings.sources.items() if source.enabled}
    assert on == {"openrouter", "uk-carbon", "uk-carbon-forecast"}
    assert settings.warehouse_path == own_home / "joulebook.duckdb"
    assert (settings.server.address, settings.server.port) == ("127.0.0.1", 8501)


def test_the_file_is_laid_over_the_defaults_and_the_environment_over_the_file(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(own_home, '[server]\nport = 9000\n[sources.openrouter]\ncadence = "5 min"\n[weights]\neco = 0.5\n')
    monkeypatch.setenv("JOULEBOOK_PORT", "9100")
    monkeypatch.setenv("JOULEBOOK_WEIGHTS__COST", "0.1")
    settings = load_settings()
    assert settings.server.port == 9100
    assert settings.sources["openrouter"].cadence == 300
    assert settings.sources["openrouter"].kind == "openrouter"
    assert (settings.weights.cost, settings.weights.eco, settings.weights.prof) == (0.1, 0.5, 0.4)
    assert "uk-carbon" in settings.sources


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[sources.openrouter]\ncadence = 300\n", "sources.openrouter.cadence: 300 has no unit"),
        ('[sources.openrouter]\ncadence = "often"\n', "'often' is not a duration"),
        ("[server]\nport = 99999\n", "server.port"),
        ("[weights]\ncost = -1\n", "weights.cost"),
        ("[wieghts]\ncost = 1\n", "wieghts: Extra inputs are not permitted"),
        ("this is not toml", "not valid TOML"),
        ("[guardrails]\nmin_gain = 2\n", "guardrails.min_gain"),
        ('[sources.openrouter]\ncadence = "0 s"\n', "0 s is shorter than 10 s"),
        ('[sources.x]\nkind = "openruoter"\n', "sources.x: there is no kind 'openruoter'"),
        ('[sources.x]\nkind = "neuralwatt-usage"\n', "sources.x: The source 'x' has no URL"),
    ],
)
def test_a_mistake_names_the_setting_and_what_is_wrong(own_home: Path, text: str, told: str) -> None:
    write(own_home, text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert told in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_files_that_are_not_text_are_refused_in_words(own_home: Path) -> None:
    (own_home / "joulebook.toml").write_bytes(b"\xff\xfe[\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings()
    (own_home / "joulebook.toml").unlink()
    (own_home / ".streamlit").mkdir()
    (own_home / ".streamlit" / "secrets.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"secrets\.toml"):
        secret(load_settings(), "any")


def test_a_port_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOULEBOOK_PORT", "http")
    with pytest.raises(ConfigError, match=r"server\.port"):
        load_settings()


def test_a_misspelt_variable_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOULEBOOK_OFLINE", "true")
    monkeypatch.setenv("JOULEBOOK_SECRET_X", "s")
    assert unknown_environment() == ["JOULEBOOK_OFLINE"]


def test_secrets_come_from_the_environment_or_the_secrets_file_and_never_show(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings()
    assert secret(settings, "neuralwatt-key") is None
    (own_home / ".streamlit").mkdir()
    (own_home / ".streamlit" / "secrets.toml").write_text('[joulebook]\nneuralwatt-key = "from-the-file"\n')
    found = secret(settings, "neuralwatt-key")
    assert found is not None
    assert found.get_secret_value() == "from-the-file"
    monkeypatch.setenv("JOULEBOOK_SECRET_NEURALWATT_KEY", "from-the-environment")
    found = secret(settings, "neuralwatt-key")
    assert found is not None
    assert found.get_secret_value() == "from-the-environment"
    assert "from-the" not in f"{found} {found!r}"


def test_sign_in_needs_a_provider_a_cookie_secret_and_an_operator(own_home: Path) -> None:
    assert not sign_in_configured(load_settings())
    (own_home / ".streamlit").mkdir()
    (own_home / ".streamlit" / "secrets.toml").write_text(
        '[auth]\nclient_id = "c"\nclient_secret = "x"\ncookie_secret = "s"\n'
        'server_metadata_url = "https://id.example/.well-known/openid-configuration"\n'
    )
    assert not sign_in_configured(load_settings())
    write(own_home, '[auth.roles]\n"ada@example.org" = "operator"\n')
    assert sign_in_configured(load_settings())


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer abc.def-123456",
        "token=jbk_abcdef123456",
        'api_key: "sk-abcdef123456"',
        "password=hunter22",
    ],
)
def test_what_looks_like_a_secret_is_blanked_in_logs(line: str) -> None:
    shown = redact(line)
    assert "[hidden]" in shown
    assert not any(part in shown for part in ("abc.def", "abcdef123456", "hunter22"))
