"""Uploads in progress: what was said of them, and who holds one of the few places. In memory alone."""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from eigentensor.store import Pieces

#: Seconds after a verified piece from which whoever needs a place takes that of the upload first that has least, and
#: from which on it is the first to go.
PAUSE, REST = 2.0, 30.0
#: Seconds after which an upload that rests is forgotten, whether or not anybody needs its place.
STALE = 15 * 60.0
_DECLARED = 1 << 20  # pieces that lists in memory name, together; of one address at most an eighth


@dataclass(slots=True)
class Upload:
    """One that holds a place. `at` is when its last piece came, by the places' clock, `have` its bytes; `own`: this
    process verified all."""

    pieces: Pieces
    address: str
    at: float
    have: int
    own: bool


class Places:
    """Who holds a place. A piece that was verified takes one, nothing else does. Safe for several threads."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is one that nobody sets: else all uploads would be forgotten, or none for hours."""
        self._most, self.clock = most, clock
        self._held: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def get(self, blob: str) -> Upload | None:
        """The upload of a blob that holds a place."""
        return self._held.get(blob)

    @property
    def received(self) -> int:
        """Bytes of all uploads that hold a place."""
        with self._lock:
            return sum(upload.have for upload in self._held.values())

    def take(self, blob: str, upload: Upload) -> bool:
        """Whether there was a place."""
        with self._lock:
            if len(self._held) >= self._most:
                return False
            self._held[blob] = upload
            return True

    def moved_on(self, blob: str, length: int) -> None:
        """Another verified piece is here."""
        with self._lock:
            upload = self._held[blob]
            upload.have, upload.at = upload.have + length, self.clock()

    def give_up(self, blob: str) -> None:
        """Frees the place, if there is one."""
        with self._lock:
            self._held.pop(blob, None)

    def stale(self) -> list[str]:
        """Uploads that nobody goes on with."""
        return self._resting(STALE)

    def yielding(self, address: str) -> list[str]:
        """Uploads of which one may be ended for one of this address: first those that rest, then those of the address
        that holds the most places, if that is more than this one would hold, then those that pause."""
        with self._lock:
            held = Counter(upload.address for upload in self._held.values())
            ((largest, count),) = held.most_common(1) or [("", 0)]
            theirs = [(upload.at, blob) for blob, upload in self._held.items() if upload.address == largest]
        largest_first = [blob for _, blob in sorted(theirs)] if count > held[address] + 1 else []
        return list(dict.fromkeys((*self._resting(REST), *largest_first, *self._pausing())))

    def yielding_bytes(self, blob: str) -> list[str]:
        """Uploads of which one may be ended so that this one goes on, or begins: first those that rest, then those
        that pause, then those that began after it, the youngest first."""
        with self._lock:
            begun = list(self._held)
        younger = begun[begun.index(blob) + 1 :] if blob in begun else []
        ordered = dict.fromkeys((*self._resting(REST), *self._pausing(), *reversed(younger)))
        return [other for other in ordered if other != blob]

    def _pausing(self) -> list[str]:
        """What they would lose is least first: to take the place of one that is far, one has to come as far."""
        with self._lock:
            since = self.clock() - PAUSE
            pausing = [(u.have, u.at, blob) for blob, u in self._held.items() if u.at < since]
        return [blob for _, _, blob in sorted(pausing)]

    def _resting(self, seconds: float) -> list[str]:
        with self._lock:
            since = self.clock() - seconds
            return [blob for at, blob in sorted((u.at, blob) for blob, u in self._held.items()) if at < since]


class Declared:
    """Lists of pieces of uploads that have none yet. A list reserves nothing: the oldest make room for newer ones, and
    whoever comes too late says it once more. Safe for several threads."""

    def __init__(self, most: int = _DECLARED) -> None:
        self._most = most
        self._lists: OrderedDict[str, tuple[Pieces, str]] = OrderedDict()
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, pieces: Pieces, address: str) -> None:
        """Keeps the list of an upload from this address, in place of an older one."""
        with self._lock:
            blob = pieces.blob.hex()
            self._drop(blob)
            self._lists[blob] = pieces, address
            self._counted[address] += len(pieces.roots)
            while self._counted[address] > self._most // 8 and (own := self._oldest(address)) != blob:
                self._drop(own)
            while self._counted.total() > self._most and (oldest := next(iter(self._lists))) != blob:
                self._drop(oldest)

    def get(self, blob: str) -> Pieces | None:
        """The list of a blob, if it is still kept."""
        entry = self._lists.get(blob)
        return entry[0] if entry else None

    def drop(self, blob: str) -> None:
        """Forgets the list, if there is one."""
        with self._lock:
            self._drop(blob)

    def _oldest(self, address: str) -> str:
        return next(blob for blob, (_, whose) in self._lists.items() if whose == address)

    def _drop(self, blob: str) -> None:
        pieces, address = self._lists.pop(blob, (None, ""))
        if pieces is not None:
            self._counted[address] -= len(pieces.roots)
            self._counted += Counter()  # without those that have none


def address_of(host: str) -> str:
    """By what uploads are counted: an IPv4 address, or the largest network (a /48) that one customer has of IPv6."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) >> 80 << 80))
    return str(getattr(address, "ipv4_mapped", None) or address)
