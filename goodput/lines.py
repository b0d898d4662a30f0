"""From files to lines: plain, `.gz` or standard input, in blocks of whole lines, so that memory stays flat.

A log is data from anywhere: a line without end, or a small file that unpacks to a huge one, ends in one clear error.
"""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from goodput.errors import BadInput

BLOCK_BYTES = 8 << 20
LINE_BYTES = 1 << 20  # a line of an event log has some hundreds
UNPACKED_FREE_BYTES = 256 << 20
UNPACKED_TIMES = 300  # event logs pack to a twentieth or so; deflate ends at 1:1032


class Block(NamedTuple):
    """Whole lines of one file: their bytes, the number of the first, and whether the file breaks off behind them."""

    data: bytes
    first_line: int
    breaks_off: bool  # a `.gz` without its end: its writer was killed, or is still at it


def read_blocks(path: Path, line_bytes: int = LINE_BYTES) -> Iterator[Block]:
    """Yield the lines of a file in blocks; `-` is standard input. A byte order mark is left out.

    Raises BadInput for a file that is missing or unreadable, a line over `line_bytes`, or a gzip bomb.
    """
    with _readable(path), _opened(path) as file:
        yield from _blocks(path, file, line_bytes)


def read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, unpacked. Raises BadInput for a file that is missing or unreadable."""
    with _readable(path), _opened(path) as file:
        return _read(file, size)[0][:size].removeprefix(b"\xef\xbb\xbf")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"{path}: file must exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: file must be readable: {getattr(error, 'strerror', None) or error}") from None


def _opened(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _blocks(path: Path, file: IO[bytes], line_bytes: int) -> Iterator[Block]:
    packed = path.stat().st_size if path.suffix == ".gz" else None
    line, total, rest = 1, 0, b""
    while True:
        data, breaks_off = _read(file)
        total += len(data)
        if packed is not None and total > max(UNPACKED_FREE_BYTES, UNPACKED_TIMES * packed):
            raise BadInput(f"{path}: file must not unpack to more than {UNPACKED_TIMES} times its size")
        block = rest + (data.removeprefix(b"\xef\xbb\xbf") if total == len(data) else data)
        is_last = breaks_off or not data
        whole = block if is_last else block[: block.rfind(b"\n") + 1]
        rest = block[len(whole) :]
        if len(rest) > line_bytes or _has_long_line(whole, line_bytes):
            raise BadInput(f"{path}: each line must be at most {line_bytes:,} bytes long, not one from line {line} on")
        if whole:
            yield Block(whole, line, breaks_off)
        if is_last:
            return
        line += whole.count(b"\n")


def _read(file: IO[bytes], most: int = BLOCK_BYTES) -> tuple[bytes, bool]:
    """Return the next bytes, and whether a packed file ends there before its own end."""
    parts, size = [], 0
    try:
        while size < most and (part := file.read1(min(most, 1 << 20))):
            parts.append(part)
            size += len(part)
    except EOFError:
        return b"".join(parts), True
    return b"".join(parts), False


def _has_long_line(block: bytes, line_bytes: int) -> bool:
    # a stretch of half the limit without a line end, before the block is looked at line by line
    half = line_bytes // 2
    suspect = any(block.find(b"\n", at, at + half) < 0 for at in range(0, len(block) - half, half))
    return suspect and max(map(len, block.split(b"\n"))) > line_bytes
