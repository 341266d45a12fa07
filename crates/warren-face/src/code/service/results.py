"""What clients are told: one JSON object per line."""

import datetime
import json

# The names that clients have for what a result can be shown as.
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def line(event):
    """The event as it is sent. Numbers that JSON does not have become null."""
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False)
    except ValueError:
        text = json.dumps(_finite(event), ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def _finite(value):
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


def result(bundle, is_main):
    """A bundle of representations, by MIME type, as clients name them."""
    event, extra = {"type": "result"}, {}
    for kind, value in bundle.items():
        if kind in FIELDS:
            event[FIELDS[kind]] = value
        else:
            extra[kind] = value
    text = event.get("text")
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        event["text"] = text[1:-1]
    for name in ("png", "jpeg", "pdf"):
        if isinstance(event.get(name), str):
            event[name] = event[name].replace("\n", "")
    if extra:
        event["extra"] = extra
    event["is_main_result"] = is_main
    return event


def stream(name, text, at=None):
    at = at or datetime.datetime.now(datetime.timezone.utc)
    if isinstance(at, datetime.datetime):
        at = at.isoformat()
    return {"type": name, "text": text, "timestamp": at}


def error(name, value, traceback=""):
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def counted(number):
    return {"type": "number_of_executions", "execution_count": number}
