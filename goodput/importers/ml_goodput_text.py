"""From the text of a timeline to its JSON: one object a line, lists over lines, or pages of an API."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from goodput.lines import LINE_BYTES

# what stands between the objects of a list, or of pages
_BETWEEN = re.compile(rb'[\[\]{},\s]*$|"entries"\s*:\s*\[$|"nextPageToken"|#')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)')  # one that is cut ends with the line
_BRACKET = re.compile(rb"[][{}]")


def value_of(text: bytes) -> Any:
    """Return what JSON text says. Raises ValueError for text that is not whole."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("line is not whole JSON") from None


def payloads(value: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the entries in a JSON value, each with what Cloud Logging put around it."""
    if isinstance(value, dict) and isinstance(value.get("entries"), list):
        value = value["entries"]
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            raise ValueError("line must be a JSON object, {...}")
        inner = next((each[key] for key in ("jsonPayload", "json_payload", "payload") if key in each), None)
        yield (inner, each) if isinstance(inner, dict) else (each, {})


def objects(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield the objects in blocks of lines, with the number of their first line: one a line, or one over many.

    Only a lone `{` opens one that is spread over lines, so that a torn line costs nothing but itself.
    """
    held, opened, first = bytearray(), bytearray(), 0
    for start, block in blocks:
        for number, line in enumerate(block.split(b"\n"), start):
            text = line.strip(b"\r \t\0")
            is_page = held == b"{\n" and text.startswith(b'"entries"') and text.endswith(b"[")
            if is_page or (opened.endswith(b"{") and text.startswith(b"{")):
                # inside an object a key must come: the one that is held is the beginning of a page, or torn
                yield from [] if is_page else [(first, bytes(held))]
                held, opened = bytearray(), bytearray()
            if is_page:
                continue
            if held or text in (b"{", b"[{"):
                first = first if held else number
                text = text if held else b"{"
                held += text + b"\n"
                _nest(opened, text)
                if not opened or len(held) > LINE_BYTES:
                    yield first, bytes(held).rstrip(b"\n,]")
                    held, opened = bytearray(), bytearray()
            elif not _BETWEEN.match(text):
                yield number, _alone(text)
    if held:
        yield first, bytes(held)


def _nest(opened: bytearray, text: bytes) -> None:
    """Take a line of JSON into the brackets that are open, in place."""
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        if bracket in b"{[":
            opened += bracket
        else:
            del opened[-1:]


def _alone(text: bytes) -> bytes:
    """Return a line of a list without what belongs to the list."""
    text = text.rstrip(b",")
    if text.startswith(b"[") != text.endswith(b"]"):
        return text.removeprefix(b"[").removesuffix(b"]")
    return text
