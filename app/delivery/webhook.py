"""Alerts as HTTP POSTs: JSON, signed, with an idempotency id, tried again where a retry can help.

`X-Joulebook-Signature: sha256=HEX` is the HMAC-SHA256 of the raw body under the configured secret. The address may
hold a secret itself (many receivers work so): only its host is ever shown.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr
from tenacity import Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from app.delivery.message import ACKNOWLEDGED, Message
from app.errors import DeliveryFailed
from ingest.http import user_agent
from warehouse.ids import canonical_json

ATTEMPTS = 3
SIGNATURE_HEADER = "X-Joulebook-Signature"
EVENT_HEADER = "X-Joulebook-Event"
_WAIT_S = 0.5
_MAX_WAIT_S = 4.0


def signature(secret: SecretStr, body: bytes) -> str:
    """The value of the signature header for a body."""
    return "sha256=" + hmac.new(secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()


class WebhookChannel:
    """One address. Redirects are not followed: a signed body goes where it was meant to."""

    name = "webhook"
    keeps_state = False

    def __init__(self, url: str, secret: SecretStr | None, *, timeout_s: float, wait_s: float = _WAIT_S) -> None:
        self.on_ready: Callable[[], None] | None = None
        self._url = url
        self._secret = secret
        self._timeout_s = timeout_s
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self._wait = wait_exponential(multiplier=wait_s, max=_MAX_WAIT_S) + wait_random(0, wait_s)
        self._client = httpx.Client(timeout=httpx.Timeout(timeout_s, connect=min(5.0, timeout_s)))

    def open(self) -> None:
        """Nothing to prepare: each request makes its own connection."""

    def wants(self, event: str) -> bool:
        """An acknowledgement is no news to a receiver that alarms people."""
        return event != ACKNOWLEDGED

    def deliver(self, message: Message) -> None:
        body = canonical_json(message.body).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": user_agent(),
            "Idempotency-Key": message.id,
            EVENT_HEADER: message.event,
        }
        if self._secret is not None:
            headers[SIGNATURE_HEADER] = signature(self._secret, body)
        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS), wait=self._wait, retry=retry_if_exception(_may_help), reraise=True
        )
        retrying(self._post, body, headers)

    def _post(self, body: bytes, headers: dict[str, str]) -> None:
        # `from None`: what these errors quote (the address) must not reach a traceback.
        try:
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                status = response.status_code  # what it says beside that is not read: it could be endless
        except httpx.TimeoutException:
            raise DeliveryFailed(
                f"{self._shown} did not answer within {self._timeout_s:g} s.", fix="check the receiver"
            ) from None
        except (httpx.HTTPError, OSError) as error:
            raise DeliveryFailed(
                f"No connection to {self._shown}: {type(error).__name__}.",
                fix="check alerts.webhook_url and the network",
            ) from None
        except (httpx.InvalidURL, ValueError):
            raise DeliveryFailed("alerts.webhook_url is malformed.", fix="correct it", transient=False) from None
        if not 200 <= status < 300:
            raise DeliveryFailed(
                f"{self._shown} answered {status}.",
                fix="check alerts.webhook_url, and the secret on both sides" if status < 500 else "check the receiver",
                transient=status >= 500 or status in (408, 425, 429),
            )

    def probe(self) -> str:
        """Whether something listens there, without sending anything. Raises DeliveryFailed."""
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with socket.create_connection((parts.hostname or "", port), timeout=min(5.0, self._timeout_s)):
                return f"{self._shown} takes connections; requests are {'signed' if self._secret else 'not signed'}"
        except OSError as error:
            raise DeliveryFailed(
                f"{self._shown} cannot be reached: {error.strerror or type(error).__name__}.",
                fix="check alerts.webhook_url and the network",
            ) from error

    def close(self) -> None:
        self._client.close()


def _may_help(error: BaseException) -> bool:
    return isinstance(error, DeliveryFailed) and error.transient
