"""Errors as RFC 9457 problem documents: type, title, status, detail, instance, and `fix` in words."""

from __future__ import annotations

import re
import traceback
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from app.errors import AppError

MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger("joulebook.api")

_TITLES = {
    400: "Malformed request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    422: "Wrong parameters",
    428: "Revision missing",
    500: "Internal error",
    503: "Not available",
}
_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "urn:joulebook:problem:<slug of the title>"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "the path that was asked"},
        "fix": {"type": "string", "description": "what to do about it"},
    },
}
_DOCUMENT = {"description": "A problem document (RFC 9457).", "content": {MEDIA_TYPE: {"schema": _SCHEMA}}}
# For the `responses` of every documented route.
DOCUMENTED: dict[int | str, dict[str, Any]] = {422: _DOCUMENT, "default": _DOCUMENT}


def document(status: int, detail: str, *, path: str, fix: str = "", **extra: Any) -> dict[str, Any]:
    """One problem document as a dict."""
    title = _TITLES.get(status, "Error")
    slug = re.sub(r"[^a-z]+", "-", title.lower())
    told: dict[str, Any] = {
        "type": f"urn:joulebook:problem:{slug}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": path,
    }
    if fix:
        told["fix"] = fix
    return told | extra


def respond(told: dict[str, Any], headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(told, status_code=told["status"], media_type=MEDIA_TYPE, headers=headers)


def of_app_error(error: AppError, path: str) -> JSONResponse:
    """The problem document of an error of the desk."""
    headers = {"WWW-Authenticate": 'Bearer realm="joulebook"'} if error.status == 401 else None
    told = document(error.status, error.message, path=path, fix=error.fix, exit_code=error.exit_code)
    return respond(told, headers)


def of_unexpected(error: Exception, path: str) -> JSONResponse:
    """A 500 that tells nothing of the inside; the log has the rest."""
    # As text, so that what looks like a secret is blanked, and without the values of local variables.
    log.error("a request failed", path=path, traceback="".join(traceback.format_exception(error)))
    return respond(
        document(500, "Something went wrong inside joulebook.", path=path, fix="look at its log; nothing was lost")
    )


def install(api: FastAPI) -> None:
    """Every error that leaves a route becomes a problem document."""

    @api.exception_handler(AppError)
    def app_error(request: Request, error: AppError) -> JSONResponse:
        return of_app_error(error, request.url.path)

    @api.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()
        malformed = any(e["type"] == "json_invalid" for e in found)
        fields = [
            {"field": ".".join(str(p) for p in e["loc"][1:]) or str(e["loc"][0]), "what": _plain(e["msg"])}
            for e in found
        ]
        detail = "The body is not JSON." if malformed else "; ".join(f"{f['field']}: {f['what']}" for f in fields)
        told = document(
            400 if malformed else 422, detail, path=request.url.path, fix="correct the named fields", exit_code=2
        )
        return respond(told if malformed else told | {"errors": fields})

    @api.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        path = request.url.path
        if error.status_code == 404:
            told = document(404, f"There is nothing at {path}.", path=path, fix="see /api/v1/openapi.json")
        elif error.status_code == 405:
            told = document(405, f"{path} does not take {request.method}.", path=path, fix="see the Allow header")
        else:
            told = document(error.status_code, str(error.detail), path=path)
        return respond(told, dict(error.headers) if error.headers else None)


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
