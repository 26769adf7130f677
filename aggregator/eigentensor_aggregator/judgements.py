"""Steps with which games ended, as the chain has their messages: asked of the node, and remembered."""

import threading
from collections import OrderedDict

from eigentensor.chain.judging import judgement_of
from eigentensor.chain.node import Node
from eigentensor.dispute.judged import Judged
from eigentensor.errors import EigenTensorError
from eigentensor.task import Ended

_MOST = 64  #: those that were asked for last


class Judgements:
    """One question to the node for many visitors; for any threads."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: OrderedDict[bytes, Judged | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, ended: Ended) -> Judged | None:
        """The step with which a game ended; None where it ended otherwise, or as long as the node does not tell."""
        name = ended.place.transaction
        with self._lock:
            if name not in self._known:
                try:
                    self._known[name] = judgement_of(self._node, ended)
                except EigenTensorError:  # of a node that is away, or of a message that this version cannot read
                    return None
            self._known.move_to_end(name)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
            return self._known[name]
