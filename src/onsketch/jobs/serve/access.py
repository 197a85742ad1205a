"""Access control: tokens for reading and for learning; requests of a foreign web page in a browser are refused."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from onsketch.core.errors import OptionError

READ, LEARN = "read", "learn"
_SHORTEST = 16


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return True if an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Credentials that a request must show. Without tokens everyone who reaches the port may do everything."""

    tokens: tuple[tuple[str, bytes], ...] = ()
    """(read or learn, token)."""
    local: bool = True
    """True if the service is bound to loopback, so that any other host name is an attack (DNS rebinding)."""

    def refusal(self, right: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return the status and the reason for refusing a request; None if it is allowed."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").split("://")[-1] != host:
            return 403, "this request was sent by a page of another site"
        if self.local and not self.tokens and not is_loopback(_name(host)):
            return 403, "the service is bound to loopback and answers to names of loopback only"
        if not self.tokens:
            return None
        given = _credential(headers.get(b"authorization", b""))
        if given is None:
            return 401, "a token is needed: Authorization: Bearer TOKEN"
        fitting = {kind for kind, token in self.tokens if hmac.compare_digest(token, given)}
        if not fitting:
            return 401, "this token is not known"
        if right == LEARN and LEARN not in fitting:
            return 403, "this token may read but not learn"
        return None


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _credential(header: bytes) -> bytes | None:
    """The token in an Authorization header: of kind Bearer, or the password of kind Basic, which browsers can send."""
    kind, _, rest = header.partition(b" ")
    if kind.lower() == b"bearer":
        return rest.strip()
    if kind.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return None
    return None


def read_tokens(path: Path) -> tuple[tuple[str, bytes], ...]:
    """The tokens of a file: lines ``read TOKEN`` and ``learn TOKEN``; a token to learn may read, too."""
    if path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise OptionError(f"{path}: everyone on this machine can read these tokens; chmod 600 it.")
    try:
        text = path.read_text("utf-8")
    except PermissionError:
        raise OptionError(
            f"{path}: the user {os.geteuid()} of this process cannot read it; chown {os.geteuid()} it, with mode 400."
        ) from None
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0] not in (READ, LEARN):
            raise OptionError(f"{path}: line {number}: expected 'read TOKEN' or 'learn TOKEN'.")
        if len(words[1]) < _SHORTEST:
            raise OptionError(f"{path}: line {number}: a token has {_SHORTEST} characters at least.")
        tokens.append((words[0], words[1].encode()))
    if not tokens:
        raise OptionError(f"{path}: holds no token.")
    return tuple(tokens)
