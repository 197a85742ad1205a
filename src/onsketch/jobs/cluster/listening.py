"""Where this process and those it started listen: whether anybody outside of this machine could knock."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
"""The state of a listening socket in Linux's tables."""


def open_doors(process: int) -> list[str]:
    """The addresses beyond loopback on which a process and its descendants listen; none where /proc does not tell."""
    found = _listening()
    doors = []
    for one in _family(process):
        for host, port in (found[inode] for inode in _sockets(one) if inode in found):
            if not _loopback(host):
                doors.append(f"{host}:{port}" if "." in host else f"[{host}]:{port}")
    return sorted(set(doors))


def _loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _listening() -> dict[str, tuple[str, int]]:
    """The listening TCP sockets of this machine, by inode."""
    found = {}
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        table = Path("/proc/net", name)
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            _, local, _, state, *rest = line.split()
            if state == _LISTENING:
                host, port = local.split(":")
                words = [int(host[k : k + 8], 16) for k in range(0, len(host), 8)]
                packed = struct.pack(f"={len(words)}I", *words)
                found[rest[5]] = socket.inet_ntop(family, packed), int(port, 16)
    return found


def _family(process: int) -> Iterator[int]:
    """The process and its descendants."""
    yield process
    for children in Path("/proc", str(process), "task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # it has ended meanwhile
            continue
        for child in found:
            yield from _family(int(child))


def _sockets(process: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    try:
        opened = list(Path("/proc", str(process), "fd").iterdir())
    except OSError:  # it has ended meanwhile, or is another user's
        return
    for descriptor in opened:
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[8:-1]
